//! Functions that read the output of `fullbore explain --json`.

use std::process::Output;

use serde_json::Value;

use super::*;

#[track_caller]
pub fn explained(output: &Output) -> Value {
    assert_code(output, 0);
    json(stdout(output))
}

pub fn side<'a>(explanation: &'a Value, name: &str) -> &'a Value {
    explanation["sides"]
        .as_array()
        .unwrap()
        .iter()
        .find(|side| side["name"] == name)
        .unwrap_or_else(|| panic!("no side {name} in {explanation:#}"))
}

/// Returns the share of a class in a side's time on CPU.
pub fn share(side: &Value, class: &str) -> f64 {
    side["shares"]
        .as_array()
        .unwrap()
        .iter()
        .find(|share| share["class"] == class)
        .map_or(0.0, |share| share["share"].as_f64().unwrap())
}

/// Returns the share of a class in the time of all sides together.
pub fn share_of_all(explanation: &Value, class: &str) -> f64 {
    let sides = explanation["sides"].as_array().unwrap();
    let samples = |side: &Value| side["samples"].as_f64().unwrap();
    let all: f64 = sides.iter().map(samples).sum();
    let of_class: f64 = sides.iter().map(|s| share(s, class) * samples(s)).sum();
    of_class / all
}

/// Returns whether kernel functions are sampled here, with their names.
pub fn is_whole(explanation: &Value) -> bool {
    explanation["sampling"]["kernel_names"] == true
}
