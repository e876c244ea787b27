//! The report for people on pipes that were to be enlarged, which `tune` and `top` show: a line per pipe, warnings,
//! and the exit code.

use std::fmt;

use fullbore::PipeLimit;
use rustix::io::Errno;

use fullbore_host::refusal::UNSUPPORTED;
use fullbore_host::size;
use fullbore_host::text::{columns, counted, error_text, padded};
use fullbore_observe::USUAL;
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
        let of = |one: &Tuned| match (one.outcome, one.errno) {
            (_, Some(Errno::ACCESS | Errno::PERM)) => UNSUPPORTED,
            (Outcome::Refused | Outcome::TooFull | Outcome::HalfOpen | Outcome::Failed, _) => 1,
            _ if one.limit.is_some() && self.0.options.is_strict => UNSUPPORTED,
            _ => 0,
        };
        let codes = || self.0.all.iter().map(of);
        // tune makes no pipe smaller, which is perhaps what the user wanted.
        let is_left = |one: &Tuned| one.outcome == Outcome::Roomy && self.is_more_than_asked(one);
        let nothing_done = !self.0.all.is_empty() && self.0.all.iter().all(is_left);
        match codes().any(|code| code == 1) || nothing_done {
            true => 1,
            false => codes().max().unwrap_or(0),
        }
    }

    /// Returns whether a pipe exceeds a capacity that was explicitly requested.
    fn is_more_than_asked(&self, one: &Tuned) -> bool {
        self.0.options.is_strict && one.from > Some(self.0.options.size.next_power_of_two())
    }

    /// Returns the pipes that were left unchanged because larger ones may not be safe for their writers.
    pub fn refused(&self) -> impl Iterator<Item = &Tuned> {
        let all = self.0.all.iter();
        all.filter(|one| one.outcome == Outcome::Refused)
    }

    /// Returns the warnings for stderr.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        let pids: Vec<String> = self.0.found.several.iter().map(u32::to_string).collect();
        if !pids.is_empty() {
            let (count, pids) = (pids.len(), pids.join(", "));
            all.push(format!("{count} processes have this name: {pids}"));
        }
        let refused = self.refused().count();
        if refused > 0 {
            let pipes = counted(refused, "pipe was", "pipes were");
            all.push(format!(
                "{pipes} not enlarged: {WHY}. --force enlarges them anyway"
            ));
        }
        let is_forced = |one: &&Tuned| one.outcome == Outcome::Grown && !is_safe(&one.writers);
        let forced = self.0.all.iter().filter(is_forced).count();
        if forced > 0 {
            let pipes = counted(forced, "pipe was", "pipes were");
            all.push(format!("{pipes} enlarged because of --force: {WHY}"));
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
        let (from, to) = (one.from.unwrap_or(0), one.to.unwrap_or(0));
        let (from, to, wanted) = (bytes(from), bytes(to), bytes(self.0.options.size));
        let limit = one
            .limit
            .as_ref()
            .map_or_else(String::new, PipeLimit::to_string);
        let would = match self.0.options.dry_run {
            true => "would be ",
            false => "",
        };
        match one.outcome {
            Outcome::Grown if !limit.is_empty() => {
                format!("{would}{from} → {to} instead of {wanted}: {limit}")
            }
            Outcome::Grown | Outcome::Reverted => format!("{would}{from} → {to}"),
            Outcome::Stopped => format!("{from} instead of {wanted}: {limit}"),
            Outcome::Roomy if self.is_more_than_asked(one) => {
                format!("left at {from}, which is more than {wanted}: tune makes no pipe smaller")
            }
            Outcome::Roomy | Outcome::NotLarger => format!("{from} already"),
            Outcome::Refused => match one.writers.first() {
                None => format!("{from}, refused: no visible process writes to it"),
                Some(writer) => {
                    let who = self.who(writer.process);
                    format!("{from}, refused: {who}: {}", writer.because)
                }
            },
            Outcome::TooFull => format!(
                "{from}: it contained more than {} for one second; try again later",
                bytes(USUAL)
            ),
            Outcome::HalfOpen => {
                "not changed: only one side is open, and opening it here would complete the \
                 open(2) of another process"
                    .to_owned()
            }
            Outcome::Failed => match one.errno {
                None | Some(Errno::NOENT) => "it no longer exists".to_owned(),
                Some(errno) => error_text(&errno.into()),
            },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pipe = |one: &Tuned| self.ends(&self.0.census.pipes[one.pipe]);
        let ends: Vec<String> = self.0.all.iter().map(pipe).collect();
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
