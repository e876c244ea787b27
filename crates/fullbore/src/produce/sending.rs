//! How a [`Producer`] sends what it has gathered, and how it gets the next memory to fill.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::fresh::Fresh;
use super::options::BY_REFERENCE_FROM;
use super::producer::{Policy, Producer};
use super::socket::{RUN, Through};
use crate::memory::{Geometry, Memory};
use fullbore_linux as linux;
use fullbore_linux::error::{self, Error, Result, TransferSide};
use fullbore_linux::pipe::{PipeEnd, roomy};
use fullbore_linux::wait::Stopped;

impl<Fd: AsFd> Producer<Fd> {
    /// Waits until the pipe no longer refers to recycled pages.
    pub(super) fn wait_for_readers(&mut self) -> Result<()> {
        match &self.policy {
            Policy::Recycle(ring) if !self.options.never => ring
                .wait_until_released(self.sent, self.sent, self.sink.as_fd(), self.calls.waiter())
                .map(drop)
                .map_err(|errno| self.failed("vmsplice", errno)),
            _ => Ok(()),
        }
    }

    /// Makes the window the next stretch of at least `at_least` bytes that no pipe refers to.
    pub(super) fn next_window(&mut self, at_least: usize) -> Result<()> {
        debug_assert_eq!(self.gathered, 0);
        // A window that is too short to be sent by reference would be copied, and the next window
        // would then be the same one again.
        let at_least = at_least.max(BY_REFERENCE_FROM.min(self.chunk));
        if !self.settled {
            self.settle(at_least)?;
        }
        let chunk = self.chunk;
        self.window = match (&mut self.policy, &mut self.memory) {
            (Policy::Fresh(Some(fresh)), Memory::Pages(memory)) => {
                fresh.window(memory, chunk, at_least)?
            }
            (Policy::Recycle(ring), _) => ring
                .window(
                    chunk,
                    at_least,
                    self.sent,
                    self.sink.as_fd(),
                    self.calls.waiter(),
                )
                .map_err(|errno| self.failed("vmsplice", errno))?,
            (_, memory) => 0..chunk.min(memory.len()),
        };
        if self.window.len() < at_least {
            return Err(error::system("mmap")(Errno::NOMEM));
        }
        Ok(())
    }

    /// Grows the output once, if it is a pipe and the options allow it.
    pub(super) fn make_roomy(&mut self) {
        if !std::mem::replace(&mut self.roomy, true) && self.options.pipe_size != Some(0) {
            if let Ok(Some(pipe)) = PipeEnd::of(&self.sink) {
                // An error does not matter here: with a small pipe, sending is only slower.
                let _ = pipe.grow(self.options.pipe_size.unwrap_or_else(roomy));
            }
        }
    }

    /// Grows the pipe, and gets the memory that the way needs, once there is more to send than fits
    /// into the initial memory. If no memory can be mapped, bytes are copied from the initial
    /// memory.
    fn settle(&mut self, at_least: usize) -> Result<()> {
        self.make_roomy();
        let geometry = Geometry::here();
        let huge = !self.options.base_pages;
        // Faulting in fresh base pages one by one is slower than the copy that it would save.
        let is_slower = self.options.any_way
            && !(linux::has_huge_pages() && geometry.huge_that_suits().is_some());
        if !matches!(self.policy, Policy::Copy) && (is_slower || !linux::shares_pages()) {
            self.copy_from_now_on();
        }
        let chunk = self.chunk.next_multiple_of(linux::page_size());
        let mapped = match &mut self.policy {
            Policy::Copy => Memory::map(chunk, huge),
            Policy::Fresh(fresh) => {
                let fresh = fresh.insert(Fresh::new(chunk, huge, &geometry));
                Memory::map(fresh.memory(), huge)
            }
            Policy::Recycle(ring) => {
                let enough = PipeEnd::new(self.sink.as_fd())?.capacity()? + 2 * chunk;
                let len = ring.set_len(self.options.memory.unwrap_or(enough));
                Memory::map(len, huge)
            }
        };
        match mapped {
            Ok(pages) => self.memory = Memory::Pages(pages),
            Err(error) => {
                self.memory.grow_for_copying(self.chunk, huge);
                if self.memory.len() < at_least {
                    return Err(error);
                }
                self.policy = Policy::Copy;
            }
        }
        self.settled = true;
        Ok(())
    }

