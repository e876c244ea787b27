//! Checks whether a mover's bytes are right even if its source changes afterwards.
//!
//! Bytes that were moved by reference are still in the source's memory: a writer that reuses its
//! pages after the pipe has released them, or a process that writes to the file, changes bytes that
//! the reader has not read yet. A copy does not change. Each kind of job has its own check.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use fullbore::{Pipe, PipeEnd};
use fullbore_linux::page_size;

use super::descriptors::{Descriptors, start_mover};
use super::files;
use super::table::{End, Job, Mover};
use crate::memory::memory_file;
use crate::process;
use crate::program::Program;
use crate::soundness;
use crate::work::Bench;
use fullbore_bytes::pattern;
use fullbore_results::soundness::{CheckResult, Soundness};

/// Bytes through a pipe or a socket: many times the capacity of any of them.
const BYTES: u64 = 8 << 20;

/// The size of the writer's two buffers together, in pages. Each is used again when the other one has been
/// written into the pipe. They are so small that a pipe of the default capacity, 16 pages, holds several of them.
const BUFFERS: usize = 4;

/// The reader pauses now and then, because only bytes that it has not read yet can still change.
const SLOW_READER: &str = "--verify --pause 300us";

/// The lengths of files that are completely in a pipe when they are changed: one that a mover may
/// consider too short for anything but read and write, and a longer one.
const FILES_IN_PIPES: [u64; 2] = [32 << 10, 512 << 10];

/// The length of a file that is moved into a file.
const FILE: u64 = (8 << 20) + 123;

/// The position in the pattern from which a file is overwritten.
const ELSEWHERE: u64 = 1 << 40;

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks a mover at a job; returns `None` if it could not be checked.
///
/// # Errors
/// Fails if processes, pipes or files cannot be made.
pub fn check(job: &Job, mover: &Mover, bench: &Bench<'_>) -> Result<Option<Soundness>> {
    let check = match (job.source, job.sink) {
        (End::File, End::File) => "if the source file is overwritten after the copy",
        (End::File, _) => "if the file is overwritten while its bytes are in the pipe",
        (End::Pipe, _) => "behind a writer that reuses its pages",
        (End::Socket, _) => "behind a socket whose writer reuses its pages",
    };
    let found = match (job.source, job.sink) {
        (End::File, End::File) => file_to_file(bench.program, mover)?,
        (End::File, _) => file_to_pipe(bench.program, mover)?,
        (End::Pipe | End::Socket, _) => behind_a_writer(job, mover, bench)?,
    };
    let Some(found) = found else {
        return Ok(None);
    };
    let verdict = CheckResult {
        middleman: None,
        check: Some(check.into()),
        right: found.is_ok(),
        said: found.err(),
    };
    Ok(Some(Soundness {
        right: verdict.right,
        verdicts: vec![verdict],
    }))
}

/// Whether every byte was right, or what was wrong, in words; `None` if the check could not be made.
type Found = Option<Result<(), String>>;

fn file_to_pipe(program: &Program, mover: &Mover) -> Result<Found> {
    let mut found = None;
    for len in FILES_IN_PIPES {
        let pipe = Pipe::new()?;
        let writer = PipeEnd::new(pipe.writer.as_fd())?;
        if writer.capacity()? < 2 * len as usize && writer.resize(2 * len as usize).is_err() {
            // A pipe may not be this large.
            break;
        }
        let came = File::from(pipe.reader);
        found = Some(from_file(program, mover, len, pipe.writer, came)?);
        if found != Some(Ok(())) {
            break;
        }
    }
    Ok(found)
}

fn file_to_file(program: &Program, mover: &Mover) -> Result<Found> {
    let sink = memory_file()?;
    let came = files::reopened(&sink)?;
    from_file(program, mover, FILE, sink.into(), came).map(Some)
}

/// Runs a mover on a file of `len` bytes until the mover ends, overwrites the file, and checks what came.
fn from_file(
    program: &Program,
    mover: &Mover,
    len: u64,
    sink: OwnedFd,
    came: File,
) -> Result<Result<(), String>> {
    let mut file = files::pattern_file(len)?;
    let source = files::reopened(&file)?.into();
    let moving = start_mover(program, mover, source, sink, Vec::new())?;
    let moving = moving.context("a mover that was there")?;
    let ended = moving.end_within(PATIENCE)?;
    if ended.killed || !ended.output.status.success() {
        return Ok(Err(process::last_words(&ended.output)));
    }
    file.rewind()?;
    files::write_pattern(&mut file, ELSEWHERE, len).context("overwrite a file in memory")?;
    compared(came, len)
}

/// Compares a stream with `len` bytes of the pattern.
fn compared(mut stream: File, len: u64) -> Result<Result<(), String>> {
    let mut buffer = vec![0; 1 << 20];
    let mut position = 0;
    loop {
        let n = stream.read(&mut buffer)?;
        if let Some(at) = pattern::first_wrong(&buffer[..n], position) {
            return Ok(Err(format!("wrong byte at position {at} of the stream")));
        }
        position += n as u64;
        if n == 0 {
            let said = || format!("{position} of {len} bytes arrived");
            return Ok((position == len).then_some(()).ok_or_else(said));
        }
    }
}

fn behind_a_writer(job: &Job, mover: &Mover, bench: &Bench<'_>) -> Result<Found> {
    let descriptors = Descriptors::open(job, || anyhow::bail!("no file here"))?;
    let (program, cpus) = (bench.program, bench.cpus);
    let reader = format!("{SLOW_READER} --bytes-to-pipe={BYTES}");
    let readers = descriptors.readers.into_iter();
    let readers = readers.map(|stdin| program.read(&reader, cpus.reader, stdin));
    let readers = readers.collect::<Result<Vec<_>>>()?;
    let writer = format!(
        "{} --buf-size={} --verify --bytes-to-pipe={BYTES}",
        job.careless_writer(),
        BUFFERS * page_size()
    );
    let stdout = descriptors.writer.context("a writer's pipe or socket")?;
    let writing = program.write(&writer, cpus.writer, stdout)?;
    let (source, sink, branches) = (descriptors.source, descriptors.sink, descriptors.branches);
    let moving = start_mover(program, mover, source, sink, branches)?;
    let moving = moving.context("a mover that was there")?;
    if let Some(file) = descriptors.file {
        moving.end_within(PATIENCE)?;
        let written = writing.end_within(PATIENCE)?;
        return match written.went_well("writer") {
            Ok(()) => compared(files::reopened(&file)?, BYTES).map(Some),
            Err(_) => Ok(None),
        };
    }
    let mut wrong = None;
    for reader in readers {
        let ended = reader.end_within(PATIENCE)?;
        if ended.killed {
            return Ok(None);
        }
        let said = soundness::checked(&ended.output, BYTES).err();
        wrong = wrong.or(said);
    }
    // The readers have ended, so the others end or are killed.
    drop(moving);
    Ok(match (wrong, writing.own_fault("writer")?) {
        (None, _) => Some(Ok(())),
        // Without the writer's bytes, this says nothing about the mover.
        (Some(_), Some(_)) => None,
        (Some(said), None) => Some(Err(said)),
    })
}
