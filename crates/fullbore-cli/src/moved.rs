//! Places a pipeline that is already running on CPUs, for `tune --place`, and reports it.
//!
//! The pipeline keeps the best placement that was found. Until that is known, a guard gives it back its CPUs
//! if this process is killed.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use fullbore_observe::census::ProcessId;
use fullbore_observe::place::placing::Placing;
use fullbore_observe::place::report::PlacedPipeline;
use fullbore_observe::place::running::{self, RunningPipeline};
use fullbore_observe::place::{Goal, process_id, record};
use fullbore_observe::tune::target::Target;

use crate::guard::Guard;

/// How long placements are tried.
const AT_MOST: Duration = Duration::from_secs(10);

/// The report on a pipeline that was placed, or got back its CPUs.
#[derive(Debug)]
pub struct Moved(pub PlacedPipeline);

impl Moved {
    /// Tries placements on a pipeline, and leaves it in the best one.
    ///
    /// # Errors
    /// Fails if there is no such pipeline, a process of it belongs to another user, or the CPUs that it has
    /// cannot be recorded.
    pub fn place(target: &Target, goal: Goal) -> Result<Self> {
        record::revert(&processes(&running::find(target)?))?;
        // Its processes have the CPUs again that they had at first.
        let found = running::find(target)?;
        let processes = processes(&found);
        let by = process_id(std::process::id()).context("look at this process in /proc")?;
        record::keep(by, &processes, &found.layout.sets())?;
        let guard = Guard::start(move || drop(record::undo(by)))
            .context("start a process that gives the CPUs back if this one is killed")?;
        let mut placing = Placing::try_placements(found.pipeline, found.layout, goal);
        let until = Instant::now() + AT_MOST;
        while let Some(due) = placing.due().filter(|&due| due <= until)
            && !placing.is_resting()
        {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            placing.step();
        }
        let placed = placing.decide();
        match placed.placement.is_none() {
            true => {
                placing.end();
                record::undo(by)?;
            }
            false => placing.leave(),
        }
        guard.dismiss();
        Ok(Self(PlacedPipeline {
            stages: found.names,
            placement: Some(placed),
            reverted: None,
        }))
    }

    /// Gives a pipeline the CPUs back that it had.
    ///
    /// # Errors
    /// Fails if there is no such pipeline, a process of it belongs to another user, or the record cannot be
    /// read.
    pub fn revert(target: &Target) -> Result<Self> {
        let found = running::find(target)?;
        let reverted = record::revert(&processes(&found))?;
        Ok(Self(PlacedPipeline {
            stages: found.names,
            placement: None,
            reverted: Some(reverted.len()),
        }))
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = (self.0.stages.iter())
            .map(|stage| stage.join(", "))
            .collect();
        writeln!(f, "{}", names.join(" → "))?;
        match (&self.0.placement, self.0.reverted.unwrap_or(0)) {
            (Some(placed), _) => writeln!(f, "{}", placed.words),
            (None, 0) => f.write_str("it was never placed\n"),
            (None, 1) => f.write_str("1 process got its CPUs back\n"),
            (None, more) => writeln!(f, "{more} processes got their CPUs back"),
        }
    }
}

fn processes(found: &RunningPipeline) -> Vec<ProcessId> {
    found.pipeline.processes.concat()
}
