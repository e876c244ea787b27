//! Pipes: their capacity, and their queued bytes.

use std::ffi::c_int;
use std::os::fd::IntoRawFd;

use fullbore::PipeEnd;

use crate::arguments::fd;
use crate::call::{Failure, fullbore_error, number, status};

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
/// closes both. fullbore_pipe_capacity returns the resulting capacity.
///
/// Returns 0; -EMFILE or -ENFILE as pipe2(2); -EINVAL if `fds` is NULL.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe(
    fds: *mut c_int,
    bytes: usize,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        if fds.is_null() {
            return Err(Failure::invalid(
                "the place for the file descriptors is NULL",
            ));
        }
        let (pipe, _) = fullbore_linux::pipe::with_capacity(bytes)?;
        let ends = [pipe.reader.into_raw_fd(), pipe.writer.into_raw_fd()];
        // SAFETY: it is not null, and the header requires room for two numbers.
        unsafe { fds.cast::<[c_int; 2]>().write(ends) };
        Ok(0)
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

/// Returns the number of bytes in a pipe now (FIONREAD), from either end; -EBADF if `pipe` is not open; -EINVAL if it
/// is not a pipe.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_queued(pipe: c_int, error: Option<&mut fullbore_error>) -> i64 {
    number(error, || end(pipe, |end| end.queued()))
}

/// Grows a pipe up to `bytes`, as far as the user's limits allow. It is never shrunk. A limit is not an error.
///
/// Grow a pipe only if you write to it: another writer may infer from the capacity when a page is free. All pipes of an
/// unprivileged user may have 64 MiB together (/proc/sys/fs/pipe-user-pages-soft); beyond that, new pipes of this user
/// have one or two pages.
///
/// Returns the capacity in bytes; -EBADF if `pipe` is not open; -EINVAL if it is not a pipe; -ENOMEM.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_pipe_grow(
    pipe: c_int,
    bytes: usize,
    error: Option<&mut fullbore_error>,
) -> i64 {
    number(error, || end(pipe, |end| Ok(end.grow(bytes)?.after)))
}
