//! Whether fresh pages or a socket are faster here, as the first megabytes of a long stream show.
//!
//! Both give a pipe the same guarantee. *fresh* saves a copy, and has the kernel zero every page. Which of
//! them costs less depends on the caches that the two sides share, and so on where they run; a virtual
//! machine cannot even know that. So a long stream goes by either in turn, until one turn has shown that
//! the socket is not clearly faster, or several turns that it is.
//!
//! What counts is what the reader has got: by a socket a full pipe holds eight times as many bytes, and
//! filling it is no throughput.

use std::time::Instant;

use super::options::Way;

/// Bytes that are sent before anything is tried: shorter streams would only pay for it.
const BEFORE: u64 = 64 << 20;

/// Bytes of each turn that are not timed: the pipe still holds bytes that were sent in the other way.
const LEAD: u64 = 8 << 20;

/// Bytes of each turn that are timed.
const TIMED: u64 = 16 << 20;

/// The turns of each way that have to show that the socket is faster.
const TURNS: u32 = 3;

/// The time that the socket may take at most, as a part of the time of fresh pages. The bytes of a stream
/// seldom come at a steady rate.
const CLEARLY_LESS: f64 = 0.9;

/// How fast the two ways were in the turn of a long stream that decided between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// Bytes per second as fresh pages, with [`Way::Fresh`].
    pub fresh: u64,
    /// Bytes per second through a socket, with [`Way::Socket`].
    pub socket: u64,
    /// Whether the rest of the stream is sent through the socket.
    pub by_socket: bool,
}

/// A trial of the two ways, or its result.
#[derive(Debug)]
pub(crate) struct Trial {
    part: Part,
    /// Whether the next bytes go through the socket.
    by_socket: bool,
    /// Bytes that were sent in this part.
    bytes: u64,
    turns: u32,
    /// Bytes per second as fresh pages in this turn.
    fresh: f64,
    result: Option<Tried>,
}

/// A part of a turn.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Bytes that are not timed, as many as this.
    Lead(u64),
    /// Bytes that are timed.
    Timed {
        since: Instant,
        /// Bytes that the pipe held at its start.
        queued: u64,
    },
    /// Nothing is tried, or no longer.
    Over,
}

impl Trial {
    /// Tries nothing: everything is sent as fresh pages.
    pub(crate) fn none() -> Self {
        Self {
            part: Part::Over,
            by_socket: false,
            bytes: 0,
            turns: 0,
            fresh: 0.0,
            result: None,
        }
    }

    /// Tries both once the stream is long.
    pub(crate) fn new() -> Self {
        Self {
            part: Part::Lead(BEFORE),
            ..Self::none()
        }
    }

    /// Returns whether the next bytes go through the socket.
    #[inline]
    pub(crate) fn by_socket(&self) -> bool {
        self.by_socket
    }

    /// Returns the way of the next bytes.
    pub(crate) fn way(&self) -> Way {
        match self.by_socket {
            true => Way::Socket,
            false => Way::Fresh,
        }
    }

    /// Returns the result, once there is one.
    pub(crate) fn result(&self) -> Option<Tried> {
        self.result
    }

    /// Leaves out a time in which other things were done: this part begins again.
    pub(crate) fn begin_again(&mut self) {
        if let Part::Timed { .. } = self.part {
            self.part = Part::Lead(LEAD);
            self.bytes = 0;
        }
    }

    /// Records that `n` bytes were sent in this way. `queued` returns how many the pipe holds.
    #[inline]
    pub(crate) fn sent(&mut self, way: Way, n: usize, queued: impl FnOnce() -> u64) {
        self.sent_at(way, n, queued, Instant::now);
    }

    #[inline]
    fn sent_at(
        &mut self,
        way: Way,
        n: usize,
        queued: impl FnOnce() -> u64,
        now: impl FnOnce() -> Instant,
    ) {
        let enough = match self.part {
            Part::Over => return,
            Part::Lead(enough) => enough,
            Part::Timed { .. } => TIMED,
        };
        match way {
            Way::Fresh if !self.by_socket => {}
            Way::Socket if self.by_socket => {}
            // No socket can be had.
            Way::Copy => return *self = Self::none(),
            // These are the rest of a chunk that the other way had begun.
            _ => return,
        }
        self.bytes += n as u64;
        if self.bytes >= enough {
            self.end_part(queued(), now());
        }
    }

