//! One measurement: pipes, their writers and readers, and what all of them report.
//!
//! Each writer and each reader is a process, as in a shell, and not a thread: threads share one address space, so the
//! page faults and the mappings of fresh pages would contend for its lock, which processes do not. The processes are
//! not pinned, because how the kernel spreads many of them over its CPUs is part of what is measured.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fullbore::{Pipe, PipeEnd};
use fullbore_host::size;
use fullbore_linux::page_size;
use serde::de::DeserializeOwned;

use super::board::Board;
use super::message::{MESSAGE, Tally, compare};
use super::receive::{ReceiveTask, Received};
use super::send::{SendTask, Sent};
use super::shortage::{Means, NOT_REACHED, Shortage};
use super::table::Row;
use crate::catalogue::latency::percentiles::Times;
use crate::catalogue::movers::memory_file;
use crate::cpu_time::CpuTime;
use crate::measurement::{Measured, Stop};
use crate::part::Timing;
use crate::process::{self, GRACE, Process};
use crate::work::Bench;

/// The slots of a pipe of the default capacity (PIPE_DEF_BUFFERS, include/linux/pipe_fs_i.h).
const SLOTS: usize = 16;

/// How long the processes may take to start, and to use up the memory.
const START: Duration = Duration::from_secs(120);

/// How long this process sleeps before it looks again whether all are ready.
const LOOK: Duration = Duration::from_millis(2);

/// A process, and the file with its report. A pipe would be too short for the report, and 128 more pipes could exceed
/// what a user may have.
struct Started {
    role: &'static str,
    process: Process,
    report: File,
}

impl Started {
    fn start(role: &'static str, mut command: Command) -> Result<Self> {
        let report = memory_file()?;
        command.stderr(report.try_clone()?);
        Ok(Self {
            role,
            process: Process::start(command)?,
            report,
        })
    }

    /// Waits for its end, and returns its report.
    fn end<T: DeserializeOwned>(mut self, until: Instant) -> Result<T> {
        let patience = until.saturating_duration_since(Instant::now());
        let mut ended = self.process.end_within(patience)?;
        self.report.rewind()?;
        self.report.read_to_end(&mut ended.output.stderr)?;
        ended.went_well(self.role)?;
        Ok(process::report(&ended.output.stderr)?)
    }

    /// Fails with the reason why it has ended although it was not asked to.
    fn ended_early<T>(self) -> Result<T> {
        let early = format!("the {} ended too early", self.role);
        self.end::<serde_json::Value>(Instant::now() + GRACE)?;
        bail!(Stop::Failed(early))
    }
}

/// Measures once.
///
/// # Errors
/// Fails if processes or pipes cannot be made.
pub fn measure(row: &Row, bench: &mut Bench<'_>) -> Result<Measured> {
    let (timing, program) = (Timing::of(bench.settings), bench.program);
    let shortage = match row.is_short {
        false => None,
        true => Some(bench.store.of::<Shortage>().means(program)?),
    };
    let cgroup: Option<PathBuf> = shortage.and_then(Means::cgroup).map(Into::into);
    let memory = Board::make()?;
    let board = Board::open(&memory)?;
    let (mut others, mut reading, mut writing) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(means) = shortage {
        let mut command = means.command(program)?;
        command.stdout(memory.try_clone()?);
        others.push(Started::start("process that uses up memory", command)?);
    }
    for pipe in 0..row.pipes {
        let ends = default_pipe()?;
        let first = (pipe * row.writers) as u64;
        for _ in 0..row.readers {
            let task = ReceiveTask {
                writers: (first, row.writers),
                at_once: row.at_once,
                timing,
                cgroup: cgroup.clone(),
            };
            let mut command = program.part(&task, None)?;
            let (stdin, stdout) = (ends.reader.try_clone()?, memory.try_clone()?);
            command.stdin(stdin).stdout(stdout);
            reading.push(Started::start("reader", command)?);
        }
        for writer in first..first + row.writers as u64 {
            let task = SendTask {
                writer,
                way: row.way,
                at_once: row.at_once,
                timing,
                cgroup: cgroup.clone(),
            };
            let mut command = program.part(&task, None)?;
            let (stdin, stdout) = (memory.try_clone()?, ends.writer.try_clone()?);
            command.stdin(stdin).stdout(stdout);
            writing.push(Started::start("writer", command)?);
        }
    }
    wait_until_ready([&mut others, &mut reading, &mut writing], &board)?;
    let times_at_limit = || shortage.and_then(Means::times_at_limit);
    let before = times_at_limit();
    board.begin();
    let until = Instant::now() + timing.patience();
    // A reader that fails ends its writers, and not the other way round, so its reason comes first.
    let received = ends::<Received>(reading, until)?;
    let sent = ends::<Sent>(writing, until)?;
    for mut started in others {
        if started.process.ends_within(Duration::ZERO)? {
            return started.ended_early();
        }
    }
    let mut notes: Vec<String> = shortage.map(Means::note).into_iter().collect();
    if before.is_some() && times_at_limit() == before {
        notes.push(NOT_REACHED.into());
    }
    let sum = sum_up(row, timing, &sent, &received)?;
    Ok(sum.times.percentiles().beside(Measured {
        figure: sum.figure,
        arrived: Some(sum.arrived),
        spent: Some(sum.spent),
        notes,
        ..Measured::default()
    }))
}

