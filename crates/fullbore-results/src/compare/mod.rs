//! Runs of several machines, kernels or days side by side: what each experiment came to in each, how
//! many times as fast the further runs are as the first, and whether that is beyond the noise.
//!
//! The one idea: a [`Comparison`] is data, as a [`Run`] is. What it says is decided here, and the
//! reports beside this file only show it. Experiments are known by group and name, so that a file may
//! have some that the catalogue of this version has not.

mod csv;
mod html;
mod json;
mod read;
mod table;

use std::collections::{HashMap, HashSet};

use glob::Pattern;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names;
use super::rank_sum::{rank_sum, smallest_p, values_that_can_tell};
use super::run::{EndpointReport, Outcome, Run, Unit};
use super::statistics::Spread;
use fullbore_host::distance::Distances;
use fullbore_host::refusal::Usage;
use fullbore_host::size::rounded;
pub use read::{MOST_RUNS, Taken, read};

/// The version of the JSON's shape.
pub const COMPARISON_SCHEMA: u32 = 1;

/// A difference is beyond the noise where chance alone makes one as large more rarely than this.
pub const P_BELOW: f64 = 0.01;

/// A difference matters where one median is more than so many times the other.
pub const TIMES_ABOVE: f64 = 1.02;

/// Several runs side by side: what `fullbore bench --compare --json` prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Comparison {
    /// The version of this shape, [`COMPARISON_SCHEMA`].
    pub comparison_schema: u32,
    /// By what verdicts were given.
    pub rule: Rule,
    /// The runs, in the order they were named; ratios are to the first.
    pub runs: Vec<Named>,
    /// The facts in which the runs differ, of those that figures depend on.
    pub differences: Vec<Difference>,
    /// Why the runs may not be comparable, in words.
    pub warnings: Vec<String>,
    /// A row for each figure that any of the runs has.
    pub rows: Vec<Row>,
    /// How many pairs of figures were tested.
    pub tested: usize,
    /// How many of these would be beyond the noise by chance alone, at most.
    pub by_chance: f64,
}

/// By what a verdict is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rule {
    /// The test.
    pub test: String,
    /// Its `p` must be below this,
    pub p_below: f64,
    /// and one median more than so many times the other.
    pub times_above: f64,
    /// Fewer rounds of each run can not have such a `p`.
    pub rounds_at_least: usize,
}

/// One of the runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Named {
    /// `A` for the first.
    pub label: String,
    /// The file it was read from.
    pub file: String,
    /// When it was taken; `None` where the file does not say.
    pub taken_at: Option<String>,
    /// When the file was last written, where `taken_at` is not known.
    pub file_written_at: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The CPU's model.
    pub cpu_model: Option<String>,
}

/// A fact that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What it is about, such as `kernel`.
    pub fact: String,
    /// What each run says of it; `None` where it says nothing.
    pub values: Vec<Option<String>>,
}

/// A figure in all runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The experiment's group.
    pub group: String,
    /// The table of the group that it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The experiment's name.
    pub name: String,
    /// Which of its figures, such as `p99`; `None` for the main one.
    pub figure: Option<String>,
    /// What each run measured.
    pub runs: Vec<Measured>,
    /// Each further run beside the first.
    pub to_first: Vec<Pair>,
    /// What a person should know besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What one run has for a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Which run.
    pub run: String,
    /// What the figures are in; `None` where the run does not have the experiment.
    pub unit: Option<Unit>,
    /// The middle round.
    pub median: Option<f64>,
    /// The smallest round.
    pub min: Option<f64>,
    /// The largest round.
    pub max: Option<f64>,
    /// How many rounds there are.
    pub rounds: usize,
    /// Why it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Measured {
    /// Why there is no figure, such as `skipped in B: no huge pages`; `None` where there is one, or
    /// the run does not have the experiment.
    fn reason(&self) -> Option<String> {
        let (what, reason) = match (&self.failed, &self.skipped) {
            (Some(reason), _) => ("failed", reason),
            (None, Some(reason)) => ("skipped", reason),
            (None, None) => return None,
        };
        Some(format!("{what} in {}: {reason}", self.run))
    }
}

