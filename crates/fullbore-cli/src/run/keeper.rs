//! The process that was called. It forks: the child is the runner, which runs the pipeline, and this one
//! waits for it.
//!
//! Each of the two holds one end of a socket. When the keeper is gone, the runner reads the end of the file
//! and ends everything below it. When the runner is gone without having said that it is done, the keeper
//! ends everything below it: as a subreaper it has become the parent of what the runner has left. SIGKILL
//! for either of them is therefore no way to leave something behind.

use std::io::{Read, Write, stderr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use rustix::thread::set_name;

use super::failure::FAILED;
use super::fork::fork;
use super::runner::{GRACE, TO_STOP, wait_for};
use super::signals::{Signals, die_of, is_ending, is_stopped, stop};
use crate::ending;
use crate::terminal::footer;

/// How long the runner may take to end the pipeline when it is told to.
const PATIENCE: Duration = GRACE.saturating_mul(3);

/// Forks, has the child do `run` as the runner, and ends as that does; `live` where it may draw on the
/// terminal. The runner has the signals noted from its first moment on.
///
/// # Errors
/// Where it cannot be started; in the runner, those of `run`.
pub fn keep(
    live: bool,
    run: impl FnOnce(&UnixStream, Signals) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let mut signals = Signals::noted()?;
    set_child_subreaper(Some(getpid())).context("PR_SET_CHILD_SUBREAPER")?;
    let (mut ours, theirs) = UnixStream::pair().context("socketpair")?;
    let Some(runner) = fork().context("fork")? else {
        // Or it would never read the end of the file.
        drop(ours);
        // Whoever kills by name, as pkill(1) and killall(1) do, kills only one of the two.
        let _ = set_name(c"pipeline");
        return run(&theirs, signals);
    };
    drop(theirs);
    let status = stay(runner, &mut signals);
    // One byte if it is done, and none if it was ended before.
    let done = ours.read(&mut [0]).is_ok_and(|bytes| bytes > 0);
    if !done {
        if live {
            footer::give_back();
        }
        ending::end_all(Signal::TERM, GRACE, || reap(runner, &mut None));
    }
    match (status.code(), status.signal()) {
        (_, Some(signal)) if is_ending(signal) => die_of(signal),
        (_, Some(signal)) => {
            let _ = writeln!(
                stderr(),
                "fullbore run: signal {signal} ended a helper process of fullbore, so the \
                 pipeline was stopped"
            );
            Ok(ExitCode::from(128u8.wrapping_add(signal as u8)))
        }
        (code, None) => Ok(ExitCode::from(code.unwrap_or(FAILED.into()) as u8)),
    }
}

/// Waits for the runner, and hands on to it what only this process was told.
fn stay(runner: Pid, signals: &mut Signals) -> ExitStatus {
    let mut status = None;
    let mut until: Option<Instant> = None;
    let mut stop_by: Option<Instant> = None;
    loop {
        reap(runner, &mut status);
        if let Some(status) = status {
            return status;
        }
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            let _ = kill_process(runner, Signal::KILL);
        }
        // The runner stops after the stages, and this process, which the shell waits for, after the runner.
        if stop_by.is_some_and(|latest| is_stopped(runner) || now >= latest) {
            stop_by = None;
            stop();
        }
        let next = [until, stop_by].into_iter().flatten().min();
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        wait_for(&[signals.as_fd()], left);
        while let Some(came) = signals.next() {
            match came.signal {
                Signal::INT | Signal::QUIT if came.by_a_process => tell(runner, came.signal),
                Signal::TERM | Signal::HUP => {
                    tell(runner, came.signal);
                    // It may be stopped.
                    tell(runner, Signal::CONT);
                    until = until.or(Some(Instant::now() + PATIENCE));
                }
                Signal::TSTP => stop_by = Some(Instant::now() + TO_STOP + TO_STOP),
                Signal::CONT => stop_by = None,
                // The terminal has told the runner and everybody else too.
                _ => {}
            }
        }
    }
}

fn tell(runner: Pid, signal: Signal) {
    // It has not been waited for, so the number is still its own.
    let _ = kill_process(runner, signal);
}

/// Waits for all children that have ended, and keeps the status of the runner.
fn reap(runner: Pid, status: &mut Option<ExitStatus>) {
    while let Ok(Some((pid, ended))) = waitpid(None, WaitOptions::NOHANG) {
        if pid == runner {
            *status = Some(ExitStatus::from_raw(ended.as_raw()));
        }
    }
}
