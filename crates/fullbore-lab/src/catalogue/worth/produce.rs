//! The producer: new bytes in every buffer, sent in one of the ways.

use std::io::{self, Write, stdin, stdout};
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use fullbore::{ProducerOptions, Wait, Way};
use fullbore_linux::Waiter;
use serde::{Deserialize, Serialize};

use super::data::{CHECKED, sent_to};
use super::table::{Use, WayName};
use crate::catalogue::transports::carry::Carry;
use crate::catalogue::transports::ring::Rings;
use crate::catalogue::transports::stream::ReadProgress;
use crate::endpoint::{check_way, open_producer};
use crate::task::{self, Task, Timing};

/// The bytes of one buffer.
const CHUNK: usize = 512 << 10;

/// The task of producing until the reader has closed its end, or the time is up.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProduceTask {
    pub way: WayName,
    pub to: Use,
    /// The time, if this process measures.
    pub measures: Option<Timing>,
}

impl Task for ProduceTask {
    const NAME: &'static str = "worth_produce";

    fn play(self) -> Result<()> {
        let block = sent_to(self.to);
        match self.way {
            WayName::Write | WayName::Roomy => self.produce(Some(Way::Copy), &block),
            WayName::Socket => self.produce(Some(Way::Socket), &block),
            WayName::Fresh => self.produce(Some(Way::Fresh), &block),
            WayName::Recycle => self.produce(Some(Way::Recycle), &block),
            WayName::Ring => self.produce(None, &block),
            WayName::Shared => into_the_ring(&block),
        }
    }
}

/// Copies blocks into the ring until this process is killed, because a ring cannot be closed.
fn into_the_ring(block: &[u8]) -> Result<()> {
    let memory = stdin();
    let mut rings = Rings::open(memory.as_fd(), 0, Waiter::new(Wait::Block))?;
    loop {
        rings.send_all(block).context("send")?;
    }
}

impl ProduceTask {
    /// Sends blocks in this way, or through a ring.
    fn produce(&self, way: Option<Way>, block: &[u8]) -> Result<()> {
        let stdout = stdout();
        let sink = stdout.as_fd();
        let options = ProducerOptions::new().chunk(CHUNK).pipe_size(0);
        // The readers of this group copy or drop what they read from a pipe with recycled pages.
        let waiter = way.is_none().then(|| Waiter::new(Wait::Block));
        let mut producer = open_producer(options, way, waiter, sink)?;
        if way.is_none() {
            producer = producer.only_writer();
        }
        let progress = |timing| ReadProgress::new(timing, CHECKED);
        let mut progress = self.measures.map(progress);
        loop {
            let written = producer.write_all(block);
            // This check comes first: if the reader has closed the pipe as well, the error of the copy that was tried
            // instead hides the reason.
            way.map_or(Ok(()), |way| check_way(producer.inner(), way))?;
            match written {
                Ok(()) => {
                    let add = |progress: &mut ReadProgress| progress.add(block.len());
                    if let Some(moved) = progress.as_mut().map(add).transpose()?.flatten() {
                        producer.finish().map_err(|unfinished| unfinished.error)?;
                        return task::say(&moved);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error).context("write to stdout"),
            }
        }
    }
}
