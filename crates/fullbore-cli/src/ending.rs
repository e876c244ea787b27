//! Ends all that is below this process: first by asking, then by force.
//!
//! Who is below is told by parents. As a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) this process
//! becomes the parent of whoever loses his own, so nobody gets out of sight, neither by a double fork nor
//! by a session of his own. Nobody else is ever told anything: not the process group, which may be
//! shared with others.
//!
//! Parents stand in /proc. Where /proc is missing, or shows the numbers of another PID namespace, the kernel
//! still tells of each number whether it is that of a child of this process. Those below a child are found
//! when it has ended, because they are children of this process then.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open,
    pidfd_send_signal, waitid,
};
use rustix::thread::gettid;

use fullbore_observe::descendants;

/// Between two looks at who is left.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long those who are killed may take to be gone. A process in uninterruptible sleep can take
/// forever.
const AT_MOST: Duration = Duration::from_secs(2);

/// Looks at who is there to be told something. Those who start others all the time, whatever they are told,
/// are not followed forever.
const AT_MOST_LOOKS: usize = 20;

/// Ends all of them: `signal` first, then SIGKILL for those who are left after the time of `grace`.
/// `reap` waits for children of this process that have ended.
///
/// Gives the numbers of those who could not be ended: those of other users, and those in
/// uninterruptible sleep.
pub fn end_all(signal: Signal, grace: Duration, mut reap: impl FnMut()) -> BTreeSet<u32> {
    tell_all(signal);
    // Those who are stopped would otherwise not hear of it.
    tell_all(Signal::CONT);
    if is_left_after(grace, || {}, &mut reap) {
        // Those who are being killed cannot start others; those who were started meanwhile are found the
        // next time.
        is_left_after(AT_MOST, || tell_all(Signal::KILL), &mut reap);
    }
    living()
}

/// Sends a signal to all below this process, once to each. Whoever was about to start another one when
/// the others were looked up is followed by a second look, and so on: one that has been told starts
/// nobody before it has heard (`copy_process` in kernel/fork.c gives way to a signal), unless it keeps
/// the signal back just then, as shells do.
pub fn tell_all(signal: Signal) {
    let mut told = BTreeSet::new();
    for _ in 0..AT_MOST_LOOKS {
        let found: Vec<_> = living()
            .into_iter()
            .filter(|&number| told.insert(number))
            .filter_map(|number| {
                let pid = Pid::from_raw(number as i32)?;
                Some((number, pid, pidfd_open(pid, PidfdFlags::empty())))
            })
            .collect();
        if found.is_empty() {
            return;
        }
        // A number can have become another process's since it was found; then it is not found again.
        let still = living();
        for (number, pid, opened) in found {
            if still.contains(&number) {
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

/// Waits until nobody is left, or so long; says whether somebody is.
fn is_left_after(time: Duration, mut tell: impl FnMut(), reap: &mut impl FnMut()) -> bool {
    let began = Instant::now();
    loop {
        tell();
        reap();
        // Twice: while others exit, one can be skipped (Documentation/filesystems/proc.rst, 3.7).
        if living().is_empty() && living().is_empty() {
            return false;
        }
        if began.elapsed() >= time {
            return true;
        }
        thread::sleep(INTERVAL);
    }
}

/// Those below this process that are no zombies. Without /proc, those of its children that are none.
pub fn living() -> BTreeSet<u32> {
    let mut all = match proc_is_ours() {
        true => descendants(std::process::id()),
        false => BTreeSet::new(),
    };
    // With children there is somebody below. Where /proc is ours, it could not be read: EMFILE.
    if all.is_empty() {
        return children_by_number();
    }
    all.retain(|&pid| {
        Process::new(pid as i32)
            .and_then(|process| process.stat())
            .is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
    });
    all
}

/// Whether /proc is there and shows the PID namespace of this process. In that of another one, a number may
/// be somebody else's here.
pub fn proc_is_ours() -> bool {
    let Ok(status) = Process::myself().and_then(|process| process.status()) else {
        return false;
    };
    // The numbers from the namespace of this /proc down to that of the process (`task_state` in
    // fs/proc/array.c).
    let numbers = status.nspid.unwrap_or_else(|| vec![status.pid]);
    numbers == [getpid().as_raw_nonzero().get()]
}

/// Whether this process has children, zombies among them.
pub fn has_children() -> bool {
    waitid(WaitId::All, ASK).is_ok()
}

/// Of a child: without waiting, whether it has ended, and it stays to be waited for.
const ASK: WaitIdOptions = WaitIdOptions::EXITED
    .union(WaitIdOptions::NOHANG)
    .union(WaitIdOptions::NOWAIT);

/// The largest number that a process can have (`PID_MAX_LIMIT` in include/linux/threads.h).
const LARGEST: u32 = 1 << 22;

/// The children that are no zombies, found by asking for each number.
fn children_by_number() -> BTreeSet<u32> {
    if !has_children() {
        return BTreeSet::new();
    }
    let is_child = |number: &u32| {
        let pid = Pid::from_raw(*number as i32);
        pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), ASK), Ok(None)))
    };
    // Numbers are given away in turn (`alloc_pid` in kernel/pid.c), so these are all that are younger than
    // this process, until they begin again from below.
    let own = std::process::id();
    let newest = thread::Builder::new()
        .spawn(gettid)
        .ok()
        .and_then(|thread| thread.join().ok())
        .map_or(LARGEST, |tid| tid.as_raw_nonzero().get() as u32);
    let found: BTreeSet<u32> = (own + 1..newest).filter(is_child).collect();
    // There is a child, and none is a zombie: it has a number from further away, which takes a second to find.
    if found.is_empty() && matches!(waitid(WaitId::All, ASK), Ok(None)) {
        return (1..=LARGEST).filter(is_child).collect();
    }
    found
}
