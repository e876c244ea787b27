//! Defines what the catalogue consists of: experiments, and groups of them.

use crate::part::Part;
use crate::work::Work;
use fullbore_results::run::Unit;

/// One experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The name of its group.
    pub group: &'static str,
    /// Its name, unique in the catalogue.
    pub name: &'static str,
    /// What it shows, in one line.
    pub shows: &'static str,
    /// The unit of its figure.
    pub unit: Unit,
    /// The figure in the text that the experiment comes from.
    pub published: Option<f64>,
    /// The work that is measured.
    pub work: &'static dyn Work,
}

impl Experiment {
    /// Creates an experiment whose figure is in GiB/s.
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

    /// Creates an experiment from a name and work that are made at run time, and leaks them.
    pub fn made(
        group: &'static str,
        name: String,
        shows: String,
        work: impl Work + 'static,
    ) -> Self {
        let work = Box::leak(Box::new(work));
        Self::bandwidth(group, name.leak(), None, shows.leak(), work)
    }
}

/// Experiments that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in one line.
    pub shows: &'static str,
    /// The experiments, in the order of display. Ratios are relative to the first one.
    pub experiments: &'static [Experiment],
    /// The tasks of its processes that are neither writers nor readers.
    pub parts: &'static [Part],
}

impl Experiment {
    /// Returns whether a ratio of the two is meaningful: both are in one group, and in one table of
    /// it.
    pub fn is_like(&self, other: &Experiment) -> bool {
        self.group == other.group && self.work.table() == other.work.table()
    }
}
