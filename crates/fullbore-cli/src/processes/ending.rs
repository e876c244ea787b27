//! Ends all descendants of this process: first with a signal that they can handle, then with SIGKILL.
//!
//! Descendants are found by their parents. As a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) this process
//! becomes the parent of every descendant that loses its own, so that none escapes by a double fork or a
//! session of its own. No other process gets a signal; the process group does not either, because it may
//! be shared with others. Neither do the processes that were there before anything was started, nor their
//! descendants: a process that executes this program keeps its children. What such a process starts later, and
//! leaves without a parent, cannot be told from what was started here.
//!
//! A parent gets each signal before its children. A shell whose child has died first would go on with its next
//! command; so would one that ignores or blocks the signal, and its children get none but SIGKILL. Where no process may see what happens to another one, all are stopped before any is ended.
//!
//! /proc names the parents. If /proc is missing or shows another PID namespace, only the processes that this
//! process has started itself are ended.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::iter;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_host::refusal::Unsupported;
use fullbore_host::text::error_text;
use fullbore_process::live_thread;
use procfs::process::Process;
use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, pidfd_open,
    pidfd_send_signal, wait, waitid, waitpid,
};

use crate::processes::guard::is_guard;
use fullbore_observe::by_ancestry;
use fullbore_observe::census::ProcessId;
pub use fullbore_observe::proc_is_ours;

/// The time between two checks of which processes are left.
const INTERVAL: Duration = Duration::from_millis(5);

/// The time between two checks of which processes have stopped.
const STOP_INTERVAL: Duration = Duration::from_micros(100);

/// How long to wait for the same processes to end after SIGKILL. A process in uninterruptible sleep can take
/// forever.
pub const AT_MOST: Duration = Duration::from_secs(2);

/// How long to kill processes that others replace all the time.
const AT_MOST_IN_ALL: Duration = Duration::from_secs(10);

/// How many times new processes are searched for and signalled. Processes that start others all the time,
/// whatever signal they get, are not followed forever.
const AT_MOST_PASSES: usize = 20;

/// Makes sure that this process may wait for others.
///
/// # Errors
/// [`Unsupported`], if a filter refuses wait4(2), waitid(2) or poll(2): the end of no process could be noticed.
pub fn require_waiting() -> Result<(), Unsupported> {
    // This process is no child of its own, so nothing is reaped.
    let me = getpid();
    let asked = [
        ("wait4", waitpid(Some(me), WaitOptions::NOHANG).map(drop)),
        ("waitid", waitid(WaitId::Pid(me), ASK).map(drop)),
        ("ppoll", poll(&mut [], Some(&Timespec::default())).map(drop)),
    ];
    let refused = asked.into_iter().find_map(|(call, answer)| match answer {
        Err(errno) if !matches!(errno, Errno::CHILD | Errno::INTR) => Some((call, errno)),
        _ => None,
    });
    refused.map_or(Ok(()), |(call, errno)| {
        let why = error_text(&errno.into());
        let text = format!("this machine lets no process wait for others: {call}: {why}");
        Err(Unsupported(text))
    })
}

/// Waits for all children that have ended.
pub fn reap_all() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Returns how long [`end_all`] takes at most, with some time for a machine that is busy.
pub const fn longest(grace: Duration) -> Duration {
    grace.saturating_add(AT_MOST_IN_ALL.saturating_mul(2))
}

/// What to do when all processes have been stopped, before any of them gets a signal: it gets their PIDs. `None` if they
/// are not stopped first.
pub type Stopped<'a> = Option<&'a dyn Fn(&[u32])>;

/// Ends all descendants: with `signal` first, then with SIGKILL for those that are left after `grace`.
/// `reap` waits for all children of this process that have ended.
///
/// Returns the PIDs of those that could not be ended, parents first: processes of other users, and processes in
/// uninterruptible sleep.
pub fn end_all(
    signal: Signal,
    grace: Duration,
    stopped: Stopped<'_>,
    mut reap: impl FnMut(),
) -> Vec<u32> {
    // A process that is stopped when SIGKILL comes never runs again.
    if grace.is_zero() && stopped.is_some() {
        return kill_all(stopped, reap);
    }
    let Told { mut untold, .. } = tell(living, signal, stopped);
    if stopped.is_none() {
        // A stopped process handles the signal only after SIGCONT.
        tell(living, Signal::CONT, None);
    }
    let began = Instant::now();
    while is_left(&mut reap) {
        tell_orphans(&mut untold, signal, stopped);
        if began.elapsed() >= grace {
            return kill_all(stopped, reap);
        }
        thread::sleep(INTERVAL);
    }
    Vec::new()
}

