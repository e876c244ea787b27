//! A process that undoes something if the process that started it is killed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::SigSet;
use nix::sys::wait::{WaitPidFlag, waitpid};
use rustix::process::{Pid, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::processes::fork::{exit_at_once, fork_aside};

/// A process that waits for the end of this one.
#[derive(Debug)]
pub struct Guard {
    pid: Pid,
    /// The guard reads the end of the file when this process has ended, whatever has ended it.
    socket: UnixStream,
}

impl Guard {
    /// Starts a process that calls `undo` when this process ends, unless the guard was dropped before.
    /// It has a session of its own, so that signals of the terminal, and for the process group, do not reach
    /// it.
    ///
    /// # Errors
    /// Fails if no more processes or files may be created.
    pub fn start(undo: impl FnOnce()) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let Some(pid) = fork_aside()? else {
            // Who ends this process with all its descendants does not end the guard before it has undone what it has to.
            let _ = SigSet::all().thread_block();
            drop(ours);
            let _ = setsid();
            // It must not hold the pipes of the pipeline that this process is a stage of.
            if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
                let _ = dup2_stdin(&null);
                let _ = dup2_stdout(&null);
                let _ = dup2_stderr(&null);
            }
            // `read_exact` begins again if a signal interrupts it.
            if (&theirs).read_exact(&mut [0]).is_err() {
                undo();
            }
            exit_at_once(0)
        };
        pids(|all| all.push(number(pid)));
        Ok(Self { pid, socket: ours })
    }
}

/// Whether this is a guard of this process. It is none of the processes that were started for the user.
pub fn is_guard(pid: u32) -> bool {
    pids(|all| all.contains(&pid))
}

fn pids<T>(with: impl FnOnce(&mut Vec<u32>) -> T) -> T {
    static GUARDS: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    with(&mut GUARDS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns a PID as a plain number.
pub fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get() as u32
}

impl Drop for Guard {
    /// Ends the guard; nothing is undone.
    fn drop(&mut self) {
        // If it has been killed, there is nobody to be told.
        let _ = self.socket.write_all(&[1]);
        let pid = nix::unistd::Pid::from_raw(self.pid.as_raw_nonzero().get());
        let _ = waitpid(pid, Some(WaitPidFlag::__WALL));
        pids(|all| all.retain(|&guard| guard != number(self.pid)));
    }
}