    #[inline]
    pub(super) fn send_gathered(&mut self) -> Result<()> {
        if let Some((operation, errno)) = self.untold.take() {
            self.told = true;
            return Err(self.moving(operation, errno));
        }
        if self.gathered == 0 && self.handed_over.is_empty() {
            return Ok(());
        }
        if self.gathered > 0 {
            let from_pages = self.memory.is_pages() && self.policy.has_memory();
            let can_be_given = from_pages && self.is_worth_a_reference(self.gathered);
            if can_be_given {
                self.send_by_reference()?;
            } else {
                self.send_by_copy()?;
            }
        }
        if !self.handed_over.is_empty() {
            self.send_handed_over()?;
        }
        Ok(())
    }

    /// Returns whether sending this many bytes by reference is worthwhile.
    #[inline]
    fn is_worth_a_reference(&self, bytes: usize) -> bool {
        bytes >= BY_REFERENCE_FROM.min(self.chunk)
    }

    /// Writes what is gathered.
    pub(super) fn send_by_copy(&mut self) -> Result<()> {
        let from = self.window.start;
        let filled = self.gathered == self.window.len();
        while self.gathered > 0 {
            let bytes = &self.memory[self.window.start..][..self.gathered];
            let sink = self.sink.as_fd();
            match self.through.write(&mut self.calls, sink, bytes) {
                Ok((n, _)) => self.went(n),
                Err((operation, errno)) => return Err(self.broke_off(operation, errno)),
            }
        }
        // No pipe refers to the copied bytes, so their memory can be filled again at once.
        self.window = match &self.policy {
            // Once the initial memory has been filled, there is enough to send to make more memory
            // worthwhile.
            _ if !self.settled && filled => 0..0,
            _ if !self.settled => 0..self.memory.len(),
            Policy::Copy => 0..self.chunk.min(self.memory.len()),
            _ => {
                let (start, end) = (from.next_multiple_of(linux::page_size()), self.window.end);
                // What is left of the window has to be long enough to be sent by reference;
                // otherwise it would be filled and copied again and again.
                if start + BY_REFERENCE_FROM.min(self.chunk) <= end {
                    start..end
                } else {
                    end..end
                }
            }
        };
        Ok(())
    }

    fn send_by_reference(&mut self) -> Result<()> {
        let page = linux::page_size();
        while self.gathered > 0 {
            let start = self.window.start;
            let bytes = &self.memory[start..][..self.gathered];
            // SAFETY: fresh pages are given back to the kernel before they could be written to
            // again; recycled ones are written to after the pipe has let go of them, and the
            // caller of `recycle` vouched for readers that copy. The pages are a mapping of our
            // own, which lives on in the pipe after munmap. `Output::own` made sure of the
            // direction, of a descriptor that nobody else can change.
            let answer = unsafe {
                self.calls
                    .vmsplice(self.sink.as_fd(), bytes, SpliceFlags::empty())
            };
            match answer {
                Ok(0) => return Err(self.broke_off("vmsplice", Errno::IO)),
                Ok(n) => {
                    self.went(n);
                    self.sent_by_reference += n as u64;
                    match &mut self.policy {
                        Policy::Fresh(Some(fresh)) => fresh.gave(start..start + n),
                        Policy::Recycle(ring) => ring.gave(start..start + n, self.sent),
                        Policy::Copy | Policy::Fresh(None) => {}
                    }
                }
                Err(errno) if self.is_refused(errno) => return self.send_by_copy(),
                Err(errno) => return Err(self.broke_off("vmsplice", errno)),
            }
        }
        self.window.start = self
            .window
            .start
            .next_multiple_of(page)
            .min(self.window.end);
        Ok(())
    }

