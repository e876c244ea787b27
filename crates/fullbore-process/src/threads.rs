//! The thread whose files in /proc describe a process.
//!
//! A process continues when only its main thread exits (pthread_exit(3) in `main`). Its files below `/proc/PID` are
//! then those of a zombie: `fd` is empty, and, like `io` and others, owned by root. `/proc/TID` of another thread has
//! them, though readdir(3) of /proc does not list it.

use std::fs;
use std::path::PathBuf;

/// Returns a running thread of a process: the main thread if possible. `None` if the process has exited, or may not be
/// inspected.
pub fn live_thread(process: u32) -> Option<u32> {
    let tasks = format!("/proc/{process}/task");
    let lives = |thread: &u32| {
        let stat = fs::read(format!("{tasks}/{thread}/stat")).unwrap_or_default();
        // The state follows the name in parentheses, which may contain any byte (proc_pid_stat(5)).
        let name = stat.iter().rposition(|&byte| byte == b')');
        let state = name.and_then(|end| stat.get(end + 2));
        state.is_some_and(|state| !b"ZXx".contains(state))
    };
    let others = || {
        let names = fs::read_dir(&tasks).ok()?.flatten();
        let mut threads = names.filter_map(|task| task.file_name().to_str()?.parse().ok());
        threads.find(lives)
    };
    Some(process).filter(lives).or_else(others)
}

/// Returns the directory in /proc whose `fd`, `fdinfo`, `io` and `exe` are those of this process: `/proc/PID`, or
/// `/proc/TID` of another thread if the main thread has exited.
pub fn proc_directory(process: u32) -> PathBuf {
    format!("/proc/{}", live_thread(process).unwrap_or(process)).into()
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn a_process_without_its_first_thread_has_its_descriptors() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let command = fullbore_tests::without_first_thread();
        let Some(mut child) = command.and_then(|mut command| command.stdout(writer).spawn().ok())
        else {
            return;
        };
        fullbore_tests::wait_for_end_of_first_thread(child.id());
        let thread = live_thread(child.id()).unwrap();
        assert_ne!(thread, child.id());
        let stdout = fs::read_link(proc_directory(child.id()).join("fd/1")).unwrap();
        assert!(stdout.to_str().unwrap().starts_with("pipe:["), "{stdout:?}");
        child.kill().unwrap();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), ended).unwrap();
        assert_eq!(live_thread(child.id()), None, "it is a zombie");
        child.wait().unwrap();
        assert_eq!(live_thread(child.id()), None);
        assert_eq!(live_thread(std::process::id()), Some(std::process::id()));
    }
}
