//! What the workers write on stderr, in whole lines: those of two workers are never mixed in one line.

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::worker::Worker;
use crate::terminal::stderr;

/// A pipe that poll(2) reports as ready takes so many bytes at once (`PIPE_BUF`).
const AT_ONCE: usize = 4096;

/// The bytes from which no more are read.
const MOST: usize = 64 << 10;

/// The longest line that is passed on whole.
const LONGEST: usize = 1 << 20;

/// Lines on their way to stderr.
#[derive(Debug, Default)]
pub struct Messages {
    lines: Vec<u8>,
}

impl Messages {
    /// Whether lines wait for stderr.
    pub fn wait(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Whether there is room for more.
    pub fn have_room(&self) -> bool {
        self.lines.len() < MOST
    }

    /// Reads what a worker has written. Returns whether there was something.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn read(&mut self, worker: &mut Worker) -> Result<bool, Errno> {
        let Some(pipe) = &worker.messages else {
            return Ok(false);
        };
        let mut bytes = [0; AT_ONCE];
        match rustix::io::read(pipe, &mut bytes[..]) {
            Ok(0) => {
                worker.messages = None;
                if !worker.line.is_empty() {
                    self.lines.append(&mut worker.line);
                    self.lines.push(b'\n');
                }
            }
            Ok(n) => {
                let end = memchr::memrchr(b'\n', &bytes[..n]).map_or(0, |at| at + 1);
                if end > 0 {
                    self.lines.append(&mut worker.line);
                    self.lines.extend_from_slice(&bytes[..end]);
                }
                worker.line.extend_from_slice(&bytes[end..n]);
                if worker.line.len() > LONGEST {
                    self.lines.append(&mut worker.line);
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }

    /// Returns the next lines, as far as stderr takes them at once.
    fn next(&mut self) -> Vec<u8> {
        let most = self.lines.len().min(AT_ONCE);
        let whole = memchr::memrchr(b'\n', &self.lines[..most]).map_or(most, |at| at + 1);
        self.lines.drain(..whole).collect()
    }

    /// Writes the next lines. It waits where poll(2) does not report stderr as ready, even if another process has made
    /// it nonblocking. Another error is ignored, because there is no other place to report it.
    pub fn write(&mut self) {
        let lines = self.next();
        let mut left = &lines[..];
        while !left.is_empty() {
            match stderr().write(left) {
                Ok(n) => left = &left[n..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let stderr = stderr();
                    let _ = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None);
                }
                Err(_) => return,
            }
        }
    }

    /// Writes all lines, and waits until stderr has taken them.
    pub fn write_all(&mut self) {
        while self.wait() {
            self.write();
        }
    }
}

/// Returns stderr.
pub fn fd() -> impl AsFd {
    stderr()
}
