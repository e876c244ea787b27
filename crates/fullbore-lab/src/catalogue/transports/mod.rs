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

use anyhow::Result;

pub use alone::Alone;
pub use ends::{Shape, loopback};
pub use table::{TRANSPORTS, Transport};

use crate::endpoint::WaitName;
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::part::{Part, Timing};
use crate::process::{self, Process};
use crate::work::{Bench, Work};
use alone::{AloneTask, RereadFile};
use fullbore_results::run::{Settings, Unit};
use stream::{CHUNK, Moved, ReceiveTask, SendTask};

/// The group's name.
const GROUP: &str = "transports";

/// Returns the group.
pub fn group() -> Group {
    Group {
        name: GROUP,
        shows: "the same stream over every transport, and memory itself, in \
                lmbench's order",
        experiments: experiments().leak(),
        parts: PARTS,
    }
}

/// Sequential reading of memory by one thread on the article's machine, in GiB/s.
const MEMORY_READ_2022: f64 = 16.0;

/// Returns an experiment for each transport, and those that need no second process, in lmbench's order:
/// pipe, AF_UNIX, TCP, file reread, mmap reread, memory copied by libc and by hand, memory read, memory
/// written.
fn experiments() -> Vec<Experiment> {
    let between = TRANSPORTS.iter().map(|transport| {
        let Transport {
            name,
            published,
            shows,
            ..
        } = transport;
        Experiment::bandwidth(GROUP, name, *published, shows, transport)
    });
    between.chain(ALONE.iter().copied()).collect()
}

const fn row(
    name: &'static str,
    published: Option<f64>,
    shows: &'static str,
    work: &'static Alone,
) -> Experiment {
    Experiment::bandwidth(GROUP, name, published, shows, work)
}

#[rustfmt::skip]
const ALONE: &[Experiment] = &[
    row("file_reread", None, "a file in the page cache, read(2) again and again", &Alone::FileReread),
    row("mmap_reread", None, "a file in the page cache, mapped, with all words summed", &Alone::MmapReread),
    row("memory_copy", None, "memcpy(3) from one stretch of memory to another", &Alone::Copy),
    row("memory_copy_by_hand", None, "as memory_copy, one word at a time", &Alone::CopyByHand),
    row("memory_read", Some(MEMORY_READ_2022), "every word of memory added up", &Alone::Read),
    row("memory_write", None, "every word of memory written", &Alone::Write),
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
            both_ways: false,
        };
        let ends = self.make(&shape).map_err(Stop::skipped)?;
        let timing = Timing::of(bench.settings);
        let [sender, receiver] = ends.apart();
        let (link, message) = (sender.link, sender.message);
        let send = SendTask { link, message };
        let mut sending = bench.program.part(&send, Some(bench.cpus.writer))?;
        sender.give(&mut sending);
        let link = receiver.link;
        let receive = ReceiveTask {
            link,
            message,
            timing,
        };
        let mut receiving = bench.program.part(&receive, Some(bench.cpus.reader))?;
        receiver.give(&mut receiving);
        let (receiving, sending) = (Process::start(receiving)?, Process::start(sending)?);
        let received = receiving.end_within(timing.patience())?;
        sending.behind("sender", &received, "receiver")?;
        let moved = Moved::read(&received.output.stderr)?;
        Ok(Measured {
            arrived: Some(moved.all),
            ..moved.taken()
        })
    }

    fn peer(&self, settings: &Settings) -> Option<String> {
        let size = match settings.pipe_size {
            Some(size) if self.is_pipe => format!(" --pipe-size {size}"),
            _ => String::new(),
        };
        self.is_in_c.then(|| format!("stream {}{size}", self.name))
    }

    fn fixed_pipe_size(&self) -> Option<&'static str> {
        (!self.is_pipe).then_some("it uses no pipe")
    }
}

impl Work for Alone {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let timing = Timing::of(bench.settings);
        let task = AloneTask {
            what: *self,
            timing,
        };
        let mut command = bench.program.part(&task, Some(bench.cpus.reader))?;
        if self.wants_a_file() {
            let file = bench.store.of::<RereadFile>().open();
            command.stdin(file.map_err(Stop::skipped)?);
        }
        let ended = Process::start(command)?.end_within(timing.patience() + process::GRACE)?;
        ended.went_well("process")?;
        let moved = Moved::read(&ended.output.stderr)?;
        Ok(Measured {
            arrived: Some(moved.bytes),
            // Without its preparations, which take longer than the work.
            spent: Some(moved.spent),
            ..moved.taken()
        })
    }

    fn peer(&self, _: &Settings) -> Option<String> {
        Some(format!("stream {}", self.name()))
    }

    fn fixed_pipe_size(&self) -> Option<&'static str> {
        Some("it uses no pipe")
    }
}

impl Moved {
    /// Turns it into a measurement, which also gives lmbench's unit for comparison with its tables.
    fn taken(self) -> Measured {
        Measured {
            figure: self.gib_per_s(),
            also: vec![(
                "lmbench",
                Unit::MbPerS,
                self.bytes as f64 / self.seconds / 1e6,
            )],
            ..Measured::default()
        }
    }
}
