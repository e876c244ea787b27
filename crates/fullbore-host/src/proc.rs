//! Whether /proc is usable, for the verbs that find their own program, or processes that they started,
//! in it.

use std::fs;
use std::process;

use crate::refusal::Unsupported;

/// What a verb needs of /proc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Its own program.
    Program,
    /// Processes by their numbers: those of this PID namespace.
    Processes,
}

/// Checks that /proc has what a verb needs; `purpose` is a clause that says what for.
///
/// # Errors
///
/// Where /proc is not mounted. Where processes are needed, also if /proc belongs to another PID
/// namespace, in which every process has another number.
pub fn check(need: Need, purpose: &str) -> Result<(), Unsupported> {
    let Ok(own) = fs::read_link("/proc/self") else {
        return Err(Unsupported(format!(
            "/proc is not mounted here, and {purpose}; mount it ('mount -t proc proc /proc')"
        )));
    };
    if need == Need::Processes && own.as_os_str() != &*process::id().to_string() {
        return Err(Unsupported(format!(
            "/proc belongs to another PID namespace, and {purpose}; mount one of this namespace ('mount -t \
             proc proc /proc', or 'unshare --mount-proc')"
        )));
    }
    Ok(())
}
