//! The reader: what happens at the other end of a pipe or a ring. It reads memory that the library shares where
//! it lies, which is `unsafe`, and right because the producer is one of this library.

#![allow(unsafe_code)]

use std::io::{BufRead, stdin};
use std::os::fd::AsFd;

use anyhow::Result;
use fullbore::{ConsumerOptions, Wait};
use fullbore_linux::Waiter;
use serde::{Deserialize, Serialize};

use super::data::CHECKED;
use super::look::look;
use super::pass_on::{pass_on, splice_on};
use super::table::{Use, WayName};
use crate::catalogue::transports::ring::{InPlace, Rings};
use crate::catalogue::transports::stream::{Moved, ReadProgress};
use crate::task::{self, Task, Timing};
use fullbore_host::refusal::Unsupported;

/// The bytes of the buffer into which a pipe is read.
const BUFFER: usize = 512 << 10;

/// The task of reading, and measuring.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadTask {
    pub way: WayName,
    pub to: Use,
    pub timing: Timing,
}

impl Task for ReadTask {
    const NAME: &'static str = "worth_read";

    fn play(self) -> Result<()> {
        let stdin = stdin();
        let source = stdin.as_fd();
        let progress = ReadProgress::new(self.timing, CHECKED);
        // A page that a socket refers to has left the pipe, and a producer that recycles it would change it there.
        let keeps_pages = self.to == Use::Tcp && self.way == WayName::Recycle;
        let moved = if self.way == WayName::Shared {
            let rings = Rings::open(source, 1, Waiter::new(Wait::Block))?;
            read(InPlace::new(rings), self.to, progress)?
        } else if self.way == WayName::Ring {
            let inner = ConsumerOptions::new().open(source)?;
            let consumer = fullbore_ring::Consumer::new(inner, Waiter::new(Wait::Block));
            // SAFETY: the producer of this group is one of this library.
            let mut consumer = unsafe { consumer.in_place() };
            let moved = read(&mut consumer, self.to, progress)?;
            if !consumer.is_sharing() {
                let reason = "the two ends of the pipe did not meet";
                return Err(Unsupported(reason.into()).into());
            }
            moved
        } else if self.to.passes_on() && !keeps_pages {
            splice_on(source, self.to, progress)?
        } else {
            let consumer = ConsumerOptions::new().buffer(BUFFER).open(source)?;
            read(consumer, self.to, progress)?
        };
        task::say(&moved)
    }
}

fn read(source: impl BufRead, to: Use, progress: ReadProgress) -> Result<Moved> {
    match to.passes_on() {
        true => pass_on(source, to, progress),
        false => look(source, to, progress),
    }
}
