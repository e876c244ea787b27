//! Whether bytes stay right behind every middleman: computed by checking every one of them.
//!
//! The writer of an experiment writes the pattern of `words`, each [`Habit`] in turn stands
//! between it and a reader, and the reader checks every byte. Where the experiment is about what
//! stands between, `movers::check` turns that round: it is checked behind one careless writer.

use std::process::Stdio;

use anyhow::{Context, Result};
use fullbore::Pipe;
use serde::{Deserialize, Serialize};

use super::machine::CpuPair;
use super::middleman::Habit;
use super::process;
use super::result::EndpointReport;

/// Bytes of one check: several times what the longest pipeline of them holds.
const BYTES: &str = "64M";

/// What --way repeat repeats in a check: not a multiple of a page, so that a lost or doubled page
/// shows.
const PERIOD: &str = "100003";

/// What the reader saw behind each middleman.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Soundness {
    /// Whether every byte was right behind all of them.
    pub right: bool,
    /// One verdict for each.
    pub verdicts: Vec<Verdict>,
}

/// What the reader saw behind one middleman.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What stood between writer and reader, where the writer is what is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub middleman: Option<Habit>,
    /// How it was checked, where that is what stands between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Whether every byte was right.
    pub right: bool,
    /// What the reader said, where not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

impl Soundness {
    /// Where bytes were wrong, for people; `None` where they never were.
    pub fn describe_wrong(&self) -> Option<String> {
        let wrong = || self.verdicts.iter().filter(|verdict| !verdict.right);
        let habits: Vec<&str> = wrong()
            .filter_map(|verdict| Some(verdict.middleman?.name()))
            .collect();
        if !habits.is_empty() {
            return Some(format!(
                "wrong bytes behind a middleman with the habit: {}",
                habits.join(", ")
            ));
        }
        let check = wrong().find_map(|verdict| verdict.check.as_ref())?;
        Some(format!("wrong bytes {check}"))
    }
}

/// Checks `fullbore write` with these options behind every middleman.
///
/// # Errors
/// Where processes or pipes cannot be made.
pub fn check(writer: &str, cpus: &CpuPair) -> Result<Soundness> {
    let verdicts = Habit::ALL
        .iter()
        .map(|&habit| check_behind(habit, writer, cpus))
        .collect::<Result<Vec<_>>>()?;
    Ok(Soundness {
        right: verdicts.iter().all(|verdict| verdict.right),
        verdicts,
    })
}

fn check_behind(habit: Habit, writer: &str, cpus: &CpuPair) -> Result<Verdict> {
    let (first, second) = (Pipe::new()?, Pipe::new()?);
    let mut arguments = vec!["--verify".to_owned(), format!("--bytes-to-pipe={BYTES}")];
    if writer.contains("--way repeat") {
        arguments.push(format!("--period={PERIOD}"));
    }
    let mut writer = process::endpoint("write", writer, cpus.writer);
    writer
        .args(&arguments)
        .stdin(Stdio::null())
        .stdout(first.writer);
    let mut middleman = process::fullbore("middleman");
    middleman
        .arg(habit.name())
        .stdin(first.reader)
        .stdout(second.writer)
        .stderr(Stdio::null());
    // A reader that is slow now and then: what it has not read yet is what can still change.
    let mut reader = process::endpoint("read", "--pause 300", cpus.reader);
    reader
        .args(&arguments)
        .stdin(second.reader)
        .stdout(Stdio::piped());
    let writing = writer.spawn().context("start a writer")?;
    let mut passing = middleman.spawn().context("start a middleman")?;
    let reading = reader.spawn().context("start a reader")?;
    drop((writer, middleman, reader));
    let read = reading.wait_with_output().context("wait for the reader")?;
    passing.wait().context("wait for the middleman")?;
    writing.wait_with_output().context("wait for the writer")?;
    let said = process::last_words(&read);
    // A reader that ends well has checked what came; whether all came shows in its count.
    let complete = process::report::<EndpointReport>(&read.stdout)
        .is_ok_and(|report| report.moved == crate::size::parse(BYTES).unwrap_or(0));
    let right = read.status.success() && complete;
    Ok(Verdict {
        middleman: Some(habit),
        check: None,
        right,
        said: (!right).then_some(said),
    })
}
