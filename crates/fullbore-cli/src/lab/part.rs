//! The parts that processes of this program play in experiments that are more than a writer and a
//! reader: each group's parts are its own, and come as JSON on the command line.
//!
//! A part finds the fds that it needs on stdin and stdout, does its work, and says what came of it
//! in one line of JSON on stderr, because stdout may be what is measured.

use std::io::{Write, stderr};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::process;

/// What a process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Part {}

impl Part {
    /// A process that plays it, on one CPU or on any.
    pub fn command(&self, cpu: Option<usize>) -> Result<Command> {
        let mut command = process::fullbore("part");
        if let Some(cpu) = cpu {
            command.arg(format!("--cpu={cpu}"));
        }
        command
            .arg(serde_json::to_string(self)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Ok(command)
    }

    /// Plays it in this process.
    ///
    /// # Errors
    /// [`Unsupported`](crate::exit::Unsupported) where this machine does not allow it.
    pub fn play(self) -> Result<()> {
        match self {}
    }
}

impl FromStr for Part {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// Says what came of it.
pub fn say(report: &impl Serialize) -> Result<()> {
    writeln!(stderr(), "{}", serde_json::to_string(report)?).context("report on stderr")
}
