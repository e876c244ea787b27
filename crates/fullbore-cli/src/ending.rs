//! Ends all descendants of this process: first with a signal that they can handle, then with SIGKILL.
//!
//! Descendants are found by their parents. As a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) this process
//! becomes the parent of every descendant that loses its own, so that none escapes by a double fork or a
//! session of its own. No other process gets a signal; the process group does not either, because it may
//! be shared with others. Neither do the processes that were there before anything was started, nor their
//! descendants: a process that executes this program keeps its children. What such a process starts later, and
//! leaves without a parent, cannot be told from what was started here.
//!
//! /proc names the parents. If /proc is missing or shows another PID namespace, only the processes that this
//! process has started itself are ended.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_linux::live_thread;
use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open,
    pidfd_send_signal, waitid,
};

use crate::guard::is_guard;
use fullbore_observe::census::ProcessId;
use fullbore_observe::descendants;

/// The time between two checks of which processes are left.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long to wait for the same processes to end after SIGKILL. A process in uninterruptible sleep can take
/// forever.
const AT_MOST: Duration = Duration::from_secs(2);

/// How long to kill processes that others replace all the time.
const AT_MOST_IN_ALL: Duration = Duration::from_secs(10);

/// How many times new processes are searched for and signalled. Processes that start others all the time,
/// whatever signal they get, are not followed forever.
const AT_MOST_PASSES: usize = 20;

/// Returns how long [`end_all`] takes at most, with some time for a machine that is busy.
pub const fn longest(grace: Duration) -> Duration {
    grace.saturating_add(AT_MOST_IN_ALL.saturating_mul(2))
}

/// Ends all descendants: with `signal` first, then with SIGKILL for those that are left after `grace`.
/// `reap` waits for all children of this process that have ended.
///
/// Returns the PIDs of those that could not be ended: processes of other users, and processes in
/// uninterruptible sleep.
pub fn end_all(signal: Signal, grace: Duration, mut reap: impl FnMut()) -> BTreeSet<u32> {
    tell_all(signal);
    // A stopped process handles the signal only after SIGCONT.
    tell_all(Signal::CONT);
    let began = Instant::now();
    while is_left(&mut reap) {
        if began.elapsed() >= grace {
            return kill_all(reap);
        }
        thread::sleep(INTERVAL);
    }
    BTreeSet::new()
}

/// Kills all descendants, and returns those that are left.
fn kill_all(mut reap: impl FnMut()) -> BTreeSet<u32> {
    let began = Instant::now();
    let (mut left, mut since) = (living(), began);
    loop {
        // A process that is being killed cannot start others. Those started meanwhile are found the next time.
        tell_all(Signal::KILL);
        if !is_left(&mut reap) {
            return BTreeSet::new();
        }
        // Others have lost their parents, or have been started, before that could be prevented.
        let found = living();
        if found.is_disjoint(&left) {
            (left, since) = (found, Instant::now());
        }
        if since.elapsed() >= AT_MOST || began.elapsed() >= AT_MOST_IN_ALL {
            return living();
        }
        thread::sleep(INTERVAL);
    }
}

/// Reaps, and returns whether a descendant is left. Without children there is none, because a descendant that loses
/// its parent becomes a child. What has ended since then is reaped the next time.
fn is_left(reap: &mut impl FnMut()) -> bool {
    reap();
    let is_sure = || proc_is_ours() && spared().is_empty();
    // What has lost its parent during the first look is a child at the second.
    has_children() && (is_sure() || !living().is_empty() || !living().is_empty())
}

/// The descendants that a process had before it started any, and the PID of that process: a fork of it has none
/// of them.
static SPARED: OnceLock<(u32, BTreeSet<ProcessId>)> = OnceLock::new();

/// Spares the descendants that this process has now.
pub fn spare_the_living() {
    if has_children() && proc_is_ours() {
        let living = living();
        let ids = living.into_iter().filter_map(ProcessId::of).collect();
        let _ = SPARED.set((std::process::id(), ids));
    }
}

/// Returns the descendants that are spared, and those that they have started.
fn spared() -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    let Some((_, ids)) = (SPARED.get()).filter(|(process, _)| *process == std::process::id())
    else {
        return all;
    };
    for id in ids {
        if !all.contains(&id.pid) && ProcessId::of(id.pid) == Some(*id) {
            all.extend(descendants(id.pid));
            all.insert(id.pid);
        }
    }
    all
}

/// The processes that this process has started itself, or that its runner has: they are ended also without /proc.
static STARTED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Records that a process was started here.
pub fn note_started(pid: u32) {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    started.push(pid);
}

/// Sends a signal to all descendants of this process, once to each. A process that was about to start another
/// one is covered by a second pass, and so on: a process with a pending signal starts no other before it has
/// handled the signal (`copy_process` in kernel/fork.c returns to it first), unless it blocks the signal just
/// then, as shells do.
pub fn tell_all(signal: Signal) {
    let mut told = BTreeSet::new();
    for _ in 0..AT_MOST_PASSES {
        let new = living().into_iter().filter(|number| !told.contains(number));
        let opened = |number| {
            let pid = Pid::from_raw(number as i32)?;
            Some((number, pid, pidfd_open(pid, PidfdFlags::empty())))
        };
        let found: Vec<_> = new.filter_map(opened).collect();
        if found.is_empty() {
            return;
        }
        // A PID can have been reused since it was found; then it is not among the descendants any more.
        let still = living();
        for (number, pid, opened) in found {
            if still.contains(&number) {
                told.insert(number);
                let _ = match opened {
                    Ok(pidfd) => pidfd_send_signal(pidfd, signal),
                    Err(Errno::SRCH) => Err(Errno::SRCH),
                    // A kernel before 5.3, a filter, or too many open files.
                    Err(_) => kill_process(pid, signal),
                };
            }
        }
    }
}

/// Returns the descendants that are not zombies, not spared, and no guards. Without /proc, these are the children that were
/// [recorded](note_started).
pub fn living() -> BTreeSet<u32> {
    let mut all = match proc_is_ours() {
        true => descendants(std::process::id()),
        false => BTreeSet::new(),
    };
    // If there are children, /proc could not be read (EMFILE).
    if all.is_empty() {
        return started_children();
    }
    let spared = spared();
    all.retain(|&pid| !spared.contains(&pid) && !is_guard(pid) && live_thread(pid).is_some());
    all
}

/// Whether /proc is mounted and shows the PID namespace of this process. In another namespace, the same PID
/// can belong to another process.
pub fn proc_is_ours() -> bool {
    let Ok(status) = Process::myself().and_then(|process| process.status()) else {
        return false;
    };
    // The PIDs from the namespace of this /proc down to that of the process (`task_state` in
    // fs/proc/array.c).
    let numbers = status.nspid.unwrap_or_else(|| vec![status.pid]);
    numbers == [getpid().as_raw_nonzero().get()]
}

/// Whether this process has children, zombies among them.
pub fn has_children() -> bool {
    waitid(WaitId::All, ASK).is_ok()
}

/// Asks whether a child has ended, without waiting and without reaping it.
const ASK: WaitIdOptions = WaitIdOptions::EXITED
    .union(WaitIdOptions::NOHANG)
    .union(WaitIdOptions::NOWAIT);

/// Returns the processes that were started here and are children of this process, but not zombies.
fn started_children() -> BTreeSet<u32> {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_child = |number: &u32| {
        let pid = Pid::from_raw(*number as i32);
        pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), ASK), Ok(None)))
    };
    started.iter().copied().filter(is_child).collect()
}
