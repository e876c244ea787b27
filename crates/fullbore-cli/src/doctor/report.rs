//! Defines the report that `fullbore doctor --json` prints.

use serde::Serialize;

use super::allowance::Allowance;
use super::cause::Cause;
use super::circumstances::Circumstances;
use super::placement::PlacementReport;
use super::settings::Setting;
use super::topology::Cpus;
use fullbore_host::machine::Machine;
use fullbore_lab::trials::Outcome;

/// The complete report.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(super) schema: u32,
    pub(super) taken_at: String,
    pub(super) machine: Machine,
    pub(super) circumstances: Circumstances,
    pub(super) trials: Vec<Tried>,
    pub(super) settings: Vec<Setting>,
    pub(super) cpus: Cpus,
    pub(super) placement: PlacementReport,
    pub(super) allowance: Allowance,
    /// The advice; `None` only while the report is being built.
    pub(super) advice: Option<Advice>,
    /// The change that would gain most besides placement, if the advice is about placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_advice: Option<Advice>,
}

/// The outcome of a trial.
#[derive(Debug, Serialize)]
pub(super) struct Tried {
    pub(super) name: &'static str,
    pub(super) purpose: &'static str,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    /// The name of the kernel's error, if the trial was refused with one.
    pub(super) errno_name: Option<String>,
    /// The cause, if the trial was refused.
    pub(super) cause: Option<Cause>,
    pub(super) milliseconds: f64,
}

impl Report {
    /// Returns the trials that moved wrong bytes.
    pub(super) fn wrong(&self) -> impl Iterator<Item = &Tried> {
        let is_wrong = |trial: &&Tried| matches!(trial.outcome, Outcome::Wrong(_));
        self.trials.iter().filter(is_wrong)
    }

    /// Returns whether any trial moved wrong bytes.
    pub fn is_wrong(&self) -> bool {
        self.wrong().next().is_some()
    }

    pub(super) fn trial(&self, name: &str) -> Option<&Tried> {
        self.trials.iter().find(|trial| trial.name == name)
    }
}

/// The advice at the end of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The advice in one sentence.
    pub text: String,
    /// How many times as fast the workload would be, and how this was measured; `None` if nothing
    /// slows it down.
    pub worth: Option<f64>,
    pub measured_as: Option<&'static str>,
    /// The name of the trial whose refusal it is about, or of the setting; both are `None` for placement.
    pub trial: Option<&'static str>,
    pub setting: Option<&'static str>,
    /// The command that would change it.
    pub command: Option<String>,
}
