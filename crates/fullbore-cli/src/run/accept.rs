//! `--accept`: failures of a stage that are taken for successes, and what a stage that has ended was.
//!
//! `early` needs to know that the next stage succeeded without having read to the end. So the write end of the pipe
//! between them stays open here until the end of the first one is judged: until then, the next stage cannot have seen
//! an end of its input. With `--whole` it is on the shelf anyway.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use fullbore_host::refusal::Usage;
use fullbore_host::text::clean;
use fullbore_linux::is_closed;

use super::plan::Plan;
use super::runner::Runner;
use super::status::{code, was_ended_by_sigpipe};

/// One `--accept STAGE=CODES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    stage: String,
    codes: Codes,
}

/// The failures of a stage that are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes {
    codes: Vec<RangeInclusive<u8>>,
    /// Any failure, if the next stage has succeeded without reading to the end.
    pub early: bool,
}

/// What a stage that has ended was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    /// Its failure is accepted: the exit code, or `early`.
    Accepted(String),
    Failed,
    /// It failed when it had lost its reader, the next stage, which has failed as well.
    FailedAfterNext,
}

impl Outcome {
    pub fn is_success(&self) -> bool {
        matches!(self, Outcome::Succeeded | Outcome::Accepted(_))
    }
}

impl Accept {
    /// Parses `STAGE=CODES`.
    ///
    /// # Errors
    /// Text, if it is not of this form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (stage, list) = text.rsplit_once('=').unwrap_or_default();
        if stage.is_empty() || list.is_empty() {
            return Err("expected STAGE=CODES, such as tar=1 or 2=early".to_owned());
        }
        let mut codes = Codes::default();
        for item in list.split(',') {
            match item {
                "early" => codes.early = true,
                item => codes.codes.push(range(item).ok_or_else(|| {
                    format!("'{item}': expected exit codes from 1 to 255, such as 1, 3-5 or 1,24, or 'early'")
                })?),
            }
        }
        let stage = stage.to_owned();
        Ok(Self { stage, codes })
    }

    /// Returns what is accepted of each stage of a plan.
    ///
    /// # Errors
    /// [`Usage`] if one of `accepts` is about no stage, or the line was not split.
    pub fn of_stages(accepts: &[Self], plan: &Plan) -> Result<Vec<Codes>, Usage> {
        let mut all = vec![Codes::default(); plan.stages.len()];
        if !accepts.is_empty() {
            plan.require_stages("--accept")?;
        }
        for Accept { stage, codes } in accepts {
            let number = stage.parse::<usize>().ok();
            let is_meant = |at: &usize| match number {
                Some(number) => at + 1 == number,
                None => (plan.names.get(*at)).is_some_and(|name| is_name(stage, name.as_deref())),
            };
            let meant: Vec<usize> = (0..all.len()).filter(is_meant).collect();
            let last = all.len() - 1;
            match meant.as_slice() {
                [] => return Err(unknown(stage, plan)),
                [at] if *at == last && codes.early => {
                    return Err(Usage(format!(
                        "--accept {stage}=early: stage {} is the last one, and no stage reads its output",
                        last + 1
                    )));
                }
                _ => {}
            }
            for at in meant {
                all[at].early |= codes.early && at < last;
                all[at].codes.extend_from_slice(&codes.codes);
            }
        }
        Ok(all)
    }
}

