//! Pipes: capacity, slots, queued bytes, identity.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;

use fullbore::{PipeEnd, PipeGrowth, PipeLimit};

use crate::arguments::{fd, place};
use crate::call::{Failure, fullbore_error, number, status};

/// No limit kept a pipe from growing to the requested capacity.
pub const FULLBORE_LIMIT_NONE: i32 = 0;
/// /proc/sys/fs/pipe-max-size kept a pipe from growing further; `limit_is` is its value in bytes.
pub const FULLBORE_LIMIT_PIPE_MAX_SIZE: i32 = 1;
/// /proc/sys/fs/pipe-user-pages-soft (or -hard), which limits all pipes of a user, kept a pipe from growing further;
/// `limit_is` is the soft limit in pages, or -1 if it cannot be read.
pub const FULLBORE_LIMIT_PIPE_USER_PAGES: i32 = 2;
/// The queued bytes would not fit.
pub const FULLBORE_LIMIT_BUSY: i32 = 3;
/// Another limit, for which this version has no name.
pub const FULLBORE_LIMIT_OTHER: i32 = 4;

/// The result of growing a pipe.
#[repr(C)]
pub struct fullbore_growth {
    /// Capacity in bytes before.
    pub before: u64,
    /// Capacity in bytes now.
    pub after: u64,
    /// The value of the limit; -1 if it has none.
    pub limit_is: i64,
    /// The limit that kept the pipe below the requested capacity: FULLBORE_LIMIT_...
    pub limit: i32,
    /// 0.
    pub reserved: i32,
}

/// The identity of a pipe: equal for two file descriptors only if they refer to the same pipe, in any process.
#[repr(C)]
pub struct fullbore_pipe_identity {
    /// The device number of its file system, as in `struct stat`.
    pub device: u64,
    /// Its inode number in that file system.
    pub inode: u64,
}

fn growth_of(growth: PipeGrowth) -> fullbore_growth {
    let known = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let (limit, limit_is) = match growth.limit {
        None => (FULLBORE_LIMIT_NONE, -1),
        Some(PipeLimit::PipeMaxSize(bytes)) => (FULLBORE_LIMIT_PIPE_MAX_SIZE, known(bytes)),
        Some(PipeLimit::PipeUserPages(pages)) => {
            (FULLBORE_LIMIT_PIPE_USER_PAGES, pages.map_or(-1, known))
        }
        Some(PipeLimit::Busy) => (FULLBORE_LIMIT_BUSY, -1),
        Some(_) => (FULLBORE_LIMIT_OTHER, -1),
    };
    fullbore_growth {
        before: growth.before as u64,
        after: growth.after as u64,
        limit_is,
        limit,
        reserved: 0,
    }
}

fn end(
    pipe: c_int,
    work: impl FnOnce(PipeEnd<'_>) -> fullbore::Result<usize>,
) -> Result<u64, Failure> {
    Ok(work(PipeEnd::new(fd("pipe", pipe)?)?)? as u64)
}

/// Creates a pipe with pipe2(O_CLOEXEC), and grows it up to `bytes`, as far as the user's limits allow; 0 leaves it as
/// it is, at 64 KiB with pages of 4 KiB.
///
/// `fds` points to room for two descriptors: `fds[0]` is set to the read end, `fds[1]` to the write end. The caller
/// closes both. `growth` gets the resulting capacity, and may be NULL.
///
/// Returns 0; -EMFILE or -ENFILE as pipe2(2); -EINVAL if `fds` is NULL.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe(
    fds: *mut c_int,
    bytes: usize,
    growth: Option<&mut MaybeUninit<fullbore_growth>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        if fds.is_null() {
            return Err(Failure::invalid(
                "the place for the file descriptors is NULL",
            ));
        }
        let (pipe, grown) = fullbore_linux::pipe::with_capacity(bytes)?;
        if let Some(growth) = growth {
            growth.write(growth_of(grown));
        }
        let ends = [pipe.reader.into_raw_fd(), pipe.writer.into_raw_fd()];
        // SAFETY: it is not null, and the header requires room for two numbers.
        unsafe { fds.cast::<[c_int; 2]>().write(ends) };
        Ok(0)
    })
}

