//! Runs the user's command line: to its end, for a limited time, or until Ctrl-C.

use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, set_child_subreaper, waitpid,
};

use crate::ending;
use crate::interrupt::Interrupt;
use crate::run::Failure;

/// The interval at which Ctrl-C and the time limit are checked.
const INTERVAL: Duration = Duration::from_millis(50);

/// How long processes that are asked to end may take before they are killed.
const GRACE: Duration = Duration::from_millis(500);

/// Returns the command; a single word with characters that only a shell interprets is run by the
/// shell.
pub fn command(words: &[String]) -> Command {
    match words {
        [line]
            if line
                .contains(|c: char| c.is_whitespace() || "|&;<>()$`\\\"'*?[#~=%".contains(c)) =>
        {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]);
            shell
        }
        words => {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        }
    }
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
    // With this attribute, a process whose parent has ended remains below this one, and is found
    // at the end.
    let _ = set_child_subreaper(Some(getpid()));
    let began = Instant::now();
    let mut command = command(words);
    let mut child = command
        .spawn()
        .map_err(|error| Failure::of_program(command.get_program(), &error))?;
    ending::note_started(child.id());
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    loop {
        match &pidfd {
            Ok(pidfd) => wait(pidfd.as_fd()),
            Err(_) => thread::sleep(INTERVAL),
        }
        if let Some(status) = child.try_wait().context("wait for the command")? {
            if interrupt.came() {
                end_all(&mut child);
                interrupt.obey();
            }
            return Ok(Some(status));
        }
        if interrupt.came() {
            end_all(&mut child);
            interrupt.obey();
        }
        if at_most.is_some_and(|most| began.elapsed() >= most) {
            end_all(&mut child);
            return Ok(None);
        }
    }
}

fn wait(fd: rustix::fd::BorrowedFd<'_>) {
    let interval = Timespec::try_from(INTERVAL).expect("it is short");
    // A signal is meant to end the wait early.
    let _ = poll(
        &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
        Some(&interval),
    );
}

/// Ends everything below this process.
fn end_all(child: &mut Child) {
    ending::end_all(Signal::TERM, GRACE, || {
        let _ = child.try_wait();
        // Those that have lost their parents are children of this process.
        while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {}
    });
}
