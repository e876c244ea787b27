//! The report for people on pipes that were to be enlarged, which `tune` and `top` show: a line per pipe, warnings,
//! and the exit code.

use std::fmt;

use rustix::io::Errno;

use fullbore_host::refusal::UNSUPPORTED;
use fullbore_host::size;
use fullbore_host::text::{columns, counted, error_text, padded};
use fullbore_observe::USUAL;
use fullbore_observe::census::Process;
use fullbore_observe::tune::outcome::Outcome;
use fullbore_observe::tune::report::{TunedPipe, TuningReport};

/// The hazard of a pipe that is enlarged under its writer, in two sentences.
const WHY: &str = "\
a writer that passes its own pages to a pipe (vmsplice) may rely on the pipe's capacity to know \
when it can reuse them. In a larger pipe they have not been read yet, and the reader gets wrong \
bytes";

/// The report on the results for all pipes.
const HALF_OPEN: &str = "not changed: only one side is open, and opening it here would complete the open(2) of \
another process";

#[derive(Debug)]
pub struct Report(pub TuningReport);

impl Report {
    /// Returns the exit code: 0 if everything is as requested; 3 if a limit or a missing permission prevents
    /// it; 1 otherwise.
    pub fn code(&self) -> u8 {
        let of = |one: &TunedPipe| match (one.outcome, one.errno) {
            (_, Some(Errno::ACCESS | Errno::PERM)) => UNSUPPORTED,
            (Outcome::Refused | Outcome::TooFull | Outcome::HalfOpen | Outcome::Failed, _) => 1,
            _ if one.limit.is_some() && self.0.options.is_strict => UNSUPPORTED,
            _ => 0,
        };
        // tune makes no pipe smaller, which is perhaps what the user wanted.
        let is_left =
            |one: &TunedPipe| one.outcome == Outcome::Roomy && self.is_more_than_asked(one);
        let nothing_done = !self.0.pipes.is_empty() && self.0.pipes.iter().all(is_left);
        let codes = self.0.pipes.iter().map(of);
        match codes.clone().any(|code| code == 1) || nothing_done {
            true => 1,
            false => codes.max().unwrap_or(0),
        }
    }

    /// Returns whether a pipe exceeds a capacity that was explicitly requested.
    fn is_more_than_asked(&self, one: &TunedPipe) -> bool {
        self.0.options.is_strict && one.from > Some(self.0.options.size.next_power_of_two())
    }

    /// Returns whether a pipe was left unchanged because a larger one may not be safe for its writers.
    pub fn is_refused(&self) -> bool {
        self.count(|one| one.outcome == Outcome::Refused) > 0
    }

    fn count(&self, is_meant: impl Fn(&TunedPipe) -> bool) -> usize {
        self.0.pipes.iter().filter(|one| is_meant(one)).count()
    }

    /// Returns the warnings for stderr.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        let pids: Vec<String> = self.0.several.iter().map(u32::to_string).collect();
        if !pids.is_empty() {
            let (count, pids) = (pids.len(), pids.join(", "));
            all.push(format!("{count} processes have this name: {pids}"));
        }
        let refused = self.count(|one| one.outcome == Outcome::Refused);
        if refused > 0 {
            let pipes = counted(refused, "pipe was", "pipes were");
            all.push(format!(
                "{pipes} not enlarged: {WHY}. --force enlarges them anyway"
            ));
        }
        let forced = self.count(|one| one.outcome == Outcome::Grown && !one.is_safe());
        if forced > 0 {
            let pipes = counted(forced, "pipe was", "pipes were");
            all.push(format!("{pipes} enlarged because of --force: {WHY}"));
        }
        all
    }

    /// Describes the result for one pipe.
    fn words(&self, one: &TunedPipe) -> String {
        let bytes = |size: usize| size::format(size as u64);
        let (from, to) = (one.from.unwrap_or(0), one.to.unwrap_or(0));
        let (from, to, wanted) = (bytes(from), bytes(to), bytes(self.0.options.size));
        let limit = one.limit.as_deref().unwrap_or_default();
        let would = if self.0.options.dry_run {
            "would be "
        } else {
            ""
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
            Outcome::Refused => format!("{from}, refused: {}", doubt(one)),
            Outcome::TooFull => {
                let usual = bytes(USUAL);
                format!("{from}: it contained more than {usual} for one second; try again later")
            }
            Outcome::HalfOpen => HALF_OPEN.to_owned(),
            Outcome::Failed => match one.errno {
                None | Some(Errno::NOENT) => "it no longer exists".to_owned(),
                Some(errno) => error_text(&errno.into()),
            },
        }
    }
}

/// Returns the processes that write and the processes that read: `tar 12 → zstd 13`.
fn ends(pipe: &TunedPipe) -> String {
    let named = |users: &[Process]| match users {
        [] => "?".to_owned(),
        [one] => format!("{} {}", one.name, one.id.pid),
        [others @ .., last] => format!("{} {} (and {} more)", last.name, last.id.pid, others.len()),
    };
    let (writers, readers) = (named(&pipe.writers), named(&pipe.readers));
    match &pipe.path {
        Some(path) => format!("{writers} → {readers} by {path}"),
        None => format!("{writers} → {readers}"),
    }
}

/// Returns the reason not to enlarge a pipe.
fn doubt(pipe: &TunedPipe) -> String {
    match pipe.judged.first() {
        None => "no visible process writes to it".to_owned(),
        Some(writer) => format!("{} {}: {}", writer.name, writer.pid, writer.because),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends: Vec<String> = self.0.pipes.iter().map(ends).collect();
        let width = ends.iter().map(|ends| columns(ends)).max();
        let width = width.unwrap_or(0).min(60);
        for (one, ends) in self.0.pipes.iter().zip(ends) {
            writeln!(f, "{}  {}", padded(&ends, width), self.words(one))?;
        }
        if self.0.pipes.is_empty() {
            writeln!(f, "no pipe leads from its stdout, or to its stdin")?;
        }
        Ok(())
    }
}