/// Makes a pipe of the default capacity.
fn default_pipe() -> Result<Pipe, Stop> {
    let pipe = Pipe::new().map_err(|error| Stop::Skipped(error.to_string()))?;
    let capacity = PipeEnd::new(pipe.writer.as_fd()).and_then(|end| end.capacity());
    let capacity = capacity.map_err(|error| Stop::Skipped(error.to_string()))?;
    let expected = SLOTS * page_size();
    match capacity >= expected {
        true => Ok(pipe),
        false => Err(Stop::Skipped(format!(
            "a new pipe has a capacity of {} instead of {}, because this user has too many pipes \
             (/proc/sys/fs/pipe-user-pages-soft)",
            size::format(capacity as u64),
            size::format(expected as u64)
        ))),
    }
}

/// Waits until all processes are ready.
fn wait_until_ready(mut lists: [&mut Vec<Started>; 3], board: &Board) -> Result<()> {
    let until = Instant::now() + START;
    let count: usize = lists.iter().map(|list| list.len()).sum();
    while board.ready() < count {
        if Instant::now() >= until {
            let ready = board.ready();
            let reason = format!("only {ready} of {count} processes were ready in time");
            bail!(Stop::Failed(reason));
        }
        for list in &mut lists {
            for at in 0..list.len() {
                if list[at].process.ends_within(Duration::ZERO)? {
                    return list.swap_remove(at).ended_early();
                }
            }
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits for the end of all processes, and returns their reports.
fn ends<T: DeserializeOwned>(all: Vec<Started>, until: Instant) -> Result<Vec<T>> {
    all.into_iter().map(|started| started.end(until)).collect()
}

/// What all processes together have done.
#[derive(Debug)]
struct Sum {
    /// In GiB/s.
    figure: f64,
    /// The bytes from the start to the end.
    arrived: u64,
    /// The CPU time of writers and readers in that time.
    spent: CpuTime,
    times: Times,
}

/// Sums up the reports of all writers and readers, in the order in which they were started.
///
/// # Errors
/// Fails if something else was read than was sent, or if nothing came in the time that counts.
fn sum_up(row: &Row, timing: Timing, sent: &[Sent], received: &[Received]) -> Result<Sum, Stop> {
    let mut read = vec![Tally::default(); sent.len()];
    let mut times = Times::new();
    for (reader, received) in received.iter().enumerate() {
        let first = reader / row.readers * row.writers;
        for (tally, part) in read[first..].iter_mut().zip(&received.tallies) {
            tally.add_all(part);
        }
        times.add_all(&received.times);
    }
    let tallies: Vec<Tally> = sent.iter().map(|sent| sent.tally).collect();
    compare(&tallies, &read).map_err(Stop::Failed)?;
    let bytes: u64 = received.iter().map(|received| received.bytes).sum();
    if bytes == 0 {
        return Err(Stop::NothingCame);
    }
    let spent = sent.iter().map(|sent| sent.spent);
    let spent = spent.chain(received.iter().map(|received| received.spent));
    Ok(Sum {
        figure: bytes as f64 / (1u64 << 30) as f64 / timing.seconds,
        arrived: read.iter().map(|tally| tally.count).sum::<u64>() * MESSAGE as u64,
        spent: spent.fold(CpuTime::default(), CpuTime::plus),
        times,
    })
}

#[cfg(test)]
mod tests {
    use super::super::message::Stamp;
    use super::super::table::rows;
    use super::*;

    const TIMING: Timing = Timing {
        seconds: 0.5,
        warm_up_seconds: 0.1,
    };

    fn tally(writer: u64, numbers: impl IntoIterator<Item = u64>) -> Tally {
        let mut tally = Tally::default();
        for number in numbers {
            tally.add(&Stamp {
                writer,
                number,
                made_at: 7,
            });
        }
        tally
    }

    fn received(tallies: &[Tally], messages: u64) -> Received {
        Received {
            bytes: messages * MESSAGE as u64,
            tallies: tallies.to_vec(),
            times: vec![(1000, messages)],
            spent: CpuTime {
                user: 0.25,
                system: 0.5,
            },
        }
    }

    fn sent(tally: Tally) -> Sent {
        Sent {
            tally,
            spent: CpuTime {
                user: 0.5,
                system: 0.0,
            },
        }
    }

    fn row(name: &str) -> Row {
        rows().into_iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn what_the_readers_of_one_pipe_have_read_is_put_together() {
        let sent = [sent(tally(0, 0..6)), sent(tally(1, 0..2))];
        let mut parts = vec![
            received(&[tally(0, [0, 2, 4]), tally(1, [1])], 3),
            received(&[tally(0, [1, 3, 5]), tally(1, [0])], 4),
        ];
        parts.extend((2..5).map(|_| received(&[Tally::default(); 2], 0)));
        let sum = sum_up(&row("w2_r5"), TIMING, &sent, &parts).unwrap();
        assert_eq!(sum.figure, 7.0 * 4096.0 / (1u64 << 30) as f64 / 0.5);
        assert_eq!(sum.arrived, 8 * 4096);
        assert_eq!((sum.spent.user, sum.spent.system), (2.25, 2.5));
        assert_eq!(sum.times.percentiles().count, 7);
        // One reader has read a message that another one has read, too.
        parts[2] = received(&[tally(0, [5]), Tally::default()], 1);
        let stop = sum_up(&row("w2_r5"), TIMING, &sent, &parts).unwrap_err();
        assert!(
            stop.to_string().starts_with("wrong bytes: writer 0 sent 6"),
            "{stop:?}"
        );
    }

    #[test]
    fn pipelines_side_by_side_have_nothing_from_each_other() {
        let row = row("pipes_8_write");
        let sent: Vec<Sent> = (0..8).map(|n| sent(tally(n, 0..3))).collect();
        let parts = |shift: u64| -> Vec<Received> {
            let writers = (0..8u64).map(|n| (n + shift) % 8);
            writers.map(|n| received(&[tally(n, 0..3)], 2)).collect()
        };
        assert_eq!(
            sum_up(&row, TIMING, &sent, &parts(0)).unwrap().arrived,
            24 * 4096
        );
        let stop = sum_up(&row, TIMING, &sent, &parts(1)).unwrap_err();
        assert!(stop.to_string().contains("but others"), "{stop:?}");
    }

    #[test]
    fn nothing_in_the_time_that_counts_is_no_figure() {
        let parts = [received(&[tally(0, 0..3)], 0)];
        let sent = [sent(tally(0, 0..3))];
        let stop = sum_up(&row("w1_r1"), TIMING, &sent, &parts).unwrap_err();
        assert!(matches!(stop, Stop::NothingCame));
    }
}
