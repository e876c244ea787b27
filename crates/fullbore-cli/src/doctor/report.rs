//! What was found, as `fullbore doctor --json` prints it.

use serde::Serialize;

use super::allowance::Allowance;
use super::cause::Cause;
use super::circumstances::Circumstances;
use super::settings::Setting;
use super::topology::Cpus;
use fullbore_host::machine::Machine;
use fullbore_lab::trials::Outcome;

/// All that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(super) schema: u32,
    pub(super) taken_at: String,
    pub(super) machine: Machine,
    pub(super) circumstances: Circumstances,
    pub(super) trials: Vec<Tried>,
    pub(super) settings: Vec<Setting>,
    pub(super) cpus: Cpus,
    pub(super) allowance: Allowance,
    /// `None` only while it is being found out.
    pub(super) advice: Option<Advice>,
}

/// The outcome of a trial.
#[derive(Debug, Serialize)]
pub(super) struct Tried {
    pub(super) name: &'static str,
    pub(super) purpose: &'static str,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    /// The name of the kernel's error, where it was refused with one.
    pub(super) errno_name: Option<String>,
    /// Where it was refused.
    pub(super) cause: Option<Cause>,
    pub(super) milliseconds: f64,
}

impl Report {
    /// The trials that moved wrong bytes.
    pub(super) fn wrong(&self) -> impl Iterator<Item = &Tried> {
        let is_wrong = |trial: &&Tried| matches!(trial.outcome, Outcome::Wrong(_));
        self.trials.iter().filter(is_wrong)
    }

    /// Whether some trial moved wrong bytes.
    pub fn is_wrong(&self) -> bool {
        self.wrong().next().is_some()
    }

    pub(super) fn trial(&self, name: &str) -> Option<&Tried> {
        self.trials.iter().find(|trial| trial.name == name)
    }
}

/// The last sentence of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// One sentence.
    pub text: String,
    /// How many times as fast it would be, and of what that was measured; `None` where nothing is held
    /// back.
    pub worth: Option<f64>,
    pub measured_as: Option<&'static str>,
    /// The trial whose refusal it is about, or the setting.
    pub trial: Option<&'static str>,
    pub setting: Option<&'static str>,
    /// The command that would change it.
    pub command: Option<String>,
}