/// A further run beside the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The further run.
    pub run: String,
    /// How many times as fast the further run is, by the medians.
    pub ratio: Option<f64>,
    /// How often rounds would be this far apart by chance; `None` where that was not tested.
    pub p: Option<f64>,
    /// Whether `p` was counted; it is approximate elsewhere.
    pub exact: Option<bool>,
    /// What that comes to.
    pub verdict: Verdict,
}

/// What came of the further run beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The further run is faster, beyond the noise of both.
    Faster,
    /// The further run is slower, beyond the noise of both.
    Slower,
    /// No difference was shown, which does not mean that there is none.
    WithinNoise,
    /// However far apart the rounds are, there are too few to tell.
    TooFewRounds,
    /// The further run has no such figure.
    OnlyInFirst,
    /// The first run has no such figure.
    OnlyInFurther,
    /// Neither run has one.
    InNeither,
    /// Both have one, and not in the same unit.
    DifferentUnits,
    /// Both have one, and there is no ratio of the two: a median is no number above zero.
    NoRatio,
}

impl Verdict {
    /// In words, of the run labelled `further` beside the one labelled `first`.
    pub fn words(self, first: &str, further: &str) -> String {
        match self {
            Verdict::Faster => "faster".into(),
            Verdict::Slower => "slower".into(),
            Verdict::WithinNoise => "within noise".into(),
            Verdict::TooFewRounds => "too few rounds".into(),
            Verdict::OnlyInFirst => format!("only in {first}"),
            Verdict::OnlyInFurther => format!("only in {further}"),
            Verdict::InNeither => "in neither".into(),
            Verdict::DifferentUnits => "different units".into(),
            Verdict::NoRatio => "no ratio".into(),
        }
    }
}

/// Compares `runs` in what `patterns` mean; in everything, where there are none.
///
/// # Errors
///
/// Where a pattern is none, or means nothing that one of the runs has.
pub fn compare(runs: &[Taken], patterns: &[String]) -> Result<Comparison, Usage> {
    let meant = meant(runs, patterns)?;
    let rows: Vec<Row> = meant.iter().flat_map(rows).collect();
    let tested = rows
        .iter()
        .flat_map(|row| &row.to_first)
        .filter(|pair| pair.p.is_some())
        .count();
    Ok(Comparison {
        comparison_schema: COMPARISON_SCHEMA,
        rule: Rule {
            test: "two-sided Wilcoxon-Mann-Whitney rank-sum test over the rounds".into(),
            p_below: P_BELOW,
            times_above: TIMES_ABOVE,
            rounds_at_least: values_that_can_tell(P_BELOW),
        },
        runs: runs.iter().enumerate().map(named).collect(),
        differences: differences(runs),
        warnings: warnings(runs),
        rows,
        tested,
        by_chance: tested as f64 * P_BELOW,
    })
}

/// The label of the run at `index`: A, B, C. There are no more than [`MOST_RUNS`].
fn label(index: usize) -> String {
    char::from(b'A' + (index % 26) as u8).to_string()
}

fn named((index, taken): (usize, &Taken)) -> Named {
    Named {
        label: label(index),
        file: taken.file.clone(),
        taken_at: taken.run.taken_at.clone(),
        file_written_at: match taken.run.taken_at {
            Some(_) => None,
            None => taken.written_at.clone(),
        },
        kernel: taken.run.machine.kernel.clone(),
        cpu_model: taken.run.machine.cpu_model.clone(),
    }
}

/// One experiment, as each run has it.
type Like<'a> = Vec<Option<&'a Outcome>>;

/// What an experiment is known by.
fn key(outcome: &Outcome) -> (&str, &str) {
    (&outcome.group, &outcome.name)
}

