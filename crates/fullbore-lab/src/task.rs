//! Defines parts: the tasks of an experiment's processes that are neither writers nor readers. Each group
//! has its own parts, and so have the trials.
//!
//! A part has a name and a task, which it receives as JSON on the command line (`program.rs`). It finds
//! its fds on stdin and stdout, does its work, and reports the outcome in one line of JSON on stderr,
//! because stdout may be what is measured.

use std::io::{Read, Write, stderr, stdin};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::process::GRACE;
use fullbore_host::refusal::Usage;
use fullbore_results::run::Settings;

/// The task of a process.
pub trait Task: Serialize + DeserializeOwned {
    /// The name of the part, unique in the whole program.
    const NAME: &'static str;

    /// Does the task in this process.
    ///
    /// # Errors
    /// Returns [`Unsupported`](fullbore_host::refusal::Unsupported) if this machine does not allow it.
    fn play(self) -> Result<()>;
}

/// A part, as a row in a table.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// The name of its task, [`Task::NAME`].
    pub name: &'static str,
    /// The function that parses the task from JSON and does it.
    play: fn(&str) -> Result<()>,
}

impl Part {
    /// Returns the part that does this task.
    pub const fn of<T: Task>() -> Self {
        Self {
            name: T::NAME,
            play: play::<T>,
        }
    }

    /// Does the task in this process.
    ///
    /// # Errors
    /// Returns [`Usage`] if the JSON is not a task of this part; otherwise fails as the task does.
    pub fn play(&self, task: &str) -> Result<()> {
        (self.play)(task)
    }
}

fn play<T: Task>(task: &str) -> Result<()> {
    let task: T = serde_json::from_str(task)
        .map_err(|error| Usage(format!("not a task of the part '{}': {error}", T::NAME)))?;
    task.play()
}

/// How long a part measures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The seconds that are measured.
    pub seconds: f64,
    /// The seconds of warm-up before, which are not measured.
    pub warm_up_seconds: f64,
}

impl Timing {
    /// Returns the times of a run with these settings.
    pub fn of(settings: &Settings) -> Self {
        Self {
            seconds: settings.seconds,
            warm_up_seconds: settings.warm_up_seconds,
        }
    }

    /// Returns when the warm-up ends that begins now, and when the measurement does.
    pub fn ends(&self) -> (Instant, Instant) {
        let warm = Instant::now() + Duration::from_secs_f64(self.warm_up_seconds);
        (warm, warm + Duration::from_secs_f64(self.seconds))
    }

    /// Returns the time after which a part that has not ended is considered stuck.
    pub fn patience(&self) -> Duration {
        GRACE + Duration::from_secs_f64(4.0 * (self.seconds + self.warm_up_seconds))
    }
}

/// Writes the outcome to stderr as one line of JSON.
pub fn say(report: &impl Serialize) -> Result<()> {
    writeln!(stderr(), "{}", serde_json::to_string(report)?).context("report on stderr")
}

/// Waits for the end of stdin, which means that no process is left that could write to it, so that the
/// process that started this one has ended.
pub fn wait_for_the_end_of_stdin() {
    let mut byte = [0];
    // Any read error counts as an end, too.
    while stdin().read(&mut byte).is_ok_and(|n| n > 0) {}
}
