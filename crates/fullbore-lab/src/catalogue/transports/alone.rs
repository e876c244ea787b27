//! Measures what one process does alone: reading a file that is in the page cache, and accessing memory.
//! The transports are compared with these figures.
//!
//! The `unsafe` code accesses memory as words.

#![allow(unsafe_code)]

use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, Write, stdin};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use fullbore_linux::Pages;
use rustix::io::{pread, retry_on_intr};
use serde::{Deserialize, Serialize};

use super::shared::Shared;
use super::stream::{CHUNK, Clock, Moved};
use crate::endpoint::prepare::huge_pages;
use crate::task::{self, Task, Timing};

/// The size of the file: many times the size of most caches.
const FILE: usize = 256 << 20;

/// The size of each memory area: larger than caches.
const MEMORY: usize = 128 << 20;

/// The bytes between two readings of the clock.
const STRETCH: usize = 1 << 20;

/// The operation that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Alone {
    FileReread,
    MmapReread,
    Copy,
    CopyByHand,
    Read,
    Write,
}

impl Alone {
    /// Returns whether it reads the file on stdin.
    pub fn wants_a_file(self) -> bool {
        matches!(self, Alone::FileReread | Alone::MmapReread)
    }

    /// Measures the operation in this process, and reports the result.
    ///
    /// # Errors
    /// Fails if there is not enough memory, or the file cannot be read.
    fn play(self, timing: Timing) -> Result<Moved> {
        Ok(match self {
            Alone::FileReread => reread(timing)?,
            Alone::MmapReread => reread_mapped(timing)?,
            Alone::Copy => {
                let (from, mut to) = (huge_pages(MEMORY)?, huge_pages(MEMORY)?);
                again_and_again(timing, |at| {
                    to[at..at + STRETCH].copy_from_slice(&from[at..at + STRETCH]);
                    black_box(&mut to);
                })
            }
            Alone::CopyByHand => {
                let (mut from, mut to) = (huge_pages(MEMORY)?, huge_pages(MEMORY)?);
                let (from, to) = (words(&mut from), words(&mut to));
                again_and_again(timing, |at| {
                    let (at, end) = (at / 8, (at + STRETCH) / 8);
                    copy_by_hand(&from[at..end], &to[at..end]);
                })
            }
            Alone::Read => {
                let mut from = huge_pages(MEMORY)?;
                let from = &*numbers(&mut from);
                again_and_again(timing, |at| {
                    black_box(sum(&from[at / 8..(at + STRETCH) / 8]));
                })
            }
            Alone::Write => {
                let mut to = huge_pages(MEMORY)?;
                let to = numbers(&mut to);
                let mut number = 0;
                again_and_again(timing, |at| {
                    number += 1;
                    to[at / 8..(at + STRETCH) / 8].fill(number);
                    black_box(&mut *to);
                })
            }
        })
    }
}

/// The task of measuring one of these operations.
#[derive(Debug, Serialize, Deserialize)]
pub struct AloneTask {
    pub what: Alone,
    pub timing: Timing,
}

impl Task for AloneTask {
    const NAME: &'static str = "alone";

    fn play(self) -> Result<()> {
        task::say(&self.what.play(self.timing)?)
    }
}

fn again_and_again(timing: Timing, mut work: impl FnMut(usize)) -> Moved {
    let mut clock = Clock::begin(timing);
    loop {
        for at in (0..MEMORY).step_by(STRETCH) {
            work(at);
            if let Some(moved) = clock.add(STRETCH) {
                return moved;
            }
        }
    }
}

fn numbers(pages: &mut Pages) -> &mut [u64] {
    // SAFETY: any bytes are valid numbers. Pages are aligned, so no bytes are left over before or after them.
    let (before, numbers, after) = unsafe { pages.align_to_mut() };
    debug_assert!(before.is_empty() && after.is_empty());
    numbers
}

/// Returns the memory as atomic words, whose accesses the compiler does not merge into larger ones.
fn words(pages: &mut Pages) -> &[AtomicU64] {
    let numbers = numbers(pages);
    // SAFETY: an AtomicU64 has the layout of a u64, and no other code refers to this memory.
    unsafe { std::slice::from_raw_parts(numbers.as_mut_ptr().cast(), numbers.len()) }
}

/// Copies with one load and one store per word, eight words per iteration, as lmbench's copy by hand does.
fn copy_by_hand(from: &[AtomicU64], to: &[AtomicU64]) {
    for (from, to) in from.chunks_exact(8).zip(to.chunks_exact(8)) {
        for i in 0..8 {
            to[i].store(from[i].load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

fn sum(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, n| sum.wrapping_add(*n))
}

/// Reads the file repeatedly. The first pass is not measured, because the kernel may have evicted the
/// file's pages since it was last read.
fn reread(timing: Timing) -> Result<Moved> {
    let file = stdin();
    let mut buffer = vec![1; CHUNK];
    let mut clock = None;
    loop {
        let mut at = 0;
        loop {
            let n = retry_on_intr(|| pread(file.as_fd(), &mut buffer, at));
            let n = n.context("read a file again")?;
            at += n as u64;
            if n == 0 {
                break;
            }
            if let Some(moved) = clock.as_mut().and_then(|clock: &mut Clock| clock.add(n)) {
                return Ok(moved);
            }
        }
        anyhow::ensure!(at > 0, "the file to reread is empty");
        clock.get_or_insert_with(|| Clock::begin(timing));
    }
}

/// Does the same as [`reread`] through a mapping; the first pass also maps each page.
fn reread_mapped(timing: Timing) -> Result<Moved> {
    let file = stdin();
    let len = rustix::fs::fstat(file.as_fd())?.st_size as usize / 8 * 8;
    anyhow::ensure!(len > 0, "the file to reread is empty");
    let memory = Shared::map(file.as_fd(), len)?;
    // SAFETY: nobody writes to the file, and any bits are numbers.
    let (_, numbers, _) = unsafe { memory.slice(0, len).align_to::<u64>() };
    black_box(sum(numbers));
    let mut clock = Clock::begin(timing);
    loop {
        for stretch in numbers.chunks(STRETCH / 8) {
            black_box(sum(stretch));
            if let Some(moved) = clock.add(stretch.len() * 8) {
                return Ok(moved);
            }
        }
    }
}

/// The file that is read repeatedly. It is made on first use and kept, so that it is in the page cache.
pub struct RereadFile(pub File);

impl RereadFile {
    /// Makes the file.
    ///
    /// # Errors
    /// Fails if there is no space for it.
    pub fn make() -> Result<Self> {
        let mut file = tempfile::tempfile()?;
        let stretch = vec![1; STRETCH];
        for _ in 0..FILE / STRETCH {
            file.write_all(&stretch)?;
        }
        file.rewind()?;
        // Write the file back now, so that the kernel does not do it during a measurement.
        file.sync_data()?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_by_hand_is_the_same() {
        let from: Vec<AtomicU64> = (0..64).map(AtomicU64::new).collect();
        let to: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        copy_by_hand(&from, &to);
        let values = |words: &[AtomicU64]| -> Vec<u64> {
            words.iter().map(|w| w.load(Ordering::Relaxed)).collect()
        };
        assert_eq!(values(&to), values(&from));
        assert_eq!(sum(&values(&to)), 63 * 64 / 2);
    }
}
