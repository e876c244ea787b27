//! Measures a stream over a transport: one process sends, the other receives and measures.
//!
//! The stream begins with bytes that depend on their position, and the receiver checks every one of
//! them before its clock starts. What follows is the same buffer repeatedly, which is not checked, so
//! that only the transport is measured.

use std::io::{stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::link::Link;
use crate::cpu_time::CpuTime;
use crate::endpoint::WaitName;
use crate::measurement::{Measured, Stop};
use crate::task::{self, Task, Timing};
use fullbore_bytes::pattern;
use fullbore_linux::Aligned;

/// Bytes of one call: lmbench's own transfer size (bw_pipe.c, bw_unix.c: XFERSIZE).
pub const CHUNK: usize = 64 << 10;

/// Bytes at the beginning that are checked: several times the capacity of any transport.
const CHECKED: u64 = 8 << 20;

/// The task of sending messages of `message` bytes until the receiver has closed its end.
#[derive(Debug, Serialize, Deserialize)]
pub struct SendTask {
    pub link: Link,
    pub message: usize,
}

impl Task for SendTask {
    const NAME: &'static str = "send";

    fn play(self) -> Result<()> {
        let Self { link, message } = self;
        let (input, output) = (stdin(), stdout());
        let mut link = link.open(WaitName::Block, input.as_fd(), output.as_fd())?;
        let mut buffer = Aligned::new(message);
        let mut sent = 0;
        loop {
            if sent < CHECKED {
                pattern::fill(&mut buffer, sent);
            }
            match link.send_all(&buffer) {
                Ok(()) => sent += message as u64,
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(errno) => return Err(errno).context(format!("send (after {sent} bytes)")),
            }
        }
    }
}

/// The task of receiving the messages, and measuring.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReceiveTask {
    pub link: Link,
    pub message: usize,
    pub timing: Timing,
}

impl Task for ReceiveTask {
    const NAME: &'static str = "receive";

    fn play(self) -> Result<()> {
        let (input, output) = (stdin(), stdout());
        let mut link = (self.link).open(WaitName::Block, input.as_fd(), output.as_fd())?;
        let mut buffer = Aligned::new(self.message);
        let mut progress = ReadProgress::new(self.timing, CHECKED);
        loop {
            let position = progress.position;
            let n = link.receive(&mut buffer);
            let n = n.with_context(|| format!("receive (after {position} bytes)"))?;
            if progress.is_checking() {
                let looked_at = n.min((CHECKED - position) as usize);
                if let Some(at) = pattern::first_wrong(&buffer[..looked_at], position) {
                    bail!("wrong byte at position {at} of the stream");
                }
            }
            if let Some(moved) = progress.add(n)? {
                link.check()?;
                return task::say(&moved);
            }
        }
    }
}

/// A number of bytes and the time in which they moved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    pub bytes: u64,
    pub seconds: f64,
    /// The CPU time of this process in that time.
    pub spent: CpuTime,
    /// The bytes with those that came before.
    pub all: u64,
}

impl Moved {
    /// Returns what has moved since `began`, when this process had used `before`.
    pub fn since(began: Instant, before: CpuTime, bytes: u64) -> Self {
        Self {
            bytes,
            seconds: began.elapsed().as_secs_f64(),
            spent: CpuTime::of_this_process().since(before),
            all: bytes,
        }
    }

    /// Returns the throughput in GiB/s as a measurement, or an error if nothing moved.
    pub fn measured(&self) -> Result<Measured, Stop> {
        let figure = self.bytes as f64 / (1u64 << 30) as f64 / self.seconds;
        if !figure.is_normal() {
            return Err(Stop::NothingCame);
        }
        Ok(Measured {
            figure,
            arrived: Some(self.all),
            ..Measured::default()
        })
    }
}

/// Counts bytes from the end of a warm-up until the time is up.
#[derive(Debug)]
pub struct Clock {
    warm_up: Duration,
    time: Duration,
    goal: Option<u64>,
    began: Instant,
    measured_from: Option<(Instant, CpuTime)>,
    bytes: u64,
}

