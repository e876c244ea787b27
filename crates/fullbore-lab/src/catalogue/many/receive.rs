//! A reader: messages from stdin, each checked and timed, until all writers have closed the pipe.

use std::io::{stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use rustix::io::retry_on_intr;
use serde::{Deserialize, Serialize};

use super::board::Board;
use super::cgroup;
use super::message::{MESSAGE, Stamp, Tally};
use super::window::Window;
use crate::catalogue::latency::clock::now;
use crate::catalogue::latency::percentiles::Times;
use crate::cpu_time::CpuTime;
use crate::part::{self, Task, Timing};

/// The task of a reader. Its stdout is the board.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReceiveTask {
    /// The numbers of the writers of its pipe: the first, and how many there are.
    pub writers: (u64, usize),
    /// How many messages are read by one call at most.
    pub at_once: usize,
    pub timing: Timing,
    /// The cgroup that it enters.
    pub cgroup: Option<PathBuf>,
}

/// What a reader has read.
#[derive(Debug, Serialize, Deserialize)]
pub struct Received {
    /// The bytes that came in the time that counts.
    pub bytes: u64,
    /// What came of each writer, from the start to the end.
    pub tallies: Vec<Tally>,
    /// How long the messages took that came in the time that counts: nanoseconds, and how often.
    pub times: Vec<(u64, u64)>,
    /// Its CPU time from the start on.
    pub spent: CpuTime,
}

impl Task for ReceiveTask {
    const NAME: &'static str = "many_receive";

    /// Reads until all writers have closed the pipe.
    ///
    /// # Errors
    /// Fails if bytes are wrong, or read(2) fails.
    fn play(self) -> Result<()> {
        cgroup::enter(self.cgroup.as_deref())?;
        let mut log = Log::new(self.writers);
        let mut buffer = vec![0; self.at_once * MESSAGE];
        let began = Board::open(stdout().as_fd())?.wait_for_the_start()?;
        let window = Window::of(self.timing, began);
        let before = CpuTime::of_this_process();
        read_all(stdin().as_fd(), &mut buffer, window, &mut log)?;
        part::say(&Received {
            bytes: log.bytes,
            tallies: log.tallies,
            times: log.times.counts(),
            spent: CpuTime::of_this_process().since(before),
        })
    }
}

fn read_all(
    source: BorrowedFd<'_>,
    buffer: &mut [u8],
    window: Window,
    log: &mut Log,
) -> Result<()> {
    let mut held = 0;
    loop {
        let n = retry_on_intr(|| rustix::io::read(source, &mut buffer[held..])).context("read")?;
        let now = now();
        if n == 0 && held > 0 {
            bail!("wrong bytes: the last message has {held} of {MESSAGE} bytes");
        }
        if n == 0 {
            return Ok(());
        }
        held += n;
        let whole = held / MESSAGE * MESSAGE;
        for message in buffer[..whole].chunks_exact(MESSAGE) {
            log.add(message, now, window.contains(now))?;
        }
        buffer.copy_within(whole..held, 0);
        held -= whole;
    }
}

/// What has come so far. Its size does not depend on how much that is.
struct Log {
    /// The number of the first writer.
    first: u64,
    bytes: u64,
    tallies: Vec<Tally>,
    /// For each writer, the smallest number that its next message can have.
    next: Vec<u64>,
    times: Times,
}

impl Log {
    fn new((first, writers): (u64, usize)) -> Self {
        Self {
            first,
            bytes: 0,
            tallies: vec![Tally::default(); writers],
            next: vec![0; writers],
            times: Times::new(),
        }
    }

    /// Adds a message that has come now.
    fn add(&mut self, message: &[u8], now: u64, counts: bool) -> Result<()> {
        let Some(stamp) = Stamp::of(message) else {
            bail!("wrong bytes: a message is made of parts of others");
        };
        let writer = stamp.writer.wrapping_sub(self.first) as usize;
        let Some(next) = self.next.get_mut(writer) else {
            bail!(
                "wrong bytes: a message of writer {}, which does not exist",
                stamp.writer
            );
        };
        if stamp.number < *next {
            bail!(
                "wrong bytes: message {} of writer {} came after its message {}",
                stamp.number,
                stamp.writer,
                *next - 1
            );
        }
        *next = stamp.number + 1;
        self.tallies[writer].add(&stamp);
        if counts {
            self.bytes += message.len() as u64;
            self.times.add(now.saturating_sub(stamp.made_at));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn message(writer: u64, number: u64) -> Vec<u8> {
        let mut message = vec![0; MESSAGE];
        let stamp = Stamp {
            writer,
            number,
            made_at: 1000,
        };
        stamp.fill(&mut message);
        message
    }

    #[test]
    fn messages_count_in_their_time_and_come_in_the_order_of_each_writer() {
        let mut log = Log::new((3, 2));
        log.add(&message(3, 0), 2000, false).unwrap();
        log.add(&message(4, 5), 3000, true).unwrap();
        log.add(&message(3, 7), 5000, true).unwrap();
        assert_eq!(log.bytes, 2 * MESSAGE as u64);
        let counts: Vec<u64> = log.tallies.iter().map(|tally| tally.count).collect();
        assert_eq!(counts, [2, 1]);
        let percentiles = log.times.percentiles();
        assert_eq!(percentiles.count, 2);
        assert!((percentiles.median - 2.0).abs() < 0.01, "{percentiles:?}");
        for (writer, number, said) in [
            (3, 7, "after its message 7"),
            (4, 2, "after its message 5"),
            (2, 0, "does not exist"),
            (5, 0, "does not exist"),
        ] {
            let error = log.add(&message(writer, number), 6000, true).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        let torn = [&message(3, 8)[..100], &message(3, 9)[100..]].concat();
        let error = log.add(&torn, 6000, true).unwrap_err();
        assert!(error.to_string().starts_with("wrong bytes"), "{error}");
    }

    #[test]
    fn messages_are_put_together_wherever_the_stream_is_cut() {
        let stream: Vec<u8> = (0..5).flat_map(|number| message(0, number)).collect();
        let timing = Timing {
            seconds: 1e6,
            warm_up_seconds: 0.0,
        };
        for (len, is_whole) in [(stream.len(), true), (stream.len() - 1, false)] {
            let pipe = fullbore::Pipe::new().unwrap();
            std::fs::File::from(pipe.writer)
                .write_all(&stream[..len])
                .unwrap();
            let mut log = Log::new((0, 1));
            let mut buffer = vec![0; MESSAGE + 100];
            let read = read_all(
                pipe.reader.as_fd(),
                &mut buffer,
                Window::of(timing, 0),
                &mut log,
            );
            assert_eq!(read.is_ok(), is_whole);
            assert_eq!(log.tallies[0].count, if is_whole { 5 } else { 4 });
        }
    }
}
