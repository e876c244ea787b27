//! Tries the calls that move references to pages.
//!
//! The only `unsafe` code is vmsplice(2) of memory that is not written to afterwards.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::thread;

use fullbore::{Pipe, ProducerOptions, Wait, Way};
use fullbore_linux::pages::Pages;
use fullbore_linux::{Calls, page_size};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::attempt::{
    BYTES, Stop, at, compare, io_at, not_tried, pattern, pipe_with, read_back, roomy_pipe, wrong,
};
use crate::backed_by::backed_by;

/// Splices `len` bytes; further calls move what the first one leaves.
fn splice_all(source: impl AsFd, sink: impl AsFd, len: usize) -> Result<(), Stop> {
    let mut left = len;
    while left > 0 {
        let flags = SpliceFlags::empty();
        let moved = rustix::pipe::splice(&source, None, &sink, None, left, flags);
        match moved.map_err(at("splice"))? {
            0 => return Err(wrong(format!("{left} bytes of {len} were lost"))),
            n => left -= n,
        }
    }
    Ok(())
}

pub(super) fn splice() -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let (source, sink) = (pipe_with(&sent)?, roomy_pipe()?);
    splice_all(&source.reader, &sink.writer, BYTES)?;
    read_back(&sink.reader, &sent)?;
    Ok(format!("{BYTES} bytes from pipe to pipe"))
}

pub(super) fn splice_file() -> Result<String, Stop> {
    // This file always exists and does not have to be written first.
    let mut file = File::open("/proc/self/exe").map_err(io_at("open /proc/self/exe"))?;
    let mut sent = vec![0; 2 * page_size()];
    file.read_exact(&mut sent).map_err(io_at("read a file"))?;
    let pipe = roomy_pipe()?;
    let flags = SpliceFlags::empty();
    from_file("splice", sent.len(), |from, left| {
        rustix::pipe::splice(&file, Some(from), &pipe.writer, None, left, flags)
    })?;
    drop(pipe.writer);
    read_back(&pipe.reader, &sent)?;
    // Without memfd it is unknown; another trial says so.
    let shared = file_is_shared().map_or("", kept);
    Ok(format!("{} bytes of a file{shared}", sent.len()))
}

/// Repeats a call, which advances its position in a file, until it has moved `len` bytes or the file ends.
fn from_file(
    operation: &'static str,
    len: usize,
    mut call: impl FnMut(&mut u64, usize) -> Result<usize, Errno>,
) -> Result<(), Stop> {
    let mut from = 0;
    while from < len as u64 {
        let left = len - from as usize;
        if call(&mut from, left).map_err(at(operation))? == 0 {
            break;
        }
    }
    Ok(())
}

/// Returns whether what was spliced from a file changes with the file.
fn file_is_shared() -> Result<bool, Stop> {
    let file = rustix::fs::memfd_create("fullbore", rustix::fs::MemfdFlags::CLOEXEC);
    let file = File::from(file.map_err(at("memfd_create"))?);
    let pipe = Pipe::new()?;
    let write = |byte| {
        let page = vec![byte; page_size()];
        file.write_all_at(&page, 0).map_err(io_at("write a file"))
    };
    write(1)?;
    let flags = SpliceFlags::empty();
    rustix::pipe::splice(&file, Some(&mut 0), &pipe.writer, None, page_size(), flags)
        .map_err(at("splice"))?;
    write(2)?;
    let mut first = [0];
    rustix::io::read(&pipe.reader, &mut first).map_err(at("read"))?;
    Ok(first == [2])
}

/// Says what the pipe has, and what that means.
fn kept(shares: bool) -> &'static str {
    if shares {
        return ", and the pipe shares the pages";
    }
    ", and the pipe gets a copy: no faster than write(2), and correct for every reader"
}

pub(super) fn splice_socket() -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let (near, far) = UnixStream::pair().map_err(io_at("socketpair"))?;
    let (source, sink) = (pipe_with(&sent)?, roomy_pipe()?);
    splice_all(&source.reader, &near, BYTES)?;
    splice_all(&far, &sink.writer, BYTES)?;
    read_back(&sink.reader, &sent)?;
    Ok(format!("{BYTES} bytes into a socket and out of it"))
}

