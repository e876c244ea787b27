//! Which experiments are compared: those that the patterns mean, each as every run has it.

use std::collections::{HashMap, HashSet};

use glob::Pattern;

use super::read::LoadedRun;
use crate::names;
use crate::run::Outcome;
use fullbore_host::refusal::Usage;

/// One experiment, as each run has it.
pub type Like<'a> = Vec<Option<&'a Outcome>>;

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
