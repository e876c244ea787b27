//! Examines what this machine allows and what slows it down, for `fullbore doctor`.
//!
//! | file | holds |
//! |---|---|
//! | `trials/` | each technique that is tried: a table, and a function for each row |
//! | `causes.rs`, `rules.rs`, `cause.rs` | why something was refused, and the remedy: tables |
//! | `circumstances.rs` | the environment of this process, from which causes are derived |
//! | `settings.rs` | the limits and settings that matter: a table |
//! | `topology.rs`, `drawing.rs` | pairs of CPUs, and the CPUs as a drawing |
//! | `allowance.rs` | how much of the user's allowance for pipes is in use |
//! | `placement.rs` | whether one CPU for both ends of a pipe is faster than two |
//! | `advice.rs` | the change that would gain the most: a table |
//! | `report.rs` | the report |
//! | `text.rs` | the report as text |
//!
//! Serialised, [`Report`] is the JSON that `fullbore doctor --json` prints; docs/doctor.md documents it.

mod advice;
mod allowance;
mod cause;
mod causes;
mod circumstances;
mod drawing;
mod placement;
mod report;
mod rules;
mod settings;
pub mod text;
mod topology;

use std::time::{Duration, SystemTime};

use allowance::Allowance;
use circumstances::Circumstances;
use fullbore_host::date::rfc3339;
use fullbore_host::machine::{CpuPair, Machine, Root, Topology};
use fullbore_lab::program::Program;
use fullbore_lab::trials::{Outcome, TRIALS, Trial};
use placement::PlacementReport;
pub use report::Report;
use report::Tried;
use topology::Cpus;

/// The version of the JSON format, which changes when a field changes its meaning or is removed.
const SCHEMA: u32 = 1;

/// Examines this machine.
pub fn examine(program: &Program) -> Report {
    let topology = Topology::read();
    let mut allowance = Allowance::read();
    let around = Circumstances::read(allowance.pages);
    allowance.soft_limit = around.user_pages_soft;
    allowance.exempt = around.is_exempt_from_user_pages();
    let try_it = |trial: &Trial| {
        let (outcome, took) = trial.run(program);
        tried(trial, outcome, took, &around)
    };
    let cpus = CpuPair::choose(&topology);
    let mut report = Report {
        schema: SCHEMA,
        taken_at: rfc3339(SystemTime::now()),
        machine: Machine::read(cpus.clone()),
        trials: TRIALS.iter().map(try_it).collect(),
        settings: settings::read(&Root::system(), &around),
        cpus: Cpus::measure(&topology),
        placement: PlacementReport::measure(&cpus, program),
        circumstances: around,
        allowance,
        advice: None,
        next_advice: None,
    };
    report.advice = Some(advice::of(&report));
    report.next_advice = advice::next(&report);
    report
}

fn tried(trial: &Trial, outcome: Outcome, took: Duration, around: &Circumstances) -> Tried {
    let refusal = match &outcome {
        Outcome::Refused(refusal) => Some(refusal),
        _ => None,
    };
    Tried {
        name: trial.name,
        purpose: trial.purpose,
        errno_name: refusal.and_then(|refusal| refusal.errno_name()),
        cause: refusal.map(|refusal| causes::of(trial.name, refusal, around)),
        milliseconds: (took.as_secs_f64() * 1e4).round() / 10.0,
        outcome,
    }
}

/// Returns the report of a machine that refuses these trials, with `EPERM`, and no others.
#[cfg(test)]
fn fixture(refused: &[&str]) -> Report {
    use fullbore_host::fixtures::Fixture;
    let machine = Fixture::new(&[]).online("0-1");
    let around = Circumstances {
        pipe_max_size: Some(65536),
        ..Circumstances::default()
    };
    let outcome = |trial: &Trial| match refused.contains(&trial.name) {
        false => Outcome::Works("seen".into()),
        true => Outcome::Refused(fullbore_lab::trials::Refusal {
            operation: trial.name.into(),
            errno: Some(rustix::io::Errno::PERM.raw_os_error()),
            signal: None,
            said: "Operation not permitted".into(),
        }),
    };
    let tried = |trial: &Trial| tried(trial, outcome(trial), Duration::ZERO, &around);
    let mut report = Report {
        schema: SCHEMA,
        taken_at: rfc3339(SystemTime::UNIX_EPOCH),
        machine: machine.machine(),
        trials: TRIALS.iter().map(tried).collect(),
        settings: settings::read(&machine.root(), &around),
        cpus: Cpus::measure(&machine.topology("0")),
        placement: fixture_placement(1.0),
        allowance: Allowance::default(),
        circumstances: around,
        advice: None,
        next_advice: None,
    };
    report.advice = Some(advice::of(&report));
    report
}

/// Returns the figures of a machine on which one CPU carries this many times as much as two.
#[cfg(test)]
fn fixture_placement(ratio: f64) -> PlacementReport {
    use fullbore_results::placement::Placement;
    let figures = Placement::of("write_read", 1, &[1.0], &[ratio], Some(20.0));
    PlacementReport::of(figures.expect("a ratio above 0"))
}