pub(super) fn vmsplice() -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let mut pages = Pages::new(BYTES)?;
    pages.copy_from_slice(&sent);
    let pipe = roomy_pipe()?;
    let mut calls = Calls::new(Wait::Block);
    let mut moved = 0;
    while moved < BYTES {
        // SAFETY: the pages are a mapping of our own, nothing writes to them after this, and the pipe
        // has released them before they are unmapped; the fd is a pipe's write end.
        let answer =
            unsafe { calls.vmsplice(pipe.writer.as_fd(), &pages[moved..], SpliceFlags::empty()) };
        match answer.map_err(at("vmsplice"))? {
            0 => return Err(wrong("vmsplice moved nothing")),
            n => moved += n,
        }
    }
    read_back(&pipe.reader, &sent)?;
    let shared = kept(fullbore_linux::vmsplice_shares()?);
    Ok(format!("{BYTES} bytes of memory into a pipe{shared}"))
}

pub(super) fn tee() -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let (source, sink) = (pipe_with(&sent)?, roomy_pipe()?);
    let flags = SpliceFlags::empty();
    let moved = rustix::pipe::tee(&source.reader, &sink.writer, BYTES, flags).map_err(at("tee"))?;
    drop(sink.writer);
    compare(&sent[..moved.min(BYTES)], &sent)?;
    read_back(&sink.reader, &sent)?;
    // tee(2) leaves the bytes in the source.
    read_back(&source.reader, &sent)?;
    Ok(format!("{BYTES} bytes duplicated"))
}

/// Creates an unnamed file with these bytes in it.
fn file_with(bytes: &[u8]) -> Result<File, Stop> {
    let made = tempfile::tempfile().and_then(|mut file| {
        file.write_all(bytes)?;
        Ok(file)
    });
    let directory = std::env::temp_dir();
    made.map_err(|e| not_tried(format!("no file in {}: {e}", directory.display())))
}

pub(super) fn sendfile() -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let file = file_with(&sent)?;
    let (near, far) = UnixStream::pair().map_err(io_at("socketpair"))?;
    from_file("sendfile", BYTES, |from, left| {
        rustix::fs::sendfile(&near, &file, Some(from), left)
    })?;
    drop(near);
    read_back(&far, &sent)?;
    Ok(format!("{BYTES} bytes of a file into a socket"))
}

pub(super) fn copy_file_range() -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let (source, sink) = (file_with(&sent)?, file_with(&[])?);
    let mut to = 0;
    from_file("copy_file_range", BYTES, |from, left| {
        rustix::fs::copy_file_range(&source, Some(from), &sink, Some(&mut to), left)
    })?;
    read_back(&sink, &sent)?;
    Ok(format!("{BYTES} bytes from file to file"))
}

/// Writes more than the pipe holds, so that pages are given away and new ones are allocated while
/// the old ones are still in the pipe.
pub(super) fn fresh_pages() -> Result<String, Stop> {
    let sent = pattern(4 << 20);
    let pipe = Pipe::new()?;
    let mut reader = File::from(pipe.reader);
    let reading = thread::spawn(move || {
        let mut came = Vec::new();
        reader.read_to_end(&mut came).map(|_| came)
    });
    let mut producer = ProducerOptions::new().way(Way::Fresh).open(pipe.writer)?;
    producer.write_all(&sent).map_err(io_at("vmsplice"))?;
    let backing = backed_by(producer.reserve(1)?.as_ptr_range());
    let way = producer.finish().map_err(fullbore::Error::from)?.way;
    let came = reading.join().map_err(|_| wrong("the reader panicked"))?;
    compare(&sent, &came.map_err(io_at("read"))?)?;
    if way != Way::Fresh {
        return Err(Stop::seen("vmsplice", "refused; bytes are copied instead"));
    }
    let pages = if backing.is_huge() { "huge" } else { "base" };
    Ok(format!("4 MiB, on {pages} pages"))
}

pub(super) fn pinning() -> Result<String, Stop> {
    let allowed = sched_getaffinity(None).map_err(at("sched_getaffinity"))?;
    let mut cpus: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
    cpus.retain(|&cpu| allowed.is_set(cpu));
    let ends = [cpus.first(), cpus.last()];
    for &cpu in ends.into_iter().flatten() {
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).map_err(at("sched_setaffinity"))?;
        let runs_on = sched_getcpu();
        if runs_on != cpu {
            let said = format!("pinned to CPU {cpu}, but running on CPU {runs_on}");
            return Err(Stop::seen("sched_setaffinity", said));
        }
    }
    let cpus = fullbore_host::machine::format_cpu_list(&cpus);
    Ok(format!("ran on the first and the last of CPUs {cpus}"))
}
