//! stdout, and the bytes on their way there. No call here waits.
//!
//! The bytes of a worker are read and written. Its pages are not moved from pipe to pipe: a program that gives pages of
//! its own memory uses them again as soon as its pipe is empty (vmsplice(2)), and stdout would get the new bytes.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::copying::failure::is_network;
use crate::copying::{Input, Same, SameFile};
use anyhow::Context;
use fullbore::Pages;
use fullbore_linux::outcome::{Polled, polled};
use fullbore_linux::wait::Nap;
use fullbore_linux::{Calls, Errno, Wait, Waiter, is_pipe_or_socket, is_reader_gone, pipe};
use rustix::event::PollFlags;
use rustix::net::sockopt::socket_error;
use rustix::stdio::{stdin, stdout};

use super::memory::Part;
use super::stop::Stop;
use super::worker::has_room;
use crate::inherited;
use fullbore_host::size::amount;

/// The most bytes that are read from a worker at a time.
const WINDOW: usize = 512 << 10;

/// The shortest message that is tried.
const SHORTEST: usize = 512;

/// stdout.
pub struct Outlet {
    calls: Calls,
    /// Whether it has a reader that can close it.
    pub has_reader: bool,
    /// The bytes on their way: an output that was kept, …
    part: Option<Part>,
    /// … one that was written, …
    spent: Option<Part>,
    /// … or what was read from a worker last.
    window: Pages,
    filled: usize,
    /// How many of them were written.
    written: usize,
    total: u64,
    /// The most bytes of one write(2), as far as a socket that preserves message boundaries has refused more.
    longest: usize,
    nap: Nap,
}

impl Outlet {
    /// Opens stdout.
    ///
    /// # Errors
    /// If it is closed, if it is the file that would be read, so that there would be no end, or if there is no memory.
    pub fn open() -> anyhow::Result<Self> {
        inherited::stdout()?;
        if Same::as_stdout(stdin()) == Same::WouldGrow {
            return Err(SameFile(Input::Stdin).into());
        }
        if let Some(end) = pipe::of(&stdout())? {
            end.grow(pipe::roomy())?;
        }
        let mut waiter = Waiter::new(Wait::Block);
        waiter.never = true;
        Ok(Self {
            calls: Calls::with(waiter),
            has_reader: is_pipe_or_socket(stdout()),
            part: None,
            spent: None,
            window: Pages::huge(WINDOW).context("memory for the output")?,
            filled: 0,
            written: 0,
            total: 0,
            longest: usize::MAX,
            nap: Nap::default(),
        })
    }

    /// Whether bytes wait until there is room for them.
    pub fn is_full(&self) -> bool {
        self.part.is_some() || self.filled > 0
    }

    /// Looks at what poll(2) has reported.
    ///
    /// # Errors
    /// If no reader is left.
    pub fn look(&mut self, events: PollFlags) -> Result<(), Stop> {
        if is_queued(events, is_network(stdout())) {
            self.has_reader = false;
            if let Some(pause) = self.nap.was_vain() {
                std::thread::sleep(pause);
            }
        } else if self.has_reader && events.intersects(PollFlags::ERR | PollFlags::HUP) {
            let pending = socket_error(stdout()).ok().and_then(Result::err);
            return Err(self.failed(pending.unwrap_or(Errno::PIPE)));
        }
        Ok(())
    }

    /// The shell shows how the reader of a pipe or a Unix socket has ended. What became of the peer of a network
    /// connection, nobody would say.
    fn failed(&self, errno: Errno) -> Stop {
        match is_reader_gone(errno, stdout()) && !is_network(stdout()) {
            true => Stop::Closed,
            false => Stop::of(errno, format_args!("write to stdout{}", after(self.total))),
        }
    }

    /// Takes an output that was kept. Nothing may be on its way.
    pub fn send(&mut self, part: Part) {
        self.part = Some(part);
    }

    /// Takes what a worker has written, and returns how much. Nothing may be on its way. At the end, `output` is `None`.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn take(&mut self, output: &mut Option<Arc<OwnedFd>>) -> Result<usize, Errno> {
        while let Some(open) = output {
            if !has_room(&self.window, self.filled) {
                break;
            }
            match rustix::io::read(&*open, &mut self.window[self.filled..]) {
                Ok(0) => *output = None,
                Ok(n) => self.filled += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(self.filled)
    }

    /// Returns an output that was kept, and has been written.
    pub fn spent(&mut self) -> Option<Part> {
        self.spent.take()
    }

    /// Writes what there is room for. Returns whether nothing is left.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn flush(&mut self) -> Result<bool, Stop> {
        while self.is_full() {
            let window = &self.window[..self.filled];
            let bytes = self.part.as_ref().map_or(window, |part| part);
            if self.written == bytes.len() {
                (self.filled, self.written) = (0, 0);
                self.spent = self.part.take();
                return Ok(true);
            }
            let left = &bytes[self.written..];
            let most = left.len().min(self.longest);
            match self.calls.write(stdout(), &left[..most]) {
                Ok(n) => {
                    self.written += n;
                    self.total += n as u64;
                    self.nap.was_not_vain();
                }
                Err(Errno::MSGSIZE) if most > SHORTEST => self.longest = most / 2,
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        Ok(true)
    }
}

/// Returns how much was done before an error, if it was something.
pub fn after(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!(" (after {})", amount(bytes as f64)),
    }
}

/// Returns whether these events of stdout only mean that the error queue of a socket has a message. Nobody reads it here,
/// and poll(2) returns at once as long as it is there.
fn is_queued(events: PollFlags, is_network: bool) -> bool {
    is_network && polled(events, PollFlags::OUT) == Polled::Queued
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_the_error_queue_of_a_socket_is_no_reader_that_has_gone() {
        let (queued, reset) = (
            PollFlags::ERR,
            PollFlags::ERR | PollFlags::HUP | PollFlags::OUT,
        );
        assert!(is_queued(queued, true));
        assert!(!is_queued(reset, true));
        // A pipe without readers.
        assert!(!is_queued(queued, false));
    }
}