/// The experiments that the patterns mean: in the order of the first run, and further ones of a
/// group behind those of it that came before.
fn meant<'a>(runs: &'a [Taken], patterns: &[String]) -> Result<Vec<Like<'a>>, Usage> {
    let parsed: Vec<Pattern> = patterns
        .iter()
        .map(|text| names::pattern(text))
        .collect::<Result<_, _>>()?;
    let mut found = vec![false; parsed.len()];
    let by_name: Vec<HashMap<(&str, &str), &Outcome>> = runs
        .iter()
        .map(|taken| taken.run.experiments.iter().map(|e| (key(e), e)).collect())
        .collect();
    let mut known: HashSet<(&str, &str)> = HashSet::new();
    // By group and table, in the order in which they come up.
    let mut tables: Vec<Vec<Like>> = Vec::new();
    let mut table_of: HashMap<(&str, Option<&str>), usize> = HashMap::new();
    for outcome in runs.iter().flat_map(|taken| &taken.run.experiments) {
        let mut wanted = parsed.is_empty();
        for (pattern, found) in parsed.iter().zip(&mut found) {
            if names::is_meant(&outcome.group, &outcome.name, pattern) {
                (wanted, *found) = (true, true);
            }
        }
        let key = key(outcome);
        if !wanted || !known.insert(key) {
            continue;
        }
        let table = table_of
            .entry((outcome.group.as_str(), outcome.table.as_deref()))
            .or_insert(tables.len());
        if *table == tables.len() {
            tables.push(Vec::new());
        }
        tables[*table].push(by_name.iter().map(|run| run.get(&key).copied()).collect());
    }
    match patterns.iter().zip(found).find(|(_, found)| !found) {
        Some((text, _)) => Err(Usage(format!("no run has an experiment named '{text}'"))),
        None => Ok(tables.into_iter().flatten().collect()),
    }
}

/// What a row is about, beside the main figure.
const IN_C: &str = "in C";

/// The rows of an experiment: its figure, what was measured besides, and the program in C.
fn rows(like: &Like<'_>) -> Vec<Row> {
    let Some(any) = like.iter().flatten().next() else {
        return Vec::new();
    };
    let row = |figure: Option<&str>| {
        let runs: Vec<Measured> = like
            .iter()
            .enumerate()
            .map(|(index, outcome)| measured(index, *outcome, figure))
            .collect();
        let pairs = (1..like.len()).map(|index| {
            let spread = |at: usize| like[at].and_then(|outcome| spread_of(outcome, figure));
            pair(label(index), spread(0), spread(index))
        });
        Row {
            group: any.group.clone(),
            table: any.table.clone(),
            name: any.name.clone(),
            figure: figure.map(str::to_owned),
            to_first: pairs.collect(),
            runs,
            notes: Vec::new(),
        }
    };
    let mut main = row(None);
    main.notes = notes(like);
    let mut rows = vec![main];
    let mut besides: Vec<&str> = Vec::new();
    for outcome in like.iter().flatten() {
        let also = outcome
            .also
            .iter()
            .filter(|also| !outcome.is_only_converted(also))
            .map(|also| also.name.as_str());
        let peer = outcome.peer.as_ref().and_then(|peer| peer.figure.as_ref());
        for name in also.chain(peer.map(|_| IN_C)) {
            let here = like.iter().flatten();
            let having = here.filter(|outcome| spread_of(outcome, Some(name)).is_some());
            // One that a single run has says nothing beside the others.
            if having.count() > 1 && !besides.contains(&name) {
                besides.push(name);
            }
        }
    }
    rows.extend(besides.into_iter().map(|name| row(Some(name))));
    rows
}

/// The rounds of a figure of an outcome, and their unit.
fn spread_of<'a>(outcome: &'a Outcome, figure: Option<&str>) -> Option<(&'a Spread, Unit)> {
    match figure {
        None => outcome.figure.as_ref().map(|spread| (spread, outcome.unit)),
        Some(name) => outcome
            .also
            .iter()
            .find(|also| also.name == name)
            .map(|also| (&also.figure, also.unit))
            .or_else(|| {
                let peer = outcome.peer.as_ref().filter(|_| name == IN_C)?;
                Some((peer.figure.as_ref()?, outcome.unit))
            }),
    }
}

fn measured(index: usize, outcome: Option<&Outcome>, figure: Option<&str>) -> Measured {
    let spread = outcome.and_then(|outcome| spread_of(outcome, figure));
    let main = outcome.filter(|_| figure.is_none());
    Measured {
        run: label(index),
        unit: spread
            .map(|(_, unit)| unit)
            .or(main.map(|outcome| outcome.unit)),
        median: spread.map(|(spread, _)| spread.median),
        min: spread.map(|(spread, _)| spread.min),
        max: spread.map(|(spread, _)| spread.max),
        rounds: spread.map_or(0, |(spread, _)| spread.rounds.len()),
        skipped: main.and_then(|outcome| outcome.skipped.clone()),
        failed: main.and_then(|outcome| outcome.failed.clone()),
    }
}

