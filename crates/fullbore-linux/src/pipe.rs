//! Pipes: their capacity in bytes and in slots, their queued bytes, and their identity.
//!
//! A pipe is a ring of *slots*, each of which refers to a run of bytes in one page or compound page (`struct
//! pipe_buffer`, `include/linux/pipe_fs_i.h`). Its *capacity* is its number of slots times the size of a base page. A
//! write of one byte can use a whole slot, and a slot can refer to more than a page, so a full pipe can hold fewer
//! bytes than its capacity, or more.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

use crate::error::{self, Error, Result};
use crate::geometry::Geometry;
use crate::own::new_pipe;
use crate::sizes;

/// The default capacity that output pipes and private pipes are grown to: the largest that an unprivileged user may
/// have, and less in a small memory cgroup, which is charged for the pages in its pipes.
pub fn roomy() -> usize {
    Geometry::here().pipe(1024 * 1024)
}

/// Both ends of a pipe.
///
/// ```
/// use std::os::fd::AsFd;
/// let pipe = fullbore::Pipe::new()?;
/// let writer = fullbore::PipeEnd::new(pipe.writer.as_fd())?;
/// rustix::io::write(&pipe.writer, b"hello")?;
/// assert_eq!(writer.queued()?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pipe {
    /// The end that bytes are read from.
    pub reader: OwnedFd,
    /// The end that bytes are written to.
    pub writer: OwnedFd,
}

impl Pipe {
    /// Creates a pipe of the default capacity with `pipe2(O_CLOEXEC)`: 16 slots, which is 64 KiB with pages of 4 KiB,
    /// and less for a user beyond pipe-user-pages-soft (pipe(7)).
    ///
    /// # Errors
    /// `EMFILE` or `ENFILE` if there are too many open files, or the user has reached
    /// pipe-user-pages-hard.
    pub fn new() -> Result<Self> {
        let (reader, writer) = new_pipe()?;
        Ok(Self { reader, writer })
    }
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

/// A view of a file descriptor that is one end of a pipe or FIFO, or both ends if it is open for reading and writing.
#[derive(Debug, Clone, Copy)]
pub struct PipeEnd<'fd> {
    fd: BorrowedFd<'fd>,
}

