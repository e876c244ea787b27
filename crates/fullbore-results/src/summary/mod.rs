//! One verdict about many pipelines: what the reports of `fullbore run --json`, of one machine or of many, say together.
//!
//! Only what is used is read from a report, so reports of other versions are read too. `html.rs` is the page.

mod html;
mod reported;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fullbore_host::size;
use fullbore_host::text::{clean, counted, table_lines};
use serde::Serialize;

pub(crate) use self::reported::LONGEST;
use self::reported::PipelineReport;
pub use self::reported::Reports;
use crate::statistics::Spread;

/// How many of the slowest pipelines are named.
const SLOWEST: usize = 5;

/// How many times as long as on the others the same takes on a machine that is the odd one out.
const ODD: f64 = 1.5;

/// How many pipelines are needed on both sides of a comparison.
const LEAST_TO_COMPARE: usize = 3;

/// What many reports say together.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// How many pipelines ran.
    pub pipelines: usize,
    /// How many were not run, because their outputs were there.
    pub skipped: usize,
    /// How many of them had a stage that failed.
    pub failed: usize,
    /// The machines on which they ran.
    pub machines: Vec<Machine>,
    /// How long they ran, in seconds; `None` if none ran.
    pub seconds: Option<Spread>,
    /// The stages, by their number.
    pub stages: Vec<StageSummary>,
    /// The pipelines that ran longest, the longest first.
    pub slowest: Vec<LongRun>,
    /// The machine on which the same took much longer than on the others.
    pub odd: Option<Odd>,
}

/// A machine.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// How many of the pipelines it ran.
    pub pipelines: usize,
    /// How many times as long its pipelines ran as those on the other machines that moved about as many bytes (median);
    /// `None` if too few can be compared.
    pub times_as_long: Option<f64>,
}

/// A stage of all pipelines.
#[derive(Debug, Clone, Serialize)]
pub struct StageSummary {
    /// Its number, from 1.
    pub number: usize,
    /// Its program.
    pub program: String,
    /// In how many pipelines it was the slow stage.
    pub slow: usize,
    /// The machines on which it was.
    pub slow_on: Vec<String>,
    /// How often it was limited by what, most often first.
    pub limited_by: Vec<(String, usize)>,
    /// Its CPU time in all pipelines, in seconds.
    pub cpu_seconds: f64,
    /// The bytes that it read from its pipe, or wrote if it is the first, for each second that its pipelines ran.
    pub bytes_per_second: Option<f64>,
}

/// A pipeline that ran long.
#[derive(Debug, Clone, Serialize)]
pub struct LongRun {
    /// What it processed; the text of its first stage if that is not known.
    pub input: String,
    /// The machine.
    pub host: String,
    /// How long it ran.
    pub seconds: f64,
    /// Its slow stage and what limited it, or the verdict if that names none.
    pub why: String,
}

/// The machine that is the odd one out.
#[derive(Debug, Clone, Serialize)]
pub struct Odd {
    /// Its name.
    pub host: String,
    /// How many times as long the same takes on it as on the median of the others.
    pub ratio: f64,
}

impl Summary {
    /// Returns what these reports say together; `None` if there are none.
    pub fn of(reports: &Reports) -> Option<Self> {
        let Reports { ran, skipped } = reports;
        if ran.is_empty() && *skipped == 0 {
            return None;
        }
        let seconds: Vec<f64> = ran.iter().map(|report| report.seconds).collect();
        let most = ran.iter().map(|report| report.stages.len()).max();
        let stages = 1..=most.unwrap_or(0);
        let mut slowest: Vec<&PipelineReport> = ran.iter().collect();
        slowest.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        let machines = machines(ran);
        Some(Self {
            pipelines: ran.len(),
            skipped: *skipped,
            failed: ran.iter().filter(|report| report.has_failed()).count(),
            odd: odd(&machines),
            machines,
            seconds: Spread::of(&seconds),
            stages: stages.map(|number| stage(number, ran)).collect(),
            slowest: slowest.into_iter().take(SLOWEST).map(slow).collect(),
        })
    }

    /// Returns what this is a summary of.
    fn title(&self) -> String {
        let pipelines = counted(self.pipelines, "pipeline", "pipelines");
        let machines = counted(self.machines.len(), "machine", "machines");
        format!("{pipelines} on {machines}")
    }

    /// Returns the verdict, a sentence each.
    pub fn sentences(&self) -> Vec<String> {
        let mut first = self.title();
        if self.failed > 0 {
            first += &format!(", {} of them failed", self.failed);
        }
        if self.skipped > 0 {
            first += &format!(", and {} more skipped", self.skipped);
        }
        let Some(seconds) = &self.seconds else {
            return vec![first];
        };
        first += &format!(
            "; {:.3} s in the median, from {:.3} to {:.3} s",
            seconds.median, seconds.min, seconds.max
        );
        let mut sentences = vec![first];
        let slow = self.stages.iter().max_by_key(|stage| stage.slow);
        sentences.push(match slow.filter(|stage| stage.slow > 0) {
            Some(stage) => format!(
                "stage {}, {}, was the slow one in {} of {} pipelines, on {} of {} machines, most often limited by {}",
                stage.number,
                stage.program,
                stage.slow,
                self.pipelines,
                stage.slow_on.len(),
                self.machines.len(),
                stage.limited_by[0].0
            ),
            None => "no stage was the slow one in any pipeline".to_owned(),
        });
        sentences.extend(self.odd.as_ref().map(|odd| {
            format!(
                "{} is the odd one out: the same takes {:.1} times as long there as on the other machines (median)",
                clean(&odd.host),
                odd.ratio
            )
        }));
        sentences
    }

