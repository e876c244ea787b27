//! Provides the memory whose pages are looked up, and the result.

use anyhow::Result;
use fullbore_linux::{Pages, huge_page_size, page_size};
use serde::{Deserialize, Serialize};

use crate::endpoint::prepare;

/// The number of pages of one call.
pub const WINDOW: usize = 256;

/// The kind of pages that are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Which {
    pub huge: bool,
    /// Whether the pages are present before the lookup.
    pub touched: bool,
}

/// The result of a measurement.
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
    /// Maps `len` bytes of the requested kind of page, all of them present.
    pub fn map(which: Which, len: usize) -> Result<Self> {
        let len = len.next_multiple_of(Self::span(which));
        let mut pages = prepare::pages(which.huge, len)?;
        pages.fill(0);
        if which.huge {
            prepare::check_huge(&pages)?;
        }
        Ok(Self { pages, which })
    }

    /// Returns how many bytes are faulted in, and given back, at a time: a window, or the huge
    /// page that contains it.
    pub fn span(which: Which) -> usize {
        match huge_page_size() {
            Some(huge) if which.huge => huge,
            _ => WINDOW * page_size(),
        }
    }

    /// Gives the pages of `bytes` back to the kernel, if untouched pages are wanted.
    pub fn prepare(&mut self, bytes: std::ops::Range<usize>) -> Result<()> {
        if !self.which.touched {
            self.pages.give_back(bytes)?;
        }
        Ok(())
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
            assert_eq!(Memory::span(which) % page_size(), 0);
            assert!(Memory::span(which).is_power_of_two());
        }
    }
}
