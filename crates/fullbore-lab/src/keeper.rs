//! Removes what a run has made outside of itself, however the run ends: a separate process waits for the end of the
//! laboratory, and then cleans up.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;

use crate::part::Task;
use crate::process::Process;
use crate::program::Program;

/// How long cleaning up may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that does its task once this value is dropped, or this process has ended. The task begins with
/// [`wait_for_the_end_of_stdin`].
#[derive(Debug)]
pub struct Keeper(Process);

impl Keeper {
    /// Starts the process.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn start<T: Task>(program: &Program, task: &T) -> Result<Self> {
        let mut command = program.part_that_cleans_up(task)?;
        // It is in another process group, so that Ctrl-C does not end it.
        command.stdout(Stdio::null()).process_group(0);
        Ok(Self(Process::start(command)?))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.take_stdin());
        let _ = self.0.ends_within(PATIENCE);
    }
}

/// Waits for the end of stdin, which means that no process is left that could write to it, so that the
/// process that started this one has ended.
pub fn wait_for_the_end_of_stdin() {
    let mut byte = [0];
    // Any read error counts as an end, too.
    while io::stdin().read(&mut byte).is_ok_and(|n| n > 0) {}
}