fn range(text: &str) -> Option<RangeInclusive<u8>> {
    let code = |text: &str| {
        let code = text.parse::<u8>().ok();
        code.filter(|&code| code > 0 && text.starts_with(|c: char| c.is_ascii_digit()))
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (code(from)?, code(to)?);
    (from <= to).then_some(from..=to)
}

/// Returns whether a stage is the program of this name, or of the last part of it.
fn is_name(wanted: &str, name: Option<&OsStr>) -> bool {
    let name = name.unwrap_or_default().as_bytes();
    let last = name.rsplit(|&byte| byte == b'/').next();
    wanted.as_bytes() == name || Some(wanted.as_bytes()) == last
}

/// Returns the error that no stage is called so, with what they are called.
fn unknown(stage: &str, plan: &Plan) -> Usage {
    let named = plan.stages.iter().enumerate().map(|(at, command)| {
        let name = plan.names.get(at).cloned().flatten();
        let text = name.unwrap_or_else(|| command.text.clone());
        format!("{} {}", at + 1, clean(text.to_string_lossy().trim()))
    });
    Usage(format!(
        "--accept {stage}: no stage has this name or number; the stages are {}",
        named.collect::<Vec<_>>().join(", ")
    ))
}

impl Runner<'_> {
    /// Keeps the write end of the pipe after a stage open, if that has to be done here.
    ///
    /// # Errors
    /// Those of dup(2).
    pub(super) fn hold_for_early(&mut self, stage: usize, end: impl AsFd) -> std::io::Result<()> {
        if self.accepted[stage].early && self.whole.is_none() {
            self.held[stage] = Some(end.as_fd().try_clone_to_owned()?);
        }
        Ok(())
    }

    /// Judges the stages that have ended and were not judged yet, and does what follows.
    pub(super) fn judge_all(&mut self) {
        for stage in 0..self.stages.len() {
            let started = &self.stages[stage];
            let (Some(status), None) = (started.status, &started.outcome) else {
                continue;
            };
            let Some(outcome) = self.judge(stage) else {
                continue;
            };
            if let (Outcome::Accepted(what), Some(observer)) = (&outcome, &mut self.observer) {
                observer.watch.accepted(stage, what.clone());
            }
            self.stages[stage].outcome = Some(outcome.clone());
            if outcome != Outcome::FailedAfterNext {
                self.settle(stage, status, outcome.is_success());
            }
            self.held[stage] = None;
        }
    }

    /// Returns what a stage was; `None` if it has not ended, or if that depends on the next stage, which has not.
    fn judge(&self, stage: usize) -> Option<Outcome> {
        let started = self.stages.get(stage)?;
        let status = started.status?;
        if started.outcome.is_some() {
            return started.outcome.clone();
        }
        let by_sigpipe = was_ended_by_sigpipe(status) && !self.options.sigpipe_fails;
        // With --whole, SIGPIPE may not have come from another pipe than that to the next stage.
        if status.success() || by_sigpipe && !(self.whole.is_some() && self.has_reader(stage)) {
            return Some(Outcome::Succeeded);
        }
        // A signal of the terminal ends the pipeline, and what was ended here did not end by itself.
        let broken = self.whole.as_ref().and_then(|whole| whole.broken);
        let is_ended = self.ended_by.is_some() || broken.is_some_and(|broken| stage > broken);
        let noted = self.noted.map(|signal| signal.as_raw());
        if is_ended || noted.is_some() && status.signal() == noted {
            return Some(Outcome::Failed);
        }
        let accepted = &self.accepted[stage];
        let code = code(status);
        if accepted.codes.iter().any(|codes| codes.contains(&code)) {
            return Some(Outcome::Accepted(code.to_string()));
        }
        if !accepted.early {
            return Some(Outcome::Failed);
        }
        match (self.judge(stage + 1), self.has_reader(stage)) {
            // Its input has not ended yet, so it has not read to the end.
            (Some(next), _) if next.is_success() => Some(Outcome::Accepted("early".to_owned())),
            (Some(_), false) => Some(Outcome::FailedAfterNext),
            // Nothing reads its output any more; the next stage may still succeed.
            (None, false) => None,
            (_, true) => Some(Outcome::Failed),
        }
    }

    /// Returns whether the pipe after a stage still has a reader, if that is known; the last stage has none.
    fn has_reader(&self, stage: usize) -> bool {
        match (&self.whole, &self.held[stage]) {
            (Some(whole), _) => whole.has_reader(stage),
            // poll(2) reports POLLERR for a write end without readers.
            (None, Some(end)) => is_closed(end.as_fd()) != Ok(true),
            (None, None) => true,
        }
    }

    /// Returns what `early` has to do with a failure that was not accepted.
    pub(super) fn about_early(&self, stage: usize) -> String {
        let number = stage + 1;
        let is_about = number < self.stages.len() && !self.has_reader(stage);
        match self.stages.get(number) {
            Some(next) if is_about && next.status.is_some_and(|status| status.success()) => {
                format!(
                    " after stage {} had succeeded without reading to the end (--accept {number}=early accepts this)",
                    number + 1
                )
            }
            Some(next) if is_about && next.status.is_none() => format!(
                " after stage {} had stopped reading (if that is right, --accept {number}=early accepts this)",
                number + 1
            ),
            _ => String::new(),
        }
    }

    /// Returns the statuses of the stages; those that count as success are one.
    pub(super) fn statuses(&self) -> Vec<ExitStatus> {
        let stages = self.stages.iter();
        let counted = stages.filter_map(|stage| match stage.outcome {
            Some(Outcome::Accepted(_)) => Some(ExitStatus::default()),
            _ => stage.status,
        });
        counted.collect()
    }
}

/// The write ends that are kept open for `early`, one for each stage.
pub type Held = Vec<Option<OwnedFd>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbers_ranges_and_early() {
        let parsed = Accept::parse("/a=b=1,3-5,early").unwrap();
        assert_eq!(parsed.stage, "/a=b");
        let expected = Codes {
            codes: vec![1..=1, 3..=5],
            early: true,
        };
        assert_eq!(parsed.codes, expected);
        for wrong in [
            "", "a", "a=", "=1", "a=0", "a=256", "a=5-3", "a=1,", "a=x", "a=-1", "a=+1", "a=1-",
            "a=Early",
        ] {
            assert!(Accept::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stage_is_meant_by_its_number_or_the_name_of_its_program() {
        let line = "grep x f | LC_ALL=C /usr/bin/grep y 2>&1 | (cat) | < f sort";
        let plan = Plan::of_line(line.as_ref(), "sh".as_ref()).unwrap();
        let meant = |text: &str| {
            let accepts = [Accept::parse(text).unwrap()];
            let all = Accept::of_stages(&accepts, &plan).map_err(|Usage(text)| text)?;
            let meant = all.iter().map(|codes| *codes != Codes::default());
            Ok::<_, String>(meant.collect::<Vec<_>>())
        };
        let (yes, no) = (true, false);
        assert_eq!(meant("grep=1").unwrap(), [yes, yes, no, no]);
        assert_eq!(meant("/usr/bin/grep=1").unwrap(), [no, yes, no, no]);
        assert_eq!(meant("3=early").unwrap(), [no, no, yes, no]);
        assert_eq!(meant("sort=1").unwrap(), [no, no, no, yes]);
        for (wrong, words) in [
            ("cat=1", "1 grep, 2 /usr/bin/grep, 3 (cat), 4 sort"),
            ("5=1", "no stage has this name or number"),
            ("0=1", "no stage has this name or number"),
            ("sort=early", "is the last one"),
        ] {
            let said = meant(wrong).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
        let single = Plan::of_line("A=b ./tar c x".as_ref(), "sh".as_ref()).unwrap();
        let accepts = [Accept::parse("tar=1").unwrap()];
        assert!(Accept::of_stages(&accepts, &single).is_ok());
    }
}