/// A figure of a further run beside that of the first.
fn pair(run: String, first: Option<(&Spread, Unit)>, further: Option<(&Spread, Unit)>) -> Pair {
    let without_ratio = |verdict| Pair {
        run: run.clone(),
        ratio: None,
        p: None,
        exact: None,
        verdict,
    };
    let ((first, unit), (further, of_further)) = match (first, further) {
        (Some(first), Some(further)) => (first, further),
        (Some(_), None) => return without_ratio(Verdict::OnlyInFirst),
        (None, Some(_)) => return without_ratio(Verdict::OnlyInFurther),
        (None, None) => return without_ratio(Verdict::InNeither),
    };
    if unit != of_further {
        return without_ratio(Verdict::DifferentUnits);
    }
    let ratio = unit.times_as_fast(further.median, first.median);
    if !(first.median > 0.0 && further.median > 0.0 && ratio.is_normal()) {
        return without_ratio(Verdict::NoRatio);
    }
    let (n, m) = (first.rounds.len(), further.rounds.len());
    if smallest_p(n, m) >= P_BELOW {
        return Pair {
            ratio: Some(ratio),
            ..without_ratio(Verdict::TooFewRounds)
        };
    }
    let test = rank_sum(&further.rounds, &first.rounds);
    // Where medians and ranks point to different sides, neither is shown.
    let ranks_say_faster = (test.lean > 0.0) == unit.more_is_better();
    let verdict = if test.p >= P_BELOW || ranks_say_faster != (ratio > 1.0) {
        Verdict::WithinNoise
    } else if ratio > TIMES_ABOVE {
        Verdict::Faster
    } else if 1.0 / ratio > TIMES_ABOVE {
        Verdict::Slower
    } else {
        Verdict::WithinNoise
    };
    Pair {
        run,
        ratio: Some(ratio),
        p: Some(test.p),
        exact: Some(test.exact),
        verdict,
    }
}

