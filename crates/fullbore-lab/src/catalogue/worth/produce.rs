//! The producer: new bytes in every buffer, sent in one of the ways.

#![allow(unsafe_code)]

use std::io::{self, Write, stdin, stdout};
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use fullbore::{ProducerOptions, Wait};
use fullbore_linux::Waiter;
use serde::{Deserialize, Serialize};

use super::data::Block;
use super::table::{Use, WayName};
use crate::catalogue::transports::carry::Carry;
use crate::catalogue::transports::ring::Rings;
use crate::endpoint::{check_way, prepare};
use crate::part::Task;

/// The bytes of one buffer.
const CHUNK: usize = 512 << 10;

/// The task of producing until the reader has closed its end.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProduceTask {
    pub way: WayName,
    pub to: Use,
}

impl Task for ProduceTask {
    const NAME: &'static str = "worth_produce";

    fn play(self) -> Result<()> {
        let block = Block::sent_to(self.to);
        let way = match self.way {
            WayName::Write | WayName::Roomy => fullbore::Way::Copy,
            WayName::Socket => fullbore::Way::Socket,
            WayName::Fresh => fullbore::Way::Fresh,
            WayName::Recycle => fullbore::Way::Recycle,
            WayName::Ring => fullbore::Way::Ring,
            WayName::Shared => return into_the_ring(&block),
        };
        produce(way, &block)
    }
}

/// Copies blocks into the ring until this process is killed, because a ring cannot be closed.
fn into_the_ring(block: &Block) -> Result<()> {
    let memory = stdin();
    let mut rings = Rings::open(memory.as_fd(), 0, Waiter::new(Wait::Block))?;
    loop {
        rings.send_all(block.bytes()).context("send")?;
    }
}

fn produce(way: fullbore::Way, block: &Block) -> Result<()> {
    let stdout = stdout();
    let sink = stdout.as_fd();
    let options = ProducerOptions::new()
        .chunk(CHUNK)
        .huge_pages(true)
        .pipe_size(0);
    let producer = match way {
        fullbore::Way::Socket => options.socket(sink),
        fullbore::Way::Fresh => options.fresh(sink),
        // SAFETY: the readers of this group copy or drop what they read from a pipe with recycled pages.
        fullbore::Way::Recycle => unsafe { options.recycle(sink) },
        fullbore::Way::Ring => options.shared(true).only_writer().open(sink),
        _ => options.copy(sink),
    };
    let mut producer = prepare::unsupported_as_such(producer)?;
    loop {
        let written = producer.write_all(block.bytes());
        // This check comes first: if the reader has closed the pipe as well, the error of the copy that was tried
        // instead hides the reason.
        check_way(&producer, way)?;
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error).context("write to stdout"),
        }
    }
}
