//! What became of each pipe: a line for people, an object for machines, and the exit code.

use std::fmt::{self, Write as _};

use fullbore::pipe::Limit;
use rustix::io::Errno;
use serde_json::{Value, json};

use super::evidence::{Sends, Writer};
use super::target::Found;
use super::{Options, Outcome, Tuned};
use crate::moving::said;
use crate::pipeline::census::{Census, Holder, Pipe};
use fullbore_host::machine::format_bytes;
use fullbore_host::refusal::UNSUPPORTED;

/// Hazard of a pipe that grows under its writer, in two sentences.
const WHY: &str = "\
a writer that hands pages of its own to a pipe (vmsplice) may write to them again once the pipe, at the \
size it knows, must have let go of them. In a larger pipe they still wait to be read, and the reader gets \
wrong bytes";

/// What became of all pipes.
#[derive(Debug)]
pub struct Report {
    pub(super) census: Census,
    pub(super) found: Found,
    pub(super) all: Vec<Tuned>,
    pub(super) options: Options,
    /// Whether the old sizes could be kept.
    pub(super) kept: anyhow::Result<()>,
}

impl Report {
    /// 0 where all is as it was asked for; 3 where a limit or a right is in the way; 1 for the rest.
    pub fn code(&self) -> u8 {
        let of = |one: &Tuned| match one.outcome {
            Outcome::Failed(Errno::ACCESS | Errno::PERM) => UNSUPPORTED,
            Outcome::Refused { .. }
            | Outcome::TooFull { .. }
            | Outcome::ChangedSince { .. }
            | Outcome::HalfOpen
            | Outcome::Failed(_) => 1,
            _ if one.limit.is_some() && self.options.is_strict => UNSUPPORTED,
            _ => 0,
        };
        let codes = || self.all.iter().map(of);
        // No pipe is made smaller, which may be what was meant.
        let is_left = |one: &Tuned| matches!(one.outcome, Outcome::Roomy { size } if self.is_more_than_asked(size));
        let nothing_done = !self.all.is_empty() && self.all.iter().all(is_left);
        let without_memory = self.options.revert && self.kept.is_err();
        match codes().any(|code| code == 1) || without_memory || nothing_done {
            true => 1,
            false => codes().max().unwrap_or(0),
        }
    }

    /// Whether a pipe of this size holds more than what was asked for by a number.
    fn is_more_than_asked(&self, size: usize) -> bool {
        self.options.is_strict && size > self.options.size.next_power_of_two()
    }

