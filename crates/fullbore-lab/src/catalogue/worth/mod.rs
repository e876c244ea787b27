//! Defines the group `worth`: what it is worth not to copy, to readers that do something with the bytes.
//!
//! There is a table for each reader, with a row for each way to bring the bytes to it. The producer has new bytes for
//! every buffer in all of them: it copies them from a block in its cache, which stands for making them. The figure is
//! what the reader has got through; the cost is the CPU time of all processes, and decides as much as the figure.
//!
//! `table` lists the ways and the readers, `data` makes the bytes, `produce` is the producer, and `read` the reader:
//! `look` if it looks at every byte, `pass_on` if it does not, and `execute` if it is a program that people have. Then
//! the producer measures.

mod data;
mod execute;
mod look;
mod pass_on;
mod produce;
mod read;
mod table;

use std::os::fd::OwnedFd;
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::catalogue::transports::stream::Moved;
use crate::catalogue::transports::{loopback, ring};
use crate::endpoint::prepare;
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::process;
use crate::task::{Part, Timing};
use crate::work::{Bench, Work};
use execute::ExecuteTask;
use fullbore_results::run::Outcome;
use pass_on::DropTask;
use produce::ProduceTask;
use read::ReadTask;
use table::{READERS, Reader, Use, WAYS, Way, WayName};

/// Returns the group.
pub fn group() -> Group {
    let rows = READERS.iter().flat_map(|reader| {
        let is_program = reader.is.program().is_some();
        let ways = WAYS.iter();
        let ways = ways.filter(move |way| way.is.is_a_pipe() || !is_program);
        ways.map(move |way| {
            let name = format!("{}_to_{}", way.name, reader.name);
            let shows = format!("{} → {}", way.shows, reader.title);
            Experiment {
                table: Some(reader.title),
                ..Experiment::new(name, shows, Worth { way, reader })
            }
        })
    });
    let shows = "what zero-copy is worth to readers that do something with the bytes";
    Group::new("worth", shows, PARTS, rows)
}

/// The tasks of this group's processes.
const PARTS: &[Part] = &[
    Part::of::<ProduceTask>(),
    Part::of::<ReadTask>(),
    Part::of::<DropTask>(),
    Part::of::<ExecuteTask>(),
];

/// The work of bringing bytes to a reader in one way.
#[derive(Debug)]
struct Worth {
    way: &'static Way,
    reader: &'static Reader,
}

/// Makes a pipe or a ring; returns the stdin and the stdout of the producer, and the stdin of the reader.
fn connect(way: &Way) -> Result<(Stdio, Stdio, OwnedFd)> {
    if way.is == WayName::Shared {
        let memory = ring::make()?;
        let copy = memory.try_clone().context("dup")?;
        return Ok((copy.into(), Stdio::null(), memory));
    }
    let pipe = prepare::pipe(way.pipe_size)?;
    Ok((Stdio::null(), pipe.writer.into(), pipe.reader))
}

impl Work for Worth {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let timing = Timing::of(bench.settings);
        let (way, to) = (self.way.is, self.reader.is);
        let (stdin, stdout, to_reader) = connect(self.way).map_err(Stop::skipped)?;
        let (program, cpus) = (bench.program, bench.cpus);
        if let Some(line) = to.program() {
            let reader = ExecuteTask { line: line.into() };
            let out = if to == Use::Cat {
                Stdio::null()
            } else {
                Stdio::piped()
            };
            let reading = program.start(&reader, Some(cpus.reader), to_reader, out)?;
            let measures = Some(timing);
            let produce = ProduceTask { way, to, measures };
            let producing = program.start(&produce, Some(cpus.writer), stdin, stdout)?;
            return execute::measured(to, timing, reading, producing);
        }
        let mut receiver = None;
        let mut to_receiver = Stdio::null();
        if to == Use::Tcp {
            let (near, far) = loopback().map_err(Stop::skipped)?;
            to_receiver = near.into();
            receiver = Some(program.start(&DropTask {}, None, far, Stdio::null())?);
        }
        let read = ReadTask { way, to, timing };
        let reading = program.start(&read, Some(cpus.reader), to_reader, to_receiver)?;
        let produce = ProduceTask {
            way,
            to,
            measures: None,
        };
        let producing = program.start(&produce, Some(cpus.writer), stdin, stdout)?;
        let read = reading.end_within(timing.patience())?;
        let moved = producing.behind::<Moved>("producer", &read, "reader");
        // The reader has closed its connection. If the receiver has found a wrong byte, that is the reason.
        if let Some(receiver) = receiver {
            receiver.end_within(process::GRACE)?.went_well("receiver")?;
        }
        Ok(moved?.measured()?)
    }

    fn remark(&self, table: &[&Outcome]) -> Option<String> {
        let of = |way: WayName| {
            let way = WAYS.iter().find(|known| known.is == way)?;
            let name = format!("{}_to_{}", way.name, self.reader.name);
            table.iter().copied().find(|outcome| outcome.name == name)
        };
        worth(self.reader.title, of(WayName::Fresh)?, of(WayName::Roomy)?)
    }
}

/// Says what fresh pages are worth to a reader, compared with write(2) into a pipe of the same capacity.
fn worth(reader: &str, fresh: &Outcome, written: &Outcome) -> Option<String> {
    let speed = |outcome: &Outcome| Some(outcome.figure.as_ref()?.median);
    let cost = |outcome: &Outcome| Some(outcome.cost.as_ref()?.total.median);
    let times = speed(fresh)? / speed(written)?;
    let share = cost(fresh)? / cost(written)?;
    let percent = ((share - 1.0) * 100.0).round();
    let cost = match percent {
        0.0 => "use the same CPU time".to_owned(),
        less if less < 0.0 => format!("save {}% of the CPU time", -less),
        more => format!("use {more}% more CPU time"),
    };
    Some(format!(
        "{reader}: fresh pages are {times:.2} times as fast as write(2) into a pipe of 1 MiB, and {cost}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_results::run::Cost;
    use fullbore_results::statistics::Spread;

    #[test]
    fn what_fresh_pages_are_worth_is_said_in_a_sentence() {
        let outcome = |gib_per_s: f64, seconds: f64| {
            let spread = |value| Spread::of(&[value]).unwrap();
            Outcome {
                figure: Spread::of(&[gib_per_s]),
                cost: Some(Cost {
                    total: spread(seconds),
                    user: spread(0.0),
                    system: spread(seconds),
                }),
                ..Outcome::default()
            }
        };
        let base = outcome(2.0, 0.5);
        for (fresh, expected) in [
            (
                outcome(2.08, 0.455),
                "1.04 times as fast as write(2) into a pipe of 1 MiB, and save 9% of the CPU time",
            ),
            (
                outcome(1.0, 0.75),
                "0.50 times as fast as write(2) into a pipe of 1 MiB, and use 50% more CPU time",
            ),
            (
                outcome(2.0, 0.5),
                "1.00 times as fast as write(2) into a pipe of 1 MiB, and use the same CPU time",
            ),
        ] {
            let words = worth("a reader that hashes", &fresh, &base).unwrap();
            assert_eq!(
                words,
                format!("a reader that hashes: fresh pages are {expected}")
            );
        }
        let unknown = Outcome::default();
        assert_eq!(worth("a reader", &unknown, &base), None);
    }
}
