//! Tests `fullbore run --place auto` on a real pipeline whose best placement is known on every machine that has
//! nothing else to do.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use fullbore_observe::Findings;
use fullbore_observe::place::placement::Kind;

use crate::common::*;

/// Two stages that compute, and one that does little: they need two CPUs.
const COMPUTING: &str = r"timeout 4 cat /dev/zero | tr '\0' x | sha256sum > /dev/null";

/// Returns whether the CPUs do nothing else. Where they do, one CPU may be as good a place as two.
fn nothing_else_runs() -> bool {
    // proc_stat(5): the fourth and the fifth number are the times without work.
    let times = || {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let all = stat.lines().next().unwrap().split_whitespace().skip(1);
        let all: Vec<f64> = all.map(|time| time.parse().unwrap()).collect();
        (all[3] + all[4], all.iter().sum::<f64>())
    };
    let (idle, all) = times();
    sleep(Duration::from_millis(500));
    let (idle_then, all_then) = times();
    idle_then - idle > 0.8 * (all_then - all)
}

/// What trials may cost, as a share of the time that the pipeline runs.
const COST: f64 = 0.01;

#[test]
fn under_load_two_stages_that_compute_are_never_left_on_one_cpu_and_trials_cost_little() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skipped("there is only one CPU");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    at_least(8, 10, "two that compute are apart", |_| {
        if !nothing_else_runs() {
            skipped("other processes keep the CPUs busy");
            return Ok(());
        }
        let mut command = fullbore("run --quiet --no-pipefail --place auto --json");
        let output = finish(start(command.arg(&file).arg(COMPUTING)));
        assert_code(&output, 0);
        let findings: Findings = json(&fs::read_to_string(&file).unwrap());
        let placed = findings.placement.unwrap();
        let apart = placed.placement.kind != Kind::Together;
        match apart && placed.lost_seconds <= COST * findings.numbers.seconds {
            true => Ok(()),
            false => Err(format!("{}: {placed:?}", placed.words)),
        }
    });
}
