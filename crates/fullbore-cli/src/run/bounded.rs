//! Computes something in a child process, so that code that loops forever, panics, overflows its stack or
//! allocates without end costs at most one second of CPU time and yields no result.

use std::io::{PipeReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, setrlimit, waitpid,
};

use crate::fork::{exit_at_once, fork};

/// The limit of CPU time, in whole seconds because that is the unit of `RLIMIT_CPU` (setrlimit(2)).
const CPU_SECONDS: u64 = 1;

/// The limit of memory, in bytes.
const MEMORY: u64 = 256 << 20;

/// How long the parent waits at most, in case the machine has no CPU time for the child.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the bytes that `compute` makes, or `None` if the child does not exit successfully. What the child
/// writes to stderr is discarded.
pub fn bounded(compute: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
    let (reader, mut writer) = std::io::pipe().ok()?;
    let Some(child) = fork().ok()? else {
        let made = limit_this_process()
            .ok()
            .and_then(|()| catch_unwind(AssertUnwindSafe(compute)).ok());
        let written = made.is_some_and(|made| writer.write_all(&made).is_ok());
        exit_at_once(u8::from(!written).into());
    };
    drop(writer);
    let made = read_for(PATIENCE, reader);
    if made.is_none() {
        let _ = kill_process(child, Signal::KILL);
    }
    made.filter(|_| ended_well(child))
}

fn limit_this_process() -> Result<(), Errno> {
    let nowhere = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::WRONLY,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stderr(nowhere)?;
    for (resource, most) in [
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Data, MEMORY),
        (Resource::Core, 0),
    ] {
        let most = getrlimit(resource)
            .maximum
            .map_or(most, |limit| limit.min(most));
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Reads to the end of the file; returns `None` if the end does not come in time.
fn read_for(patience: Duration, mut reader: PipeReader) -> Option<Vec<u8>> {
    let until = Instant::now() + patience;
    let mut all = Vec::new();
    let mut buffer = [0; 1 << 16];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok()?;
        match poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&left)) {
            Ok(0) => return None,
            Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return None,
        }
        match reader.read(&mut buffer).ok()? {
            0 => return Some(all),
            read => all.extend_from_slice(&buffer[..read]),
        }
    }
}

fn ended_well(child: Pid) -> bool {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            // If SIGCHLD is ignored, the kernel reports no exit status of a child (wait(2), NOTES).
            Err(Errno::CHILD) => return true,
            ended => {
                return ended.is_ok_and(|status| {
                    status.is_some_and(|(_, how)| how.exit_status() == Some(0))
                });
            }
        }
    }
}

/// Held by a test while it forks, parses, and waits for the child: there is one thread only in the command itself.
#[cfg(test)]
pub static FORKING: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_well_is_returned_and_what_does_not_costs_a_second() {
        // A child that was forked by another thread meanwhile would have the pipe open, and this one its pipe.
        let _alone = FORKING.lock();
        let large = vec![7; 300_000];
        assert_eq!(bounded(|| large.clone()), Some(large));
        assert_eq!(bounded(|| panic!("nobody reads this")), None);
        assert_eq!(
            bounded(|| {
                loop {
                    std::hint::spin_loop();
                }
            }),
            None
        );
        assert_eq!(
            bounded(|| vec![1; 2 * MEMORY as usize]),
            None,
            "more memory than there may be"
        );
    }
}
