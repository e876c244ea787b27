//! Pipes: their capacity in bytes, their queued bytes, and their identity.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::error::{Error, Result, system};
use crate::own::not_standard;

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
///
/// # fork
/// A child of fork(2) has both ends too, until it closes its copy, exits or calls execve(2): until then, a reader sees no
/// end, and a writer no `EPIPE`.
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
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(system("pipe2"))?;
        let both = not_standard(reader).and_then(|reader| {
            Ok(Self {
                reader,
                writer: not_standard(writer)?,
            })
        });
        both.map_err(system("F_DUPFD_CLOEXEC"))
    }
}

/// A view of a file descriptor that is one end of a pipe or FIFO, or both ends if it is open for reading and writing.
///
/// # fork
/// A child of fork(2) may use its copy, which is a view of the same pipe.
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
        let stat = rustix::fs::fstat(fd).map_err(system("fstat"))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
            return Err(Error::NotAPipe);
        }
        // A FIFO opened with O_PATH has the type of a pipe, but pipe operations on it fail.
        match fcntl_getpipe_size(fd) {
            Ok(_) => Ok(Self { fd }),
            Err(Errno::BADF) => Err(Error::NotAPipe),
            Err(errno) => Err(system("F_GETPIPE_SZ")(errno)),
        }
    }

    /// Returns the capacity in bytes (`fcntl(F_GETPIPE_SZ)`).
    ///
    /// # Errors
    /// None that this library knows of, on an fd that is a pipe.
    pub fn capacity(&self) -> Result<usize> {
        fcntl_getpipe_size(self.fd).map_err(system("F_GETPIPE_SZ"))
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
        let bytes = rustix::io::ioctl_fionread(self.fd).map_err(system("FIONREAD"))?;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Returns the identity of the pipe, which is equal for all fds of the same pipe, in any process.
    ///
    /// # Errors
    /// None that this library knows of, on an fd that is a pipe.
    pub fn identity(&self) -> Result<PipeIdentity> {
        let stat = rustix::fs::fstat(self.fd).map_err(system("fstat"))?;
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
        fcntl_setpipe_size(self.fd, bytes).map_err(system("F_SETPIPE_SZ"))?;
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
                Err(errno) => return Err(system("F_SETPIPE_SZ")(errno)),
            }
        }
        Ok(PipeGrowth {
            before,
            after: self.capacity()?,
            limit,
        })
    }
}

impl AsFd for PipeEnd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}

/// Returns the limit that caused an `EPERM` at `target` bytes, and the capacity to try next.
fn next_lower(target: usize) -> (PipeLimit, usize) {
    match limit("pipe-max-size") {
        Some(max) if target > max => (PipeLimit::PipeMaxSize(max), max),
        // Below pipe-max-size, the limit is that of all pipes of the user: the lower one of two, of which 0 is none
        // (pipe_set_size, fs/pipe.c).
        _ => {
            let some = |pages: &usize| *pages > 0;
            let soft = limit("pipe-user-pages-soft");
            let hard = limit("pipe-user-pages-hard").filter(some);
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

/// Returns the number in this file of /proc/sys/fs.
fn limit(name: &str) -> Option<usize> {
    let number = std::fs::read_to_string(format!("/proc/sys/fs/{name}"));
    number.ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_tried_from_the_top() {
        let max = limit("pipe-max-size").unwrap();
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
