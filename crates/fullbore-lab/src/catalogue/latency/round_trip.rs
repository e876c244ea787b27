//! Implements the two processes of a round trip.

use std::io::{stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::percentiles::Times;
use crate::catalogue::transports::carry::Carry;
use crate::catalogue::transports::link::Link;
use crate::endpoint::WaitName;
use crate::task::{self, Task, Timing};
use fullbore_bytes::pattern;

/// Round trips at the start whose bytes are checked, and whose times do not count.
const CHECKED: u64 = 64;

/// The task of sending messages, waiting for each to come back, and timing them; or of sending them back.
#[derive(Debug, Serialize, Deserialize)]
pub struct RoundTripTask {
    pub role: Role,
    pub link: Link,
    pub message: usize,
    pub wait: WaitName,
    pub timing: Timing,
}

/// The side of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Ping,
    Pong,
}

impl Task for RoundTripTask {
    const NAME: &'static str = "roundtrip";

    fn play(self) -> Result<()> {
        let (input, output) = (stdin(), stdout());
        let link = self.link.open(self.wait, input.as_fd(), output.as_fd())?;
        match self.role {
            Role::Ping => ping(link, self.message, self.timing),
            Role::Pong => pong(link, self.message),
        }
    }
}

fn ping(mut link: Box<dyn Carry + '_>, message: usize, timing: Timing) -> Result<()> {
    let mut there = vec![0; message];
    let mut back = vec![0; message];
    let mut once = |there: &[u8], back: &mut [u8]| -> Result<(), Errno> {
        link.send_all(there)?;
        link.receive_all(back)
    };
    let mut checked = 0;
    let began = Instant::now();
    while checked < CHECKED || began.elapsed() < Duration::from_secs_f64(timing.warm_up_seconds) {
        pattern::fill(&mut there, checked * message as u64 + 1);
        once(&there, &mut back).context("a round trip")?;
        if back != there {
            bail!("wrong bytes came back from round trip {checked}");
        }
        checked += 1;
    }
    let mut times = Times::default();
    let mut last = Instant::now();
    let end = last + Duration::from_secs_f64(timing.seconds);
    while last < end {
        once(&there, &mut back).context("a round trip")?;
        let now = Instant::now();
        times.add((now - last).as_nanos() as u64);
        last = now;
    }
    link.check()?;
    task::say(&times.percentiles())
}

fn pong(mut link: Box<dyn Carry + '_>, message: usize) -> Result<()> {
    let mut message = vec![0; message];
    loop {
        let received = link.receive_all(&mut message);
        match received.and_then(|()| link.send_all(&message)) {
            Ok(()) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
            Err(errno) => return Err(errno).context("a round trip"),
        }
    }
}
