//! Creates a second process of this program with fork(2). Starting the program again would take as long as
//! starting a shell.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use nix::unistd::ForkResult;
use rustix::io::Errno;
use rustix::process::Pid;

/// Calls fork(2), and returns the child's PID in the parent and `None` in the child.
///
/// # Errors
/// Fails if no more processes may be created.
pub fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: what is not async-signal-safe may not be called in the child of a process that has other
    // threads, which could hold locks (fork(2), NOTES). This process has only one: what forks does so before it
    // starts any. (Tests have more: glibc's allocator is made for that, and they hold `FORKING` while they do this.)
    match unsafe { nix::unistd::fork() } {
        Ok(ForkResult::Parent { child }) => Ok(Pid::from_raw(child.as_raw())),
        Ok(ForkResult::Child) => Ok(None),
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}

/// As [`fork`], for a process that is no part of what this process does: no wait for children sees it, unless that asks
/// for it (`__WALL`, wait(2)), and no signal tells of its end.
///
/// # Errors
/// As [`fork`].
pub fn fork_aside() -> Result<Option<Pid>, Errno> {
    // SAFETY: as in `fork`. Without flags, the child has a copy of everything, and goes on here with the same stack. The
    // C library only remembers the id of the parent's thread, which nothing in the child asks for.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)),
        child => Ok(Pid::from_raw(child as i32)),
    }
}

/// Ends this process with _exit(2), without flushing or dropping anything that it shares with its parent.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: it only ends the process.
    unsafe { libc::_exit(code) }
}

/// Closes all files of this process but these, for a fork that ends with [`exit_at_once`]: nothing may use another
/// descriptor afterwards.
pub fn close_all_but(kept: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> = kept.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut from = 0;
    for end in kept.into_iter().map(Some).chain([None]) {
        let last = end.map_or(Some(u32::MAX), |end| end.checked_sub(1));
        if let Some(last) = last.filter(|&last| last >= from) {
            close_range(from, last);
        }
        from = end.map_or(u32::MAX, |end| end + 1);
    }
}

fn close_range(from: u32, last: u32) {
    // SAFETY: the caller uses none of these descriptors any more.
    if unsafe { libc::syscall(libc::SYS_close_range, from, last, 0) } == -1 {
        // A kernel before 5.9. Programs have few open files.
        for fd in from..=last.min(4096) {
            // SAFETY: as above.
            unsafe { libc::close(fd as i32) };
        }
    }
}
