//! Provides memory that two processes share, and counters in it that a process can sleep on (futex(2)).
//!
//! Everything in it except the counters is bytes that one process copies in and the other copies out or reads, at
//! times that the counters keep apart. The `unsafe` code for this is in this file.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

use crate::memory::memory_file;

/// The distance in bytes between two counters. Each has its own cache line, also on CPUs that fetch the
/// adjacent line with each.
pub const APART: usize = 256;

/// Creates shared memory of `len` bytes, zeroed: an unnamed file.
///
/// # Errors
/// Fails if memfd_create(2) is not available, or there is not enough memory.
pub fn make(len: usize) -> Result<OwnedFd> {
    let file = memory_file()?;
    file.set_len(len as u64)
        .context("set the size of a file in memory")?;
    Ok(file.into())
}

/// Shared memory, mapped.
pub struct Shared {
    start: NonNull<u8>,
    len: usize,
}

impl Shared {
    /// Maps `len` bytes of what `fd` refers to.
    ///
    /// # Errors
    /// Fails as mmap(2) does.
    pub fn map(fd: impl AsFd, len: usize) -> Result<Self> {
        let size = rustix::fs::fstat(&fd)?.st_size;
        // Accesses beyond the end of the file would raise SIGBUS.
        anyhow::ensure!(
            size >= len as i64,
            "shared memory of {size} bytes is too short"
        );
        let (anywhere, both) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at an address that the kernel picks; nothing else refers to it.
        let start = unsafe { mmap(anywhere, len, both, MapFlags::SHARED, fd, 0) };
        let start = start.context("map shared memory")?;
        let start =
            NonNull::new(start.cast()).context("the kernel mapped the memory at address 0")?;
        Ok(Self { start, len })
    }

    /// Returns the counter with this number, in the memory's first page.
    pub fn counter(&self, number: usize) -> &AtomicU32 {
        let at = number * APART;
        assert!(at + size_of::<AtomicU32>() <= self.len);
        // SAFETY: it lies within the mapping, which lives as long as `self` and is aligned to a page. All
        // processes use it as an atomic only, and any bits are a number.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Returns a 64-bit number at the position of the counter with this number.
    pub fn long(&self, number: usize) -> &AtomicU64 {
        let at = number * APART;
        assert!(at + size_of::<AtomicU64>() <= self.len);
        // SAFETY: as in `counter`; no counter of the same number is used.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Copies `bytes` to `at`.
    ///
    /// # Safety
    /// No process reads or writes that stretch meanwhile.
    pub unsafe fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at);
        // SAFETY: the stretch is within the mapping; `bytes` is not, since no slice of the mapping is
        // given out while it is written. No other process uses the stretch, as the caller promises.
        unsafe {
            let to = self.start.as_ptr().add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Returns the bytes at `at`.
    ///
    /// # Safety
    /// No process writes that stretch while the slice is used.
    pub unsafe fn slice(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: the stretch is within the mapping, which lives as long as `self`, and nobody writes it, as the
        // caller promises.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), len) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nothing that borrows from it outlives it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Sleeps until `counter` is no longer `seen`, or another thread wakes this one; it may return sooner.
///
/// # Errors
/// Fails as futex(2) does, except for `EAGAIN` and `EINTR`, after which the caller checks again.
pub fn sleep_while(counter: &AtomicU32, seen: u32) -> Result<(), Errno> {
    match futex::wait(counter, futex::Flags::empty(), seen, None) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Wakes one thread that sleeps on `counter`.
pub fn wake(counter: &AtomicU32) {
    // The call fails only for an invalid address.
    let _ = futex::wake(counter, futex::Flags::empty(), 1);
}

/// Sleeps until another thread calls [`wake_if_asleep`] with the same flag, unless `ready` returns true; it
/// may return sooner.
///
/// The flag is 1 while a thread sleeps or is about to sleep, and is the futex on which it sleeps. The
/// sleeper sets it and then checks the condition once more; the waker changes the condition and then checks
/// the flag. All four accesses are sequentially consistent, so at least one of the two threads sees the
/// other's change. The waker clears the flag, and then it does not matter whether the other thread sleeps
/// already: futex(2) does not begin to sleep on a flag that is 0. A separate counter for sleeping beside the
/// flag would lose wake-ups: a waker that saw the flag long ago could clear it after it was set again.
///
/// # Errors
/// Fails as [`sleep_while`] does.
pub fn sleep_unless(flag: &AtomicU32, ready: impl Fn() -> bool) -> Result<(), Errno> {
    flag.store(1, Ordering::SeqCst);
    if ready() {
        flag.store(0, Ordering::SeqCst);
        return Ok(());
    }
    sleep_while(flag, 1)
}

/// Wakes the thread that sleeps with this flag, if there is one.
pub fn wake_if_asleep(flag: &AtomicU32) {
    if flag.load(Ordering::SeqCst) != 0 && flag.swap(0, Ordering::SeqCst) != 0 {
        wake(flag);
    }
}
