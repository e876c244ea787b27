//! Users other than the one who runs the tests: a command that they may run, and using up their limit on
//! pipes; and what a process inherits.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use nix::libc;
use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, Signal};

use super::*;

/// A copy of the command that every user may run, in a directory that is removed when this value is
/// dropped.
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
        copy_program(FULLBORE, &path);
        Self { path, directory }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the command with the options in `words`, run as that user.
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
        with_usual_signals(&mut command);
        command
    }
}

/// Returns the id of a user of whom no other test makes pipes: each that does has a number of its own, and another run
/// of these tests at the same time has another PID.
pub fn nobody_else(number: u32) -> u32 {
    1_000_000 + 10 * std::process::id() + number
}

/// Returns whether /proc is mounted such that it hides processes from other users (proc(5), `hidepid`).
pub fn others_are_hidden() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let proc = mounts
        .lines()
        .rfind(|mount| mount.split(' ').nth(1) == Some("/proc"));
    proc.is_some_and(|mount| mount.contains("hidepid=invisible") || mount.contains("hidepid=2"))
}

/// Makes pipes, as large as is allowed, until new ones get smaller, and leaves them open for the
/// program that is about to start.
pub fn hold_pipes() -> io::Result<()> {
    let mut usual = 0;
    loop {
        let (reader, writer) = rustix::pipe::pipe()?;
        let capacity = rustix::pipe::fcntl_getpipe_size(&writer)?;
        // Growing is refused near the limit, and pipes of the default size then use up the rest.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20);
        std::mem::forget((reader, writer));
        if capacity < usual {
            return Ok(());
        }
        usual = capacity;
    }
}

/// Makes the command start without ignored signals. If a script runs these tests in the background,
/// SIGINT and SIGQUIT are ignored, and the processes that the tests start would inherit that.
pub fn with_usual_signals(command: &mut Command) -> &mut Command {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(handle_ignored_signals);
    command
}

/// Handles, by doing nothing, every signal that this process ignores: exec(2) gives such a signal its default
/// action. To do so in each child, before exec(2), would mean to copy the page tables of the tests each time.
fn handle_ignored_signals() {
    extern "C" fn do_nothing(_: libc::c_int) {}
    let handled = SigAction::new(
        SigHandler::Handler(do_nothing),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ] {
        // SAFETY: the handler does nothing.
        let before = unsafe { signal::sigaction(signal, &handled) }.unwrap();
        if before.handler() != SigHandler::SigIgn {
            // SAFETY: this action was there before.
            unsafe { signal::sigaction(signal, &before) }.unwrap();
        }
    }
}

/// Has malloc(3) unmap what is freed: fork(2) copies the page tables of all memory that is mapped.
pub fn keep_no_freed_memory() {
    // SAFETY: it only changes a threshold.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10)
    };
}

/// Has exec close all files that are open now, except stdin, stdout and stderr. The program that runs the
/// tests may have left pipes open.
pub fn inherit_nothing() -> std::io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: u32 = 1 << 2;
    // SAFETY: it touches no memory.
    match unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
