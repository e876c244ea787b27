//! Defines what the catalogue consists of: experiments, and groups of them.

use crate::part::Part;
use crate::work::Work;
use fullbore_results::run::Unit;

/// One experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The name of its group, which the group sets.
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
    /// Creates an experiment whose figure is in GiB/s. What it consists of is leaked.
    pub fn new(
        name: impl Into<String>,
        shows: impl Into<String>,
        work: impl Work + 'static,
    ) -> Self {
        Self {
            group: "",
            name: name.into().leak(),
            shows: shows.into().leak(),
            unit: Unit::GibPerS,
            published: None,
            work: Box::leak(Box::new(work)),
        }
    }

    /// Returns whether a ratio of the two is meaningful: both are in one group, and in one table of
    /// it.
    pub fn is_like(&self, other: &Experiment) -> bool {
        self.group == other.group && self.work.table() == other.work.table()
    }
}

/// Experiments that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in one line.
    pub shows: &'static str,
    /// The tasks of its processes that are neither writers nor readers.
    pub parts: &'static [Part],
    /// The experiments, in the order of display. Ratios are relative to the first one.
    pub experiments: &'static [Experiment],
}

impl Group {
    /// Creates a group of these experiments, and leaks them.
    pub fn new(
        name: &'static str,
        shows: &'static str,
        parts: &'static [Part],
        experiments: impl IntoIterator<Item = Experiment>,
    ) -> Self {
        let of_group = |one| Experiment { group: name, ..one };
        let experiments: Vec<_> = experiments.into_iter().map(of_group).collect();
        Self {
            name,
            shows,
            parts,
            experiments: experiments.leak(),
        }
    }
}
