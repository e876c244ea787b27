//! In what the runs differ beside their figures, and what speaks against comparing them.

use serde_json::Value;

use super::comparison::{Difference, label};
use super::read::LoadedRun;
use crate::run::Run;
use fullbore_host::distance::Distances;
use fullbore_host::size;

/// Returns the facts about machine and settings that are not the same in all runs.
pub fn differences(runs: &[LoadedRun]) -> Vec<Difference> {
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

/// Returns the labelled facts that figures depend on: the machine, and every setting except the
/// seed.
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
                (Some(bytes), _) => size::format(bytes),
                (None, Value::Null) => "default".to_owned(),
                (None, Value::String(text)) => text,
                (None, value) => value.to_string(),
            };
            facts.push((name.replace('_', " "), text));
        }
    }
    facts
}

/// Returns the reasons why the runs may not be comparable.
pub fn warnings(runs: &[LoadedRun]) -> Vec<String> {
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
