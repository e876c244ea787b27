//! Examines what this machine allows and what slows it down, for `fullbore doctor`.
//!
//! | file | holds |
//! |---|---|
//! | `causes.rs` | why something was refused, and the remedy |
//! | `circumstances.rs` | the environment of this process, from which causes are derived |
//! | `settings.rs` | the limits and settings that matter: a table |
//! | `topology.rs` | pairs of CPUs |
//! | `allowance.rs` | how much of the user's allowance for pipes is in use |
//! | `cpu_sharing.rs` | whether one CPU for both ends of a pipe is faster than two |
//! | `advice.rs` | the change that would gain the most: a table |
//! | `text.rs` | the report as text |
//!
//! The techniques that are tried are in `fullbore_lab::trials`, and what was found is an [`Examination`].

mod advice;
mod allowance;
mod causes;
mod circumstances;
mod cpu_sharing;
mod settings;
pub mod text;
mod topology;

use std::time::{Duration, SystemTime};

use circumstances::Circumstances;
use fullbore_host::machine::{CpuPair, Machine, Root, Topology};
use fullbore_lab::other_work::OtherWork;
use fullbore_lab::program::Program;
use fullbore_lab::trials::{TRIALS, Trial};
use fullbore_results::date::rfc3339;
use fullbore_results::doctor::{Examination, SCHEMA, TrialOutcome, TrialReport};

/// Examines this machine.
pub fn examine(program: &Program) -> Examination {
    let other_work = OtherWork::begin();
    let topology = Topology::read();
    let mut allowance = allowance::read();
    let around = Circumstances::read(allowance.pages);
    allowance.soft_limit = around.pipe_limits.user_pages_soft;
    allowance.exempt = around.pipe_limits.exempt_from_user_pages;
    let try_it = |trial: &Trial| tried(trial, trial.run(program), &around);
    let cpus = CpuPair::choose(&topology);
    let mut report = Examination {
        schema: SCHEMA,
        taken_at: rfc3339(SystemTime::now()),
        machine: Machine::read(cpus.clone()),
        trials: TRIALS.iter().map(try_it).collect(),
        settings: settings::read(&Root::system(), &around),
        cpus: topology::measure(&topology),
        placement: cpu_sharing::measure(&cpus, program),
        circumstances: around.conditions,
        allowance,
        other_work: None,
        advice: None,
        next_advice: None,
    };
    report.other_work = other_work.share();
    report.advice = Some(advice::of(&report));
    report.next_advice = advice::next(&report);
    report
}

fn tried(
    trial: &Trial,
    (outcome, took): (TrialOutcome, Duration),
    around: &Circumstances,
) -> TrialReport {
    let refusal = match &outcome {
        TrialOutcome::Refused(refusal) => Some(refusal),
        _ => None,
    };
    TrialReport {
        name: trial.name.to_owned(),
        purpose: trial.purpose.to_owned(),
        errno_name: refusal.and_then(|refusal| refusal.errno).map(errno_name),
        cause: refusal.map(|refusal| causes::of(trial.name, refusal, around)),
        milliseconds: (took.as_secs_f64() * 1e4).round() / 10.0,
        outcome,
    }
}

/// Returns the name of an error of the kernel, such as `EPERM`.
fn errno_name(errno: i32) -> String {
    format!("{:?}", nix::errno::Errno::from_raw(errno))
}

/// Returns the circumstances of [`fixture`].
#[cfg(test)]
fn fixture_circumstances() -> Circumstances {
    let mut around = Circumstances::default();
    around.pipe_limits.max_size = Some(65536);
    around
}

/// Returns the report of a machine that refuses these trials, with `EPERM`, and no others.
#[cfg(test)]
fn fixture(refused: &[&str]) -> Examination {
    use fullbore_host::fixtures::Fixture;
    let machine = Fixture::new(&[]).online("0-1");
    let around = fixture_circumstances();
    let outcome = |trial: &Trial| match refused.contains(&trial.name) {
        false => TrialOutcome::Works("seen".into()),
        true => TrialOutcome::Refused(fullbore_results::doctor::Refusal {
            operation: trial.name.into(),
            errno: Some(rustix::io::Errno::PERM.raw_os_error()),
            signal: None,
            said: "Operation not permitted".into(),
        }),
    };
    let tried = |trial: &Trial| tried(trial, (outcome(trial), Duration::ZERO), &around);
    let mut report = Examination {
        schema: SCHEMA,
        taken_at: rfc3339(SystemTime::UNIX_EPOCH),
        machine: machine.machine(),
        trials: TRIALS.iter().map(tried).collect(),
        settings: settings::read(&machine.root(), &around),
        cpus: topology::measure(&machine.topology("0")),
        placement: fixture_placement(1.0),
        allowance: Default::default(),
        circumstances: around.conditions,
        other_work: None,
        advice: None,
        next_advice: None,
    };
    report.advice = Some(advice::of(&report));
    report
}

/// Returns the figures of a machine on which one CPU carries this many times as much as two.
#[cfg(test)]
fn fixture_placement(ratio: f64) -> fullbore_results::placement::PlacementReport {
    use fullbore_results::placement::Placement;
    let figures = Placement::of("write_read", 1, &[1.0], &[ratio], Some(20.0));
    cpu_sharing::report(figures.expect("a ratio above 0"))
}
