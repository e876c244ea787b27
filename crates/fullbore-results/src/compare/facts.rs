//! In what the runs differ beside their figures, and what speaks against comparing them.

use serde_json::Value;

use super::comparison::{Difference, label};
use super::read::LoadedRun;
use crate::report::conclusion;
use crate::run::Run;
use crate::statistics::Spread;
use fullbore_host::distance::APART;
use fullbore_host::size;

/// Returns the facts about machine and settings that are not the same in all runs.
pub fn differences(runs: &[LoadedRun]) -> Vec<Difference> {
    let facts: Vec<Vec<(String, String)>> = runs.iter().map(|taken| facts(&taken.run)).collect();
    let mut differences: Vec<Difference> = Vec::new();
    for (name, _) in facts.iter().flatten() {
        let value = |facts: &Vec<(String, String)>| {
            let fact = facts.iter().find(|(known, _)| known == name);
            fact.map(|(_, value)| value.clone())
        };
        let values: Vec<Option<String>> = facts.iter().map(value).collect();
        let is_known = differences.iter().any(|known| known.fact == *name);
        if !is_known && values.iter().any(|value| *value != values[0]) {
            let fact = name.clone();
            differences.push(Difference { fact, values });
        }
    }
    differences
}

/// Returns the labelled facts that figures depend on: the machine, and every setting except the
/// seed.
fn facts(run: &Run) -> Vec<(String, String)> {
    let machine = run.machine.lines().into_iter();
    let machine = machine.map(|(label, value)| (label.to_owned(), value));
    let mut facts: Vec<(String, String)> = machine.collect();
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
    let distance = |taken: &LoadedRun| Some(taken.run.line_round_trip_ns.as_ref()?.median);
    let all: Vec<f64> = runs.iter().filter_map(distance).collect();
    if Spread::of(&all).is_some_and(|all| all.max > all.min * APART) {
        let each = runs.iter().enumerate().filter_map(|(index, taken)| {
            let ns = distance(taken)?;
            Some(format!("{} {ns:.0} ns", label(index)))
        });
        let each: Vec<String> = each.collect();
        warnings.push(format!(
            "the distance between the two CPUs differed: a cache line took {} to travel there and \
             back. The throughput of a pipe depends on it",
            each.join(", ")
        ));
    }
    for (index, taken) in runs.iter().enumerate() {
        let label = label(index);
        let of_run = conclusion::warnings(&taken.run).into_iter();
        warnings.extend(of_run.map(|text| format!("in {label}, {text}")));
    }
    warnings
}
