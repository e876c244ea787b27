//! What `run` says, and what it says of processes that could not be ended.

use std::sync::OnceLock;
use std::time::Duration;

use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getuid, test_kill_process};

use super::shelf::Shelf;

use crate::processes::ending;
use crate::terminal::lines::say_line;
use fullbore_host::text::clean;

/// Prints a message on stderr. Unlike eprintln!, it does not panic if stderr is closed.
pub fn say(text: &str) {
    let verb = VERB.get().unwrap_or(&"run");
    say_line(format_args!("fullbore {verb}: {text}"));
}

/// The verb that messages begin with, if it is not `run`.
static VERB: OnceLock<&str> = OnceLock::new();

/// Lets messages begin with another verb, which runs one stage as `run` does.
pub fn called(verb: &'static str) {
    let _ = VERB.set(verb);
}

/// Ends all descendants of this process, after all were stopped if asked to, and says which are left.
pub fn end_all(
    shelf: &Shelf,
    are_stopped: bool,
    signal: Signal,
    grace: Duration,
    reap: impl FnMut(),
) {
    let left = shelf.with_all_stopped(are_stopped, |stopped| {
        ending::end_all(signal, grace, stopped, reap)
    });
    say_left(&left, shelf.is_read());
}

/// Says which processes could not be ended, why, and what ends them, if there are any. They wait for input if
/// a pipe of the pipeline still `is_read`.
pub fn say_left(left: &[u32], is_read: bool) {
    let [first, others @ ..] = left else {
        return;
    };
    let [process, they, s, their, them] = match others {
        [] => ["process", "it", "s", "its", "it"],
        _ => ["processes", "they", "", "their", "them"],
    };
    let names: Vec<String> = left.iter().map(|&pid| named(pid)).collect();
    let pids: Vec<String> = left.iter().map(u32::to_string).collect();
    let (names, pids) = (names.join(", "), pids.join(" "));
    let may_not = |pid: &u32| {
        let pid = Pid::from_raw(*pid as i32);
        pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM))
    };
    let (is_all, me) = (left.iter().all(may_not), getuid().as_raw());
    let above = left.iter().find(|pid| may_not(pid)).filter(|_| !is_all);
    let why = match above {
        // What it has started would have been ended, if it would not go on then.
        Some(&above) => format!(
            "{} belongs to {}, and user {me} may not signal it; what it has started is spared, or it would go on",
            named(above),
            owner(above),
        ),
        None if is_all => {
            format!(
                "{they} belong{s} to {}, and user {me} may not signal {them}",
                owner(*first)
            )
        }
        None => format!("{they} did not end after SIGKILL, as in uninterruptible sleep"),
    };
    let kill = match is_all || above.is_some() {
        true => format!("'sudo kill {pids}' ends"),
        false => format!("'ps -o stat,wchan {pids}' shows what holds"),
    };
    let now = match is_read {
        true => format!("{they} still wait{s} for {their} input, and will see no end of it"),
        false => format!("{they} still run{s}"),
    };
    say(&format!(
        "{process} {names} could not be ended: {why}; {now}; {kill} {them}"
    ));
}

/// Returns the PID of a process, and its name if that is known.
fn named(pid: u32) -> String {
    match name(pid) {
        Some(name) => format!("{pid} ({name})"),
        None => pid.to_string(),
    }
}

/// Returns the name of a process, also of one that has ended and was not waited for.
pub fn name(pid: u32) -> Option<String> {
    let stat = Process::new(pid as i32).and_then(|process| process.stat());
    let stat = stat.ok().filter(|_| ending::proc_is_ours())?;
    Some(clean(&stat.comm))
}

fn owner(pid: u32) -> String {
    let status = Process::new(pid as i32).and_then(|process| process.status());
    match status.map(|status| status.ruid) {
        Ok(0) => "root".to_owned(),
        Ok(user) if ending::proc_is_ours() => format!("user {user}"),
        _ => "another user".to_owned(),
    }
}
