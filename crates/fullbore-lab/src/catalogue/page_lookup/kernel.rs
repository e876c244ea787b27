//! Uses the kernel's own benchmark of get_user_pages_fast(), in kernels built with it (CONFIG_GUP_TEST;
//! CONFIG_GUP_BENCHMARK before Linux 5.11), for root, if debugfs is mounted.
//!
//! The benchmark is one ioctl on a file, whose argument has had four layouts. The size of the argument is
//! part of the ioctl's number, so a kernel accepts its own layout and returns `EINVAL` for others
//! (`gup_test_ioctl`, mm/gup_test.c): they are tried in turn, the newest first.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io::ErrorKind;

use anyhow::{Context, Result, bail};
use fullbore_linux::{Pages, page_size};
use rustix::io::Errno;
use rustix::ioctl::{Direction, Ioctl, IoctlOutput, Opcode, ioctl, opcode};

use super::memory::{Clock, Found, Memory, WINDOW, Which};
use crate::part::Timing;
use fullbore_results::statistics::Spread;

/// The bytes of one ioctl. Its time is reported in whole microseconds, rounded down: for 256 MiB, which
/// take 100 µs and more even at 1.5 ns per page, the error is less than 1%.
const REGION: usize = 256 << 20;

/// The offsets in bytes of the fields of `struct gup_test`, or `struct gup_benchmark`, in some kernels.
/// Fields that are not listed here stay 0: without flags, pages are looked up for reading, as vmsplice(2)
/// does.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    path: &'static str,
    /// The total size, as a 64-bit kernel lays it out.
    len: usize,
    /// `get_delta_usec` (`delta_usec`), 64 bits: the time of the lookups.
    time: usize,
    /// `addr` followed by `size`, 64 bits each; after the call, `size` is the number of bytes looked up.
    addr: usize,
    /// `nr_pages_per_call`, 32 bits.
    per_call: usize,
}

/// The layouts, the newest first.
#[rustfmt::skip]
const LAYOUTS: [Layout; 4] = [
    // Linux 5.13 to (at least) 6.18, mm/gup_test.h: times, addr, size; nr_pages_per_call, gup_flags,
    // test_flags, which_pages[8]; 4 bytes of padding.
    Layout { path: GUP_TEST, len: 80, time: 0, addr: 16, per_call: 32 },
    // Linux 5.11 and 5.12, mm/gup_test.h: one word of flags instead of two.
    Layout { path: GUP_TEST, len: 72, time: 0, addr: 16, per_call: 32 },
    // Linux 4.20 to 5.10, mm/gup_benchmark.c: flags, and 80 reserved bytes.
    Layout { path: GUP_BENCHMARK, len: 120, time: 0, addr: 16, per_call: 32 },
    // Linux 4.15 to 4.19, mm/gup_benchmark.c: one time, and no reserved bytes.
    Layout { path: GUP_BENCHMARK, len: 32, time: 0, addr: 8, per_call: 24 },
];

const GUP_TEST: &str = "/sys/kernel/debug/gup_test";
const GUP_BENCHMARK: &str = "/sys/kernel/debug/gup_benchmark";

/// The size of the longest layout.
const LONGEST: usize = 120;

/// The ioctl's argument, aligned as its 64-bit fields are.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Argument([u8; LONGEST]);

/// The kernel's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    microseconds: u64,
    bytes: u64,
}

impl Layout {
    /// Returns `GUP_FAST_BENCHMARK`: `_IOWR('g', 1, struct …)` in all layouts.
    const fn opcode(&self) -> Opcode {
        opcode::from_components(Direction::ReadWrite, b'g', 1, self.len)
    }

    fn encode(&self, addr: u64, bytes: u64, per_call: u32) -> Argument {
        let mut argument = Argument([0; LONGEST]);
        argument.0[self.addr..][..8].copy_from_slice(&addr.to_ne_bytes());
        argument.0[self.addr + 8..][..8].copy_from_slice(&bytes.to_ne_bytes());
        argument.0[self.per_call..][..4].copy_from_slice(&per_call.to_ne_bytes());
        argument
    }

    fn decode(&self, argument: &Argument) -> Answer {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&argument.0[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        Answer {
            microseconds: word(self.time),
            bytes: word(self.addr + 8),
        }
    }
}

/// The ioctl call.
struct Call<'a> {
    opcode: Opcode,
    argument: &'a mut Argument,
}

// SAFETY: the argument is as long as the longest layout, and the kernel reads and writes as many bytes
// as the opcode's size says (`gup_test_ioctl`), which is a layout's. It looks the pages up for reading
// and releases them again before it returns: that changes no memory of this process. A kernel with
// another layout does not know the opcode, and does nothing.
unsafe impl Ioctl for Call<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut *self.argument).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// The benchmark of the running kernel.
pub(super) struct Benchmark {
    file: File,
    layout: &'static Layout,
}

