//! Implements the writers of buffers: one that copies, and those that put references to their own pages into the pipe
//! and write to those pages again. The latter are right only with a reader that copies or drops what it reads. Both readers of the
//! laboratory do; docs/guarantees.md says which other programs do not.

#![allow(unsafe_code)]

use std::io::stdout;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use fullbore::{Producer, ProducerOptions, Way};
use fullbore_linux::pages::Pages;
use fullbore_linux::{
    Calls, Ready, Waiter, is_pipe_or_socket, is_refusal, page_size, unacknowledged, vmsplice_shares,
};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::lines::write_lines;
use super::options::{Data, Options, WayName};
use super::prepare;
use super::progress::{EndpointProgress, Role, reader_has_gone};
use crate::backed_by::backed_by;
use fullbore_bytes::pattern;
use fullbore_host::refusal::Unsupported;
use fullbore_results::run::EndpointReport;

/// Writes as the article does: from two buffers alternately, into a pipe that holds no more than half of
/// both together, so that a buffer is free when all of the other one has been written.
pub fn double_buffering(options: &Options, sink: BorrowedFd<'_>) -> anyhow::Result<EndpointReport> {
    let flags = if options.gift {
        SpliceFlags::GIFT
    } else {
        SpliceFlags::empty()
    };
    let send = |calls: &mut Calls, bytes: &[u8]| {
        // SAFETY: the pages are a mapping of our own that outlives this function's use of the
        // pipe. They are written to again when as many bytes as the pipe can hold were written
        // behind them, so they were read from it; whether the reader still refers to them
        // then is what this experiment leaves to the reader, as its documentation says. The
        // fd is the process's stdout, which the shell opened for writing, or writing fails.
        unsafe { calls.vmsplice(sink, bytes, flags) }.map_err(|errno| ("vmsplice", errno))
    };
    write_buffers(options, Buffers::new(options, 2)?, None, send)
}

/// Writes with write(2), from one buffer.
pub fn write_all(options: &Options, sink: BorrowedFd<'_>) -> anyhow::Result<EndpointReport> {
    let send = |calls: &mut Calls, bytes: &[u8]| {
        calls.write(sink, bytes).map_err(|errno| ("write", errno))
    };
    write_buffers(options, Buffers::new(options, 1)?, None, send)
}

/// Writes one buffer after the other with a call to `send` for each piece, until the limit or until the reader has
/// closed the pipe.
#[inline]
fn write_buffers(
    options: &Options,
    mut buffers: Buffers,
    queue: Option<BorrowedFd<'_>>,
    send: impl Fn(&mut Calls, &[u8]) -> Result<usize, (&'static str, Errno)>,
) -> anyhow::Result<EndpointReport> {
    let mut calls = Calls::new(options.wait());
    let mut progress = EndpointProgress::begin(options, Role::Writer);
    let mut sent_last = usize::MAX;
    'stream: while let Some(most) = progress.next(buffers.len()) {
        let buffer = buffers.next();
        if options.data() == Data::Words {
            if let Some(socket) = queue {
                // The queue also counts the kernel's overhead for each message, so it is never shorter than
                // the bytes in it.
                while send_queue(socket)? > sent_last {
                    thread::sleep(Duration::from_micros(20));
                }
            }
            pattern::fill(&mut buffer[..most], progress.moved());
        }
        let mut written = 0;
        while written < most && progress.next(1).is_some() {
            match send(&mut calls, &buffer[written..most]) {
                Ok(n) => {
                    written += n;
                    progress.add(n, calls.made());
                }
                Err((_, Errno::PIPE)) if is_pipe_or_socket(stdout()) => break 'stream,
                // The reader has closed the socket, with or without unread bytes in it.
                Err(("splice", Errno::CONNRESET)) => break 'stream,
                Err(("vmsplice", errno)) if is_refusal(errno) => {
                    return Err(prepare::failed("vmsplice(2)", errno));
                }
                Err((call, errno)) => {
                    let moved = progress.moved();
                    return Err(errno).context(format!("{call} to stdout (after {moved} bytes)"));
                }
            }
        }
        sent_last = most;
    }
    let mut report = progress.report(options, calls.made());
    report.backing = Some(backed_by(buffers.memory[0].as_ptr_range()).to_string());
    Ok(report)
}

