//! Defines the group `latency`: a round trip of a message over every transport, and a single
//! wake-up.
//!
//! A bandwidth does not show how long a single message waits. In these experiments one process
//! sends a message, the other one receives all of it and sends as many bytes back; each round
//! trip is timed by itself, and the figure is the median, beside the 99th and the 99.9th
//! percentile.

pub mod percentiles;
mod round_trip;
mod wake_up;

use std::process::Stdio;

use anyhow::Result;
use fullbore_linux::page_size;

use crate::catalogue::transports::{Shape, TRANSPORTS, Transport, shared};
use crate::endpoint::WaitName;
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::task::{Part, Timing};
use crate::work::{Bench, Work};
use fullbore_results::run::{Settings, Unit};
use percentiles::Percentiles;
use round_trip::{Role as Side, RoundTripTask};
use wake_up::{Role, WakeUpTask};

/// How both sides wait, and a description of it.
#[rustfmt::skip]
const WAITS: [(WaitName, &str, &str); 3] = [
    (WaitName::Block, "block", "both sides block in the call"),
    (WaitName::Spin, "spin", "both sides spin"),
    (WaitName::Adaptive, "adaptive", "both sides spin for a limited time, then block"),
];

/// The bytes of a message, their suffix in names, and the table that contains them.
const MESSAGES: [(usize, &str, &str); 2] = [
    (1, "byte", "round trip of 1 byte"),
    (4096, "4k", "round trip of 4 KiB"),
];

/// Returns the group.
pub fn group() -> Group {
    let shows = "from waking a process to its first instruction on another CPU";
    let mut rows = vec![Experiment {
        table: Some("one wake-up"),
        ..Experiment::new("wake_up", shows, WakeUp)
    }];
    for (message, size, table) in MESSAGES {
        for transport in &TRANSPORTS {
            for (wait, how, waits) in WAITS {
                let name = format!("{}_{size}_{how}", transport.name);
                let shows = format!("{table}, over {}; {waits}", transport.title);
                let work = RoundTrip {
                    transport,
                    message,
                    wait,
                    how,
                };
                rows.push(Experiment {
                    table: Some(table),
                    takes_pipe_size: transport.is_pipe,
                    ..Experiment::new(name, shows, work)
                });
            }
        }
    }
    for row in &mut rows {
        row.unit = Unit::Microseconds;
    }
    let shows = "round-trip time over every transport, and the cost of one wake-up";
    Group::new("latency", shows, PARTS, rows)
}

/// The work of a round trip of a message.
#[derive(Debug)]
struct RoundTrip {
    transport: &'static Transport,
    message: usize,
    wait: WaitName,
    how: &'static str,
}

impl Work for RoundTrip {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let shape = Shape {
            message: self.message,
            wait: self.wait,
            pipe_size: bench.settings.pipe_size,
        };
        let [near, far] = (self.transport.make)(&shape).map_err(Stop::skipped)?;
        let timing = Timing::of(bench.settings);
        let task = |role, link| RoundTripTask {
            role,
            link,
            message: self.message,
            wait: self.wait,
            timing,
        };
        let (ping, pong) = (task(Side::Ping, near.link), task(Side::Pong, far.link));
        let pong = far.start(bench.program, &pong, bench.cpus.reader)?;
        let ping = near.start(bench.program, &ping, bench.cpus.writer)?;
        let pinged = ping.end_within(timing.patience())?;
        let times: Percentiles = pong.behind("server process", &pinged, "client process")?;
        Ok(times.taken(vec![])?)
    }

    fn peer(&self, settings: &Settings) -> Option<String> {
        let (name, message, how) = (self.transport.name, self.message, self.how);
        // The program in C leaves pipes as they are.
        let is_alike = settings.pipe_size.is_none() || !self.transport.is_pipe;
        (self.transport.is_in_c && is_alike)
            .then(|| format!("pingpong {name} --message {message} --wait {how}"))
    }
}

/// The tasks of this group's processes.
const PARTS: &[Part] = &[Part::of::<RoundTripTask>(), Part::of::<WakeUpTask>()];

/// The work of one wake-up.
#[derive(Debug)]
struct WakeUp;

impl Work for WakeUp {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let memory = shared::make(page_size()).map_err(Stop::skipped)?;
        let timing = Timing::of(bench.settings);
        let part = |role, cpu| -> Result<_> {
            let task = WakeUpTask { role, timing };
            let stdin = memory.try_clone()?;
            bench.program.start(&task, Some(cpu), stdin, Stdio::null())
        };
        let sleeper = part(Role::Sleeper, bench.cpus.reader)?;
        let woke = part(Role::Waker, bench.cpus.writer)?.end_within(timing.patience())?;
        let (to_running, waker): (Percentiles, Percentiles) =
            sleeper.behind("sleeping process", &woke, "waking process")?;
        let waker = ("waker", Unit::Microseconds, waker.median);
        Ok(to_running.taken(vec![waker])?)
    }

    fn peer(&self, _: &Settings) -> Option<String> {
        Some("pingpong wake_up".into())
    }
}
