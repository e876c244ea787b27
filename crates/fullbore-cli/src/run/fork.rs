//! A second process of this program, without starting the program again: that would take as long as starting
//! a shell.

#![allow(unsafe_code)]

use nix::unistd::ForkResult;
use rustix::io::Errno;
use rustix::process::Pid;

/// fork(2). The child's number; none in the child.
///
/// # Errors
/// Where there may be no more processes.
pub fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: what is not async-signal-safe may not be called in the child of a process that has other
    // threads, which could hold locks (fork(2), NOTES). This process has only one: `run` is its only verb,
    // and starts none before. (Tests have more; glibc's allocator is made for that, and `bounded` waits
    // for a while only.)
    match unsafe { nix::unistd::fork() } {
        Ok(ForkResult::Parent { child }) => Ok(Pid::from_raw(child.as_raw())),
        Ok(ForkResult::Child) => Ok(None),
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}

/// _exit(2): ends this process without flushing or dropping anything that it shares with its parent.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: it only ends the process.
    unsafe { nix::libc::_exit(code) }
}
