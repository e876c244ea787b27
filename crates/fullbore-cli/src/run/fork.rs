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
    // and starts none before.
    match unsafe { nix::unistd::fork() } {
        Ok(ForkResult::Parent { child }) => Ok(Pid::from_raw(child.as_raw())),
        Ok(ForkResult::Child) => Ok(None),
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}
