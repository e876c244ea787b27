//! Functions that read the output of `fullbore explain --json`.

use std::process::Output;

use fullbore_results::explain::{Class, Explanation, SideReport};

use super::*;

#[track_caller]
pub fn explained(output: &Output) -> Explanation {
    assert_code(output, 0);
    json(stdout(output))
}

#[track_caller]
pub fn side<'a>(explanation: &'a Explanation, name: &str) -> &'a SideReport {
    (explanation.sides.iter())
        .find(|side| side.name == name)
        .unwrap_or_else(|| panic!("no side {name} in {explanation:#?}"))
}

/// Returns the share of a class in the time of all sides together.
pub fn share_of_all(explanation: &Explanation, class: Class) -> f64 {
    let samples = |side: &SideReport| side.samples as f64;
    let all: f64 = explanation.sides.iter().map(samples).sum();
    let of_class = explanation
        .sides
        .iter()
        .map(|side| side.share(class) * samples(side));
    of_class.sum::<f64>() / all
}

/// Returns whether kernel functions are sampled here, with their names.
pub fn is_whole(explanation: &Explanation) -> bool {
    let sampling = explanation.sampling.as_ref();
    sampling.is_some_and(|sampling| sampling.kernel_names)
}
