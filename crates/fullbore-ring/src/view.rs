//! The view of a ring from a third process.
//!
//! The producer keeps the file of the words open. The name of this file contains the inode of the pipe and the size of
//! the ring, and the links in `/proc/PID/fd` show it. A process that may open such a link reads the words with read(2):
//! that maps nothing, writes nothing, and holds neither end of the pipe.

use std::fs;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use rustix::fs::{AtFlags, CWD, MemfdFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::control::{BITS, CLOSED, Control};
use fullbore_linux::{Result, error};

/// The prefix of the name. The inode and the size follow, separated by a colon.
const NAME: &str = "fullbore-ring:";

/// Returns the name for the file of the words of a ring.
pub(crate) fn name(pipe: u64, size: usize) -> String {
    format!("{NAME}{pipe}:{size}")
}

/// Parses the inode and the size from a link in `/proc/PID/fd`.
fn parse(link: &[u8]) -> Option<(u64, u64)> {
    let link = std::str::from_utf8(link).ok()?.strip_prefix("/memfd:")?;
    let (pipe, size) = link.strip_prefix(NAME)?.split_once(':')?;
    let size = size.strip_suffix(" (deleted)")?;
    Some((pipe.parse().ok()?, size.parse().ok()?))
}

/// A read-only view of a ring of other processes.
///
/// A ring begins when the producer and the consumer of a pipe have connected, and replaces the pipe until it is closed.
/// It shows `fullbore top` and `fullbore run --report` the bytes that bypass the pipe.
#[derive(Debug)]
pub struct RingView {
    words: OwnedFd,
    size: u64,
    inode: u64,
}

/// The state of a ring at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingState {
    /// Bytes that the producer has published since the ring began.
    pub published: u64,
    /// Bytes that the consumer has claimed.
    pub claimed: u64,
    /// Bytes whose memory may be filled again.
    pub released: u64,
    /// Whether the producer sleeps until there is room.
    pub producer_sleeps: bool,
    /// Whether the consumer sleeps until there are bytes.
    pub consumer_sleeps: bool,
    /// Whether the ring is closed: everything that was not claimed goes through the pipe.
    pub is_closed: bool,
}

impl RingView {
    /// Returns the inode of the pipe if a link in `/proc/PID/fd` refers to its ring, such as
    /// `/memfd:fullbore-ring:4711:2097152 (deleted)`; `None` for all other links.
    pub fn pipe_of(link: &[u8]) -> Option<u64> {
        parse(link).map(|(pipe, _)| pipe)
    }

    /// Opens the ring that a link refers to, such as `/proc/4711/fd/5`; `None` if it is another file. It does not wait,
    /// whatever the link refers to.
    ///
    /// # Errors
    /// `Error::System`: `EACCES` if this user may not inspect that process; `ENOENT` if it has exited.
    pub fn open(link: &Path) -> Result<Option<Self>> {
        let text = fs::read_link(link).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            error::system("readlink")(errno)
        })?;
        let Some((_, size)) = parse(text.as_os_str().as_bytes()) else {
            return Ok(None);
        };
        // Other files can have such a name, and opening one of them might wait, or have an effect. The kernel's own
        // tmpfs has no files with a path, and all its files are memory.
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statx(CWD, link, flags, StatxFlags::BASIC_STATS)
            .map_err(error::system("statx"))?;
        let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        if device != device_of_memfds()? {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let words = rustix::fs::open(link, flags, Mode::empty()).map_err(error::system("open"))?;
        let stat = rustix::fs::fstat(&words).map_err(error::system("fstat"))?;
        // The link may refer to another file by now.
        let is_it = stat.st_dev == device && stat.st_size >= LEN as i64;
        Ok(is_it.then_some(Self {
            words,
            size,
            inode: stat.st_ino,
        }))
    }

    /// Returns its size in bytes, as the producer states it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the inode of its file, which distinguishes it from other rings.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Reads its state; `None` if its numbers are inconsistent, as while they change.
    pub fn state(&self) -> Option<RingState> {
        let mut words = [0; LEN];
        if rustix::io::pread(&self.words, &mut words, 0) != Ok(LEN) {
            return None;
        }
        let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().unwrap_or_default());
        let claim = word(offset_of!(Control<AtomicU64>, claim));
        let state = RingState {
            published: word(offset_of!(Control<AtomicU64>, head)),
            claimed: claim & !BITS,
            released: word(offset_of!(Control<AtomicU64>, released)),
            producer_sleeps: word(offset_of!(Control<AtomicU64>, producer_sleeps)) != 0,
            consumer_sleeps: word(offset_of!(Control<AtomicU64>, consumer_sleeps)) != 0,
            is_closed: claim & CLOSED != 0,
        };
        // A consumer that closes the ring may give back bytes that it has claimed and not released.
        let fits = state.claimed <= state.published
            && state.released <= state.claimed
            && state.published - state.released <= self.size;
        fits.then_some(state)
    }
}

