//! The parts that processes of this program play in experiments that are more than a writer and a
//! reader: each group's parts are its own, and come as JSON on the command line.
//!
//! A part finds the fds that it needs on stdin and stdout, does its work, and says what came of it
//! in one line of JSON on stderr, because stdout may be what is measured.

use std::io::{Write, stderr};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::latency::{self, Exchange, Role};
use super::page_lookup::{self, Which};
use super::pipelines::{Kept, Once};
use super::process;
use super::transports::link::Link;
use super::transports::{Alone, stream};
use super::unix_copy;
use crate::doctor::trials::{self, Target};
use crate::results::run::{Settings, Sizes};

/// What a process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Part {
    /// Send messages of so many bytes until nobody receives them any more.
    Send { link: Link, message: usize },
    /// Receive them, and measure.
    Receive {
        link: Link,
        message: usize,
        timing: Timing,
    },
    /// Read a file or use memory.
    Alone { what: Alone, timing: Timing },
    /// Send messages, wait for each to come back, and take the times.
    Ping { exchange: Exchange, timing: Timing },
    /// Send messages back.
    Pong { exchange: Exchange },
    /// Wake, or be woken.
    WakeUp { role: Role, timing: Timing },
    /// Look pages up, and measure what that takes.
    PageLookup { pages: Which, timing: Timing },
    /// Try a technique, for the doctor.
    Trial {
        name: String,
        target: Option<Target>,
    },
    /// Send an object again and again, or receive it.
    UnixCopy { role: unix_copy::Role, sizes: Sizes },
    /// Run a command once, and time it.
    Once(Once),
    /// Remove a directory when everybody else has gone.
    Keep(Kept),
}

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

    /// A process that plays it, on any CPU, and that is not killed with this one: it has something to
    /// clean up, and ends when its stdin does.
    pub fn command_that_cleans_up(&self) -> Result<Command> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("part")
            .arg(serde_json::to_string(self)?)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }

    /// Plays it in this process.
    ///
    /// # Errors
    /// [`Unsupported`](crate::host::refusal::Unsupported) where this machine does not allow it.
    pub fn play(self) -> Result<()> {
        match self {
            Part::Send { link, message } => stream::send(link, message),
            Part::Receive {
                link,
                message,
                timing,
            } => stream::receive(link, message, timing),
            Part::Alone { what, timing } => what.play(timing),
            Part::Ping { exchange, timing } => latency::ping(exchange, timing),
            Part::Pong { exchange } => latency::pong(exchange),
            Part::WakeUp { role, timing } => latency::wake_up(role, timing),
            Part::PageLookup { pages, timing } => page_lookup::play(pages, timing),
            Part::Trial { name, target } => trials::play(&name, target),
            Part::UnixCopy { role, sizes } => role.play(&sizes),
            Part::Once(once) => once.play(),
            Part::Keep(kept) => kept.play(),
        }
    }
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