/// Kills all descendants, and returns those that are left.
fn kill_all(stopped: Stopped<'_>, mut reap: impl FnMut()) -> Vec<u32> {
    let began = Instant::now();
    let (mut left, mut since) = (set(living()), began);
    loop {
        // A process that is being killed cannot start others. Those started meanwhile are found the next time.
        let refused = tell(living, Signal::KILL, stopped).refused;
        if !is_left(&mut reap) {
            return Vec::new();
        }
        let found = living();
        if found.iter().all(|pid| refused.contains(pid)) {
            return found;
        }
        // Others have lost their parents, or have been started, before that could be prevented.
        if set(found.clone()).is_disjoint(&left) {
            (left, since) = (set(found), Instant::now());
        }
        if since.elapsed() >= AT_MOST || began.elapsed() >= AT_MOST_IN_ALL {
            return living();
        }
        thread::sleep(INTERVAL);
    }
}

fn set(pids: Vec<u32>) -> BTreeSet<u32> {
    pids.into_iter().collect()
}

/// Reaps, and returns whether a descendant is left. Without children there is none, because a descendant that loses
/// its parent becomes a child. What has ended since then is reaped the next time.
fn is_left(reap: &mut impl FnMut()) -> bool {
    reap();
    let is_sure = || proc_is_ours() && spared().is_empty();
    // What has lost its parent during the first look is a child at the second.
    has_children() && (is_sure() || !living().is_empty() || !living().is_empty())
}

/// Descendants that are not ended, each with the PID of the process that spares it: a fork of that process has no such
/// descendant.
static SPARED: Mutex<Vec<(u32, ProcessId)>> = Mutex::new(Vec::new());

/// Spares a descendant, and what it starts.
pub fn spare(pid: u32) {
    if let Some(id) = ProcessId::of(pid) {
        let mut spared = SPARED.lock().unwrap_or_else(PoisonError::into_inner);
        spared.push((std::process::id(), id));
    }
}

/// Spares the descendants that this process has now.
pub fn spare_the_living() {
    if has_children() && proc_is_ours() {
        living().into_iter().for_each(spare);
    }
}