/// Returns 1 if `pipe` is a pipe or a FIFO, 0 if it is not, or -EBADF if it is not open.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_is_pipe(pipe: c_int, error: Option<&mut fullbore_error>) -> c_int {
    status(error, || {
        Ok(fullbore_linux::pipe::of(&fd("pipe", pipe)?)?
            .is_some()
            .into())
    })
}

/// Returns 1 if `pipe` can be written to, 0 if it cannot; -EBADF if it is not open; -EINVAL if it is not
/// a pipe.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_is_writer(
    pipe: c_int,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        Ok(fullbore_linux::pipe::is_writer(PipeEnd::new(fd("pipe", pipe)?)?)?.into())
    })
}

/// Returns the capacity of a pipe in bytes (F_GETPIPE_SZ); -EBADF if `pipe` is not open; -EINVAL if it is
/// not a pipe.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_capacity(pipe: c_int, error: Option<&mut fullbore_error>) -> i64 {
    number(error, || end(pipe, |end| end.capacity()))
}

/// Returns the capacity of a pipe in slots: the number of runs of bytes that it can refer to, each at
/// most a page or compound page. -EBADF if `pipe` is not open; -EINVAL if it is not a pipe.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_slots(pipe: c_int, error: Option<&mut fullbore_error>) -> i64 {
    number(error, || end(pipe, fullbore_linux::pipe::slots))
}

/// Returns the number of bytes in a pipe now (FIONREAD), from either end; -EBADF if `pipe` is not open; -EINVAL if it
/// is not a pipe.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_queued(pipe: c_int, error: Option<&mut fullbore_error>) -> i64 {
    number(error, || end(pipe, |end| end.queued()))
}

/// Stores the identity of a pipe in `*identity`.
///
/// Returns 0; -EBADF if `pipe` is not open; -EINVAL if it is not a pipe, or `identity` is NULL.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_identify(
    pipe: c_int,
    identity: Option<&mut MaybeUninit<fullbore_pipe_identity>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        let place = place("identity", identity)?;
        let identity = PipeEnd::new(fd("pipe", pipe)?)?.identity()?;
        place.write(fullbore_pipe_identity {
            device: identity.device,
            inode: identity.inode,
        });
        Ok(0)
    })
}

/// Sets the capacity of a pipe to `bytes`, which the kernel rounds up to a power of two of pages
/// (F_SETPIPE_SZ).
///
/// Returns the new capacity in bytes; -EPERM above the user's limits; -EBUSY if the queued bytes use more slots than
/// that; -EBADF if `pipe` is not open; -EINVAL if it is not a pipe, for 0, and for 2 GiB or more.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_resize(
    pipe: c_int,
    bytes: usize,
    error: Option<&mut fullbore_error>,
) -> i64 {
    number(error, || {
        if bytes == 0 || i32::try_from(bytes).is_err() {
            let message = format!("a pipe cannot have {bytes} bytes");
            return Err(Failure::invalid(message));
        }
        end(pipe, |end| end.resize(bytes))
    })
}

/// Grows a pipe up to `bytes`, as far as the user's limits allow. It is never shrunk. A limit is not an error:
/// `growth`, which may be NULL, gets the resulting capacity, and the limit.
///
/// Grow a pipe only if you write to it: another writer may infer from the capacity when a page is free. All pipes of an
/// unprivileged user may have 64 MiB together (/proc/sys/fs/pipe-user-pages-soft); beyond that, new pipes of this user
/// have one or two pages.
///
/// Returns 0; -EBADF if `pipe` is not open; -EINVAL if it is not a pipe; -ENOMEM.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_grow(
    pipe: c_int,
    bytes: usize,
    growth: Option<&mut MaybeUninit<fullbore_growth>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        let grown = PipeEnd::new(fd("pipe", pipe)?)?.grow(bytes)?;
        if let Some(growth) = growth {
            growth.write(growth_of(grown));
        }
        Ok(0)
    })
}
