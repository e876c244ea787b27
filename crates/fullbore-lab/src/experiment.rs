//! What the catalogue is made of: experiments, and groups of them.

use crate::part::Part;
use crate::work::Work;
use fullbore_results::run::Unit;

/// One experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// What it is one of.
    pub group: &'static str,
    /// Its name, unique in the catalogue.
    pub name: &'static str,
    /// One line: what it shows.
    pub shows: &'static str,
    /// What its figure is in.
    pub unit: Unit,
    /// The figure of the text it comes from.
    pub published: Option<f64>,
    /// What it does.
    pub work: &'static dyn Work,
}

impl Experiment {
    /// One whose figure is in GiB/s.
    pub const fn bandwidth(
        group: &'static str,
        name: &'static str,
        published: Option<f64>,
        shows: &'static str,
        work: &'static dyn Work,
    ) -> Self {
        Self {
            group,
            name,
            shows,
            unit: Unit::GibPerS,
            published,
            work,
        }
    }
}

/// Experiments that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// One line: what it is about.
    pub shows: &'static str,
    /// In the order they are shown. Ratios are to the first.
    pub experiments: &'static [Experiment],
    /// What processes of these experiments do that are neither writers nor readers.
    pub parts: &'static [Part],
}

impl Experiment {
    /// Whether ratios between the two say something: they are of one group, and of one table in it.
    pub fn is_like(&self, other: &Experiment) -> bool {
        self.group == other.group && self.work.table() == other.work.table()
    }
}