/// Returns the descendants that are spared, and those that they have started.
fn spared() -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    let spared = SPARED.lock().unwrap_or_else(PoisonError::into_inner);
    for (by, id) in spared.iter() {
        let is_ours = *by == std::process::id();
        if is_ours && !all.contains(&id.pid) && ProcessId::of(id.pid) == Some(*id) {
            all.extend(by_ancestry(id.pid));
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

/// Notes all processes whose numbers these bytes are; returns false, and notes none, if they are not numbers.
pub fn note_all_started(said: &[u8]) -> bool {
    let pids = said.chunks_exact(size_of::<u32>());
    let is_whole = pids.remainder().is_empty();
    for pid in pids.filter(|_| is_whole) {
        note_started(u32::from_ne_bytes(pid.try_into().expect("4 bytes")));
    }
    is_whole
}

/// What became of a signal.
#[derive(Default)]
pub struct Told {
    /// Those that this user may not signal, and if all were stopped first, those below them.
    pub refused: BTreeSet<u32>,
    /// Those that got none yet, because the process above them seems to go on after it.
    pub untold: BTreeSet<u32>,
}

/// Sends the signal to those among the untold whose parent has ended by it nevertheless, so that they are children of this
/// process: a shell blocks all signals while it starts a program. What they have started since then is told with them.
pub fn tell_orphans(untold: &mut BTreeSet<u32>, signal: Signal, stopped: Stopped<'_>) {
    let is_orphan = |pid: &&u32| parent(**pid) == Some(std::process::id());
    while let Some(&pid) = untold.iter().find(is_orphan) {
        let family = RefCell::new(BTreeSet::from([pid]));
        let find = || {
            let all: Vec<u32> = iter::once(pid).chain(by_ancestry(pid)).collect();
            family.borrow_mut().extend(&all);
            all
        };
        let told = tell(find, signal, stopped.or(Some(&|_| {})));
        untold.retain(|pid| !family.borrow().contains(pid));
        untold.extend(told.untold);
    }
}

/// Sends a signal to those descendants of this process that `find` returns, once to each. If they are stopped first, a
/// process gets no signal that would end it before its parent.
pub fn tell(find: impl Fn() -> Vec<u32>, signal: Signal, stopped: Stopped<'_>) -> Told {
    if let Some(when_stopped) = stopped {
        return tell_stopped(&find, signal, when_stopped);
    }
    // A process that was about to start another one is covered by a second pass, and so on: a process with a pending
    // signal starts no other before it has handled the signal (`copy_process` in kernel/fork.c returns to it first),
    // unless it blocks the signal just then, as shells do.
    let (mut told, mut found) = (BTreeSet::new(), Told::default());
    for _ in 0..AT_MOST_PASSES {
        let new: Vec<u32> = find().into_iter().filter(|pid| told.insert(*pid)).collect();
        for &pid in &new {
            if send(pid, signal) == Err(Errno::PERM) {
                found.refused.insert(pid);
            }
        }
        if new.is_empty() {
            break;
        }
    }
    found
}

/// Stops those descendants that `find` returns, and sends them a signal.
fn tell_stopped(
    find: &impl Fn() -> Vec<u32>,
    signal: Signal,
    when_stopped: &dyn Fn(&[u32]),
) -> Told {
    let (all, spared) = stop_all(find);
    when_stopped(&all);
    let (mut deaf, mut untold, mut refused) = (BTreeSet::new(), BTreeSet::new(), spared.clone());
    for &pid in &all {
        let is_below_deaf = parent(pid).is_some_and(|parent| deaf.contains(&parent));
        if is_below_deaf || goes_on(pid, signal) {
            deaf.insert(pid);
        }
        if spared.contains(&pid) {
            continue;
        }
        if is_below_deaf {
            untold.insert(pid);
        } else if send(pid, signal) == Err(Errno::PERM) {
            // It may be stopped, but not ended (SELinux).
            deaf.insert(pid);
            refused.insert(pid);
        }
    }
    // Children first: a shell with job control takes a child that it finds stopped for one to leave behind.
    for pid in all.iter().rev().filter(|pid| !spared.contains(pid)) {
        if signal != Signal::KILL || refused.contains(pid) || untold.contains(pid) {
            let _ = send(*pid, Signal::CONT);
        }
    }
    Told { refused, untold }
}

/// Stops those descendants that `find` returns, until nothing new is found and none of them runs. Returns all, and
/// those that this user may not signal, with those below them: sudo(8) stops itself if its child is stopped. A shell with
/// job control goes on if its child is, so it has to have stopped before.
fn stop_all(find: &impl Fn() -> Vec<u32>) -> (Vec<u32>, BTreeSet<u32>) {
    let began = Instant::now();
    let (mut told, mut refused) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let found = find();
        let mut is_done = true;
        for &pid in &found {
            let above = parent(pid).filter(|above| told.contains(above));
            let is_spared = above.is_some_and(|above| refused.contains(&above));
            let is_early = || above.is_some_and(runs) && began.elapsed() < AT_MOST / 2;
            if told.contains(&pid) {
                is_done &= refused.contains(&pid) || !runs(pid);
            } else if !is_spared && is_early() {
                is_done = false;
            } else {
                told.insert(pid);
                if is_spared || send(pid, Signal::STOP) == Err(Errno::PERM) {
                    refused.insert(pid);
                } else {
                    is_done = false;
                }
            }
        }
        // A thread that is stopped starts no process, so what two looks have shown is all.
        if is_done || began.elapsed() >= AT_MOST {
            return (found, refused);
        }
        thread::sleep(STOP_INTERVAL);
    }
}

/// Returns whether a thread of the process may run before it stops. A thread in uninterruptible sleep stops when it
/// returns from there; a process that waits for its child to execute a program (vfork(2)) sleeps like this.
fn runs(pid: u32) -> bool {
    let tasks = Process::new(pid as i32).and_then(|process| process.tasks());
    let mut tasks = tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| task.stat().ok());
    tasks.any(|stat| matches!(stat.state, 'R' | 'S'))
}

