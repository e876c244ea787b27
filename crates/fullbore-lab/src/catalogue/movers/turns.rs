//! Times a large memory between two sides that take turns: a writer that delivers bursts and a reader that
//! takes bursts, never at the same time.
//!
//! Time is divided into windows. The writer writes only in those with even numbers, the reader reads only in
//! those with odd ones, and each moves one burst in a window. A memory that holds a burst lets both work as
//! if they were alone, so that the whole takes one window longer than the writer alone. Without one, a window
//! moves no more than the two pipes hold. A burst that is not through in its window goes on in the next one of
//! its side, which is two windows later.
//!
//! The figure is the time of the whole, as a multiple of the time of the slower side alone: the writer into
//! `/dev/null`, and the reader from `/dev/zero`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::descriptors::{Descriptors, start_mover};
use super::table::{Job, Mover};
use crate::catalogue::latency::clock::now;
use crate::measurement::{Measured, Stop};
use crate::part::{self, Task, Timing};
use crate::process::{self, Process};
use crate::work::{Bench, Work};
use fullbore_results::run::{Outcome, Settings};

/// The number of bursts.
const BURSTS: u64 = 32;

/// How many times the seconds of a measurement all bursts take: waking a process late must not cost a window.
const TIMES: f64 = 4.0;

/// Bytes of a burst for each nanosecond of its window, which is a tenth of what most machines move.
const BYTES_PER_NANOSECOND: f64 = 0.2;

/// The sizes of a burst: more than the pipes hold, and less than the memory of the movers.
const BURST: [f64; 2] = [512.0 * 1024.0, 16.0 * 1024.0 * 1024.0];

/// Nanoseconds for the processes to start.
const START: u64 = 100_000_000;

/// Bytes of one system call.
const CHUNK: usize = 128 << 10;

/// The work of one mover between such sides.
#[derive(Debug)]
pub struct Turns {
    /// The pipes of the mover.
    pub job: &'static Job,
    /// The mover.
    pub mover: &'static Mover,
}

impl Work for Turns {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let alone = alone(bench)?;
        Ok(Measured {
            figure: self.together(bench)? / alone,
            ..Measured::default()
        })
    }

    fn table(&self) -> Option<&'static str> {
        Some(self.job.title)
    }

    fn describe(&self, outcome: &mut Outcome, _settings: &Settings) {
        outcome.mover = Some(self.mover.report(self.job));
    }

    fn fixed_pipe_size(&self) -> Option<&'static str> {
        Some("the capacities are part of the job")
    }

    fn patience(&self, settings: &Settings) -> Duration {
        patience(settings)
    }
}

impl Turns {
    /// Returns the seconds from the first window to the last byte that the reader gets through the mover.
    fn together(&self, bench: &Bench<'_>) -> Result<f64> {
        let Descriptors {
            writer,
            source,
            sink,
            reader,
            ..
        } = Descriptors::open(self.job, || bail!("no file here"))?;
        let moving = start_mover(bench.program, self.mover, source, sink, &[])?;
        let Some(moving) = moving else {
            let reason = format!("{} is not on PATH", self.mover.program());
            bail!(Stop::Skipped(reason));
        };
        let task = TurnTask::of(bench.settings);
        let stdout = writer.context("a pipe has a writer")?;
        let stdin = reader.context("a pipe has a reader")?;
        let writing = writes(&task, stdout, bench)?;
        let reading = reads(&task.after_one_window(), stdin, bench)?;
        let time = patience(bench.settings);
        let read = match seconds(&reading.end_within(time)?, "reader", task.start) {
            Ok(read) => read,
            Err(stop) => bail!(moving.own_fault(self.mover.name)?.unwrap_or(stop)),
        };
        let written = seconds(&writing.end_within(time)?, "writer", task.start);
        moving.end_within(time)?;
        written?;
        Ok(read)
    }
}

/// Returns the seconds that the slower side takes alone.
fn alone(bench: &Bench<'_>) -> Result<f64> {
    let task = TurnTask::of(bench.settings);
    let null = File::options().write(true).open("/dev/null")?;
    let zero = File::open("/dev/zero")?;
    let writing = writes(&task, null.into(), bench)?;
    let reading = reads(&task, zero.into(), bench)?;
    let time = patience(bench.settings);
    let written = seconds(&writing.end_within(time)?, "writer", task.start);
    let read = seconds(&reading.end_within(time)?, "reader", task.start);
    Ok(written?.max(read?))
}

