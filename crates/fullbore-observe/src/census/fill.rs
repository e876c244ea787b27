//! How full a pipe is: the one definition for everything that shows it or decides by it.
//!
//! A pipe is full when its slots are used up, however few bytes they hold: one byte can use a slot. Bytes are what
//! FIONREAD tells. The slots are seen from a write end, by a vmsplice(2) of memory that cannot be read, which moves
//! nothing: it fails with EAGAIN while there is no slot (`wait_for_space`, fs/splice.c), and with EFAULT if there is
//! one. poll(2) tells it too, but makes every later write(2) wake the readers of the pipe (`poll_usage`, fs/pipe.c).

#![allow(unsafe_code)] // vmsplice(2) of memory that cannot be read is in no crate.

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::OnceLock;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size};

use fullbore_linux::{page_size, without_sigpipe};

/// How full a pipe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Bytes in it.
    pub queued: usize,
    /// Its capacity in bytes.
    pub capacity: usize,
    /// Whether all its slots are used; `None` if that was not seen, because this is a read end, or a filter refuses
    /// vmsplice(2).
    pub no_slot_is_free: Option<bool>,
}

impl Fill {
    /// Returns the state of a pipe of which nothing but the bytes are known.
    pub fn of_bytes(queued: usize, capacity: usize) -> Self {
        Self {
            queued,
            capacity,
            // A used slot holds a byte at least.
            no_slot_is_free: (queued < capacity / page_size()).then_some(false),
        }
    }

    /// Reads the state of the pipe that this is an end of.
    ///
    /// # Errors
    /// If it is no pipe.
    pub fn at(end: impl AsFd) -> Result<Self, Errno> {
        let end = end.as_fd();
        let queued = rustix::io::ioctl_fionread(end)?;
        let mut fill = Self::of_bytes(queued as usize, fcntl_getpipe_size(end)?);
        if fill.no_slot_is_free.is_none() {
            fill.no_slot_is_free = no_slot_is_free(end);
        }
        Ok(fill)
    }

    /// Returns the state, given that a process sleeps until it can write to the pipe: if the slots were not seen, none
    /// is free.
    #[must_use]
    pub fn with_writer_asleep(mut self) -> Self {
        self.no_slot_is_free.get_or_insert(true);
        self
    }

    /// Returns whether it is empty.
    pub fn is_empty(self) -> bool {
        self.queued == 0
    }

    /// Returns whether it is full or almost full, so that a large write(2) does not fit.
    pub fn is_full(self) -> bool {
        self.no_slot_is_free == Some(true) || self.queued >= self.capacity / 8 * 7
    }

    /// Returns whether it has room for little, so that its reader is behind: the writer waits for it, or soon will.
    pub fn is_nearly_full(self) -> bool {
        self.is_full() || self.share() >= 0.625
    }

    /// Returns how full it is, from 0 to 1. It is 1 if no slot is free. With large pages a pipe can hold more bytes than
    /// its capacity.
    pub fn share(self) -> f64 {
        match self.no_slot_is_free {
            Some(true) => 1.0,
            _ => (self.queued as f64 / self.capacity.max(1) as f64).min(1.0),
        }
    }
}

/// Returns whether all slots of the pipe are used; `None` if that cannot be seen.
fn no_slot_is_free(end: BorrowedFd<'_>) -> Option<bool> {
    // From a read end, vmsplice(2) reads.
    let mode = fcntl_getfl(end).ok()? & OFlags::RWMODE;
    if mode == OFlags::RDONLY {
        return None;
    }
    // A whole page is never appended to a slot that has room left.
    let slice = Slice {
        base: unreadable()?,
        len: page_size(),
    };
    let (fd, flags) = (end.as_raw_fd(), SpliceFlags::NONBLOCK.bits());
    // SIGPIPE is raised if the last reader has just gone.
    let errno = without_sigpipe(|| {
        // SAFETY: the slice is local. The kernel refuses to read the memory, so the pipe never refers to it.
        let answer = unsafe { vmsplice(fd, &raw const slice, 1, flags) };
        (answer < 0).then(io::Error::last_os_error)
    });
    match Errno::from_io_error(&errno?)? {
        Errno::AGAIN => Some(true),
        Errno::FAULT => Some(false),
        _ => None,
    }
}

/// A `struct iovec`. rustix has one for memory that can be read.
#[repr(C)]
struct Slice {
    base: usize,
    len: usize,
}

// A function of the libc that std links to.
unsafe extern "C" {
    fn vmsplice(fd: c_int, slices: *const Slice, count: usize, flags: c_uint) -> isize;
}

/// Returns the address of a page that cannot be read; `None` without memory.
fn unreadable() -> Option<usize> {
    static PAGE: OnceLock<Option<usize>> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: a new mapping, which is never removed, and which no reference points to.
        let page = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                page_size(),
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        };
        page.ok().map(|page| page.addr())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_linux::Pipe;
    use rustix::pipe::PipeFlags;

    #[test]
    fn a_pipe_without_a_free_slot_is_full_however_few_bytes_it_holds() {
        let pipe = Pipe::new().unwrap();
        let slots = fcntl_getpipe_size(&pipe.writer).unwrap() / page_size();
        assert_eq!(
            Fill::at(&pipe.writer),
            Ok(Fill::of_bytes(0, slots * page_size()))
        );
        // One byte is left in each slot: a write of a whole page takes a new one.
        rustix::io::write(&pipe.writer, &vec![0; slots * page_size()]).unwrap();
        rustix::io::read(&pipe.reader, &mut vec![0; page_size() - 1]).unwrap();
        let full = Fill::at(&pipe.writer).unwrap();
        assert_eq!((full.no_slot_is_free, full.share()), (Some(true), 1.0));
        rustix::io::read(&pipe.reader, &mut [0; 1]).unwrap();
        let fill = Fill::at(&pipe.writer).unwrap();
        assert_eq!(fill.no_slot_is_free, Some(false));
        // Looking moves nothing, and fills no slot.
        for _ in 0..2 * slots {
            assert_eq!(Fill::at(&pipe.writer), Ok(fill));
        }
        assert_eq!(fill.queued, (slots - 1) * page_size());
    }

    #[test]
    fn packets_of_a_byte_fill_a_pipe_and_no_reader_is_no_answer() {
        let (reader, writer) =
            rustix::pipe::pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap();
        let slots = fcntl_getpipe_size(&writer).unwrap() / page_size();
        for number in 0..slots {
            assert!(!Fill::at(&writer).unwrap().is_full(), "{number}");
            rustix::io::write(&writer, b"x").unwrap();
        }
        let fill = Fill::at(&writer).unwrap();
        assert!(fill.is_full() && !fill.is_empty() && fill.queued == slots);
        // A read end does not show it, but what is known of a writer does.
        let seen = Fill::at(&reader).unwrap();
        assert_eq!((seen.no_slot_is_free, seen.is_full()), (None, false));
        assert!(seen.with_writer_asleep().is_full());
        drop(reader);
        // The child of a test that forks at this moment has a copy, until it executes its program.
        while !fullbore_linux::is_closed(writer.as_fd()).unwrap() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(Fill::at(&writer).unwrap().no_slot_is_free, None);
    }
}
