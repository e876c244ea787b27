//! Which experiments are compared: those that the patterns mean, each as every run has it.

use std::collections::{HashMap, HashSet};

use super::read::LoadedRun;
use crate::names::Patterns;
use crate::run::Outcome;
use fullbore_host::refusal::Usage;

/// One experiment, as each run has it.
pub type Like<'a> = Vec<Option<&'a Outcome>>;

/// The group and the table of an experiment.
type Table<'a> = (&'a str, Option<&'a str>);

/// Returns what identifies an experiment: its group and its name.
fn key(outcome: &Outcome) -> (&str, &str) {
    (&outcome.group, &outcome.name)
}

/// Returns the experiments that the patterns mean, or all without patterns. They are in the order
/// of the first run; what only further runs have follows the other experiments of its group.
///
/// # Errors
///
/// Where a pattern is invalid, or means no experiment of any run.
pub fn meant<'a>(runs: &'a [LoadedRun], patterns: &[String]) -> Result<Vec<Like<'a>>, Usage> {
    let mut wanted = Patterns::of(patterns)?;
    let by_name = runs
        .iter()
        .map(|taken| taken.run.experiments.iter().map(|e| (key(e), e)).collect());
    let by_name: Vec<HashMap<(&str, &str), &Outcome>> = by_name.collect();
    let mut known: HashSet<(&str, &str)> = HashSet::new();
    // By group and table, in the order in which they come up.
    let mut tables: Vec<(Table, Vec<Like>)> = Vec::new();
    for outcome in runs.iter().flat_map(|taken| &taken.run.experiments) {
        let key = key(outcome);
        let is_wanted = wanted.mean(key.0, key.1) || patterns.is_empty();
        if !is_wanted || !known.insert(key) {
            continue;
        }
        let like = by_name.iter().map(|run| run.get(&key).copied()).collect();
        let table = (outcome.group.as_str(), outcome.table.as_deref());
        match tables.iter_mut().find(|(known, _)| *known == table) {
            Some((_, alike)) => alike.push(like),
            None => tables.push((table, vec![like])),
        }
    }
    match wanted.unused() {
        Some(text) => Err(Usage(format!("no run has an experiment named '{text}'"))),
        None => Ok(tables.into_iter().flat_map(|(_, alike)| alike).collect()),
    }
}
