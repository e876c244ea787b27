//! Parts: what the processes of an experiment do that are neither writers nor readers. Each group has its
//! own parts, and so have the trials.
//!
//! A part has a name and a task, which comes as JSON on the command line (`program.rs`). It finds the
//! fds that it needs on stdin and stdout, does its work, and reports the outcome in one line of JSON
//! on stderr, because stdout may be what is measured.

use std::io::{Write, stderr};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use fullbore_host::refusal::Usage;
use fullbore_results::run::Settings;

/// What a process is to do.
pub trait Task: Serialize + DeserializeOwned {
    /// The name of the part, unique in the whole program.
    const NAME: &'static str;

    /// Does it in this process.
    ///
    /// # Errors
    /// [`Unsupported`](fullbore_host::refusal::Unsupported) where this machine does not allow it.
    fn play(self) -> Result<()>;
}

/// A part, as a row in a table.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// The name of its task.
    pub name: &'static str,
    /// Plays it, with a task that is read from JSON.
    play: fn(&str) -> Result<()>,
}

impl Part {
    /// The part that does this task.
    pub const fn of<T: Task>() -> Self {
        Self {
            name: T::NAME,
            play: play::<T>,
        }
    }

    /// Plays it in this process.
    ///
    /// # Errors
    /// [`Usage`] where the JSON is not a task of this part; those of the task.
    pub fn play(&self, task: &str) -> Result<()> {
        (self.play)(task)
    }
}

fn play<T: Task>(task: &str) -> Result<()> {
    let task: T = serde_json::from_str(task)
        .map_err(|error| Usage(format!("not a task of the part '{}': {error}", T::NAME)))?;
    task.play()
}

/// For how long a part measures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Seconds that are measured.
    pub seconds: f64,
    /// Seconds before, that are not.
    pub warm_up_seconds: f64,
}

impl Timing {
    /// As a run is set to.
    pub fn of(settings: &Settings) -> Self {
        Self {
            seconds: settings.seconds,
            warm_up_seconds: settings.warm_up_seconds,
        }
    }

    /// When a part has not ended by then, it will not.
    pub fn patience(&self) -> Duration {
        Duration::from_secs_f64(5.0 + 4.0 * (self.seconds + self.warm_up_seconds))
    }
}

/// Reports the outcome.
pub fn say(report: &impl Serialize) -> Result<()> {
    writeln!(stderr(), "{}", serde_json::to_string(report)?).context("report on stderr")
}
