//! A writer: messages into stdout, until the time is up.

use std::io::{self, Write, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use anyhow::{Context, Result};
use fullbore::{Producer, ProducerOptions, Way};
use fullbore_linux::{Backing, Pages};
use serde::{Deserialize, Serialize};

use super::board::Board;
use super::cgroup;
use super::message::{MESSAGE, Stamp, Tally};
use super::table::WayName;
use super::window::Window;
use crate::catalogue::latency::clock::now;
use crate::cpu_time::CpuTime;
use crate::endpoint::{check_way, prepare};
use crate::part::{self, Task, Timing};

/// The task of a writer. Its stdin is the board.
#[derive(Debug, Serialize, Deserialize)]
pub struct SendTask {
    /// Its number.
    pub writer: u64,
    pub way: WayName,
    /// How many messages are sent by one call.
    pub at_once: usize,
    pub timing: Timing,
    /// The cgroup that it enters.
    pub cgroup: Option<PathBuf>,
}

/// What a writer has sent.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sent {
    pub tally: Tally,
    /// Its CPU time from the start on.
    pub spent: CpuTime,
}

impl Task for SendTask {
    const NAME: &'static str = "many_send";

    /// Sends until the time is up, or nobody reads any more.
    ///
    /// # Errors
    /// Fails if write(2) or vmsplice(2) does, or this machine has no vmsplice(2) that shares pages.
    fn play(self) -> Result<()> {
        cgroup::enter(self.cgroup.as_deref())?;
        let stdout = stdout();
        let mut out = Out::open(self.way, self.at_once * MESSAGE, stdout.as_fd())?;
        let began = Board::open(stdin().as_fd())?.wait_for_the_start()?;
        let window = Window::of(self.timing, began);
        let before = CpuTime::of_this_process();
        let mut tally = Tally::default();
        while !window.is_over(now()) {
            let mut sent = tally;
            let sending = out.send(|buffer| {
                for message in buffer.chunks_exact_mut(MESSAGE) {
                    let stamp = Stamp {
                        writer: self.writer,
                        number: sent.count,
                        made_at: now(),
                    };
                    stamp.fill(message);
                    sent.add(&stamp);
                }
            });
            match sending {
                // No reader is left, and its own error says why.
                Err(error) if is_broken_pipe(&error) => break,
                sending => sending?,
            }
            tally = sent;
        }
        part::say(&Sent {
            tally,
            spent: CpuTime::of_this_process().since(before),
        })
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref().is_some_and(kind)
}

/// One of the ways to send a buffer.
enum Out<'fd> {
    Write {
        sink: BorrowedFd<'fd>,
        buffer: Vec<u8>,
    },
    /// Each buffer is memory of its own that is given away. The producer's own windows are parts of at least 2 MiB,
    /// of which 64 writers would hold 128 MiB.
    Fresh {
        producer: Box<Producer<BorrowedFd<'fd>>>,
        len: usize,
    },
}

impl<'fd> Out<'fd> {
    fn open(way: WayName, len: usize, sink: BorrowedFd<'fd>) -> Result<Self> {
        Ok(match way {
            WayName::Write => Out::Write {
                sink,
                buffer: vec![0; len],
            },
            WayName::Fresh => {
                let options = ProducerOptions::new().huge_pages(false).pipe_size(0);
                let producer = prepare::unsupported_as_such(options.way(Way::Fresh).open(sink))?;
                Out::Fresh {
                    producer: Box::new(producer),
                    len,
                }
            }
        })
    }

    /// Sends a buffer after `fill` has filled it.
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        match self {
            Out::Write { sink, buffer } => {
                fill(buffer);
                Sink(*sink).write_all(buffer)?;
            }
            Out::Fresh { producer, len } => {
                let mut pages = Pages::options().backing(Backing::Base).map(*len)?;
                fill(&mut pages);
                let sent = producer.send_pages(pages.into());
                check_way(producer, fullbore::Way::Fresh)?;
                sent.map_err(io::Error::from)
                    .context("give pages to stdout")?;
            }
        }
        Ok(())
    }
}

/// An fd, to write to.
struct Sink<'fd>(BorrowedFd<'fd>);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
