//! Whether /proc is usable, for all that find their own program, or processes, in it.

use std::fs;
use std::process;

use rustix::fs::{PROC_SUPER_MAGIC, statfs};

use crate::refusal::Unsupported;

/// What is needed of /proc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// That it is mounted, for whichever PID namespace.
    Mounted,
    /// Its own program.
    Program,
    /// Processes by their numbers: those of this PID namespace.
    Processes,
}

/// Checks that /proc has what is needed; `purpose` is a clause that says what for.
///
/// # Errors
///
/// Where /proc is not mounted. Where this program or processes are needed, also if /proc belongs to a PID
/// namespace in which this process is not seen, or has another number.
pub fn check(need: Need, purpose: &str) -> Result<(), Unsupported> {
    let found = statfs("/proc");
    if !found.is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC) {
        return Err(Unsupported(format!(
            "/proc is not mounted here, and {purpose}; mount it ('mount -t proc proc /proc')"
        )));
    }
    let own = fs::read_link("/proc/self").ok();
    let is_usable = match need {
        Need::Mounted => true,
        Need::Program => own.is_some(),
        Need::Processes => own.is_some_and(|own| own.as_os_str() == &*process::id().to_string()),
    };
    if !is_usable {
        return Err(Unsupported(format!(
            "/proc belongs to another PID namespace, and {purpose}; mount one of this namespace ('mount -t \
             proc proc /proc', or 'unshare --mount-proc')"
        )));
    }
    Ok(())
}
