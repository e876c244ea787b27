//! Tries each technique that this project uses and that a machine may refuse. A new trial is a new row
//! in [`TRIALS`] and a function beside the others.
//!
//! Each trial runs in its own process (`process`): a trial that hangs is killed when its time is up, a
//! sandbox that kills it ends only that process, and everything it opened is closed with it. A trial
//! moves bytes, compares them, and reports a [`TrialOutcome`] in one line of JSON.

mod attempt;
mod calls;
mod memory;
mod pipes;

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use attempt::Stop;
use fullbore_results::doctor::{Refusal, TrialOutcome};

use crate::process;
use crate::program::Program;
use crate::task::{self, Part, Task};

/// How long a trial may take; none needs a tenth of a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// One technique.
pub struct Trial {
    /// Its name, unique in the table.
    pub name: &'static str,
    /// What the technique is for.
    pub purpose: &'static str,
    /// Tries it, and describes what was observed.
    try_it: fn() -> Result<String, Stop>,
}

/// The trials, in the order of display.
#[rustfmt::skip]
pub const TRIALS: &[Trial] = &[
    Trial { name: "splice", purpose: "moves pages from pipe to pipe; used by readers by reference, copy and tee", try_it: calls::splice },
    Trial { name: "splice_file", purpose: "puts a file's pages into a pipe: copy --by-reference", try_it: calls::splice_file },
    Trial { name: "splice_socket", purpose: "moves bytes from a pipe into a Unix socket and back: copy, unix_copy", try_it: calls::splice_socket },
    Trial { name: "vmsplice", purpose: "puts a program's own pages into a pipe: the fast writers", try_it: calls::vmsplice },
    Trial { name: "tee", purpose: "duplicates what is in a pipe without taking it: repeat", try_it: calls::tee },
    Trial { name: "sendfile", purpose: "from a file into a socket within the kernel: copy", try_it: calls::sendfile },
    Trial { name: "copy_file_range", purpose: "from file to file within the kernel: copy", try_it: calls::copy_file_range },
    Trial { name: "fresh_pages", purpose: "passes pages to a pipe and never reuses them; used by copy, tee and \
     Producer; correct for every reader", try_it: calls::fresh_pages },
    Trial { name: "nowait", purpose: "RWF_NOWAIT: chooses for each call whether to wait", try_it: pipes::nowait },
    Trial { name: "roomy_pipe", purpose: "gives a pipe 1 MiB, so that both sides sleep less often", try_it: pipes::roomy_pipe },
    Trial { name: "jumbo_slots", purpose: "32 KiB of contiguous memory in one slot; used by Repeat", try_it: pipes::jumbo_slots },
    Trial { name: "huge_pages", purpose: "transparent huge pages: faster to look up, and 512 base pages per fault", try_it: memory::huge_pages },
    Trial { name: "memfd", purpose: "memory with an fd: shared memory between processes", try_it: memory::memfd },
    Trial { name: "pinning", purpose: "runs a process on one CPU; used for every figure of bench", try_it: calls::pinning },
];

/// Returns the part of the trials' processes, if it has this name.
pub fn part(name: &str) -> Option<Part> {
    (name == TrialTask::NAME).then(Part::of::<TrialTask>)
}

/// The task of a trial's process.
#[derive(Debug, Serialize, Deserialize)]
struct TrialTask {
    name: String,
}

impl Task for TrialTask {
    const NAME: &'static str = "trial";

    /// Runs the trial with this name in this process, and reports its outcome.
    ///
    /// # Errors
    /// Fails if there is no such trial, or the outcome cannot be reported.
    fn play(self) -> Result<()> {
        let name = &self.name;
        let trial = TRIALS.iter().find(|trial| trial.name == *name);
        let trial = trial.ok_or_else(|| anyhow::anyhow!("unknown trial '{name}'"))?;
        let outcome = (trial.try_it)().map_or_else(|stop| stop.0, TrialOutcome::Works);
        task::say(&outcome)
    }
}

impl Trial {
    /// Runs the trial in its own process; returns the outcome and how long it took.
    pub fn run(&self, program: &Program) -> (TrialOutcome, Duration) {
        let began = Instant::now();
        let outcome = self.in_a_process(program);
        let outcome = outcome.unwrap_or_else(|error| Stop::from(error).0);
        (outcome, began.elapsed())
    }

    fn in_a_process(&self, program: &Program) -> Result<TrialOutcome> {
        let task = TrialTask {
            name: self.name.into(),
        };
        let process = program.start(&task, None, Stdio::null(), Stdio::null())?;
        let ended = process.end_within(PATIENCE)?;
        let refused = |signal, said| {
            TrialOutcome::Refused(Refusal {
                operation: self.name.into(),
                errno: None,
                signal,
                said,
            })
        };
        if ended.killed {
            let seconds = PATIENCE.as_secs();
            return Ok(refused(None, format!("no result within {seconds} s")));
        }
        if let Ok(outcome) = process::report(&ended.output.stderr) {
            return Ok(outcome);
        }
        let status = ended.output.status;
        let (ended, words) = (process::ended(status), process::last_words(&ended.output));
        let said = format!("the trial's process {ended}: {words}");
        Ok(refused(status.signal(), said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_what_they_are_for() {
        let mut names: Vec<_> = TRIALS.iter().map(|trial| trial.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TRIALS.len());
        assert!(TRIALS.iter().all(|trial| !trial.purpose.is_empty()));
    }
}
