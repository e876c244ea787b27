//! Times one mover at one job.
//!
//! If the sink is a pipe or a socket, the reader measures, as in the other groups: from the first bytes
//! on, without the warm-up. A source that is a file ends; then there is no warm-up, and the clock stops
//! with the last byte, or when the time is up. If the sink is a file, there is no reader: the mover is
//! timed from its start to its end, or until the time is up, and the bytes are those that are in the
//! file then.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::descriptors::{Descriptors, start_mover};
use super::files::SourceFile;
use super::table::{End, Job, Mover, PIPE_READER};
use crate::endpoint::ENDLESS;
use crate::measurement::{Measured, Stop};
use crate::process::{self, Ended, Process, ended, is_readable_within};
use crate::work::Bench;
use fullbore_results::run::EndpointReport;

/// How long a process may take to end after the one behind it has ended.
const GRACE: Duration = Duration::from_millis(100);

/// How long a writer may take to prepare.
const PATIENCE: Duration = process::GRACE;

/// Measures once.
///
/// # Errors
/// Fails if not even a pipe or a process can be made.
pub fn measure(job: &Job, mover: &Mover, bench: &mut Bench<'_>) -> Result<Measured> {
    let descriptors = Descriptors::open(job, || bench.store.of(SourceFile::make)?.open());
    let descriptors = descriptors.map_err(Stop::skipped)?;
    let (source, sink) = (descriptors.source, descriptors.sink);
    let mut readers = descriptors.readers.into_iter();
    let reader = readers.next();
    let (program, cpus) = (bench.program, bench.cpus);
    let options = format!("{PIPE_READER} --bytes-to-pipe={ENDLESS}");
    let branch_readers = readers.map(|stdin| program.read(&options, cpus.reader, stdin));
    let branch_readers = branch_readers.collect::<Result<Vec<_>>>()?;
    let writer = match descriptors.writer {
        None => None,
        Some(stdout) => {
            let bytes = match descriptors.file {
                Some(_) => SourceFile::len().to_string(),
                None => ENDLESS.to_owned(),
            };
            let options = format!("{} --bytes-to-pipe={bytes}", job.writer());
            let process = program.write(&options, cpus.writer, stdout)?;
            // The writer's preparations do not count as the mover's time.
            is_readable_within(&source, PATIENCE)?;
            Some(process)
        }
    };
    let began = Instant::now();
    let moving = match start_mover(program, mover, source, sink, descriptors.branches) {
        Ok(Some(moving)) => moving,
        Ok(None) => bail!(Stop::Skipped(format!(
            "{} is not on PATH",
            mover.program().unwrap_or_default()
        ))),
        Err(error) => bail!(Stop::Failed(format!("{error:#}"))),
    };
    if let Some(file) = descriptors.file {
        let (moved, bytes, seconds) = fill(&file, moving, began, bench)?;
        let writer = writer_report(writer)?;
        if !moved.killed && (!moved.output.status.success() || bytes != SourceFile::len()) {
            bail!(broke(mover, &moved, bytes));
        }
        if bytes == 0 {
            bail!(Stop::NothingCame);
        }
        return Ok(Measured {
            figure: bytes as f64 / (1u64 << 30) as f64 / seconds,
            arrived: Some(bytes),
            writer,
            into_file: Some((bytes, seconds)),
            ..Measured::default()
        });
    }
    let stdin = reader.context("the job has neither a reader nor a file")?;
    let (read, ended_early) = read(job, stdin, bench)?;
    let moved = moving.end_within(GRACE)?;
    drop(branch_readers);
    let writer = writer_report(writer)?;
    read.went_well("reader")?;
    let report: EndpointReport = process::report(&read.output.stdout)?;
    let whole_file = job.source == End::File && report.moved == SourceFile::len();
    if ended_early && !whole_file {
        bail!(broke(mover, &moved, report.moved));
    }
    Ok(Measured::by_reader(report, writer)?)
}

/// Lets the mover write to a file until its time is up; returns how it ended, the bytes in the file,
/// and the seconds since it began.
fn fill(
    file: &File,
    mut moving: Process,
    began: Instant,
    bench: &Bench<'_>,
) -> Result<(Ended, u64, f64)> {
    let time = Duration::from_secs_f64(bench.settings.seconds);
    let mut ended = moving.ends_within(time)?;
    // On a busy machine the mover may not have begun by now.
    while !ended && file.metadata()?.len() == 0 && began.elapsed() < PATIENCE {
        ended = moving.ends_within(time)?;
    }
    let moved = moving.end_within(Duration::ZERO)?;
    let seconds = began.elapsed().as_secs_f64();
    Ok((moved, file.metadata()?.len(), seconds))
}

/// Reads what the mover writes; returns how the reader ended, and whether it did before its time was
/// up.
///
/// The reader is started when the mover has written something, or has ended. The time that the mover
/// takes to start, which is long on a busy machine, therefore does not count as the reader's.
fn read(job: &Job, stdin: OwnedFd, bench: &Bench<'_>) -> Result<(Ended, bool)> {
    let settings = bench.settings;
    let mut options = format!("{} --seconds={}", job.reader(), settings.seconds);
    let mut whole_time = Duration::from_secs_f64(settings.seconds);
    if job.source != End::File {
        options += &format!(" --warm-up={}", settings.warm_up_seconds);
        whole_time += Duration::from_secs_f64(settings.warm_up_seconds);
    }
    is_readable_within(&stdin, PATIENCE)?;
    let began = Instant::now();
    let reading = bench.program.read(&options, bench.cpus.reader, stdin)?;
    let read = reading.end_within(PATIENCE + 4 * whole_time)?;
    // This clock decides, because a reader that was kept from running does not report it.
    Ok((read, began.elapsed() < whole_time))
}

/// Returns the report of the writer, whose pipe or socket has no reader any more.
fn writer_report(writer: Option<Process>) -> Result<Option<EndpointReport>> {
    let Some(writer) = writer else {
        return Ok(None);
    };
    let written = writer.end_within(PATIENCE)?;
    written.went_well("writer")?;
    Ok(process::report(&written.output.stderr).map(Some)?)
}

/// Returns the failure of a mover that ended before its time.
fn broke(mover: &Mover, moved: &Ended, bytes: u64) -> Stop {
    Stop::Failed(format!(
        "{} {} after {bytes} bytes: {}",
        mover.words,
        ended(moved.output.status),
        process::last_words(&moved.output)
    ))
}
