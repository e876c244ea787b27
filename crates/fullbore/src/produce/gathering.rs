//! How a [`Producer`] gathers the bytes that are written to it.

use std::io;
use std::os::fd::AsFd;

use super::producer::{Policy, Producer};
use fullbore_linux::error::Result;

impl<Fd: AsFd> io::Write for Producer<Fd> {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(self.take(buf)?)
    }

    /// Gathers as many bytes of `bufs` as it can, with no more system calls than for a single slice of
    /// their total length.
    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for buf in bufs {
            match self.take(buf) {
                Ok(n) => {
                    taken += n;
                    if n < buf.len() {
                        break;
                    }
                }
                Err(error) if taken > 0 => {
                    self.keep_for_later(&error);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.send_gathered()?)
    }
}

impl<Fd: AsFd> Producer<Fd> {
    /// Gathers bytes of `buf`, and returns how many.
    #[inline]
    fn take(&mut self, buf: &[u8]) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        // This overwrites the memory that was lent, and no error about the bytes that are written
        // now has been returned to the caller.
        self.reserved = 0;
        self.told = false;
        if buf.len() < self.room() {
            let start = self.window.start + self.gathered;
            self.memory[start..][..buf.len()].copy_from_slice(buf);
            self.gathered += buf.len();
            return Ok(buf.len());
        }
        self.take_past_the_window(buf)
    }

    /// Does the rest of `take`: fills the window, sends it, and gets a new one.
    #[cold]
    fn take_past_the_window(&mut self, buf: &[u8]) -> Result<usize> {
        if self.untold.is_some() || !self.handed_over.is_empty() {
            self.send_gathered()?;
        }
        let is_copied = matches!(self.policy, Policy::Copy);
        if self.gathered == 0 && buf.len() >= self.chunk && is_copied {
            // There is nothing to gather: the bytes are sent from the caller's memory, once the
            // pipe has been grown.
            if !self.settled {
                self.next_window(1)?;
            }
            let sink = self.sink.as_fd();
            return match self.through.write(&mut self.calls, sink, buf) {
                Ok((n, _)) => {
                    self.sent += n as u64;
                    Ok(n)
                }
                Err((operation, errno)) => Err(self.broke_off(operation, errno)),
            };
        }
        if self.gathered == self.window.len() {
            self.send_gathered()?;
        }
        if self.window.is_empty() {
            self.next_window(1)?;
        }
        let start = self.window.start + self.gathered;
        let n = buf.len().min(self.window.end - start);
        self.memory[start..][..n].copy_from_slice(&buf[..n]);
        self.gathered += n;
        if start + n == self.window.end {
            // The bytes are accepted, whether or not they can be sent: what could not be sent stays
            // gathered, and the next call returns the error.
            if let Err(error) = self.send_gathered() {
                self.keep_for_later(&error);
            }
        }
        Ok(n)
    }
}
