//! Readers that are programs which people have. They report nothing, so the producer measures; at the end, what they
//! have counted has to be what was sent.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::data::seen;
use super::table::Use;
use crate::catalogue::transports::stream::Moved;
use crate::measurement::Measured;
use crate::process::{GRACE, Process};
use crate::task::{Task, Timing};
use fullbore_host::refusal::Unsupported;

/// The task of becoming this program.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExecuteTask {
    pub line: String,
}

impl Task for ExecuteTask {
    const NAME: &'static str = "worth_execute";

    fn play(self) -> Result<()> {
        let mut words = self.line.split(' ');
        let program = words.next().unwrap_or_default();
        let error = Command::new(program).args(words).exec();
        match error.kind() {
            ErrorKind::NotFound => Err(Unsupported(format!("{program} is not on PATH")).into()),
            _ => Err(error).context(self.line),
        }
    }
}

/// Waits for both processes.
///
/// # Errors
/// Fails if one fails, or the reader has counted anything but what was sent.
pub fn measured(to: Use, timing: Timing, reading: Process, producing: Process) -> Result<Measured> {
    let read = reading.end_within(timing.patience())?;
    if let Err(stop) = read.went_well("reader") {
        return Err(producing.own_fault("producer")?.unwrap_or(stop).into());
    }
    let produced = producing.end_within(GRACE)?;
    let moved: Moved = produced.report("producer")?;
    let printed = String::from_utf8_lossy(&read.output.stdout);
    let expected = counted(to, moved.all);
    if printed.trim() != expected {
        bail!("the reader has counted {}, not {expected}", printed.trim());
    }
    Ok(moved.measured()?)
}

/// What the program prints of these bytes, which are whole blocks.
fn counted(to: Use, bytes: u64) -> String {
    let block = seen();
    let text = String::from_utf8_lossy(&block);
    let lines = match to {
        Use::Grep => text.lines().filter(|line| line.contains("curl")).count(),
        Use::Wc => text.lines().count(),
        _ => return String::new(),
    };
    (lines as u64 * (bytes / block.len() as u64)).to_string()
}
