//! How the runner waits for the children that have ended: stages, and what they have left behind.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use rustix::process::{Pid, WaitOptions, wait, waitpid};

use super::left::name;
use super::runner::{Runner, Started};
use crate::processes::ending;
use crate::processes::guard::number as number_of;

impl Runner<'_> {
    /// Waits for all children that have ended: stages, and processes that have become children of this one.
    pub(super) fn reap(&mut self) {
        loop {
            self.reap_ended();
            self.judge_all();
            if !ending::has_ended_child() {
                break;
            }
        }
        self.release_what_is_complete();
    }

    fn reap_ended(&mut self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        loop {
            let ended = match waitid(Id::All, flags) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
                Ok(status) => status.pid().and_then(|pid| Pid::from_raw(pid.as_raw())),
                // nix cannot represent a real-time signal that has ended a process.
                Err(_) => None,
            };
            if let (Some(stage), Some(observer)) = (self.stage_of(ended), &mut self.observer) {
                // As long as it is a zombie, /proc still has its last counters.
                observer.watch.ended(stage);
            }
            // So it has its name.
            let name = match (self.stage_of(ended), &self.whole) {
                (None, Some(_)) => ended.and_then(|pid| name(number_of(pid))),
                _ => None,
            };
            // waitpid(2) without a PID is only for this process group.
            let waited = match ended {
                Some(pid) => waitpid(Some(pid), WaitOptions::NOHANG),
                None => wait(WaitOptions::NOHANG),
            };
            let Ok(Some((pid, status))) = waited else {
                return;
            };
            let status = ExitStatus::from_raw(status.as_raw());
            if let Some(stage) = self.stage_of(Some(pid)) {
                self.stages[stage].status = Some(status);
                if let Some(observer) = &mut self.observer {
                    observer.watch.status(stage, status);
                }
            } else {
                // What a stage has left behind is a child of this process before the stage has ended, so its failure
                // counts before the success of the stage.
                self.settle_left(pid, name, status);
            }
        }
    }

    /// Returns the number of the stage whose first process this is.
    fn stage_of(&self, pid: Option<Pid>) -> Option<usize> {
        let is = |stage: &Started| Some(stage.pid) == pid && stage.status.is_none();
        self.stages.iter().position(is)
    }
}