impl<'fd> PipeEnd<'fd> {
    /// Returns the view of `fd`.
    ///
    /// # Errors
    /// [`Error::NotAPipe`] if it is not a pipe; `EBADF`.
    pub fn new(fd: BorrowedFd<'fd>) -> Result<Self> {
        let stat = rustix::fs::fstat(fd).map_err(error::system("fstat"))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
            return Err(Error::NotAPipe);
        }
        // A FIFO opened with O_PATH has the type of a pipe, but pipe operations on it fail.
        match fcntl_getpipe_size(fd) {
            Ok(_) => Ok(Self { fd }),
            Err(Errno::BADF) => Err(Error::NotAPipe),
            Err(errno) => Err(error::system("F_GETPIPE_SZ")(errno)),
        }
    }

    /// Returns the capacity in bytes (`fcntl(F_GETPIPE_SZ)`).
    ///
    /// # Errors
    /// None that this library knows of, on an fd that is a pipe.
    pub fn capacity(&self) -> Result<usize> {
        fcntl_getpipe_size(self.fd).map_err(error::system("F_GETPIPE_SZ"))
    }

    /// Returns the number of bytes in the pipe now (`ioctl(FIONREAD)`), from either end.
    ///
    /// Bytes that a reader has copied or spliced out are not included; of a partly read page, only the rest is counted
    /// (`pipe_ioctl`, `fs/pipe.c`).
    ///
    /// # Errors
    /// None that this library knows of, on an fd that is a pipe.
    #[inline]
    pub fn queued(&self) -> Result<usize> {
        let bytes = rustix::io::ioctl_fionread(self.fd).map_err(error::system("FIONREAD"))?;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Returns the identity of the pipe, which is equal for all fds of the same pipe, in any process.
    ///
    /// # Errors
    /// None that this library knows of, on an fd that is a pipe.
    pub fn identity(&self) -> Result<PipeIdentity> {
        let stat = rustix::fs::fstat(self.fd).map_err(error::system("fstat"))?;
        Ok(PipeIdentity {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }

    /// Sets the capacity to `bytes`, which the kernel rounds up to a power of two of pages (`fcntl(F_SETPIPE_SZ)`), and
    /// returns the new capacity in bytes.
    ///
    /// # Errors
    /// `EPERM` above the user's limits; `EBUSY` if the queued bytes use more slots than that.
    pub fn resize(&self, bytes: usize) -> Result<usize> {
        fcntl_setpipe_size(self.fd, bytes).map_err(error::system("F_SETPIPE_SZ"))?;
        self.capacity()
    }

    /// Grows the pipe up to `bytes`, as far as the user's limits allow. It is never shrunk.
    ///
    /// Capacities count against `/proc/sys/fs/pipe-user-pages-soft`, 64 MiB for all pipes of an unprivileged user:
    /// beyond that, new pipes of this user have one or two pages.
    ///
    /// Grow a pipe only if you *write* to it: its writer may infer from the capacity when a page is free, and then a
    /// reader that enlarges the pipe corrupts the bytes that it reads.
    ///
    /// # Errors
    /// Errors other than a limit, such as `ENOMEM`.
    pub fn grow(&self, bytes: usize) -> Result<PipeGrowth> {
        let before = self.capacity()?;
        let mut limit = None;
        let mut target = bytes;
        while target > self.capacity()? {
            match fcntl_setpipe_size(self.fd, target) {
                Ok(_) => break,
                Err(Errno::PERM) => {
                    let (found, next) = next_lower(target);
                    limit = Some(found);
                    target = next;
                }
                Err(Errno::BUSY) => {
                    limit = Some(PipeLimit::Busy);
                    break;
                }
                Err(errno) => return Err(error::system("F_SETPIPE_SZ")(errno)),
            }
        }
        Ok(PipeGrowth {
            before,
            after: self.capacity()?,
            limit,
        })
    }
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

/// Returns the capacity in slots: the number of runs of bytes that the pipe can refer to.
///
/// # Errors
/// As [`PipeEnd::capacity`].
pub fn slots(pipe: PipeEnd<'_>) -> Result<usize> {
    Ok(pipe.capacity()? / sizes::page_size())
}

/// Returns whether this end of a pipe can be written to.
///
/// # Errors
/// None that this library knows of.
pub fn is_writer(pipe: PipeEnd<'_>) -> Result<bool> {
    let flags = rustix::fs::fcntl_getfl(pipe.fd).map_err(error::system("F_GETFL"))?;
    let mode = flags & OFlags::RWMODE;
    Ok(mode == OFlags::WRONLY || mode == OFlags::RDWR)
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
    if is_writer(PipeEnd::new(sink)?)? {
        Ok(())
    } else {
        Err(error::system("vmsplice")(Errno::BADF))
    }
}

/// Returns the limit that caused an `EPERM` at `target` bytes, and the capacity to try next.
fn next_lower(target: usize) -> (PipeLimit, usize) {
    match sizes::pipe_max_size() {
        Some(max) if target > max => (PipeLimit::PipeMaxSize(max), max),
        // Below pipe-max-size, the limit is that of all pipes of the user: the lower one of two, of which 0 is none
        // (pipe_set_size, fs/pipe.c).
        _ => {
            let some = |pages: &usize| *pages > 0;
            let soft = sizes::pipe_user_pages_soft();
            let hard = sizes::pipe_user_pages_hard().filter(some);
            let is_hard = |hard: &usize| soft.filter(some).is_none_or(|soft| *hard <= soft);
            let limit = match hard.filter(is_hard) {
                Some(hard) => PipeLimit::PipeUserPagesHard(hard),
                None => PipeLimit::PipeUserPages(soft),
            };
            (limit, target / 2)
        }
    }
}

/// The result of growing a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PipeGrowth {
    /// Capacity in bytes before.
    pub before: usize,
    /// Capacity in bytes now.
    pub after: usize,
    /// The limit that kept it below the requested capacity, if any.
    pub limit: Option<PipeLimit>,
}

/// The limit that kept a pipe from growing further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PipeLimit {
    /// `/proc/sys/fs/pipe-max-size`, with its value in bytes.
    PipeMaxSize(usize),
    /// `/proc/sys/fs/pipe-user-pages-soft`, which limits all pipes of this user; with its value in pages, if it can be
    /// read.
    PipeUserPages(Option<usize>),
    /// `/proc/sys/fs/pipe-user-pages-hard`, with its value in pages: it is not above the soft limit.
    PipeUserPagesHard(usize),
    /// The queued bytes would not fit (`EBUSY`).
    Busy,
}

impl fmt::Display for PipeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PipeLimit::PipeMaxSize(bytes) => {
                write!(f, "/proc/sys/fs/pipe-max-size is {bytes} bytes")
            }
            PipeLimit::PipeUserPages(Some(pages)) => write!(
                f,
                "this user's pipes hold what /proc/sys/fs/pipe-user-pages-soft allows ({pages} pages)"
            ),
            PipeLimit::PipeUserPagesHard(pages) => write!(
                f,
                "this user's pipes hold what /proc/sys/fs/pipe-user-pages-hard allows ({pages} pages)"
            ),
            PipeLimit::PipeUserPages(None) => {
                f.write_str("this user may not enlarge pipes further")
            }
            PipeLimit::Busy => f.write_str("more is queued than would fit"),
        }
    }
}

/// The device and inode of a pipe, which are equal only for fds of the same pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PipeIdentity {
    /// The device number of the file system (pipefs, or the one that contains the FIFO).
    pub device: u64,
    /// The inode number of the pipe in that file system.
    pub inode: u64,
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_new_pipe_has_a_slot_for_each_page_of_its_capacity() {
        let pipe = Pipe::new().unwrap();
        let end = of(&pipe.reader).unwrap().unwrap();
        assert_eq!(
            slots(end).unwrap() * sizes::page_size(),
            end.capacity().unwrap()
        );
    }

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
        let end = of(&both).unwrap().unwrap();
        assert!(is_writer(end).unwrap());
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
        let end = |fd| is_writer(of(fd).unwrap().unwrap()).unwrap();
        assert!(end(&one.writer) && !end(&one.reader));
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

    #[test]
    fn limits_are_tried_from_the_top() {
        let max = sizes::pipe_max_size().unwrap();
        assert_eq!(next_lower(max * 4), (PipeLimit::PipeMaxSize(max), max));
        let (limit, next) = next_lower(max);
        let is_of_user = |limit| {
            matches!(
                limit,
                PipeLimit::PipeUserPages(_) | PipeLimit::PipeUserPagesHard(_)
            )
        };
        assert!(is_of_user(limit));
        assert_eq!(next, max / 2);
    }
}
