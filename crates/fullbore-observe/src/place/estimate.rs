//! Whether a pipeline would probably cost less with all stages on one CPU: an estimate from what it does, without
//! any trial.

use fullbore_host::size::amount;

use super::candidates::{best_case, has_parallel_stage};
use super::window::Usage;

/// The most load that one CPU should have if half of what can be saved is saved.
const FULL: f64 = 1.0;

/// The least load of a pipeline that is worth a remark.
const BUSY: f64 = 0.1;

/// The least part of the load that may be saved.
const WORTH: f64 = 0.2;

/// Returns why all stages should be tried on one CPU; `None` if they need not. `cpus` is the number of CPUs
/// on which they were last seen.
pub fn together(usage: &Usage, cpus: usize) -> Option<String> {
    let load = usage.load();
    let saving = load - best_case(usage);
    let may_gain = cpus > 1
        && load >= BUSY
        && saving >= WORTH * load
        && load - saving / 2.0 <= FULL
        && !has_parallel_stage(usage);
    may_gain.then(|| {
        let turns: f64 = usage.turns.iter().sum();
        let rate: f64 = usage.rates.iter().flatten().sum();
        format!(
            "may cost less on one CPU: its stages use {load:.1} CPUs together, wake each other up to {} times \
             a second, and move {}/s between CPUs; 'fullbore tune --place' tries it",
            turns.round(),
            amount(rate)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::window::usage;
    use super::*;

    #[test]
    fn stages_that_wake_each_other_and_do_little_are_marked_with_the_reason() {
        let light = usage(&[0.4, 0.5], 6000.0, 1e9);
        let why = together(&light, 2).unwrap();
        assert!(why.contains("12000 times"), "{why}");
        assert!(why.contains("0.9 CPUs"), "{why}");
        assert_eq!(together(&light, 1), None, "they are together already");
        assert_eq!(together(&usage(&[0.9, 0.9], 300.0, 1e8), 2), None);
        assert_eq!(together(&usage(&[0.01, 0.01], 300.0, 1e5), 2), None);
        assert_eq!(together(&usage(&[0.2, 2.0], 9000.0, 1e9), 2), None);
    }
}
