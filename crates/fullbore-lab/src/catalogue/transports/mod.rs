//! Defines the group `transports`: the same stream over every mechanism of Linux that carries bytes from
//! one process to another, and plain memory access. The rows follow the columns of lmbench's table of
//! local bandwidths (McVoy and Staelin, 'lmbench: Portable tools for performance analysis', 1996), with
//! related transports next to each.
//!
//! [`table`] lists the transports, [`ends`] are the two ends of one, [`link`] is how a process uses its end,
//! and [`stream`] sends and receives. What needs no second process is in [`alone`].

mod alone;
pub mod carry;
mod ends;
mod library;
pub mod link;
mod queue;
pub mod ring;
pub mod shared;
pub mod stream;
mod table;

use std::process::Stdio;

use anyhow::{Context, Result};

pub use ends::{Shape, loopback};
pub use table::{TRANSPORTS, Transport};

use crate::endpoint::WaitName;
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::process;
use crate::task::{Part, Timing};
use crate::work::{Bench, Work};
use alone::{Alone, AloneTask, RereadFile};
use fullbore_results::run::{Settings, Unit};
use stream::{CHUNK, Moved, ReceiveTask, SendTask};

/// Sequential reading of memory by one thread on the article's machine, in GiB/s.
const MEMORY_READ_2022: f64 = 16.0;

/// Returns the group: an experiment for each transport, and those that need no second process, in lmbench's order:
/// pipe, AF_UNIX, TCP, file reread, mmap reread, memory copied by libc and by hand, memory read, memory
/// written.
pub fn group() -> Group {
    let between = TRANSPORTS.map(|one| Experiment {
        published: one.published,
        takes_pipe_size: one.is_pipe,
        ..Experiment::new(one.name, one.shows, one)
    });
    let alone = ALONE.map(|(what, name, published, shows)| Experiment {
        published,
        ..Experiment::new(name, shows, Operation(what, name))
    });
    let shows = "the same stream over every transport, and memory itself, in lmbench's order";
    Group::new("transports", shows, PARTS, between.into_iter().chain(alone))
}

#[rustfmt::skip]
const ALONE: [(Alone, &str, Option<f64>, &str); 6] = [
    (Alone::FileReread, "file_reread", None, "a file in the page cache, read(2) again and again"),
    (Alone::MmapReread, "mmap_reread", None, "a file in the page cache, mapped, with all words summed"),
    (Alone::Copy, "memory_copy", None, "memcpy(3) from one stretch of memory to another"),
    (Alone::CopyByHand, "memory_copy_by_hand", None, "as memory_copy, one word at a time"),
    (Alone::Read, "memory_read", Some(MEMORY_READ_2022), "every word of memory added up"),
    (Alone::Write, "memory_write", None, "every word of memory written"),
];

/// The tasks of this group's processes.
const PARTS: &[Part] = &[
    Part::of::<SendTask>(),
    Part::of::<ReceiveTask>(),
    Part::of::<AloneTask>(),
];

/// A stream from one process to another over the transport.
impl Work for Transport {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let shape = Shape {
            message: CHUNK,
            wait: WaitName::Block,
            pipe_size: bench.settings.pipe_size,
        };
        let [sender, receiver] = (self.make)(&shape).map_err(Stop::skipped)?;
        let timing = Timing::of(bench.settings);
        let message = sender.message;
        let (link, cpu) = (receiver.link, bench.cpus.reader);
        let receive = ReceiveTask {
            link,
            message,
            timing,
        };
        let receiving = receiver.start(bench.program, &receive, cpu)?;
        let (link, cpu) = (sender.link, bench.cpus.writer);
        let sending = sender.start(bench.program, &SendTask { link, message }, cpu)?;
        let received = receiving.end_within(timing.patience())?;
        let moved: Moved = sending.behind("sender", &received, "receiver")?;
        Ok(in_lmbenchs_unit(&moved)?)
    }

    fn peer(&self, settings: &Settings) -> Option<String> {
        let size = match settings.pipe_size {
            Some(size) if self.is_pipe => format!(" --pipe-size {size}"),
            _ => String::new(),
        };
        self.is_in_c.then(|| format!("stream {}{size}", self.name))
    }
}

/// An operation of one process, and its name in experiments.
#[derive(Debug)]
struct Operation(Alone, &'static str);

impl Work for Operation {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let timing = Timing::of(bench.settings);
        let task = AloneTask {
            what: self.0,
            timing,
        };
        let stdin = match self.0.wants_a_file() {
            true => {
                let make = || RereadFile::make().context("a temporary file of 256 MiB");
                let file = bench.store.of(make).map_err(Stop::skipped)?;
                Stdio::from(file.0.try_clone()?)
            }
            false => Stdio::null(),
        };
        let cpu = Some(bench.cpus.reader);
        let process = bench.program.start(&task, cpu, stdin, Stdio::null())?;
        let ended = process.end_within(timing.patience() + process::GRACE)?;
        let moved: Moved = ended.report("process")?;
        Ok(Measured {
            // Without its preparations, which take longer than the work.
            spent: Some(moved.spent),
            ..in_lmbenchs_unit(&moved)?
        })
    }

    fn peer(&self, _: &Settings) -> Option<String> {
        Some(format!("stream {}", self.1))
    }
}

/// Turns it into a measurement, which also gives lmbench's unit.
fn in_lmbenchs_unit(moved: &Moved) -> Result<Measured, Stop> {
    let mb_per_s = moved.bytes as f64 / moved.seconds / 1e6;
    Ok(Measured {
        also: vec![("lmbench", Unit::MbPerS, mb_per_s)],
        ..moved.measured()?
    })
}