/// What the runs did differently in one experiment.
fn notes(like: &Like<'_>) -> Vec<String> {
    type Aspect = (&'static str, fn(&Outcome) -> Option<String>);
    let aspects: [Aspect; 5] = [
        ("writer", |outcome| {
            without_settings(outcome.writer.as_ref())
        }),
        ("reader", |outcome| {
            without_settings(outcome.reader.as_ref())
        }),
        ("mover", |outcome| {
            Some(outcome.mover.as_ref()?.command.clone())
        }),
        ("mover's version", |outcome| {
            outcome.mover.as_ref()?.version.clone()
        }),
        ("program in C", |outcome| {
            Some(outcome.peer.as_ref()?.command.clone())
        }),
    ];
    let mut notes: Vec<String> = Vec::new();
    for (aspect, of) in aspects {
        let values: Vec<Option<String>> = like.iter().map(|outcome| outcome.and_then(of)).collect();
        if values
            .iter()
            .flatten()
            .any(|value| Some(value) != values.iter().flatten().next())
        {
            let values: Vec<String> = values
                .iter()
                .enumerate()
                .filter_map(|(index, value)| {
                    Some(format!("{} {}", label(index), quoted(value.as_ref()?)))
                })
                .collect();
            notes.push(format!("different {aspect}: {}", values.join(", ")));
        }
    }
    let units: Vec<String> = like
        .iter()
        .enumerate()
        .filter_map(|(index, outcome)| {
            Some(format!("{} in {}", label(index), (*outcome)?.unit.name()))
        })
        .collect();
    let first = like.iter().flatten().next().map(|outcome| outcome.unit);
    if like
        .iter()
        .flatten()
        .any(|outcome| Some(outcome.unit) != first)
    {
        notes.push(format!(
            "different units, so there is no ratio: {}",
            units.join(", ")
        ));
    }
    notes
}

fn quoted(text: &str) -> String {
    if text.is_empty() {
        "none".to_owned()
    } else {
        format!("'{text}'")
    }
}

/// An endpoint's options without those that the laboratory adds for a run: those are settings, or
/// no matter.
pub(super) fn without_settings(endpoint: Option<&EndpointReport>) -> Option<String> {
    const ADDED: [&str; 6] = [
        "--die-with-parent",
        "--json",
        "--cpu=",
        "--seconds=",
        "--warm-up=",
        "--bytes-to-pipe=",
    ];
    let words: Vec<&str> = endpoint?
        .options
        .split_whitespace()
        .filter(|word| !ADDED.iter().any(|added| word.starts_with(added)))
        .collect();
    Some(words.join(" "))
}

/// The facts about machine and settings that are not the same in all runs.
fn differences(runs: &[Taken]) -> Vec<Difference> {
    let facts: Vec<Vec<(String, String)>> = runs.iter().map(|taken| facts(&taken.run)).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in facts.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
        .into_iter()
        .map(|name| Difference {
            fact: name.to_owned(),
            values: facts
                .iter()
                .map(|facts| {
                    let fact = facts.iter().find(|(known, _)| known == name);
                    fact.map(|(_, value)| value.clone())
                })
                .collect(),
        })
        .filter(|difference| {
            difference
                .values
                .iter()
                .any(|value| *value != difference.values[0])
        })
        .collect()
}

/// What a run's figures depend on, with its labels: the machine, and every setting but the seed.
fn facts(run: &Run) -> Vec<(String, String)> {
    let machine = run.machine.lines().into_iter();
    let mut facts: Vec<(String, String)> = machine
        .map(|(label, value)| (label.to_owned(), value))
        .collect();
    // As JSON, so that a new setting is compared without a word here.
    if let Ok(Value::Object(settings)) = serde_json::to_value(&run.settings) {
        for (name, value) in settings.into_iter().filter(|(name, _)| name != "seed") {
            let size = value.as_u64().filter(|_| name.ends_with("size"));
            let text = match (size, value) {
                (Some(bytes), _) => rounded(bytes),
                (None, Value::Null) => "default".to_owned(),
                (None, Value::String(text)) => text,
                (None, value) => value.to_string(),
            };
            facts.push((name.replace('_', " "), text));
        }
    }
    facts
}

/// What speaks against setting the runs side by side.
fn warnings(runs: &[Taken]) -> Vec<String> {
    let mut warnings = Vec::new();
    let distances: Vec<(String, f64)> = runs
        .iter()
        .enumerate()
        .filter_map(|(index, taken)| {
            Some((label(index), taken.run.line_round_trip_ns.as_ref()?.median))
        })
        .collect();
    let nearest = distances
        .iter()
        .map(|(_, ns)| *ns)
        .fold(f64::INFINITY, f64::min);
    if distances
        .iter()
        .any(|(_, ns)| *ns > nearest * Distances::APART)
    {
        let each: Vec<String> = distances
            .iter()
            .map(|(label, ns)| format!("{label} {ns:.0} ns"))
            .collect();
        warnings.push(format!(
            "the distance between the two CPUs differed: a cache line took {} to travel there and \
             back. The throughput of a pipe depends on it",
            each.join(", ")
        ));
    }
    for (index, taken) in runs.iter().enumerate() {
        let apart = taken.run.apart.taken;
        if apart > 0 {
            let label = label(index);
            warnings.push(format!(
                "in {label}, {apart} measurements were kept although the CPUs were farther apart \
                 than usual"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::super::report::fixture;
    use super::super::run::Also;
    use super::*;

    /// The run of the reports' tests with these rounds of `write_read`, and its other figures once.
    pub fn taken(rounds: &[f64]) -> Taken {
        let mut run = fixture();
        run.experiments[0].figure = Spread::of(rounds);
        Taken {
            file: "run.json".to_owned(),
            written_at: Some("2026-03-01T12:00:00Z".to_owned()),
            run,
        }
    }

    fn rounds(times: f64) -> Vec<f64> {
        [1.00, 1.03, 0.97, 1.01, 0.99]
            .map(|round| round * times)
            .to_vec()
    }

    fn compared(runs: &[Taken]) -> Comparison {
        compare(runs, &[]).unwrap()
    }

    fn verdict(first: &[f64], further: &[f64], unit: Unit) -> Verdict {
        let mut runs = [taken(first), taken(further)];
        for taken in &mut runs {
            taken.run.experiments[0].unit = unit;
        }
        compared(&runs).rows[0].to_first[0].verdict
    }

    #[test]
    fn a_verdict_needs_a_difference_that_is_beyond_chance_and_matters() {
        let base = rounds(1.0);
        for (further, expected) in [
            (rounds(2.0), Verdict::Faster),
            (rounds(0.5), Verdict::Slower),
            (rounds(1.0), Verdict::WithinNoise),
            // Beyond chance, but for the overlap.
            (rounds(1.03), Verdict::WithinNoise),
            (vec![2.0; 4], Verdict::TooFewRounds),
            (vec![2.0; 3], Verdict::TooFewRounds),
            (vec![2.0], Verdict::TooFewRounds),
        ] {
            assert_eq!(
                verdict(&base, &further, Unit::GibPerS),
                expected,
                "{further:?}"
            );
        }
        // Never chance, and too little to matter.
        assert_eq!(
            verdict(&[1.0; 10], &[1.01; 10], Unit::GibPerS),
            Verdict::WithinNoise
        );
        assert_eq!(
            verdict(&[1.0; 10], &[1.03; 10], Unit::GibPerS),
            Verdict::Faster
        );
        assert_eq!(
            verdict(&[1.03; 10], &[1.0; 10], Unit::GibPerS),
            Verdict::Slower
        );
    }

    #[test]
    fn less_is_faster_where_less_is_better() {
        let (fast, slow) = (rounds(1.0), rounds(2.0));
        for unit in [Unit::Microseconds, Unit::NanosecondsPerPage, Unit::Times] {
            assert_eq!(verdict(&slow, &fast, unit), Verdict::Faster);
            assert_eq!(verdict(&fast, &slow, unit), Verdict::Slower);
        }
    }

    #[test]
    fn the_same_run_twice_is_within_noise() {
        let runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        let compared = compared(&runs);
        let pair = &compared.rows[0].to_first[0];
        assert_eq!((pair.ratio, pair.p), (Some(1.0), Some(1.0)));
        assert_eq!((compared.differences, compared.warnings), (vec![], vec![]));
        assert_eq!((compared.tested, compared.by_chance), (1, 0.01));
    }

    #[test]
    fn what_only_some_have_is_said() {
        let mut runs = [
            taken(&rounds(1.0)),
            taken(&rounds(1.0)),
            taken(&rounds(1.0)),
        ];
        runs[1].run.experiments.remove(0);
        runs[2].run.experiments[0].figure = None;
        runs[2].run.experiments[0].failed = Some("broke".into());
        runs[0].run.experiments.remove(1);
        let compared = compared(&runs);
        let verdicts = |name: &str| -> Vec<Verdict> {
            let row = compared.rows.iter().find(|row| row.name == name).unwrap();
            row.to_first.iter().map(|pair| pair.verdict).collect()
        };
        assert_eq!(verdicts("write_read"), [Verdict::OnlyInFirst; 2]);
        assert_eq!(
            verdicts("vmsplice_splice_same_buffer"),
            [Verdict::OnlyInFurther; 2]
        );
        assert_eq!(verdicts("hugetlb"), [Verdict::InNeither; 2]);
        assert_eq!(
            compared.rows[0].runs[2].reason().unwrap(),
            "failed in C: broke"
        );
        // A further one stands with its group, not behind the last.
        let names: Vec<&str> = compared.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "write_read",
                "write_read_huge",
                "hugetlb",
                "vmsplice_splice_same_buffer",
                "breaks",
            ]
        );
    }

    #[test]
    fn figures_of_different_units_have_no_ratio() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        runs[1].run.experiments[0].unit = Unit::Microseconds;
        let row = &compared(&runs).rows[0];
        assert_eq!(row.to_first[0].verdict, Verdict::DifferentUnits);
        assert_eq!(
            row.notes,
            ["different units, so there is no ratio: A in GiB/s, B in µs"]
        );
    }

    #[test]
    fn numbers_that_have_no_ratio_have_none() {
        for (first, further) in [
            (0.0, 1.0),
            (1.0, 0.0),
            (-1.0, 1.0),
            (1e-300, 1e300),
            (1e300, 1e-300),
        ] {
            assert_eq!(
                verdict(&[first; 5], &[further; 5], Unit::GibPerS),
                Verdict::NoRatio
            );
        }
    }

    #[test]
    fn what_both_measured_besides_has_a_row_of_its_own() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        let besides = [
            ("p99", 0..2, Unit::Microseconds),
            ("p99.9", 0..1, Unit::Microseconds),
            // The figure itself, as others count.
            ("lmbench", 0..2, Unit::MbPerS),
        ];
        for (name, of, unit) in besides {
            for taken in &mut runs[of] {
                taken.run.experiments[0].also.push(Also {
                    name: name.into(),
                    unit,
                    figure: Spread::of(&rounds(10.0)).unwrap(),
                });
            }
        }
        let compared = compared(&runs);
        let figures: Vec<Option<&str>> = compared
            .rows
            .iter()
            .filter(|row| row.name == "write_read")
            .map(|row| row.figure.as_deref())
            .collect();
        assert_eq!(figures, [None, Some("p99")]);
        assert_eq!(compared.rows[1].to_first[0].ratio, Some(1.0));
    }

    #[test]
    fn options_count_but_not_those_of_every_run() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        let options = |taken: &mut Taken, words: &str| {
            let writer = taken.run.experiments[0].writer.as_mut().unwrap();
            writer.options = format!("--die-with-parent --way copy --json {words}");
        };
        options(&mut runs[0], "--cpu=0 --seconds=1");
        options(&mut runs[1], "--cpu=3 --seconds=2 --warm-up=1");
        assert!(compared(&runs).rows[0].notes.is_empty());
        options(&mut runs[1], "--cpu=3 --pipe-size=1048576");
        assert_eq!(
            compared(&runs).rows[0].notes,
            ["different writer: A '--way copy', B '--way copy --pipe-size=1048576'"]
        );
    }

    #[test]
    fn what_runs_depend_on_is_compared() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        runs[1].run.machine.kernel = Some("6.13.0".into());
        runs[1].run.machine.hypervisor = None;
        runs[1].run.settings.rounds = 5;
        runs[1].run.settings.seed = 7;
        runs[1].run.settings.pipe_size = Some(1 << 20);
        runs[1].run.line_round_trip_ns = Spread::of(&[200.0]);
        runs[1].run.apart.taken = 3;
        let compared = compared(&runs);
        let facts: Vec<&str> = compared
            .differences
            .iter()
            .map(|difference| difference.fact.as_str())
            .collect();
        assert_eq!(facts, ["kernel", "hypervisor", "pipe size", "rounds"]);
        assert_eq!(compared.differences[1].values[1], None);
        let sizes = ["default", "1 MiB"].map(|text| Some(text.to_owned()));
        assert_eq!(compared.differences[2].values, sizes);
        assert_eq!(compared.warnings.len(), 2);
        assert!(compared.warnings[0].contains("A 55 ns, B 200 ns"));
        assert!(
            compared.warnings[1]
                .contains("in B, 3 measurements were kept although the CPUs were farther apart")
        );
    }

    #[test]
    fn patterns_select_also_what_the_catalogue_does_not_have() {
        let mut runs = [taken(&rounds(1.0)), taken(&rounds(1.0))];
        runs[1].run.experiments[1].name = "of_the_future".into();
        let names = |patterns: &[&str]| -> Result<Vec<String>, Usage> {
            let patterns: Vec<String> = patterns.iter().map(|&p| p.to_owned()).collect();
            Ok(compare(&runs, &patterns)?
                .rows
                .into_iter()
                .map(|row| row.name)
                .collect())
        };
        assert_eq!(
            names(&["ladder/of_*", "write_read"]).unwrap(),
            ["write_read", "of_the_future"]
        );
        assert_eq!(names(&["all"]).unwrap().len(), 6);
        assert!(names(&["nothing_*"]).is_err() && names(&["["]).is_err());
    }
}