/// Returns whether a process goes on after a signal that asks it to end, as far as can be seen: it ignores or blocks it, or
/// is the first one of a PID namespace and does not handle it (pid_namespaces(7)). One that reads the signal from a
/// signalfd(2), as `fullbore run` does, tells its children itself.
fn goes_on(pid: u32, signal: Signal) -> bool {
    if !matches!(signal, Signal::TERM | Signal::HUP) {
        return false;
    }
    let status = Process::new(pid as i32).and_then(|process| process.status());
    status.is_ok_and(|status| {
        let bit = 1 << (signal.as_raw() - 1);
        let numbers = status.nspid.unwrap_or_default();
        let is_first = numbers.len() > 1 && numbers.last() == Some(&1);
        (status.sigign | status.sigblk) & bit != 0 || is_first && status.sigcgt & bit == 0
    })
}

fn parent(pid: u32) -> Option<u32> {
    Some(Process::new(pid as i32).ok()?.stat().ok()?.ppid as u32)
}

/// Sends a signal to a descendant of this process. PIDs can be used again: a process that has taken one since it was
/// found is no descendant.
fn send(pid: u32, signal: Signal) -> Result<(), Errno> {
    let number = Pid::from_raw(pid as i32).ok_or(Errno::SRCH)?;
    let opened = pidfd_open(number, PidfdFlags::empty());
    if !is_descendant(pid) {
        return Err(Errno::SRCH);
    }
    match opened {
        Ok(pidfd) => match pidfd_send_signal(pidfd, signal) {
            Err(Errno::NOSYS) => kill_process(number, signal),
            sent => sent,
        },
        Err(Errno::SRCH) => Err(Errno::SRCH),
        // A kernel before 5.3, a filter, or too many open files.
        Err(_) => kill_process(number, signal),
    }
}

/// Returns whether this process is the parent of another one, or the parent of its parent, and so on.
fn is_descendant(pid: u32) -> bool {
    let number = Pid::from_raw(pid as i32);
    if number.is_some_and(|pid| waitid(WaitId::Pid(pid), ASK).is_ok()) {
        return true;
    }
    let me = std::process::id();
    let is_below = || {
        let parents = std::iter::successors(Some(pid), |&pid| parent(pid).filter(|&pid| pid > 1));
        parents.skip(1).any(|parent| parent == me)
    };
    // A process whose parent has ended during the first look is a child of this one at the second.
    proc_is_ours() && (is_below() || is_below())
}

/// Returns the descendants that are not zombies and are not spared, each after its parent. Without /proc, these are the
/// children that were [recorded](note_started).
pub fn living() -> Vec<u32> {
    let mut all = Vec::new();
    if proc_is_ours() {
        let spared = spared();
        all = by_ancestry(std::process::id());
        all.retain(|&pid| !spared.contains(&pid) && !is_guard(pid) && live_thread(pid).is_some());
    }
    // /proc can hide the processes of other users (proc(5), hidepid), or it cannot be read (EMFILE).
    let mut hidden = started_children();
    hidden.retain(|pid| !all.contains(pid));
    all.extend(hidden);
    all
}

/// Returns the living descendants without those of `roots` and without these.
pub fn living_besides(roots: &[u32]) -> Vec<u32> {
    let mut all = living();
    let roots_seen = roots.iter().filter(|_| proc_is_ours());
    let theirs: BTreeSet<u32> = roots_seen.flat_map(|&pid| by_ancestry(pid)).collect();
    all.retain(|pid| !roots.contains(pid) && !theirs.contains(pid));
    all
}

/// Whether this process has children, zombies among them. Guards are no such children.
pub fn has_children() -> bool {
    waitid(WaitId::All, ASK).is_ok()
}

/// Whether a child of this process has ended and was not waited for yet.
pub fn has_ended_child() -> bool {
    matches!(waitid(WaitId::All, ASK), Ok(Some(_)))
}

/// Asks whether a child has ended, without waiting and without reaping it.
const ASK: WaitIdOptions = WaitIdOptions::EXITED
    .union(WaitIdOptions::NOHANG)
    .union(WaitIdOptions::NOWAIT);

/// Returns the processes that were started here and are children of this process, but not zombies.
fn started_children() -> Vec<u32> {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_child = |number: &u32| {
        let pid = Pid::from_raw(*number as i32);
        pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), ASK), Ok(None)))
    };
    started.iter().copied().filter(is_child).collect()
}
