//! *ring*: bytes are put where the consumer reads them (`ring/`), until the ring is closed.
//!
//! The windows are those of the ring. When it is closed, what the consumer has not had lies in the
//! memory just before the window: the window begins there from then on, and what it holds is
//! *gathered*, as if it had never been sent. It is then written into the pipe, and the producer goes on
//! with what it had before the ring.

use std::os::fd::AsFd;

use super::producer::{Before, Policy, Producer};
use crate::memory::Memory;
use crate::ring::Published;
use fullbore_linux::error::Result;

impl<Fd: AsFd> Producer<Fd> {
    /// Offers a ring to the consumer, if there is one. What is gathered is sent through it.
    #[cold]
    pub(super) fn offer_ring(&mut self) {
        let Some(offering) = self.offering.take() else {
            return;
        };
        match offering.offer(self.sink.as_fd(), self.calls.waiter()) {
            Ok(ring) => {
                let memory = std::mem::replace(&mut self.memory, Memory::Ring(Box::new(ring)));
                let policy = std::mem::replace(&mut self.policy, Policy::Copy);
                self.policy = Policy::Ring(Box::new(Before {
                    policy,
                    memory,
                    settled: std::mem::replace(&mut self.settled, true),
                }));
                let (gathered, chunk) = (self.gathered, self.chunk);
                if let Policy::Ring(before) = &self.policy {
                    let bytes = &before.memory[self.window.start..][..gathered];
                    self.memory[..gathered].copy_from_slice(bytes);
                }
                self.window = 0..chunk;
            }
            Err(offering) => self.offering = offering,
        }
    }

    /// Sets the next window of at least `at_least` bytes, if there is a ring; returns whether it did.
    pub(super) fn has_next_window_of_ring(&mut self, at_least: usize) -> Result<bool> {
        let Memory::Ring(ring) = &mut self.memory else {
            return Ok(false);
        };
        if ring.is_open() {
            let waiter = self.calls.waiter();
            match ring.window(self.chunk, at_least, self.sink.as_fd(), waiter) {
                Ok(Some(window)) => {
                    self.window = window;
                    return Ok(true);
                }
                Ok(None) => {}
                Err(errno) => return Err(self.failed("ring", errno)),
            }
        }
        self.leave_ring()?;
        Ok(false)
    }

    /// Sends what is gathered and handed over through the ring. If the ring had to be closed, some of it
    /// is left, and the ring is not there any more.
    pub(super) fn send_through_ring(&mut self) -> Result<()> {
        while let Memory::Ring(ring) = &mut self.memory {
            if !ring.is_open() {
                return self.leave_ring();
            }
            if self.gathered > 0 {
                let n = self.gathered;
                match ring.publish(n, self.sink.as_fd(), self.calls.waiter()) {
                    Ok(Published::Yes) => self.went(n),
                    Ok(Published::No) => return self.leave_ring(),
                    Err(errno) => return Err(self.broke_off("ring", errno)),
                }
                if let Memory::Ring(ring) = &mut self.memory {
                    if ring.is_over() {
                        return self.leave_ring();
                    }
                }
            } else if let Some(mut first) = self.handed_over.pop_front() {
                if self.window.is_empty() {
                    if let Err(error) = self.next_window(1) {
                        self.handed_over.push_front(first);
                        return Err(error);
                    }
                }
                if matches!(self.memory, Memory::Ring(_)) {
                    let rest = first.rest();
                    let n = rest.len().min(self.window.len());
                    let start = self.window.start;
                    self.memory.put(start, &rest[..n]);
                    self.gathered = n;
                    first.sent += n;
                }
                if !first.rest().is_empty() {
                    self.handed_over.push_front(first);
                }
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Closes the ring, if there is one. What the consumer has not had is gathered from then on.
    pub(super) fn close_ring(&mut self) -> Result<()> {
        let Memory::Ring(ring) = &mut self.memory else {
            return Ok(());
        };
        if !ring.is_open() && !ring.is_broken() {
            return Ok(());
        }
        let twice = ring.bytes().len();
        match ring.close() {
            Ok(left) => {
                if self.window.start < left {
                    // The same bytes follow a second time.
                    self.window.start += twice / 2;
                    self.window.end = (self.window.end + twice / 2).min(twice);
                }
                self.window.start -= left;
                self.gathered += left;
                self.sent -= left as u64;
                if left > 0 {
                    self.told = false;
                }
                Ok(())
            }
            Err(errno) => Err(self.broke_off("ring", errno)),
        }
    }

    /// Closes the ring, writes what the consumer has not had into the pipe, and goes on without it.
    #[cold]
    fn leave_ring(&mut self) -> Result<()> {
        self.close_ring()?;
        if self.gathered > 0 {
            self.send_by_copy()?;
        }
        let before = std::mem::replace(&mut self.policy, Policy::Copy);
        if let Policy::Ring(before) = before {
            self.policy = before.policy;
            self.memory = before.memory;
            self.settled = before.settled;
        }
        self.window = match self.settled {
            true => 0..0,
            false => 0..self.memory.len(),
        };
        Ok(())
    }

    /// Sends everything that was accepted, so that all of it is in the output, or has been read.
    pub(super) fn send_all(&mut self) -> Result<()> {
        self.offering = None;
        self.send_gathered()?;
        if matches!(self.policy, Policy::Ring(_)) {
            if let Err(errno) = self.calls.waiter().check_stopped() {
                return Err(self.failed("write", errno));
            }
            self.wait_if_others_wrote()?;
            self.leave_ring()?;
        }
        Ok(())
    }

    fn wait_if_others_wrote(&mut self) -> Result<()> {
        if let Memory::Ring(ring) = &mut self.memory {
            if ring.is_open() {
                let waited = ring.wait_if_others_wrote(self.sink.as_fd(), self.calls.waiter());
                return waited.map_err(|errno| self.failed("ring", errno));
            }
        }
        Ok(())
    }

    /// Closes the ring, if there is one, before the producer is dropped. What was sent must not be lost
    /// because writing it into the pipe is stopped: if it may be, the ring is left to the consumer.
    pub(super) fn close_ring_at_the_end(&mut self) -> Result<()> {
        // A ring that was offered now would have nobody to close it.
        self.offering = None;
        let may_close = self.calls.waiter().may_wait() && self.wait_if_others_wrote().is_ok();
        if matches!(self.memory, Memory::Ring(_)) && !may_close {
            self.send_the_rest();
            if let Memory::Ring(ring) = &mut self.memory {
                ring.leave_to_consumer();
            }
        }
        self.close_ring()
    }
}
