//! Uses the kernel's own benchmark of get_user_pages_fast(), in kernels built with it (CONFIG_GUP_TEST), for root, if
//! debugfs is mounted.
//!
//! The benchmark is one ioctl on a file. The size of its argument is part of the ioctl's number, so a kernel whose
//! argument is another one, as before Linux 5.13, returns `EINVAL` (`gup_test_ioctl`, mm/gup_test.c).

#![allow(unsafe_code)]

use std::fs::File;
use std::io::ErrorKind;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fullbore_linux::{Pages, page_size};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use super::memory::{Found, Memory, WINDOW, Which};
use crate::task::Timing;
use fullbore_results::statistics::Spread;

/// The size of the memory whose pages are looked up in one call: the kernel's clock counts whole microseconds.
const REGION: usize = 256 << 20;

/// The file of the benchmark.
const PATH: &str = "/sys/kernel/debug/gup_test";

/// The argument (`struct gup_test`, mm/gup_test.h).
#[derive(Default)]
#[repr(C)]
struct GupTest {
    get_microseconds: u64,
    put_microseconds: u64,
    address: u64,
    bytes: u64,
    pages_per_call: u32,
    flags: [u32; 2],
    which_pages: [u32; 8],
}

/// GUP_FAST_BENCHMARK.
const OPCODE: Opcode = opcode::read_write::<GupTest>(b'g', 1);

/// The benchmark.
pub(super) struct Benchmark(File);

impl Benchmark {
    /// Opens the benchmark, and tries it. The error says why it is not available.
    pub(super) fn find() -> Result<Self, String> {
        let page = Pages::new(page_size()).map_err(|error| error.to_string())?;
        let found = match File::options().read(true).write(true).open(PATH) {
            Err(error) if error.kind() == ErrorKind::NotFound => Err("not available".into()),
            Err(error) => Err(error.to_string()),
            Ok(file) => {
                let benchmark = Self(file);
                let tried = benchmark.look_up(&page, 1);
                tried.map(|_| benchmark).map_err(|error| error.to_string())
            }
        };
        found.map_err(|reason| format!("{PATH}: {reason}"))
    }

    /// Looks up all of these pages, so many with each call of the kernel's function.
    fn look_up(&self, pages: &Pages, per_call: u32) -> Result<GupTest, Errno> {
        let mut argument = GupTest {
            address: pages.as_ptr() as u64,
            bytes: pages.len() as u64,
            pages_per_call: per_call,
            ..GupTest::default()
        };
        // SAFETY: the kernel reads and writes as many bytes of the argument as the number says, which is its size. The
        // memory is mapped, and is only looked up.
        unsafe { ioctl(&self.0, Updater::<OPCODE, GupTest>::new(&mut argument)) }?;
        Ok(argument)
    }
}

/// Measures with the kernel's benchmark.
pub(super) fn measure(benchmark: &Benchmark, which: Which, timing: Timing) -> Result<Found> {
    let mut memory = Memory::map(which, REGION)?;
    let all = memory.pages.len();
    let (warm, end) = timing.ends();
    let mut figures = Vec::new();
    while figures.is_empty() || Instant::now() < end {
        memory.prepare(0..all)?;
        let answer = benchmark.look_up(&memory.pages, WINDOW as u32);
        let answer = answer.context(PATH)?;
        if answer.bytes != all as u64 {
            bail!("{PATH} looked up {} bytes of {all}", answer.bytes);
        }
        if Instant::now() >= warm {
            figures.push(answer.get_microseconds as f64 * 1e3 / (all / page_size()) as f64);
        }
    }
    Ok(Found {
        ns_per_page: Spread::of(&figures).map_or(f64::NAN, |spread| spread.median),
        notes: vec![format!(
            "by {PATH}: get_user_pages_fast() of {WINDOW} pages a call"
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    ))]
    fn the_argument_is_the_kernels() {
        assert_eq!(OPCODE, 0xc050_6701);
        assert_eq!(std::mem::offset_of!(GupTest, get_microseconds), 0);
        assert_eq!(std::mem::offset_of!(GupTest, address), 16);
        assert_eq!(std::mem::offset_of!(GupTest, bytes), 24);
        assert_eq!(std::mem::offset_of!(GupTest, pages_per_call), 32);
    }

    #[test]
    fn where_there_is_none_the_file_is_named_once() {
        if let Err(why_not) = Benchmark::find() {
            assert_eq!(why_not.matches(PATH).count(), 1, "{why_not}");
        }
    }
}
