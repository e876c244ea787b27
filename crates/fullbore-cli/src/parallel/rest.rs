//! When the pipes of the workers are looked at. poll(2) would return at each read and each write of a worker; after a
//! rest, each look finds much to do. The input and stdout need no rest: there poll(2) returns when it has to.

use std::time::{Duration, Instant};

/// The shortest rest: a shorter sleep does not pay off.
const LEAST: Duration = Duration::from_micros(50);

/// The longest one.
const MOST: Duration = Duration::from_millis(8);

/// The time between two looks.
#[derive(Debug)]
pub struct Rest {
    length: Duration,
    until: Option<Instant>,
    /// The most bytes that went through one pipe of a worker since the last look began.
    moved: usize,
}

impl Default for Rest {
    fn default() -> Self {
        Self {
            length: 4 * LEAST,
            until: None,
            moved: 0,
        }
    }
}

impl Rest {
    /// Notes that so many bytes went through a pipe of a worker at once.
    pub fn note(&mut self, bytes: usize) {
        self.moved = self.moved.max(bytes);
    }

    /// Whether the pipes of the workers are not looked at.
    pub fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Begins a rest after a look, or ends one whose time has passed, and returns how long it still takes. The pipes,
    /// of at least this capacity, are to be between a quarter and a half used at the next look. Without a pipe, or where
    /// nothing has moved, poll(2) reports what comes.
    pub fn left(&mut self, capacity: Option<usize>) -> Option<Duration> {
        let now = Instant::now();
        self.until = match (capacity, self.until) {
            (None, _) => None,
            (_, None) if self.moved == 0 => None,
            (Some(_), Some(until)) => Some(until).filter(|until| *until > now),
            (Some(capacity), None) => {
                self.length = match self.moved {
                    moved if moved > capacity / 2 => self.length / 2,
                    moved if moved < capacity / 4 => self.length * 2,
                    _ => self.length,
                };
                self.length = self.length.clamp(LEAST, MOST);
                Some(now + self.length)
            }
        };
        self.moved = 0;
        self.until.map(|until| until - now)
    }
}