    /// Whether something was left as it was because its writers may not bear more.
    pub fn is_refused(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|one| matches!(one.outcome, Outcome::Refused { .. }))
    }

    /// What a person has to know besides, for stderr.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if !self.found.several.is_empty() {
            let pids: Vec<String> = self.found.several.iter().map(u32::to_string).collect();
            all.push(format!(
                "{} processes are called so: {}",
                pids.len(),
                pids.join(", ")
            ));
        }
        let refused = self
            .all
            .iter()
            .filter(|one| matches!(one.outcome, Outcome::Refused { .. }))
            .count();
        if refused > 0 {
            all.push(format!(
                "{refused} left as before: {WHY}. --force grows all the same"
            ));
        }
        let is_forced = |one: &&Tuned| {
            let grown = matches!(one.outcome, Outcome::Grown { .. });
            grown && !super::is_safe(&one.writers)
        };
        let forced = self.all.iter().filter(is_forced).count();
        if forced > 0 {
            all.push(format!("{forced} grown by force: {WHY}"));
        }
        if let Err(error) = &self.kept {
            let missing = match self.options.revert {
                true => "the old sizes are not known",
                false => "--revert will not know the old sizes",
            };
            all.push(format!("{missing}: {error:#}"));
        }
        all
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let pipes: Vec<Value> = self.all.iter().map(|one| self.json_of(one)).collect();
        json!({
            "size": self.options.size,
            "revert": self.options.revert,
            "force": self.options.force,
            "dry_run": self.options.dry_run,
            "pipes": pipes,
            "left_out": self.found.left_out,
        })
    }

    fn json_of(&self, one: &Tuned) -> Value {
        let pipe = &self.census.pipes[one.pipe];
        let (word, from, to) = match one.outcome {
            Outcome::Grown { from, to } => ("grown", Some(from), Some(to)),
            Outcome::Reverted { from, to } => ("reverted", Some(from), Some(to)),
            Outcome::Roomy { size } => ("roomy", Some(size), Some(size)),
            Outcome::Stopped { size } => ("stopped", Some(size), Some(size)),
            Outcome::NeverTuned { size } => ("never_tuned", Some(size), Some(size)),
            Outcome::ChangedSince { size } => ("changed_since", Some(size), Some(size)),
            Outcome::Refused { size } => ("refused", Some(size), Some(size)),
            Outcome::TooFull { size, .. } => ("too_full", Some(size), Some(size)),
            Outcome::HalfOpen => ("half_open", None, None),
            Outcome::Failed(_) => ("failed", None, None),
        };
        let person = |process: usize| {
            let process = &self.census.processes[process];
            json!({
                "pid": process.id.pid,
                "name": process.name,
                "command": process.command,
            })
        };
        let all = |holders: &mut dyn Iterator<Item = &Holder>| -> Vec<Value> {
            holders.map(|holder| person(holder.process)).collect()
        };
        let sends = one.writers.iter().map(|writer| {
            let (word, because) = sends(writer);
            json!({
                "pid": self.census.processes[writer.process].id.pid,
                "sends": word,
                "because": because,
            })
        });
        json!({
            "device": pipe.identity.device,
            "inode": pipe.identity.inode,
            "path": pipe.name,
            "writers": all(&mut pipe.writers()),
            "readers": all(&mut pipe.readers()),
            "outcome": word,
            "from": from,
            "to": to,
            "limit": one.limit.as_ref().map(Limit::to_string),
            "error": match one.outcome {
                Outcome::Failed(errno) => Some(said(&errno.into())),
                _ => None,
            },
            "judged": sends.collect::<Vec<Value>>(),
        })
    }

    /// Who writes, and who reads: `tar 12 → zstd 13`.
    fn ends(&self, pipe: &Pipe) -> String {
        let named = |holders: &mut dyn Iterator<Item = &Holder>| {
            let all: Vec<&Holder> = holders.collect();
            match all.as_slice() {
                [] => "?".to_owned(),
                [one] => self.who(one.process),
                [.., last] => format!("{} (and {} more)", self.who(last.process), all.len() - 1),
            }
        };
        let writers = named(&mut pipe.writers());
        let readers = named(&mut pipe.readers());
        match &pipe.name {
            Some(path) => format!("{writers} → {readers} by {path}"),
            None => format!("{writers} → {readers}"),
        }
    }

    fn who(&self, process: usize) -> String {
        let process = &self.census.processes[process];
        format!("{} {}", process.name, process.id.pid)
    }

    /// What became of one.
    fn words(&self, one: &Tuned) -> String {
        let bytes = |size: usize| format_bytes(size as u64);
        let would = match self.options.dry_run {
            true => "would be ",
            false => "",
        };
        match one.outcome {
            Outcome::Grown { from, to } => {
                let mut text = format!("{would}{} → {}", bytes(from), bytes(to));
                if let Some(limit) = &one.limit {
                    let wanted = bytes(self.options.size);
                    let _ = write!(text, ", not {wanted}: {limit}");
                }
                text
            }
            Outcome::Stopped { size } => {
                let limit = one
                    .limit
                    .as_ref()
                    .map_or_else(String::new, Limit::to_string);
                format!("{}, not {}: {limit}", bytes(size), bytes(self.options.size))
            }
            Outcome::Reverted { from, to } => {
                format!("{would}{} → {}, as before", bytes(from), bytes(to))
            }
            Outcome::Roomy { size } if self.is_more_than_asked(size) => format!(
                "left at {}, which is more than {}: tune makes no pipe smaller",
                bytes(size),
                bytes(self.options.size)
            ),
            Outcome::Roomy { size } => format!("{} already", bytes(size)),
            Outcome::NeverTuned { size } => format!("{}, and was never tuned", bytes(size)),
            Outcome::ChangedSince { size } => format!(
                "{}, by somebody else since it was tuned; --force puts it back all the same",
                bytes(size)
            ),
            Outcome::Refused { size } => format!("{}, refused: {}", bytes(size), self.doubt(one)),
            Outcome::TooFull { size, wanted } => format!(
                "{}: has held more than {} for a second; try again when less is in it",
                bytes(size),
                bytes(wanted)
            ),
            Outcome::HalfOpen => {
                "left alone: open on one side only, and opening it would let someone in".to_owned()
            }
            Outcome::Failed(Errno::NOENT) => "has gone".to_owned(),
            Outcome::Failed(errno) => said(&errno.into()),
        }
    }

    /// What speaks against growing it.
    fn doubt(&self, one: &Tuned) -> String {
        match one.writers.first() {
            None => "nobody who writes to it can be seen".to_owned(),
            Some(writer) => {
                let (_, because) = sends(writer);
                format!("{}: {because}", self.who(writer.process))
            }
        }
    }
}

fn sends(writer: &Writer) -> (&'static str, &'static str) {
    match writer.sends {
        Sends::Safely(because) => ("safely", because),
        Sends::Pages(because) => ("pages", because),
        Sends::Unknown(because) => ("unknown", because),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends: Vec<String> = self
            .all
            .iter()
            .map(|one| self.ends(&self.census.pipes[one.pipe]))
            .collect();
        let width = ends.iter().map(|ends| ends.chars().count()).max();
        let width = width.unwrap_or(0).min(60);
        for (one, ends) in self.all.iter().zip(ends) {
            writeln!(f, "{ends:<width$}  {}", self.words(one))?;
        }
        if self.all.is_empty() {
            writeln!(f, "no pipe to another process")?;
        }
        Ok(())
    }
}
