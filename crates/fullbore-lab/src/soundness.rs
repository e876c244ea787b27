//! Checks whether every byte stays right behind every middleman.
//!
//! The writer of an experiment writes the pattern of `words`, each [`Habit`] in turn runs between
//! it and a reader, and the reader checks every byte. For experiments about the program in the
//! middle, `movers::check` does the reverse: it runs each program behind one careless writer.

use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::Result;
use fullbore::Pipe;

use crate::process::{self, Process};
use crate::work::Bench;
use fullbore_results::run::EndpointReport;
use fullbore_results::soundness::{CheckResult, Habit, Soundness};

/// Bytes of one check: several times what the longest of these pipelines holds.
const BYTES: u64 = 64 << 20;

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The period of --way repeat in a check: not a multiple of a page, so that a lost or doubled
/// page is detected.
const PERIOD: &str = "100003";

/// Checks `fullbore write` with these options, which may repeat a pattern, behind every middleman.
///
/// # Errors
/// Fails if processes or pipes cannot be made.
pub fn check(writer: &str, repeats: bool, bench: &Bench<'_>) -> Result<Soundness> {
    let verdicts = Habit::ALL
        .iter()
        .map(|&habit| check_behind(habit, writer, repeats, bench));
    let verdicts = verdicts.collect::<Result<Vec<_>>>()?;
    Ok(Soundness {
        right: verdicts.iter().all(|verdict| verdict.right),
        verdicts,
    })
}

fn check_behind(
    habit: Habit,
    writer: &str,
    repeats: bool,
    bench: &Bench<'_>,
) -> Result<CheckResult> {
    let (first, second) = (Pipe::new()?, Pipe::new()?);
    let mut checked_bytes = format!("--verify --bytes-to-pipe={BYTES}");
    if repeats {
        checked_bytes += &format!(" --period={PERIOD}");
    }
    let (program, cpus) = (bench.program, bench.cpus);
    let writer = format!("{writer} {checked_bytes}");
    let writing = program.write(&writer, cpus.writer, first.writer)?;
    let mut middleman = program.verb("middleman");
    middleman.arg(habit.name()).stderr(Stdio::null());
    middleman.stdin(first.reader).stdout(second.writer);
    let passing = Process::start(middleman)?;
    // The reader pauses now and then, because only bytes that it has not read yet can still
    // change.
    let reader = format!("--pause 300us {checked_bytes}");
    let reading = program.read(&reader, cpus.reader, second.reader)?;
    let ended = reading.end_within(PATIENCE)?;
    // The reader has ended, so these processes end or are killed.
    drop((passing, writing));
    let found = match ended.killed {
        true => Err(format!("no end within {} seconds", PATIENCE.as_secs())),
        false => checked(&ended.output, BYTES),
    };
    Ok(CheckResult {
        middleman: Some(habit),
        check: None,
        right: found.is_ok(),
        said: found.err(),
    })
}

/// Returns what a reader that checks its bytes has found, or that fewer bytes than so many arrived.
pub fn checked(read: &Output, len: u64) -> std::result::Result<(), String> {
    if !read.status.success() {
        return Err(process::last_words(read));
    }
    match process::report::<EndpointReport>(&read.stdout).map_or(0, |report| report.moved) {
        came if came == len => Ok(()),
        came => Err(format!("{came} of {len} bytes arrived")),
    }
}
