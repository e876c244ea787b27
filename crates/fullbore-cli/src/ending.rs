//! Ends all that is below this process: first by asking, then by force.
//!
//! Who is below is told by parents. As a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) this process
//! becomes the parent of whoever loses his own, so nobody gets out of sight, neither by a double fork nor
//! by a session of his own. Nobody else is ever told anything: not the process group, which may be
//! shared with others.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::pipeline::below;

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
        let found: Vec<_> = below(std::process::id())
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
        let still = below(std::process::id());
        for (number, pid, opened) in found {
            if still.contains(&number) {
                let _ = match opened {
                    Ok(pidfd) => pidfd_send_signal(pidfd, signal),
                    // A kernel before 5.3, or a filter.
                    Err(Errno::NOSYS | Errno::PERM) => kill_process(pid, signal),
                    Err(errno) => Err(errno),
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

/// Those below this process that are no zombies.
fn living() -> BTreeSet<u32> {
    let mut all = below(std::process::id());
    all.retain(|&pid| {
        Process::new(pid as i32)
            .and_then(|process| process.stat())
            .is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
    });
    all
}
