//! The process that the user started. It forks: the child is the runner, which runs the pipeline, and this
//! process, the keeper, waits for the runner.
//!
//! Each of the two holds one end of a socket. When the keeper is gone, the runner reads the end of the file
//! and ends all its descendants. When the runner is gone without having reported that it is done, the keeper
//! ends all its own descendants: as a subreaper it has become the parent of the processes that the runner has
//! left. It spares the processes that it had before, such as those in the background of a script that executed it.
//! Therefore even SIGKILL for either of them leaves no process behind; without /proc, no first process of a stage.
//!
//! With `--whole`, a third process is between the two, the holder (`holder.rs`), which does what the keeper does otherwise
//! when the runner is gone.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, pidfd_open,
    pidfd_send_signal, set_child_subreaper, wait, waitid,
};
use rustix::stdio::dup2_stdin;
use rustix::thread::set_name;

use super::failure::FAILED;
use super::holder::{self, ToHolder};
use super::left::{end_all, say};
use super::runner::TO_STOP;
use super::shelf::{STDIN, Shelf};
use super::signals::{Signals, is_ending, is_stopped, stop};
use crate::inherited;
use crate::processes::ending;
use crate::processes::fork::fork;
use crate::processes::interrupt::die_of;
use crate::processes::waiting::wait_for;
use crate::terminal::footer;

/// The time between two looks at a runner that is about to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Forks, calls `run` in the child, which is the runner, and ends as the runner does. `live` says whether the runner may
/// draw on the terminal, and `grace` how long processes may take to end after SIGTERM. Signals are already blocked and
/// queued for the runner when it starts. If the pipeline `is_held`, what the runner puts on the shelf stays open until it
/// takes it off, or nobody reads from it any more; so does the pipe of stdin, whose write end is the descriptor
/// `hold_stdin`.
///
/// # Errors
/// Fails if the runner cannot be started; in the runner, fails as `run` does.
pub fn keep(
    live: bool,
    grace: Duration,
    is_held: bool,
    hold_stdin: Option<u16>,
    run: impl FnOnce(&UnixStream, Signals, &Shelf, Option<ToHolder>) -> Result<ExitCode>,
) -> Result<ExitCode> {
    ending::require_waiting()?;
    let mut signals = Signals::noted()?;
    ending::spare_the_living();
    set_child_subreaper(Some(getpid())).context("PR_SET_CHILD_SUBREAPER")?;
    let (mut ours, theirs) = UnixStream::pair().context("socketpair")?;
    // The processes wait for what the others tell, and a filter may refuse it.
    ours.write(&[]).context("sendto")?;
    let shelf = Shelf::new()?;
    if let Some(number) = hold_stdin {
        shelf.put(STDIN, inherited::take_writer(number)?.as_fd())?;
    }
    let started = is_held.then(|| holder::start(&shelf, grace)).transpose()?;
    let (holder, runner) = match started {
        Some((holder, runner)) => (Some(holder), runner),
        None => (None, fork().map_err(holder::not_forked)?),
    };
    let Some(runner) = runner else {
        // Otherwise the runner would never read the end of the file.
        drop(ours);
        // The runner gets a name of its own: pkill(1) and killall(1) select processes by name, and so kill
        // only one of the two.
        let _ = set_name(c"pipeline");
        return run(&theirs, signals, &shelf, holder);
    };
    drop(theirs);
    if let (Some(_), Ok(null)) = (hold_stdin, File::open("/dev/null")) {
        // This process is no reader.
        let _ = dup2_stdin(&null);
    }
    let (status, is_ended) = stay(runner, holder, &mut signals, ending::longest(grace));
    // Without /proc, the runner writes the PIDs of the stages. It writes one byte when it is done, and none if it
    // was ended before.
    let mut said = Vec::new();
    let _ = ours.read_to_end(&mut said);
    let is_lost = ending::note_all_started(&said);
    if is_lost && live {
        footer::give_back();
    }
    if is_lost && !is_ended {
        end_all(&shelf, is_held, Signal::TERM, grace, || {
            reap(runner, &mut None)
        });
    }
    if is_held && !is_ended {
        holder::replace_the_holder(&shelf);
    }
    match (status.code(), status.signal()) {
        (_, Some(signal)) if is_ending(signal) => die_of(signal),
        (_, Some(signal)) => {
            let why = "ended a helper process of fullbore, so the pipeline was stopped";
            say(&format!("signal {signal} {why}"));
            Ok(ExitCode::from(128u8.wrapping_add(signal as u8)))
        }
        // The runner has closed stdout: to close it again would report the same error twice.
        (code, None) => std::process::exit(code.unwrap_or(FAILED.into())),
    }
}

/// Waits for the runner, and forwards the signals that only this process has received. `patience` is how long the
/// runner may take to end the pipeline after it was asked to. Returns its status, and whether the holder has ended
/// what was left.
fn stay(
    runner: Pid,
    mut holder: Option<ToHolder>,
    signals: &mut Signals,
    patience: Duration,
) -> (ExitStatus, bool) {
    let mut status = None;
    let mut until: Option<Instant> = None;
    let mut stop_by: Option<Instant> = None;
    // It is not a child of this process if there is a holder.
    let pidfd = pidfd_open(runner, PidfdFlags::empty()).ok();
    let tell = |signal| match &pidfd {
        Some(pidfd) => drop(pidfd_send_signal(pidfd, signal)),
        None => drop(kill_process(runner, signal)),
    };
    loop {
        reap(runner, &mut status);
        if let Some(status) = status {
            return (status, false);
        }
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) {
            tell(Signal::KILL);
        }
        // The runner stops after the stages, and this process, which the shell waits for, stops after the
        // runner.
        if stop_by.is_some_and(|latest| is_stopped(runner) || now >= latest) {
            stop_by = None;
            stop();
        }
        // No signal tells this process that the runner has stopped, if the holder is its parent.
        let look = stop_by.filter(|_| holder.is_some());
        let look = look.map(|_| now + LOOK_INTERVAL);
        let next = [until, stop_by, look].into_iter().flatten().min();
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        let fds = [Some(signals.as_fd()), holder.as_ref().map(AsFd::as_fd)];
        let fds: Vec<_> = fds.into_iter().flatten().collect();
        let ready = wait_for(&fds, left);
        if let Some(known) = holder.take_if(|_| ready[1]) {
            let ended = known.receive();
            if !ended.as_ref().is_some_and(|ended| ended.stays) {
                known.wait();
            }
            if let Some(ended) = ended {
                return (ExitStatus::from_raw(ended.status), true);
            }
            // The holder was killed. Unless the runner has become a child of this process, its status is lost.
            let asked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if matches!(waitid(WaitId::Pid(runner), asked), Err(Errno::CHILD)) {
                return (ExitStatus::from_raw(Signal::KILL.as_raw()), false);
            }
        }
        while let Some(came) = signals.next() {
            match came.signal {
                Signal::INT | Signal::QUIT if came.by_a_process => tell(came.signal),
                Signal::TERM | Signal::HUP => {
                    tell(came.signal);
                    // The runner may be stopped.
                    tell(Signal::CONT);
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

/// Waits for all children that have ended, and keeps the status of the runner.
fn reap(runner: Pid, status: &mut Option<ExitStatus>) {
    while let Ok(Some((pid, ended))) = retry_on_intr(|| wait(WaitOptions::NOHANG)) {
        if pid == runner {
            *status = Some(ExitStatus::from_raw(ended.as_raw()));
        }
    }
}
