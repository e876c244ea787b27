//! The memory whose pages are looked up, when that is timed, and what was found.

use std::time::{Duration, Instant};

use anyhow::Result;
use fullbore::linux::{huge_page_size, page_size};
use fullbore::{Backing, Pages};
use serde::{Deserialize, Serialize};

use crate::endpoint::prepare;
use crate::part::Timing;

/// Pages of one call.
pub const WINDOW: usize = 256;

/// Which pages are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Which {
    pub huge: bool,
    /// Whether they are there before.
    pub touched: bool,
}

/// What was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Found {
    pub ns_per_page: f64,
    pub notes: Vec<String>,
}

/// Memory whose pages are looked up.
pub struct Memory {
    pub pages: Pages,
    which: Which,
}

impl Memory {
    /// `len` bytes, all there, on such pages as are asked for.
    pub fn map(which: Which, len: usize) -> Result<Self> {
        let backing = if which.huge {
            Backing::Huge
        } else {
            Backing::Base
        };
        let options = Pages::options().backing(backing).touched(true);
        let len = len.next_multiple_of(Self::span(which));
        let pages = prepare::unsupported_as_such(options.map(len))?;
        if which.huge {
            prepare::check_huge(&pages)?;
        }
        Ok(Self { pages, which })
    }

    /// What is faulted in, and given back, at a time: a window, or the huge page that it lies in.
    pub fn span(which: Which) -> usize {
        match huge_page_size() {
            Some(huge) if which.huge => huge,
            _ => WINDOW * page_size(),
        }
    }

    /// Takes the pages of `bytes` away, where untouched ones are wanted.
    pub fn prepare(&mut self, bytes: std::ops::Range<usize>) -> Result<()> {
        if !self.which.touched {
            self.pages.give_back(bytes)?;
        }
        Ok(())
    }
}

/// When a part measures: first the warm-up, which is thrown away.
pub struct Clock {
    warm_until: Instant,
    until: Instant,
}

impl Clock {
    pub fn start(timing: Timing) -> Self {
        let warm_until = Instant::now() + Duration::from_secs_f64(timing.warm_up_seconds);
        Self {
            warm_until,
            until: warm_until + Duration::from_secs_f64(timing.seconds),
        }
    }

    pub fn is_warm(&self) -> bool {
        Instant::now() >= self.warm_until
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_whole_windows() {
        for huge in [false, true] {
            let which = Which {
                huge,
                touched: true,
            };
            assert!(Memory::span(which).is_multiple_of(page_size()));
            assert!(Memory::span(which).is_power_of_two());
        }
    }
}
