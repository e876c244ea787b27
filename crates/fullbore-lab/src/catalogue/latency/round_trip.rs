//! Implements the two processes of a round trip.

use std::io::{stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::percentiles::Times;
use crate::catalogue::transports::link::Link;
use crate::endpoint::{WaitName, words};
use crate::part::{self, Task, Timing};

/// Round trips at the start whose bytes are checked, and whose times do not count.
const CHECKED: u64 = 64;

/// The parameters of a round trip: the message, the transport, and how both processes wait.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Exchange {
    pub link: Link,
    pub message: usize,
    pub wait: WaitName,
}

/// The task of sending messages, waiting for each to come back, and timing them.
#[derive(Debug, Serialize, Deserialize)]
pub struct PingTask {
    pub exchange: Exchange,
    pub timing: Timing,
}

impl Task for PingTask {
    const NAME: &'static str = "ping";

    fn play(self) -> Result<()> {
        let Self { exchange, timing } = self;
        let (input, output) = (stdin(), stdout());
        let mut link = exchange
            .link
            .open(exchange.wait, input.as_fd(), output.as_fd())?;
        let mut there = vec![0; exchange.message];
        let mut back = vec![0; exchange.message];
        let mut once = |there: &[u8], back: &mut [u8]| -> Result<(), Errno> {
            link.send_all(there)?;
            link.receive_all(back)
        };
        let mut checked = 0;
        let began = Instant::now();
        while checked < CHECKED || began.elapsed() < Duration::from_secs_f64(timing.warm_up_seconds)
        {
            words::fill(&mut there, checked * exchange.message as u64 + 1);
            once(&there, &mut back).context("a round trip")?;
            if back != there {
                bail!("wrong bytes came back from round trip {checked}");
            }
            checked += 1;
        }
        let mut times = Times::new();
        let mut last = Instant::now();
        let end = last + Duration::from_secs_f64(timing.seconds);
        while last < end {
            once(&there, &mut back).context("a round trip")?;
            let now = Instant::now();
            times.add((now - last).as_nanos() as u64);
            last = now;
        }
        link.check()?;
        part::say(&times.percentiles())
    }
}

/// The task of sending messages back.
#[derive(Debug, Serialize, Deserialize)]
pub struct PongTask(pub Exchange);

impl Task for PongTask {
    const NAME: &'static str = "pong";

    fn play(self) -> Result<()> {
        let (input, output) = (stdin(), stdout());
        let Exchange {
            link,
            message,
            wait,
        } = self.0;
        let mut link = link.open(wait, input.as_fd(), output.as_fd())?;
        let mut message = vec![0; message];
        loop {
            match link
                .receive_all(&mut message)
                .and_then(|()| link.send_all(&message))
            {
                Ok(()) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(errno) => return Err(errno).context("a round trip"),
            }
        }
    }
}