    #[cold]
    fn end_part(&mut self, queued: u64, now: Instant) {
        let bytes = std::mem::take(&mut self.bytes);
        let (since, before) = match self.part {
            Part::Timed { since, queued } => (since, queued),
            _ => return self.part = Part::Timed { since: now, queued },
        };
        let arrived = (bytes + before).saturating_sub(queued);
        let rate = arrived as f64 / (now - since).as_secs_f64();
        self.part = Part::Lead(LEAD);
        if !self.by_socket {
            self.fresh = rate;
            self.by_socket = true;
            return;
        }
        self.turns += 1;
        let is_faster = self.fresh < rate * CLEARLY_LESS;
        self.by_socket = is_faster && self.turns == TURNS;
        if !is_faster || self.turns == TURNS {
            self.part = Part::Over;
            self.result = Some(Tried {
                fresh: self.fresh as u64,
                socket: rate as u64,
                by_socket: self.by_socket,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STEP: usize = 1 << 20;

    /// A pipe whose reader takes bytes at a steady rate, and a writer that waits while it is full.
    struct Stream {
        now: Instant,
        queued: f64,
    }

    impl Stream {
        /// Writes a step at a rate in bytes per second, while the reader reads at another.
        fn write(&mut self, writer: f64, reader: f64, capacity: f64) {
            let mut seconds = STEP as f64 / writer;
            let full = self.queued + STEP as f64 - reader * seconds - capacity;
            seconds += (full / reader).max(0.0);
            self.queued = (self.queued + STEP as f64 - reader * seconds).max(0.0);
            self.now += Duration::from_secs_f64(seconds);
        }
    }

    /// Sends a GiB. For each turn, the rates of writer and reader, for fresh pages and for the socket, in
    /// GiB/s. Returns the trial, and how many bytes went through the socket.
    fn tried(turns: &[[f64; 4]]) -> (Trial, u64) {
        let mut trial = Trial::new();
        let mut stream = Stream {
            now: Instant::now(),
            queued: 0.0,
        };
        let mut by_socket = 0;
        for _ in 0..1024 {
            let turn = turns[(trial.turns as usize).min(turns.len() - 1)];
            let [fresh, to_fresh, socket, to_socket] = turn.map(|rate| rate * f64::from(1 << 30));
            let way = if trial.by_socket() {
                by_socket += STEP as u64;
                stream.write(socket, to_socket, 8e6);
                Way::Socket
            } else {
                stream.write(fresh, to_fresh, 1e6);
                Way::Fresh
            };
            let (now, queued) = (stream.now, stream.queued as u64);
            trial.sent_at(way, STEP, || queued, || now);
        }
        (trial, by_socket)
    }

    #[test]
    fn the_socket_is_used_where_each_turn_shows_that_it_is_faster() {
        for turn in [[3.0, 9.0, 6.0, 9.0], [9.0, 3.0, 9.0, 6.0]] {
            let (trial, by_socket) = tried(&[turn]);
            let result = trial.result().unwrap();
            assert!(trial.by_socket() && result.by_socket);
            assert!(by_socket > 512 << 20);
            let gib = |rate: u64| rate as f64 / f64::from(1 << 30);
            assert!((gib(result.fresh) - 3.0).abs() < 0.3, "{result:?}");
            assert!((gib(result.socket) - 6.0).abs() < 0.6, "{result:?}");
        }
    }

    #[test]
    fn one_turn_is_enough_to_stay_with_fresh_pages() {
        for turn in [
            [6.0, 9.0, 3.0, 9.0],
            [3.0, 9.0, 3.0, 9.0],
            [3.0, 9.0, 3.2, 9.0],
        ] {
            let (trial, by_socket) = tried(&[turn]);
            assert!(!trial.by_socket() && !trial.result().unwrap().by_socket);
            assert_eq!(by_socket, LEAD + TIMED);
        }
        // A stream that stood still for a moment does not decide it.
        let (trial, by_socket) = tried(&[[0.1, 9.0, 4.0, 9.0], [4.0, 9.0, 4.0, 9.0]]);
        assert!(!trial.by_socket() && !trial.result().unwrap().by_socket);
        assert_eq!(by_socket, 2 * (LEAD + TIMED));
    }

    #[test]
    fn filling_the_pipe_is_not_taken_for_speed() {
        // Both ways are limited by the reader, and a writer through the socket runs ahead of it.
        for ahead in [1.1, 1.25, 1.4, 2.0, 3.0] {
            let (trial, _) = tried(&[[3.0 * ahead, 3.0, 3.0 * ahead, 3.0]]);
            let result = trial.result().unwrap();
            assert!(!result.by_socket, "{ahead}: {result:?}");
        }
    }

    #[test]
    fn what_is_not_to_be_measured_is_not() {
        let mut trial = Trial::new();
        for _ in 0..BEFORE / STEP as u64 {
            trial.sent(Way::Fresh, STEP, || 0);
        }
        assert!(matches!(trial.part, Part::Timed { .. }));
        trial.sent(Way::Socket, STEP, || 0);
        assert_eq!(trial.bytes, 0);
        trial.begin_again();
        assert!(matches!(trial.part, Part::Lead(LEAD)));
        trial.sent(Way::Copy, STEP, || 0);
        assert!(matches!(trial.part, Part::Over) && trial.result().is_none());
        for _ in 0..1024 {
            trial.sent(Way::Fresh, STEP, || 0);
            assert!(!trial.by_socket());
        }
    }
}
