//! Resting while a pipe is full. poll(2) returns, and write(2) goes on, at each read(2) of the reader, often for 32 KiB:
//! waking the writer for each costs more CPU time than moving these bytes, on both sides. After a rest of about the time
//! in which the reader reads an eighth to a quarter of the pipe, the writer fills it again at once. Each rest teaches the
//! length of the next one, so a steady reader never waits for that, and who looks at the pipe still sees that it is nearly
//! full.

use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The smallest pipe to rest for: a smaller one has room for few reads.
const ROOMY: usize = 256 * 1024;

/// The shortest rest: a shorter sleep takes longer than it says (`PR_SET_TIMERSLACK`).
const LEAST: Duration = Duration::from_micros(50);

/// The longest rest. A reader that has become faster may wait for so long, once.
const MOST: Duration = Duration::from_millis(8);

/// The fewest waits without a rest after one that did not pay, and the most after many.
const BACK_OFF: (u32, u32) = (16, 4096);

/// Learns from the rests of one waiter.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    length: Duration,
    /// Waits before the next rest.
    skip: u32,
    /// Waits to skip after the next rest that does not pay.
    back_off: u32,
}

impl Default for Rest {
    fn default() -> Self {
        Self {
            length: LEAST,
            skip: 0,
            back_off: BACK_OFF.0,
        }
    }
}

impl Rest {
    /// Rests with `sleep` if `sink` is a full pipe and that is likely to pay. Returns whether the reader has read
    /// meanwhile, so that there is room.
    pub(super) fn rest<E>(
        &mut self,
        sink: BorrowedFd<'_>,
        sleep: impl FnOnce(Duration) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(false);
        }
        let capacity = rustix::pipe::fcntl_getpipe_size(sink).unwrap_or(0);
        let queued = || rustix::io::ioctl_fionread(sink).unwrap_or(0) as usize;
        let before = if capacity >= ROOMY { queued() } else { 0 };
        // The slots of a pipe may be used up by few bytes.
        if before < capacity.max(ROOMY) / 8 * 7 {
            self.skip = self.back_off;
            return Ok(false);
        }
        sleep(self.length)?;
        Ok(self.learn(capacity, before, queued()))
    }

    /// Learns from a rest in which the pipe went from `before` bytes to `left`, and returns whether any were read.
    fn learn(&mut self, capacity: usize, before: usize, left: usize) -> bool {
        let read = before.saturating_sub(left);
        let (few, many) = (read < capacity / 8, read > capacity / 4);
        // The reader is too fast, or poll(2) would hardly have returned more often.
        if read > capacity / 8 * 3 && self.length == LEAST
            || read < capacity / 16 && self.length == MOST
        {
            self.skip = self.back_off;
            self.back_off = (self.back_off * 2).min(BACK_OFF.1);
            self.length = LEAST;
        } else if read > capacity / 2 {
            self.length = LEAST;
        } else if few {
            self.length = (self.length * 2).min(MOST);
        } else {
            self.back_off = (self.back_off / 2).max(BACK_OFF.0);
            if many {
                self.length = (self.length / 2).max(LEAST);
            }
        }
        read > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 1 << 20;

    /// Fills a pipe again and again that is read at `rate` bytes per millisecond, and returns what was left in it after
    /// each rest, and the number of waits.
    fn reads_at(rate: usize, rest: &mut Rest) -> (Vec<usize>, u32) {
        let mut left = Vec::new();
        for waits in 1.. {
            if rest.skip > 0 {
                rest.skip -= 1;
            } else {
                let read = rate as f64 * rest.length.as_secs_f64() * 1e3;
                left.push(CAPACITY.saturating_sub(read as usize));
                rest.learn(CAPACITY, CAPACITY, *left.last().unwrap());
            }
            if waits == 1000 {
                return (left, waits);
            }
        }
        unreachable!()
    }

    #[test]
    fn a_steady_reader_leaves_most_of_the_pipe_at_each_rest() {
        for rate in [40_000, 100_000, 500_000, 1_000_000, 3_000_000] {
            let (left, waits) = reads_at(rate, &mut Rest::default());
            assert_eq!(left.len() as u32, waits, "{rate}");
            assert!(left.iter().all(|&left| left >= CAPACITY / 4 * 3), "{rate}");
            let learned = &left[10..];
            assert!(
                learned.iter().all(|&left| left <= CAPACITY / 8 * 7),
                "{rate}"
            );
        }
    }

    #[test]
    fn for_a_reader_that_is_very_fast_or_slow_rests_become_rare() {
        for rate in [0, 1000, 20_000_000] {
            let (left, _) = reads_at(rate, &mut Rest::default());
            assert!(left.len() < 60, "{rate}: {}", left.len());
        }
    }

    #[test]
    fn a_reader_that_becomes_faster_waits_once() {
        let mut rest = Rest::default();
        reads_at(100_000, &mut rest);
        let (left, _) = reads_at(2_000_000, &mut rest);
        assert_eq!(left[0], 0);
        assert!(left[1..].iter().all(|&left| left >= CAPACITY / 4 * 3));
    }

    #[test]
    fn only_a_full_and_large_pipe_is_rested_for() {
        use std::os::fd::AsFd;
        let pipe = crate::Pipe::new().unwrap();
        let sink = pipe.writer.as_fd();
        let never = |_| -> Result<(), ()> { panic!("rested") };
        // Over the limits of the user, a pipe has two pages.
        let usual = rustix::pipe::fcntl_getpipe_size(sink).unwrap().min(1 << 16);
        rustix::io::write(sink, &vec![0; usual]).unwrap();
        assert_eq!(Rest::default().rest(sink, never), Ok(false));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(Rest::default().rest(file.as_fd(), never), Ok(false));
        if rustix::pipe::fcntl_setpipe_size(sink, CAPACITY).is_err() {
            return eprintln!("skipped: the pipe cannot grow");
        }
        assert_eq!(Rest::default().rest(sink, never), Ok(false));
        rustix::io::write(sink, &vec![0; CAPACITY - usual]).unwrap();
        let read = |_| {
            let bytes = &mut [0; CAPACITY / 2];
            rustix::io::read(&pipe.reader, bytes.as_mut_slice()).map(drop)
        };
        assert_eq!(Rest::default().rest(sink, read), Ok(true));
    }
}