impl Benchmark {
    /// Finds the benchmark, or the reason why there is none.
    pub(super) fn find() -> Result<Self, String> {
        let page = Pages::new(page_size()).map_err(|error| error.to_string())?;
        let mut reasons: Vec<String> = Vec::new();
        for layout in &LAYOUTS {
            let reason = match File::options().read(true).write(true).open(layout.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => "not available".into(),
                Err(error) => error.to_string(),
                Ok(file) => {
                    let benchmark = Self { file, layout };
                    match benchmark.look_up(&page, 1) {
                        Ok(_) => return Ok(benchmark),
                        Err(error) => error.to_string(),
                    }
                }
            };
            let reason = format!("{}: {reason}", layout.path);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        Err(reasons.join("; "))
    }

    /// Looks up all pages, `per_call` of them per call.
    fn look_up(&self, pages: &Pages, per_call: usize) -> Result<Answer, Errno> {
        let per_call = u32::try_from(per_call).map_err(|_| Errno::INVAL)?;
        let (addr, bytes) = (pages.as_ptr() as u64, pages.len() as u64);
        let mut argument = self.layout.encode(addr, bytes, per_call);
        let call = Call {
            opcode: self.layout.opcode(),
            argument: &mut argument,
        };
        // SAFETY: as `Call` is.
        unsafe { ioctl(&self.file, call) }?;
        Ok(self.layout.decode(&argument))
    }
}

/// Runs the benchmark repeatedly.
pub(super) fn measure(benchmark: &Benchmark, which: Which, timing: Timing) -> Result<Found> {
    let mut memory = Memory::map(which, REGION)?;
    let all = memory.pages.len();
    let clock = Clock::start(timing);
    let mut figures = Vec::new();
    while figures.is_empty() || !clock.is_over() {
        memory.prepare(0..all)?;
        let answer = benchmark
            .look_up(&memory.pages, WINDOW)
            .with_context(|| benchmark.layout.path)?;
        if answer.bytes != all as u64 {
            bail!(
                "{} looked up {} bytes of {all}",
                benchmark.layout.path,
                answer.bytes
            );
        }
        if clock.is_warm() {
            figures.push(answer.microseconds as f64 * 1e3 / (all / page_size()) as f64);
        }
    }
    Ok(Found {
        ns_per_page: Spread::of(&figures).map_or(f64::NAN, |spread| spread.median),
        notes: vec![format!(
            "by {}: get_user_pages_fast() of {WINDOW} pages a call",
            benchmark.layout.path
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
    fn numbers_are_those_of_the_headers() {
        let numbers = LAYOUTS.map(|layout| layout.opcode());
        assert_eq!(
            numbers,
            [0xc050_6701, 0xc048_6701, 0xc078_6701, 0xc020_6701]
        );
    }

    #[test]
    fn every_layout_fits_and_is_aligned() {
        for layout in &LAYOUTS {
            assert!(layout.len <= LONGEST && layout.len % 8 == 0);
            assert!(layout.addr + 16 <= layout.per_call && layout.per_call + 8 <= layout.len);
            assert!(layout.time + 8 <= layout.addr);
        }
    }

    /// Returns the bytes of 64-bit words.
    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Packs two 32-bit words into one of 64 bits, in the order of memory.
    fn pair(first: u32, second: u32) -> u64 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn what_is_asked_stands_where_the_kernel_looks_for_it() {
        let cases = [
            bytes(&[0, 0, 0x7000, 0x10000, pair(256, 0), 0, 0, 0, 0, 0]),
            bytes(&[0, 0, 0x7000, 0x10000, pair(256, 0), 0, 0, 0, 0]),
            bytes(&[
                0,
                0,
                0x7000,
                0x10000,
                pair(256, 0),
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ]),
            bytes(&[0, 0x7000, 0x10000, pair(256, 0)]),
        ];
        for (layout, expected) in LAYOUTS.iter().zip(cases) {
            let argument = layout.encode(0x7000, 0x10000, 256);
            assert_eq!(argument.0[..layout.len], expected, "{layout:?}");
            assert!(argument.0[layout.len..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn what_is_answered_is_found_where_the_kernel_puts_it() {
        let with_two_times = bytes(&[1234, 77, 0x7000, 0x8000, pair(256, 0)]);
        let with_one = bytes(&[1234, 0x7000, 0x8000, pair(256, 0)]);
        for layout in &LAYOUTS {
            let answer = if layout.addr == 8 {
                &with_one
            } else {
                &with_two_times
            };
            let mut argument = Argument([0; LONGEST]);
            argument.0[..answer.len()].copy_from_slice(answer);
            assert_eq!(
                layout.decode(&argument),
                Answer {
                    microseconds: 1234,
                    bytes: 0x8000
                }
            );
        }
    }

    #[test]
    fn where_there_is_none_every_file_is_named_once() {
        match Benchmark::find() {
            Ok(benchmark) => assert!(LAYOUTS.contains(benchmark.layout)),
            Err(why_not) => {
                assert_eq!(why_not.matches(GUP_TEST).count(), 1, "{why_not}");
                assert_eq!(why_not.matches(GUP_BENCHMARK).count(), 1, "{why_not}");
            }
        }
    }
}
