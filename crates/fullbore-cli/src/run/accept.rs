//! `--accept`: the failures of a stage that are taken for successes.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;

use fullbore_host::refusal::Usage;
use fullbore_host::text::clean;

use super::plan::Plan;

/// One `--accept STAGE=CODES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    stage: String,
    codes: Codes,
}

/// The failures of a stage that are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes {
    pub codes: Vec<RangeInclusive<u8>>,
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

const EXPECTED: &str = "expected exit codes from 1 to 255, such as 1, 3-5 or 1,24";

impl Codes {
    /// Parses `CODES`.
    ///
    /// # Errors
    /// Text, if it is not of this form.
    fn parse(list: &str) -> Result<Self, String> {
        let mut codes = Self::default();
        for item in list.split(',') {
            match (item, range(item)) {
                ("early", _) => codes.early = true,
                (_, Some(range)) => codes.codes.push(range),
                _ => return Err(format!("'{item}': {EXPECTED}, or 'early'")),
            }
        }
        Ok(codes)
    }

    /// Parses `CODES` where no stage is behind that could read less.
    ///
    /// # Errors
    /// Text, if it is not of this form.
    pub fn parse_numbers(list: &str) -> Result<Self, String> {
        match Self::parse(list) {
            Ok(codes) if !codes.early => Ok(codes),
            _ => Err(EXPECTED.to_owned()),
        }
    }

    /// Whether a process with this exit code has not failed.
    pub fn contain(&self, code: u8) -> bool {
        self.codes.iter().any(|codes| codes.contains(&code))
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
        let codes = Codes::parse(list)?;
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