/// Sends the same two buffers into a Unix socket by reference: with vmsplice into a private pipe, and
/// with splice from there. A buffer is used again when the socket's send queue is shorter than what was
/// sent after it. This shows that the other side has read it from the socket, and not where it was moved
/// to.
pub fn through_a_pipe(options: &Options, sink: BorrowedFd<'_>) -> anyhow::Result<EndpointReport> {
    let buffers = Buffers::new(options, 2)?;
    let (own, growth) = fullbore_linux::pipe::with_capacity(buffers.len())?;
    let (reader, writer) = (own.reader.as_fd(), own.writer.as_fd());
    let send = |calls: &mut Calls, bytes: &[u8]| {
        let bytes = &bytes[..bytes.len().min(growth.after)];
        // SAFETY: as in `double_buffering`. The pages are a mapping of our own, and are written to again when only the
        // other side of the socket can still refer to them. The pipe is ours.
        let n = unsafe { calls.vmsplice(writer, bytes, SpliceFlags::empty()) };
        let n = n.map_err(|errno| ("vmsplice", errno))?;
        prepare::splice_all(calls, reader, sink, n, Ready::ToWrite)
            .map_err(|errno| ("splice", errno))?;
        Ok(n)
    };
    write_buffers(options, buffers, Some(sink), send)
}

/// Returns what a Unix socket holds that its other side has not read yet, in bytes of kernel memory
/// (SIOCOUTQ, unix(7); net/unix/af_unix.c, unix_outq_len).
fn send_queue(socket: BorrowedFd<'_>) -> Result<usize, Unsupported> {
    unacknowledged(socket).map_err(|errno| {
        Unsupported(format!(
            "cannot query the length of the socket's queue: {errno}"
        ))
    })
}

/// One buffer; or the article's two, either with separate page tables, or as two halves of one buffer.
struct Buffers {
    memory: Vec<Pages>,
    halves: bool,
    turn: usize,
}

impl Buffers {
    fn new(options: &Options, count: usize) -> anyhow::Result<Self> {
        let count = if options.same_buffer { 1 } else { count };
        Ok(Self {
            memory: (0..count)
                .map(|_| prepare::buffer(options, options.chunk()))
                .collect::<Result<_, _>>()?,
            halves: options.same_buffer,
            turn: 0,
        })
    }

    fn len(&self) -> usize {
        self.memory[0].len() / if self.halves { 2 } else { 1 }
    }

    fn next(&mut self) -> &mut [u8] {
        let turn = self.turn;
        self.turn = 1 - turn;
        if self.halves {
            let half = self.len();
            &mut self.memory[0][turn * half..][..half]
        } else {
            let count = self.memory.len();
            &mut self.memory[turn % count]
        }
    }
}

