//! Runs the user's command line: to its end, for a limited time, or until Ctrl-C.

use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, set_child_subreaper};

use crate::processes::ending;
use crate::processes::interrupt::Interrupt;
use crate::processes::waiting::wait_for;
use crate::run::Failure;

/// The interval at which Ctrl-C and the time limit are checked.
const INTERVAL: Duration = Duration::from_millis(50);

/// How long processes that are asked to end may take before they are killed.
const GRACE: Duration = Duration::from_millis(500);

/// Returns the command; a single word with characters that only a shell interprets is run by the
/// shell.
pub fn command(words: &[String]) -> Command {
    let is_of_shell = |c: char| c.is_whitespace() || "|&;<>()$`\\\"'*?[#~=%".contains(c);
    let words: Vec<&str> = match words {
        [line] if line.contains(is_of_shell) => vec!["sh", "-c", line],
        words => words.iter().map(String::as_str).collect(),
    };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// Runs the command line.
///
/// # Errors
/// Fails if it cannot be started.
pub fn run(
    words: &[String],
    at_most: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Option<ExitStatus>> {
    ending::require_waiting()?;
    // With this attribute, a process whose parent has ended remains below this one, and is found
    // at the end.
    let _ = set_child_subreaper(Some(getpid()));
    let began = Instant::now();
    let mut command = command(words);
    let child = command.spawn();
    let mut child = child.map_err(|error| Failure::of_program(command.get_program(), &error))?;
    ending::note_started(child.id());
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    // A kernel before 5.3 has none.
    let fds: Vec<_> = pidfd.iter().map(AsFd::as_fd).collect();
    loop {
        // A signal is meant to end the wait early.
        wait_for(&fds, Some(INTERVAL));
        let ended = child.try_wait().context("wait for the command")?;
        if interrupt.came() {
            end_all(&mut child);
            interrupt.obey();
        }
        if ended.is_some() {
            return Ok(ended);
        }
        if at_most.is_some_and(|most| began.elapsed() >= most) {
            end_all(&mut child);
            return Ok(None);
        }
    }
}

/// Ends everything below this process.
fn end_all(child: &mut Child) {
    ending::end_all(Signal::TERM, GRACE, None, || {
        let _ = child.try_wait();
        // Those that have lost their parents are children of this process.
        ending::reap_all();
    });
}
