//! The process that the user started. It forks: the child is the runner, which runs the pipeline, and this
//! process, the keeper, waits for the runner.
//!
//! Each of the two holds one end of a socket. When the keeper is gone, the runner reads the end of the file
//! and ends all its descendants. When the runner is gone without having reported that it is done, the keeper
//! ends all its own descendants: as a subreaper it has become the parent of the processes that the runner has
//! left. It spares the processes that it had before, such as those in the background of a script that executed it.
//! Therefore even SIGKILL for either of them leaves no process behind; without /proc, no first process of a stage.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use rustix::thread::set_name;

use super::failure::FAILED;
use super::runner::{TO_STOP, say, say_left};
use super::shelf::Shelf;
use super::signals::{Signals, is_ending, is_stopped, stop};
use crate::ending;
use crate::error_text::with_limit;
use crate::fork::fork;
use crate::interrupt::die_of;
use crate::terminal::footer;
use crate::waiting::wait_for;

/// Forks, calls `run` in the child, which is the runner, and ends as the runner does. `live` says whether the runner may
/// draw on the terminal, and `grace` how long processes may take to end after SIGTERM. Signals are already blocked and
/// queued for the runner when it starts. What the runner puts on the shelf stays open until both have ended or it takes it
/// off.
///
/// # Errors
/// Fails if the runner cannot be started; in the runner, fails as `run` does.
pub fn keep(
    live: bool,
    grace: Duration,
    run: impl FnOnce(&UnixStream, Signals, &Shelf) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let mut signals = Signals::noted()?;
    ending::spare_the_living();
    set_child_subreaper(Some(getpid())).context("PR_SET_CHILD_SUBREAPER")?;
    let (mut ours, theirs) = UnixStream::pair().context("socketpair")?;
    let shelf = Shelf::new()?;
    let Some(runner) = fork().map_err(|errno| anyhow!("fork: {}", with_limit(&errno.into())))?
    else {
        // Otherwise the runner would never read the end of the file.
        drop(ours);
        // The runner gets a name of its own: pkill(1) and killall(1) select processes by name, and so kill
        // only one of the two.
        let _ = set_name(c"pipeline");
        return run(&theirs, signals, &shelf);
    };
    drop(theirs);
    let status = stay(runner, &mut signals, ending::longest(grace));
    // Without /proc, the runner writes the PIDs of the stages. It writes one byte when it is done, and none if it
    // was ended before.
    let mut said = Vec::new();
    let _ = ours.read_to_end(&mut said);
    let pids = said.chunks_exact(size_of::<u32>());
    if pids.remainder().is_empty() {
        for pid in pids {
            ending::note_started(u32::from_ne_bytes(pid.try_into().expect("4 bytes")));
        }
        if live {
            footer::give_back();
        }
        let left = ending::end_all(Signal::TERM, grace, || reap(runner, &mut None));
        say_left(&left);
    }
    match (status.code(), status.signal()) {
        (_, Some(signal)) if is_ending(signal) => die_of(signal),
        (_, Some(signal)) => {
            say(&format!(
                "signal {signal} ended a helper process of fullbore, so the pipeline was stopped"
            ));
            Ok(ExitCode::from(128u8.wrapping_add(signal as u8)))
        }
        (code, None) => Ok(ExitCode::from(code.unwrap_or(FAILED.into()) as u8)),
    }
}

/// Waits for the runner, and forwards the signals that only this process has received. `patience` is how long the
/// runner may take to end the pipeline after it was asked to.
fn stay(runner: Pid, signals: &mut Signals, patience: Duration) -> ExitStatus {
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
        // The runner stops after the stages, and this process, which the shell waits for, stops after the
        // runner.
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
                    // The runner may be stopped.
                    tell(runner, Signal::CONT);
                    until = until.or(Some(Instant::now() + patience));
                }
                Signal::TSTP => stop_by = Some(Instant::now() + TO_STOP + TO_STOP),
                Signal::CONT => stop_by = None,
                // The terminal has sent its signal to the whole process group, so the runner has received it
                // too.
                _ => {}
            }
        }
    }
}

fn tell(runner: Pid, signal: Signal) {
    // The runner has not been waited for, so its PID cannot belong to another process.
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