/// Writes with one of the library's ways that accept new data: copy, socket, fresh, recycle or ring, or as a
/// program does that chooses nothing (auto).
pub fn produce(
    options: &Options,
    way: WayName,
    sink: BorrowedFd<'_>,
) -> anyhow::Result<EndpointReport> {
    prepare::check_that_there_are_huge_pages(options)?;
    let chunk = options.chunk();
    let memory = |bytes: usize| bytes.next_multiple_of(page_size());
    let mut producer = ProducerOptions::new().chunk(chunk).wait(options.wait());
    producer = producer.memory(options.memory.map(memory));
    if way != WayName::Auto {
        producer = producer.huge_pages(options.huge_page).pipe_size(0);
    }
    let fixed = match way {
        WayName::Socket => Some(Way::Socket),
        WayName::Fresh => Some(Way::Fresh),
        // The readers of the laboratory copy or drop what they read from the pipe.
        WayName::Recycle => Some(Way::Recycle),
        WayName::Copy => Some(Way::Copy),
        WayName::Auto | WayName::Repeat | WayName::Ring => None,
    };
    let shares = way == WayName::Ring;
    let waiter = shares.then(|| Waiter::new(options.wait()));
    let mut producer = open(producer, fixed, waiter, sink)?;
    if let Some(len) = options.lines {
        let report = write_lines(options, len, &mut producer)?;
        fixed.map_or(Ok(()), |way| check_way(producer.inner(), way))?;
        return Ok(report);
    }
    let mut progress = EndpointProgress::begin(options, Role::Writer);
    let mut shared = false;
    let mut memory = std::ptr::null()..std::ptr::null();
    while let Some(most) = progress.next(chunk) {
        shared |= producer.is_sharing();
        let mut position = progress.moved();
        let sent = producer.fill(most, |piece| {
            memory = piece.as_ptr_range();
            match options.data() {
                Data::Constant => piece.fill(prepare::CONSTANT),
                Data::Words => {
                    pattern::fill(piece, position);
                    position += piece.len() as u64;
                }
            }
        });
        // This check comes first: if the reader has closed the pipe as well, the error of the copy that
        // was tried instead hides the reason.
        fixed.map_or(Ok(()), |way| check_way(producer.inner(), way))?;
        match sent {
            Ok(()) => progress.add(most, producer.inner().report().calls),
            Err(error) if reader_has_gone(error.kind()) => break,
            Err(error) => return Err(error).context("write to stdout"),
        }
    }
    if way == WayName::Ring && !shared && progress.moved() > MET_BY {
        return Err(did_not_meet().into());
    }
    let calls = producer.inner().report().calls;
    let backing = match producer.is_sharing() {
        true => "memory that is shared with the reader".to_owned(),
        false => backed_by(memory).to_string(),
    };
    // The reader may have closed the pipe by now, after it has read all that it needed.
    match producer.finish().map_err(fullbore::Error::from) {
        Ok(_) => {}
        Err(error) if reader_has_gone(error.kind()) => {}
        Err(error) => return Err(error).context("write to stdout"),
    }
    let mut report = progress.report(options, calls);
    report.backing = Some(backing);
    Ok(report)
}

/// Opens a producer that sends in this way, or in one that it chooses; or, with a waiter, one that shares memory with
/// the reader.
pub fn open<O: AsFd>(
    options: ProducerOptions,
    way: Option<Way>,
    shares: Option<Waiter>,
    sink: O,
) -> anyhow::Result<fullbore_ring::Producer<O>> {
    let producer = prepare::unsupported_as_such(options.way(way).open(sink))?;
    Ok(match shares {
        Some(waiter) => fullbore_ring::Producer::new(producer, waiter),
        None => producer.into(),
    })
}

/// Returns the error of an end that shares no memory with the other one.
pub fn did_not_meet() -> Unsupported {
    Unsupported(
        "the two ends of the pipe did not meet: both need --way ring and the same user, and no \
         other process may hold the pipe"
            .into(),
    )
}

/// The bytes that go through a pipe at most before two ends that share memory have met.
const MET_BY: u64 = 256 << 20;

/// Fails if the producer has switched to another way.
///
/// # Errors
/// Says what this machine refuses.
pub fn check_way<O: AsFd>(producer: &Producer<O>, way: Way) -> Result<(), Unsupported> {
    let reason = match way {
        _ if producer.report().way == way => return Ok(()),
        Way::Socket if page_size() >= 32 << 10 => {
            "a run of 32 KiB has to span several base pages, and here it does not"
        }
        Way::Socket => {
            "this machine refuses sockets or splice(2), or has no memory for a full pipe"
        }
        _ if vmsplice_shares().is_ok_and(|shares| !shares) => {
            "vmsplice(2) copies on this kernel, so there is nothing to gain"
        }
        _ => "this machine refuses vmsplice(2)",
    };
    Err(Unsupported(reason.into()))
}
