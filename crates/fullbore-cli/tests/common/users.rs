//! Users other than the one who tests: what they may run, and how their pipes run out; and what a process
//! inherits.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use nix::libc;

use super::*;

/// A copy of the command that everybody may run, in a directory that goes with this value.
pub struct ForEverybody {
    path: PathBuf,
    directory: tempfile::TempDir,
}

impl ForEverybody {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).unwrap();
        let path = directory.path().join("fullbore");
        std::fs::copy(FULLBORE, &path).unwrap();
        Self { path, directory }
    }

    /// The command with the options in `words`, as that user.
    pub fn command(&self, user: u32, words: &str) -> Command {
        let mut command = Command::new(&self.path);
        command
            .args(words.split_whitespace())
            .current_dir(self.directory.path())
            .uid(user)
            .gid(user)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command
    }
}

/// Makes pipes, as large as they may be, until new ones shrink, and leaves them to the program
/// that is about to start.
pub fn hold_pipes() -> io::Result<()> {
    let mut usual = 0;
    loop {
        let (reader, writer) = rustix::pipe::pipe()?;
        let capacity = rustix::pipe::fcntl_getpipe_size(&writer)?;
        // It is refused near the limit, and smaller pipes then fill what is left.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20);
        std::mem::forget((reader, writer));
        if capacity < usual {
            return Ok(());
        }
        usual = capacity;
    }
}

/// Lets a program be interrupted: what a script starts in the background begins with SIGINT and SIGQUIT
/// ignored, and so does all that it starts, the tests too.
pub fn heeds_signals(command: &mut Command) {
    let default = || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: it touches no memory, and may be called between fork and exec (signal-safety(7)).
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(default) };
}

/// Closes all but stdin, stdout and stderr at exec: whoever runs the tests may have left pipes open.
pub fn inherit_nothing() -> std::io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: u32 = 1 << 2;
    // SAFETY: it touches no memory.
    match unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