/// Bytes of the words.
const LEN: usize = size_of::<Control<AtomicU64>>();

/// Returns the device number of the tmpfs that all memfds of base pages are in.
fn device_of_memfds() -> Result<u64> {
    let file = fullbore_linux::memfd("fullbore", MemfdFlags::empty())
        .map_err(error::system("memfd_create"))?;
    let stat = rustix::fs::fstat(&file).map_err(error::system("fstat"))?;
    Ok(stat.st_dev)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use super::*;
    use crate::control::{Giver, Sleep, Taker, will_sleep};
    use crate::memory::Shared;

    fn open(file: impl AsFd) -> Option<RingView> {
        let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        RingView::open(Path::new(&link)).unwrap()
    }

    #[test]
    fn the_words_tell_what_went_through_and_who_sleeps() {
        let size = 1 << 20;
        let (shared, files) = Shared::create(4711, size).unwrap();
        let view = open(&files[0]).unwrap();
        assert_eq!(view.size(), size as u64);
        let control = shared.control();
        let (mut giver, mut taker) = (Giver::new(size as u64), Taker::new(size as u64));
        giver.publish(control, 1000);
        taker.claim(control, 600).unwrap();
        taker.release(control, 500);
        will_sleep(&control.producer_sleeps.0, Sleep::OnFlag);
        let state = view.state().unwrap();
        assert_eq!(
            (state.published, state.claimed, state.released),
            (1000, 600, 100)
        );
        assert!(state.producer_sleeps && !state.consumer_sleeps && !state.is_closed);
        giver.close(control).unwrap();
        drop((shared, files));
        // What it had counted outlives both sides.
        let state = view.state().unwrap();
        assert_eq!((state.claimed, state.is_closed), (600, true));
    }

    #[test]
    fn numbers_that_cannot_be_are_none() {
        let (shared, files) = Shared::create(1, 1 << 20).unwrap();
        let view = open(&files[0]).unwrap();
        let mut giver = Giver::new(1 << 20);
        giver.publish(shared.control(), (1 << 20) + 1);
        assert_eq!(view.state(), None);
    }

    #[test]
    fn files_that_only_have_the_name_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memfd:fullbore-ring:1:2 (deleted)");
        let file = fs::File::create(path).unwrap();
        assert!(open(&file).is_none(), "it has a path");
        let other = rustix::fs::memfd_create("fullbore-ring:1:2", MemfdFlags::CLOEXEC).unwrap();
        assert!(open(&other).is_none(), "it is empty");
        for link in ["", "pipe:[1]", "/memfd:fullbore-ring:1 (deleted)"] {
            assert_eq!(RingView::pipe_of(link.as_bytes()), None, "{link}");
        }
        let link = b"/memfd:fullbore-ring:12:34 (deleted)";
        assert_eq!(RingView::pipe_of(link), Some(12));
    }
}