fn writes(task: &TurnTask, stdout: OwnedFd, bench: &Bench<'_>) -> Result<Process> {
    let mut command = bench.program.part(task, Some(bench.cpus.writer))?;
    command.stdout(stdout);
    Process::start(command)
}

fn reads(task: &TurnTask, stdin: OwnedFd, bench: &Bench<'_>) -> Result<Process> {
    let task = TurnTask {
        writes: false,
        ..*task
    };
    let mut command = bench.program.part(&task, Some(bench.cpus.reader))?;
    command.stdin(stdin).stdout(Stdio::null());
    Process::start(command)
}

/// Returns the seconds from `start` to the end that a side reports.
fn seconds(ended: &process::Ended, role: &str, start: u64) -> Result<f64, Stop> {
    ended.went_well(role)?;
    let end: u64 = process::report(&ended.output.stderr)?;
    Ok(Duration::from_nanos(end.saturating_sub(start)).as_secs_f64())
}

fn patience(settings: &Settings) -> Duration {
    2 * Timing::of(settings).patience() + Duration::from_secs_f64(8.0 * TIMES * settings.seconds)
}

/// The task of moving bursts in every other window, and of saying when the last byte was moved.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TurnTask {
    /// Whether it writes; it reads otherwise.
    writes: bool,
    /// When its first window begins, in nanoseconds of the monotonic clock.
    start: u64,
    /// Nanoseconds of a window.
    window: u64,
    /// Bytes of a burst.
    burst: u64,
}

impl TurnTask {
    /// The task of a writer whose first window begins soon.
    fn of(settings: &Settings) -> Self {
        let window = TIMES * settings.seconds * 1e9 / (2 * BURSTS) as f64;
        Self {
            writes: true,
            start: now() + START,
            window: (window as u64).max(1),
            burst: (window * BYTES_PER_NANOSECOND).clamp(BURST[0], BURST[1]) as u64,
        }
    }

    /// The same task, in the windows between.
    fn after_one_window(self) -> Self {
        Self {
            start: self.start + self.window,
            ..self
        }
    }

    /// Returns the number of the window, and the nanoseconds until the next one of this side begins, which
    /// are 0 in its own.
    fn window_at(&self, time: u64) -> (u64, u64) {
        let Some(since) = time.checked_sub(self.start) else {
            return (0, self.start - time);
        };
        let number = since / self.window;
        match number % 2 {
            0 => (number, 0),
            _ => (number, (number + 1) * self.window - since),
        }
    }

    /// Sleeps until a window of this side, and until one after `last`. Returns its number.
    fn turn(&self, last: Option<u64>) -> u64 {
        loop {
            let time = now();
            let (number, left) = self.window_at(time);
            match last {
                _ if left > 0 => thread::sleep(Duration::from_nanos(left)),
                Some(last) if number <= last => {
                    let next = self.start + (last + 2) * self.window;
                    thread::sleep(Duration::from_nanos(next - time));
                }
                _ => return number,
            }
        }
    }
}

impl Task for TurnTask {
    const NAME: &'static str = "turns";

    fn play(self) -> Result<()> {
        let mut file = match self.writes {
            true => File::from(std::io::stdout().as_fd().try_clone_to_owned()?),
            false => File::from(std::io::stdin().as_fd().try_clone_to_owned()?),
        };
        let mut bytes = vec![1; CHUNK];
        let mut last = None;
        for burst in 0..BURSTS {
            let mut left = self.burst;
            while left > 0 {
                let most = left.min(CHUNK as u64) as usize;
                let window = self.turn(last.filter(|_| left == self.burst));
                let moved = match self.writes {
                    true => file.write(&bytes[..most]).context("write")?,
                    false => file.read(&mut bytes[..most]).context("read")?,
                };
                if moved == 0 {
                    bail!("the bytes ended in burst {burst} of {BURSTS}");
                }
                left -= moved as u64;
                if left == 0 {
                    last = Some(window);
                }
            }
        }
        part::say(&now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_of_the_two_sides_never_overlap() {
        let writes = TurnTask {
            writes: true,
            start: 1000,
            window: 10,
            burst: 1,
        };
        let reads = writes.after_one_window();
        for (time, window, wait) in [
            (990, 0, 10),
            (1000, 0, 0),
            (1009, 0, 0),
            (1010, 1, 10),
            (1019, 1, 1),
            (1020, 2, 0),
        ] {
            assert_eq!(writes.window_at(time), (window, wait), "{time}");
        }
        for time in 1000..1100 {
            let own = |task: &TurnTask| task.window_at(time).1 == 0;
            assert!(own(&writes) != own(&reads), "{time}");
        }
    }
}
