//! Times one mover at one job.
//!
//! Where the sink is a pipe or a socket, the reader measures, as in the other groups: from the first
//! bytes on, the warm-up not counted. A file for a source ends, so then there is no warm-up, and the
//! clock stops with the last byte, or when the time is up. Where the sink is a file, nobody
//! reads: the mover is timed from its start to its end, or until the time is up, and the bytes are
//! those that are in the file then.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::course::{self, Course, SourceFile};
use super::table::{End, Job, Mover, PIPE_READER};
use crate::endpoint::ENDLESS;
use crate::process::{self, Ended, Process, ended, is_readable_within};
use crate::taken::{Measurement, Stop, Taken};
use crate::work::Bench;
use fullbore_results::run::EndpointReport;

/// What a process may take to end when the one behind it has gone.
const GRACE: Duration = Duration::from_millis(100);

/// What a writer may take to get ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures once.
///
/// # Errors
/// Where not even a pipe or a process can be made.
pub fn measure(job: &Job, mover: &Mover, bench: &mut Bench<'_>) -> Result<Measurement> {
    let (settings, cpus) = (bench.settings, bench.cpus);
    let course = match Course::lay(job, || bench.store.of::<SourceFile>().open()) {
        Ok(course) => course,
        Err(error) => return Ok(Err(Stop::Skipped(format!("{error:#}")))),
    };
    let Course {
        writer,
        source,
        sink,
        reader,
        branches,
        file,
    } = course;
    let reader = match reader {
        None => None,
        Some(stdin) => {
            let mut command = bench.program.endpoint("read", job.reader(), cpus.reader);
            command.arg(format!("--seconds={}", settings.seconds));
            if job.source != End::File {
                command.arg(format!("--warm-up={}", settings.warm_up_seconds));
            }
            command.stdin(stdin).stdout(Stdio::piped());
            Some(Process::start(command)?)
        }
    };
    let (branch_readers, branches): (Vec<_>, Vec<_>) = branches
        .into_iter()
        .map(|pipe| (pipe.reader, pipe.writer))
        .unzip();
    let mut beside = Vec::new();
    for stdin in branch_readers {
        let mut command = bench.program.endpoint("read", PIPE_READER, cpus.reader);
        command.arg(format!("--bytes-to-pipe={ENDLESS}"));
        command.stdin(stdin).stdout(Stdio::null());
        beside.push(Process::start(command)?);
    }
    let writer = match writer {
        None => None,
        Some(stdout) => {
            let mut command = bench.program.endpoint("write", job.writer(), cpus.writer);
            command.arg(match file {
                None => format!("--bytes-to-pipe={ENDLESS}"),
                Some(_) => format!("--bytes-to-pipe={}", SourceFile::len()),
            });
            command.stdin(Stdio::null()).stdout(stdout);
            let process = Process::start(command)?;
            // Its preparations are not the mover's.
            is_readable_within(&source, PATIENCE)?;
            Some(process)
        }
    };
    let began = Instant::now();
    let mut mover_process = match course::start_mover(bench.program, mover, source, sink, &branches)
    {
        Ok(Some(process)) => process,
        Ok(None) => {
            let reason = format!("{} is not on PATH", mover.program());
            return Ok(Err(Stop::Skipped(reason)));
        }
        Err(error) => return Ok(Err(Stop::Failed(format!("{error:#}")))),
    };
    drop(branches);
    let time = Duration::from_secs_f64(settings.seconds);
    let Some(reader) = reader else {
        let file = file.context("the job has no sink file")?;
        let mut ended = mover_process.ends_within(time)?;
        // On a busy machine it may not even have begun by now.
        while !ended && file.metadata()?.len() == 0 && began.elapsed() < PATIENCE {
            ended = mover_process.ends_within(time)?;
        }
        let moved = mover_process.end_within(Duration::ZERO)?;
        let seconds = began.elapsed().as_secs_f64();
        let bytes = file.metadata()?.len();
        let writer = match unwritten(writer)? {
            Ok(report) => report,
            Err(stop) => return Ok(Err(stop)),
        };
        return Ok(judge_file(mover, &moved, bytes, seconds, writer));
    };
    let patience = 4.0 * (settings.seconds + settings.warm_up_seconds);
    let read = reader.end_within(PATIENCE + Duration::from_secs_f64(patience))?;
    // A reader that nobody left without bytes takes all of its time, and more where it was kept from
    // running: what it says of its own time would not show that.
    let mut whole_time = time;
    if job.source != End::File {
        whole_time += Duration::from_secs_f64(settings.warm_up_seconds);
    }
    let left_early = began.elapsed() < whole_time;
    let moved = mover_process.end_within(GRACE)?;
    drop(beside);
    let writer = match unwritten(writer)? {
        Ok(report) => report,
        Err(stop) => return Ok(Err(stop)),
    };
    Ok(judge_reader(job, mover, left_early, &moved, &read, writer))
}

/// Waits for the writer, whose pipe or socket nobody reads any more.
fn unwritten(writer: Option<Process>) -> Result<Result<Option<EndpointReport>, Stop>> {
    let Some(writer) = writer else {
        return Ok(Ok(None));
    };
    let written = writer.end_within(PATIENCE)?;
    if let Err(stop) = written.went_well("writer") {
        return Ok(Err(stop));
    }
    Ok(process::report(&written.output.stderr)
        .map(Some)
        .map_err(|e| Stop::Failed(format!("the writer reported nothing readable: {e}"))))
}

/// What a mover came to that a file was written by.
fn judge_file(
    mover: &Mover,
    moved: &Ended,
    bytes: u64,
    seconds: f64,
    writer: Option<EndpointReport>,
) -> Measurement {
    if !moved.killed && (!moved.output.status.success() || bytes != SourceFile::len()) {
        return Err(broke(mover, moved, bytes));
    }
    if bytes == 0 {
        return Err(Stop::NothingCame);
    }
    Ok(Taken {
        figure: bytes as f64 / (1u64 << 30) as f64 / seconds,
        writer,
        into_file: Some((bytes, seconds)),
        ..Taken::default()
    })
}

/// What a mover came to whose reader measured.
fn judge_reader(
    job: &Job,
    mover: &Mover,
    left_early: bool,
    moved: &Ended,
    read: &Ended,
    writer: Option<EndpointReport>,
) -> Measurement {
    read.went_well("reader")?;
    let report = process::report::<EndpointReport>(&read.output.stdout)
        .map_err(|e| Stop::Failed(format!("the reader reported nothing readable: {e}")))?;
    let whole_file = job.source == End::File && report.moved == SourceFile::len();
    if left_early && !whole_file {
        return Err(broke(mover, moved, report.moved));
    }
    if report.bytes == 0 || report.seconds == 0.0 {
        return Err(Stop::NothingCame);
    }
    Ok(Taken {
        figure: report.gib_per_s,
        writer,
        reader: Some(report),
        ..Taken::default()
    })
}

/// A mover that ended before its time.
fn broke(mover: &Mover, moved: &Ended, bytes: u64) -> Stop {
    Stop::Failed(format!(
        "{} {} after {bytes} bytes: {}",
        mover.line(),
        ended(moved.output.status),
        process::last_words(&moved.output)
    ))
}