impl Clock {
    /// Starts the warm-up; the first bytes have just arrived.
    pub fn begin(timing: Timing) -> Self {
        Self {
            warm_up: Duration::from_secs_f64(timing.warm_up_seconds),
            time: Duration::from_secs_f64(timing.seconds),
            goal: None,
            began: Instant::now(),
            measured_from: None,
            bytes: 0,
        }
    }

    /// Makes the clock measure `goal` bytes, however long they take, if `goal` is given.
    pub fn for_bytes(mut self, goal: Option<u64>) -> Self {
        self.goal = goal;
        self
    }

    /// Records that `n` more bytes have moved, and returns the total when the time is up, or enough
    /// bytes have moved.
    #[inline]
    pub fn add(&mut self, n: usize) -> Option<Moved> {
        let now = Instant::now();
        let Some((from, spent)) = self.measured_from else {
            if now - self.began >= self.warm_up {
                self.measured_from = Some((now, CpuTime::of_this_process()));
            }
            return None;
        };
        self.bytes += n as u64;
        let passed = now - from;
        let is_over = match self.goal {
            Some(goal) => self.bytes >= goal,
            None => passed >= self.time,
        };
        is_over.then(|| Moved::since(from, spent, self.bytes))
    }
}

/// How far a reader has come. Its clock starts when the bytes that are checked have come.
pub struct ReadProgress {
    timing: Timing,
    /// How many bytes are checked.
    checked: u64,
    clock: Option<Clock>,
    /// The number of bytes that have come.
    pub position: u64,
}

impl ReadProgress {
    /// Begins to count.
    pub fn new(timing: Timing, checked: u64) -> Self {
        Self {
            timing,
            checked,
            clock: None,
            position: 0,
        }
    }

    /// Returns whether the bytes that come now are checked.
    pub fn is_checking(&self) -> bool {
        self.position < self.checked
    }

    /// Records that `n` more bytes were used; returns the measurement when the time is up.
    ///
    /// # Errors
    /// Fails if the stream has ended, which `n` = 0 means.
    #[inline]
    pub fn add(&mut self, n: usize) -> Result<Option<Moved>> {
        if n == 0 {
            bail!("the stream ended after {} bytes", self.position);
        }
        self.position += n as u64;
        if self.is_checking() {
            return Ok(None);
        }
        let timing = self.timing;
        let clock = self.clock.get_or_insert_with(|| Clock::begin(timing));
        let all = self.position;
        Ok(clock.add(n).map(|moved| Moved { all, ..moved }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_after_the_warm_up_is_counted() {
        let timing = Timing {
            seconds: 0.0,
            warm_up_seconds: 0.0,
        };
        let mut clock = Clock::begin(timing);
        // The bytes whose arrival ends the warm-up were sent during it, so they do not count.
        assert_eq!(clock.add(1000), None);
        assert_eq!(clock.add(5).unwrap().bytes, 5);
        let mut clock = Clock::begin(Timing {
            warm_up_seconds: 1e6,
            ..timing
        });
        assert_eq!(clock.add(1), None);
        assert_eq!(clock.add(1), None);
        let mut clock = Clock::begin(timing).for_bytes(Some(10));
        assert_eq!((clock.add(9), clock.add(9)), (None, None));
        assert_eq!(clock.add(2).unwrap().bytes, 11);
    }

    #[test]
    fn what_took_no_time_or_moved_nothing_is_no_figure() {
        let read = |bytes, seconds| {
            let moved = Moved {
                bytes,
                seconds,
                spent: CpuTime::default(),
                all: bytes,
            };
            moved.measured()
        };
        assert!(read(10, 2.0).is_ok());
        assert!(matches!(read(0, 1.0), Err(Stop::NothingCame)));
        assert!(matches!(read(1, 0.0), Err(Stop::NothingCame)));
    }
}
