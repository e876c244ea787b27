//! What this machine allows, and what holds it back: what `fullbore doctor` shows.
//!
//! | file | holds |
//! |---|---|
//! | `trials/` | each technique, tried for real: a table, and a function for each row |
//! | `cause.rs` | why something was refused, and what would change it: a table of rules |
//! | `circumstances.rs` | what this process runs under, which causes are found from |
//! | `settings.rs` | the limits and settings that matter: a table |
//! | `topology.rs` | the CPUs as a drawing, and pairs of them |
//! | `allowance.rs` | how much of the user's allowance for pipes is in use |
//! | `advice.rs` | the biggest win left: a table |
//! | `text.rs` | all of it for people |
//!
//! Serialised, [`Report`] is the JSON that `fullbore doctor --json` prints; docs/doctor.md documents it.

mod advice;
mod allowance;
mod cause;
mod circumstances;
mod settings;
pub mod text;
mod topology;
pub mod trials;

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::host::date::rfc3339;
use crate::host::machine::{CpuPair, Machine, Root, Topology};
use crate::lab::program::Program;
use advice::Advice;
use allowance::Allowance;
use cause::Cause;
use circumstances::Circumstances;
use settings::Setting;
use topology::Cpus;
use trials::{Outcome, TRIALS, Trial};

/// The version of the JSON's shape; another one when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

/// All that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    taken_at: String,
    machine: Machine,
    circumstances: Circumstances,
    trials: Vec<Tried>,
    settings: Vec<Setting>,
    cpus: Cpus,
    allowance: Allowance,
    /// `None` only while it is being found out.
    advice: Option<Advice>,
}

/// What came of a trial.
#[derive(Debug, Serialize)]
struct Tried {
    name: &'static str,
    purpose: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
    /// The name of the kernel's error, where it was refused with one.
    errno_name: Option<String>,
    /// Where it was refused.
    cause: Option<Cause>,
    milliseconds: f64,
}

impl Tried {
    fn new(trial: &Trial, outcome: Outcome, took: Duration, around: &Circumstances) -> Self {
        let refusal = match &outcome {
            Outcome::Refused(refusal) => Some(refusal),
            _ => None,
        };
        Tried {
            name: trial.name,
            purpose: trial.purpose,
            errno_name: refusal.and_then(|refusal| refusal.errno_name()),
            cause: refusal.map(|refusal| cause::of(trial.name, refusal, around)),
            milliseconds: (took.as_secs_f64() * 1e4).round() / 10.0,
            outcome,
        }
    }
}

impl Report {
    /// Examines this machine.
    pub fn new(program: &Program) -> Self {
        let topology = Topology::read();
        let mut allowance = Allowance::look();
        let around = Circumstances::read(allowance.pages);
        allowance.soft_limit = around.user_pages_soft;
        allowance.exempt = around.is_exempt_from_user_pages();
        let try_it = |trial: &Trial| {
            let (outcome, took) = trial.run(program);
            Tried::new(trial, outcome, took, &around)
        };
        let mut report = Report {
            schema: SCHEMA,
            taken_at: rfc3339(SystemTime::now()),
            machine: Machine::read(CpuPair::choose(&topology)),
            trials: TRIALS.iter().map(try_it).collect(),
            settings: settings::read(&Root::system(), &around),
            cpus: Cpus::measure(&topology),
            circumstances: around,
            allowance,
            advice: None,
        };
        report.advice = Some(advice::of(&report));
        report
    }

    /// The trials that moved wrong bytes.
    fn wrong(&self) -> impl Iterator<Item = &Tried> {
        let is_wrong = |trial: &&Tried| matches!(trial.outcome, Outcome::Wrong(_));
        self.trials.iter().filter(is_wrong)
    }

    /// Whether some trial moved wrong bytes.
    pub fn is_wrong(&self) -> bool {
        self.wrong().next().is_some()
    }

    fn trial(&self, name: &str) -> Option<&Tried> {
        self.trials.iter().find(|trial| trial.name == name)
    }
}

/// A report of a machine that refuses these trials, with `EPERM`, and nothing else.
#[cfg(test)]
fn fixture(refused: &[&str]) -> Report {
    use crate::host::machine::fixture::Fixture;
    let machine = Fixture::new(&[]).online("0-1");
    let around = Circumstances {
        pipe_max_size: Some(65536),
        ..Circumstances::default()
    };
    let outcome = |trial: &Trial| match refused.contains(&trial.name) {
        false => Outcome::Works("seen".into()),
        true => Outcome::Refused(trials::Refusal {
            operation: trial.name.into(),
            errno: Some(rustix::io::Errno::PERM.raw_os_error()),
            signal: None,
            said: "Operation not permitted".into(),
        }),
    };
    let tried = |trial: &Trial| Tried::new(trial, outcome(trial), Duration::ZERO, &around);
    let mut report = Report {
        schema: SCHEMA,
        taken_at: rfc3339(SystemTime::UNIX_EPOCH),
        machine: machine.machine(),
        trials: TRIALS.iter().map(tried).collect(),
        settings: settings::read(&machine.root(), &around),
        cpus: Cpus::measure(&machine.topology("0")),
        allowance: Allowance::default(),
        circumstances: around,
        advice: None,
    };
    report.advice = Some(advice::of(&report));
    report
}
