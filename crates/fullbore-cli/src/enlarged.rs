//! The report for people on pipes that were to be enlarged, which `tune` and `top` show: a line per pipe, warnings,
//! and the exit code.

use std::fmt::{self, Write as _};

use fullbore::PipeLimit;
use rustix::io::Errno;

use fullbore_host::refusal::UNSUPPORTED;
use fullbore_host::size;
use fullbore_host::text::{columns, counted, error_text, padded};
use fullbore_observe::census::{Holder, Pipe};
use fullbore_observe::tune::outcome::{Outcome, Tuned, Tuning, is_safe};

/// The hazard of a pipe that is enlarged under its writer, in two sentences.
const WHY: &str = "\
a writer that passes its own pages to a pipe (vmsplice) may rely on the pipe's capacity to know \
when it can reuse them. In a larger pipe they have not been read yet, and the reader gets wrong \
bytes";

/// The report on the results for all pipes.
#[derive(Debug)]
pub struct Report(pub Tuning);

impl Report {
    /// Returns the exit code: 0 if everything is as requested; 3 if a limit or a missing permission prevents
    /// it; 1 otherwise.
    pub fn code(&self) -> u8 {
        let of = |one: &Tuned| match one.outcome {
            Outcome::Failed(Errno::ACCESS | Errno::PERM) => UNSUPPORTED,
            Outcome::Refused { .. }
            | Outcome::TooFull { .. }
            | Outcome::ChangedSince { .. }
            | Outcome::HalfOpen
            | Outcome::Failed(_) => 1,
            _ if one.limit.is_some() && self.0.options.is_strict => UNSUPPORTED,
            _ => 0,
        };
        let codes = || self.0.all.iter().map(of);
        // tune makes no pipe smaller, which is perhaps what the user wanted.
        let is_left = |one: &Tuned| matches!(one.outcome, Outcome::Roomy { size } if self.is_more_than_asked(size));
        let nothing_done = !self.0.all.is_empty() && self.0.all.iter().all(is_left);
        let without_memory = self.0.options.revert && self.0.kept.is_err();
        match codes().any(|code| code == 1) || without_memory || nothing_done {
            true => 1,
            false => codes().max().unwrap_or(0),
        }
    }

    /// Returns whether a pipe of this size exceeds a capacity that was explicitly requested.
    fn is_more_than_asked(&self, size: usize) -> bool {
        self.0.options.is_strict && size > self.0.options.size.next_power_of_two()
    }

    /// Returns whether a pipe was left unchanged because a larger one may not be safe for its writers.
    pub fn is_refused(&self) -> bool {
        let mut all = self.0.all.iter();
        all.any(|one| matches!(one.outcome, Outcome::Refused { .. }))
    }

    /// Returns the warnings for stderr.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if !self.0.found.several.is_empty() {
            let pids: Vec<String> = self.0.found.several.iter().map(u32::to_string).collect();
            all.push(format!(
                "{} processes have this name: {}",
                pids.len(),
                pids.join(", ")
            ));
        }
        let refused = self
            .0
            .all
            .iter()
            .filter(|one| matches!(one.outcome, Outcome::Refused { .. }))
            .count();
        if refused > 0 {
            let pipes = counted(refused, "pipe was", "pipes were");
            all.push(format!(
                "{pipes} not enlarged: {WHY}. --force enlarges them anyway"
            ));
        }
        let is_forced = |one: &&Tuned| {
            let grown = matches!(one.outcome, Outcome::Grown { .. });
            grown && !is_safe(&one.writers)
        };
        let forced = self.0.all.iter().filter(is_forced).count();
        if forced > 0 {
            let pipes = counted(forced, "pipe was", "pipes were");
            all.push(format!("{pipes} enlarged because of --force: {WHY}"));
        }
        if let Err(error) = &self.0.kept {
            let missing = match self.0.options.revert {
                true => "the original capacities are unknown",
                false => "--revert will not be able to restore the capacities",
            };
            all.push(format!("{missing}: {error:#}"));
        }
        all
    }

    /// Returns the processes that write and the processes that read: `tar 12 → zstd 13`.
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
        let process = &self.0.census.processes[process];
        format!("{} {}", process.name, process.id.pid)
    }

    /// Describes the result for one pipe.
    fn words(&self, one: &Tuned) -> String {
        let bytes = |size: usize| size::format(size as u64);
        let would = match self.0.options.dry_run {
            true => "would be ",
            false => "",
        };
        match one.outcome {
            Outcome::Grown { from, to } => {
                let mut text = format!("{would}{} → {}", bytes(from), bytes(to));
                if let Some(limit) = &one.limit {
                    let wanted = bytes(self.0.options.size);
                    let _ = write!(text, " instead of {wanted}: {limit}");
                }
                text
            }
            Outcome::Stopped { size } => {
                let limit = one
                    .limit
                    .as_ref()
                    .map_or_else(String::new, PipeLimit::to_string);
                format!(
                    "{} instead of {}: {limit}",
                    bytes(size),
                    bytes(self.0.options.size)
                )
            }
            Outcome::Reverted { from, to } => {
                format!("{would}{} → {} (restored)", bytes(from), bytes(to))
            }
            Outcome::Roomy { size } if self.is_more_than_asked(size) => format!(
                "left at {}, which is more than {}: tune makes no pipe smaller",
                bytes(size),
                bytes(self.0.options.size)
            ),
            Outcome::Roomy { size } => format!("{} already", bytes(size)),
            Outcome::NeverTuned { size } => format!("{}; it was never tuned", bytes(size)),
            Outcome::ChangedSince { size } => format!(
                "{}; another program has resized it since it was tuned; --force restores it anyway",
                bytes(size)
            ),
            Outcome::Refused { size } => format!("{}, refused: {}", bytes(size), self.doubt(one)),
            Outcome::TooFull { size, wanted } => format!(
                "{}: it contained more than {} for one second; try again later",
                bytes(size),
                bytes(wanted)
            ),
            Outcome::HalfOpen => {
                "not changed: only one side is open, and opening it here would complete the \
                 open(2) of another process"
                    .to_owned()
            }
            Outcome::Failed(Errno::NOENT) => "it no longer exists".to_owned(),
            Outcome::Failed(errno) => error_text(&errno.into()),
        }
    }

    /// Returns the reason not to enlarge a pipe.
    fn doubt(&self, one: &Tuned) -> String {
        match one.writers.first() {
            None => "no visible process writes to it".to_owned(),
            Some(writer) => {
                format!("{}: {}", self.who(writer.process), writer.sends.because())
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends: Vec<String> = self
            .0
            .all
            .iter()
            .map(|one| self.ends(&self.0.census.pipes[one.pipe]))
            .collect();
        let width = ends.iter().map(|ends| columns(ends)).max();
        let width = width.unwrap_or(0).min(60);
        for (one, ends) in self.0.all.iter().zip(ends) {
            writeln!(f, "{}  {}", padded(&ends, width), self.words(one))?;
        }
        if self.0.all.is_empty() {
            writeln!(f, "no pipe leads from its stdout, or to its stdin")?;
        }
        Ok(())
    }
}
