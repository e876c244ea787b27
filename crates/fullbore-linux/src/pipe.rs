//! Pipes: their capacity in bytes and in slots, their queued bytes, and their identity.
//!
//! A pipe is a ring of *slots*, each of which refers to a run of bytes in one page or compound page (`struct
//! pipe_buffer`, `include/linux/pipe_fs_i.h`). Its *capacity* is its number of slots times the size of a base page. A
//! write of one byte can use a whole slot, and a slot can refer to more than a page, so a full pipe can hold fewer
//! bytes than its capacity, or more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{self, Error, Result};
use crate::geometry::Geometry;
use crate::wait::uninterrupted;
pub use fullbore_types::{Pipe, PipeEnd, PipeGrowth, PipeIdentity, PipeLimit};

/// The default capacity that output pipes and private pipes are grown to: the largest that an unprivileged user may
/// have, and less in a small memory cgroup, which is charged for the pages in its pipes.
pub fn roomy() -> usize {
    Geometry::here().pipe(1024 * 1024)
}

/// Creates a pipe and grows it up to `bytes`, as far as the user's limits allow; [`PipeGrowth`] has the resulting
/// capacity.
///
/// # Errors
/// As [`Pipe::new`].
pub fn with_capacity(bytes: usize) -> Result<(Pipe, PipeGrowth)> {
    let pipe = Pipe::new()?;
    let growth = PipeEnd::new(pipe.writer.as_fd())?.grow(bytes)?;
    Ok((pipe, growth))
}

/// Reads the bytes back that a private pipe has `held`, and appends them to `bytes`.
///
/// # Errors
/// As read(2), without `EINTR`. What was read before is in `bytes`.
pub fn take_back(reader: &OwnedFd, held: &mut usize, bytes: &mut Vec<u8>) -> Result<(), Errno> {
    while *held > 0 {
        let begun = bytes.len();
        bytes.resize(begun + *held, 0);
        let read = uninterrupted(|| rustix::io::read(reader, &mut bytes[begun..]));
        let n = read.unwrap_or(0);
        bytes.truncate(begun + n);
        *held -= n;
        read?;
    }
    Ok(())
}

/// Returns the view of `fd`, or `None` if it is not a pipe.
///
/// # Errors
/// `EBADF`, if fstat(2) fails.
pub fn of(fd: &impl AsFd) -> Result<Option<PipeEnd<'_>>> {
    match PipeEnd::new(fd.as_fd()) {
        Ok(end) => Ok(Some(end)),
        Err(Error::NotAPipe) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the bytes that are written to this end become packets (pipe(7), `O_DIRECT`), unless it is no end of a
/// pipe.
///
/// Such a pipe must get nothing but packets. Pages that are spliced or given are none: a read(2) goes on behind them, and
/// if its room ends inside the packet that follows, the kernel discards the rest of the packet (`pipe_read`, fs/pipe.c).
pub fn keeps_packets(sink: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_getfl(sink).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

/// Duplicates the write end of a pipe, so that no other code can redirect the descriptor.
///
/// # Errors
/// [`Error::NotAPipe`]; [`Error::Unsupported`] in packet mode, because pages are no packets; `EBADF` for the read end;
/// `EMFILE`.
pub fn own_writable(sink: BorrowedFd<'_>) -> Result<OwnedFd> {
    // The number is at least 3, because 0 to 2 may be closed now and opened later as standard input, output and error.
    let own = rustix::io::fcntl_dupfd_cloexec(sink, 3).map_err(error::system("F_DUPFD_CLOEXEC"))?;
    is_writable(own.as_fd())?;
    match keeps_packets(own.as_fd()) {
        true => Err(Error::Unsupported(
            "a pipe in packet mode takes no pages".into(),
        )),
        false => Ok(own),
    }
}

/// Checks that `sink` is the write end of a pipe.
///
/// # Errors
/// [`Error::NotAPipe`]; `EBADF` for the read end.
pub fn is_writable(sink: BorrowedFd<'_>) -> Result<()> {
    PipeEnd::new(sink)?;
    let flags = rustix::fs::fcntl_getfl(sink).map_err(error::system("F_GETFL"))?;
    match (flags & OFlags::RWMODE) == OFlags::RDONLY {
        true => Err(error::system("vmsplice")(Errno::BADF)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::FileType;

    use super::*;
    use crate::sizes;

    #[test]
    fn anything_but_a_pipe_is_reported_as_such() {
        assert!(of(&File::open("/dev/null").unwrap()).unwrap().is_none());
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(of(&socket).unwrap().is_none());
        assert!(matches!(PipeEnd::new(socket.as_fd()), Err(Error::NotAPipe)));
    }

    #[test]
    fn a_fifo_is_a_pipe_and_its_path_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let both = File::options().read(true).write(true).open(&path).unwrap();
        assert!(of(&both).unwrap().is_some());
        is_writable(both.as_fd()).unwrap();
        let only_a_path = rustix::fs::open(&path, OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        assert!(of(&only_a_path).unwrap().is_none());
    }

    #[test]
    fn queued_bytes_are_seen_from_both_ends() {
        let pipe = Pipe::new().unwrap();
        rustix::io::write(&pipe.writer, &[1; 5000]).unwrap();
        let reader = of(&pipe.reader).unwrap().unwrap();
        let writer = of(&pipe.writer).unwrap().unwrap();
        assert_eq!(reader.queued().unwrap(), 5000);
        rustix::io::read(&pipe.reader, &mut [0; 1000]).unwrap();
        assert_eq!(writer.queued().unwrap(), 4000);
    }

    #[test]
    fn the_two_ends_of_one_pipe_are_recognised() {
        let (one, other) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let identity = |fd| of(fd).unwrap().unwrap().identity().unwrap();
        assert_eq!(identity(&one.reader), identity(&one.writer));
        assert_ne!(identity(&one.reader), identity(&other.reader));
        is_writable(one.writer.as_fd()).unwrap();
        is_writable(one.reader.as_fd()).unwrap_err();
    }

    #[test]
    fn growing_reaches_what_was_asked_or_names_the_limit() {
        let (pipe, growth) = with_capacity(256 * 1024).unwrap();
        let end = of(&pipe.writer).unwrap().unwrap();
        assert_eq!(growth.after, end.capacity().unwrap());
        assert!(growth.after >= 256 * 1024 || growth.limit.is_some());
        let again = end.grow(4096).unwrap();
        assert_eq!(again.after, growth.after, "growing never shrinks");
        assert_eq!(again.limit, None);
    }

    #[test]
    fn shrinking_below_what_is_queued_is_busy() {
        let pipe = Pipe::new().unwrap();
        let end = of(&pipe.writer).unwrap().unwrap();
        rustix::io::write(&pipe.writer, &vec![0; 8 * sizes::page_size()]).unwrap();
        let error = end.resize(sizes::page_size()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
        assert_eq!(end.queued().unwrap(), 8 * sizes::page_size());
    }
}
