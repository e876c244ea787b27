//! Defines a process's view of a transport, through which it sends and receives messages.

use std::os::fd::BorrowedFd;

use anyhow::Result;
use fullbore_linux::{Ready, Waiter};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::carry::Carry;
use super::library::Library;
use super::queue::Queues;
use super::ring::Rings;
use crate::endpoint::WaitName;

/// The transport that a process finds on its stdin and stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// Fds for read(2) and write(2), with `O_NONBLOCK` unless the process blocks in them.
    Fds,
    /// Two rings in the shared memory on stdin; the process sends into the ring `sends`.
    Ring { sends: usize },
    /// POSIX message queues.
    Queue,
    /// Pipes, at whose ends the library shares memory.
    Library,
}

impl Link {
    /// Opens this end of the transport, whose fds are `input` and `output`.
    ///
    /// # Errors
    /// Fails if the fds are not of the expected kind.
    pub fn open<'fd>(
        self,
        wait: WaitName,
        input: BorrowedFd<'fd>,
        output: BorrowedFd<'fd>,
    ) -> Result<Box<dyn Carry + 'fd>> {
        let waiter = Waiter::new(wait.into());
        Ok(match self {
            Link::Fds => Box::new(Fds {
                input,
                output,
                waiter,
            }),
            Link::Ring { sends } => Box::new(Rings::open(input, sends, waiter)?),
            Link::Queue => Box::new(Queues::new(input, output, waiter)),
            Link::Library => Box::new(Library::new(wait.into(), input, output)),
        })
    }
}

/// Pipes, FIFOs and sockets.
struct Fds<'fd> {
    input: BorrowedFd<'fd>,
    output: BorrowedFd<'fd>,
    waiter: Waiter,
}

impl Carry for Fds<'_> {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let (fd, ready) = (self.output, Ready::ToWrite);
        (self.waiter).until_ready(fd, ready, || rustix::io::write(fd, bytes))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (fd, ready) = (self.input, Ready::ToRead);
        (self.waiter).until_ready(fd, ready, || rustix::io::read(fd, &mut *buffer))
    }
}