    #[cold]
    fn send_handed_over(&mut self) -> Result<()> {
        while let Some(first) = self.handed_over.front() {
            let bytes = first.rest();
            let len = bytes.len();
            let by_reference =
                self.is_worth_a_reference(len) && !matches!(self.policy, Policy::Copy);
            if by_reference && !linux::shares_pages() {
                self.copy_from_now_on();
                continue;
            }
            let sink = self.sink.as_fd();
            let answer = if by_reference {
                // SAFETY: the pages belong to nobody else, nothing writes to them from here on, and
                // they live on in the pipe after munmap. The direction is as above.
                let answer = unsafe { self.calls.vmsplice(sink, bytes, SpliceFlags::empty()) };
                match answer {
                    Ok(0) => Err(("vmsplice", Errno::IO)),
                    Ok(n) => Ok(n),
                    Err(errno) => Err(("vmsplice", errno)),
                }
            } else {
                let written = self.through.write(&mut self.calls, sink, bytes);
                written.map(|(n, _)| n)
            };
            match answer {
                Ok(n) => {
                    self.sent += n as u64;
                    if by_reference {
                        self.sent_by_reference += n as u64;
                    }
                    if n == len {
                        self.handed_over.pop_front();
                    } else if let Some(first) = self.handed_over.front_mut() {
                        first.sent += n;
                    }
                }
                Err((_, errno)) if by_reference && self.is_refused(errno) => {}
                Err((operation, errno)) => return Err(self.broke_off(operation, errno)),
            }
        }
        Ok(())
    }

    /// Returns whether the kernel refuses to give pages to this output, which it does before the
    /// first page is sent. From then on, bytes are copied.
    fn is_refused(&mut self, errno: Errno) -> bool {
        let refused = linux::is_refusal(errno) && self.sent_by_reference == 0;
        if refused {
            self.copy_from_now_on();
        }
        refused
    }

    /// Gives no more pages to the output, which is a pipe: copies, through a socket if that can be.
    pub(super) fn copy_from_now_on(&mut self) {
        self.policy = Policy::Copy;
        self.through = self.through_a_socket();
    }

    /// Returns how to write bytes that are not given: through a socket, if that can be.
    fn through_a_socket(&self) -> Through {
        match self.sink.is_own() && !self.options.never && self.chunk >= RUN {
            true => Through::for_capacity(self.options.pipe_size.unwrap_or_else(roomy)),
            false => Through::Nothing,
        }
    }

    /// Records that the first `n` gathered bytes were sent.
    pub(super) fn went(&mut self, n: usize) {
        self.sent += n as u64;
        self.gathered -= n;
        self.window.start += n;
    }

    /// Records that sending stopped early; what was not sent stays gathered.
    #[cold]
    pub(super) fn broke_off(&mut self, operation: &'static str, errno: Errno) -> Error {
        self.told = errno != Errno::AGAIN && self.calls.stopped().is_none();
        self.failed(operation, errno)
    }

    /// Keeps an error for the next call, because this one cannot return it.
    #[cold]
    pub(super) fn keep_for_later(&mut self, error: &Error) {
        self.told = false;
        let (operation, errno) = match error {
            // A signal came once.
            Error::Stopped {
                by: Stopped::Interrupted,
                ..
            } => return self.calls.waiter().note_signal(),
            // The next call checks by itself whether it may continue.
            Error::Stopped { .. } => return,
            Error::Moving {
                operation, errno, ..
            }
            | Error::System { operation, errno } => (*operation, Errno::from_io_error(errno)),
            _ => ("write", None),
        };
        // The next call also finds out by itself whether it would have to wait.
        if errno != Some(Errno::AGAIN) {
            self.untold = Some((operation, errno.unwrap_or(Errno::IO)));
        }
    }

    pub(super) fn failed(&self, operation: &'static str, errno: Errno) -> Error {
        let stopped = self.calls.stopped();
        error::of_call(stopped, TransferSide::Sink, operation, errno, self.sent)
    }

    fn moving(&self, operation: &'static str, errno: Errno) -> Error {
        error::moving(TransferSide::Sink, operation, errno, self.sent)
    }
}