    /// Returns the cells of the table of stages, the first row of which has the headings.
    fn rows(&self) -> Vec<Vec<String>> {
        const HEADINGS: &str = "stage|slow in|machines|CPU s|throughput|limited by";
        let row = |stage: &StageSummary| {
            let limits = stage.limited_by.iter();
            let limits = limits.map(|(limit, times)| format!("{limit} ({times})"));
            let rate = stage.bytes_per_second;
            let rate = rate.map(|rate| format!("{}/s", size::amount(rate)));
            vec![
                format!("{} {}", stage.number, stage.program),
                stage.slow.to_string(),
                stage.slow_on.len().to_string(),
                format!("{:.2}", stage.cpu_seconds),
                rate.unwrap_or_else(|| "unknown".to_owned()),
                limits.collect::<Vec<_>>().join(", "),
            ]
        };
        let headings = HEADINGS.split('|').map(str::to_owned).collect();
        std::iter::once(headings)
            .chain(self.stages.iter().map(row))
            .collect()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pipelines > 0 {
            for line in table_lines(&self.rows(), |column| (1..5).contains(&column)) {
                writeln!(f, "{line}")?;
            }
            writeln!(f)?;
        }
        for sentence in self.sentences() {
            writeln!(f, "{sentence}")?;
        }
        for (at, slow) in self.slowest.iter().enumerate() {
            let heading = if at == 0 { "the slowest:\n" } else { "" };
            writeln!(f, "{heading}  {slow}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LongRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, host) = (clean(&self.input), clean(&self.host));
        write!(f, "{input} on {host}, {:.3} s: {}", self.seconds, self.why)
    }
}

fn stage(number: usize, reports: &[PipelineReport]) -> StageSummary {
    let mut limits = BTreeMap::<String, usize>::new();
    let mut slow_on = BTreeSet::new();
    let (mut slow, mut cpu_seconds) = (0, 0.0);
    let (mut bytes, mut seconds) = (0, 0.0);
    let mut programs = BTreeMap::<String, usize>::new();
    for report in reports {
        let Some(stage) = report.stages.get(number - 1) else {
            continue;
        };
        *programs.entry(program(&stage.text)).or_default() += 1;
        cpu_seconds += stage.cpu_seconds;
        if let Some(moved) = report.bytes_of(number) {
            bytes += moved;
            seconds += report.seconds;
        }
        if report.slow_stage() == Some(number) {
            slow += 1;
            slow_on.insert(report.host.clone());
            *limits.entry(report.limit()).or_default() += 1;
        }
    }
    StageSummary {
        number,
        program: most_often(programs).swap_remove(0).0,
        slow,
        slow_on: slow_on.into_iter().collect(),
        limited_by: most_often(limits),
        cpu_seconds,
        bytes_per_second: (seconds > 0.0).then(|| bytes as f64 / seconds),
    }
}

fn most_often(counts: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    counts
}

/// Returns the name of the program that a text begins with: texts differ in the files that they name.
fn program(text: &str) -> String {
    let word = text.split_whitespace().next().unwrap_or_default();
    clean(word.rsplit('/').next().unwrap_or(word))
}

/// Compares each machine with the others, by pipelines that moved about as many bytes: a machine that got the large files
/// is not slow.
fn machines(reports: &[PipelineReport]) -> Vec<Machine> {
    let mut alike = BTreeMap::<i32, BTreeMap<&str, Vec<f64>>>::new();
    let mut ratios = BTreeMap::<&str, (usize, Vec<f64>)>::new();
    for report in reports {
        let bytes = report.bytes_of(1).unwrap_or(0);
        // Those of one size differ by less than what makes a machine the odd one out.
        let size = (2.0 * (bytes as f64).max(1.0).log2()).round() as i32;
        let on = alike.entry(size).or_default();
        on.entry(&report.host).or_default().push(report.seconds);
        ratios.entry(&report.host).or_default().0 += 1;
    }
    for on in alike.values() {
        for (host, seconds) in on {
            let others = on.iter().filter(|(other, _)| *other != host);
            let others: Vec<f64> = others.flat_map(|(_, seconds)| seconds).copied().collect();
            if let Some(others) = median(&others) {
                let found = &mut ratios.entry(host).or_default().1;
                found.extend(seconds.iter().map(|one| one / others));
            }
        }
    }
    let machine = |(host, (pipelines, ratios)): (&str, (usize, Vec<f64>))| Machine {
        host: host.to_owned(),
        pipelines,
        times_as_long: median(&ratios),
    };
    ratios.into_iter().map(machine).collect()
}

/// Returns the median of as many as are needed to compare.
fn median(of: &[f64]) -> Option<f64> {
    let spread = Spread::of(of).filter(|_| of.len() >= LEAST_TO_COMPARE)?;
    Some(spread.median)
}

/// Returns the machine that is much slower than the others, if several can be compared.
fn odd(machines: &[Machine]) -> Option<Odd> {
    let compared = machines.iter();
    let compared = compared.filter_map(|machine| Some((machine, machine.times_as_long?)));
    let (machine, ratio) = compared.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    (ratio >= ODD).then(|| Odd {
        host: machine.host.clone(),
        ratio,
    })
}

fn slow(report: &PipelineReport) -> LongRun {
    let first = || report.stages.first().map(|stage| stage.text.clone());
    LongRun {
        input: report.input.clone().or_else(first).unwrap_or_default(),
        host: report.host.clone(),
        seconds: report.seconds,
        why: match report.slow_stage() {
            Some(number) => {
                let stage = report.stages.get(number - 1);
                let program = stage.map(|stage| program(&stage.text)).unwrap_or_default();
                format!("stage {number}, {program}, limited by {}", report.limit())
            }
            None => clean(&report.verdict.words),
        },
    }
}

#[cfg(test)]
mod tests;
