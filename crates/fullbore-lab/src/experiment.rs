//! Defines what the catalogue consists of: experiments, and groups of them.

use crate::task::Part;
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
    /// The name of the table in its group that contains it; `None` if the group is one table.
    pub table: Option<&'static str>,
    /// The name under which it is compared, if each table of its group compares the same programs
    /// with its first experiment; their ratios are then averaged over the tables.
    pub compared_as: Option<&'static str>,
    /// Whether the pipe size of the settings applies to it.
    pub takes_pipe_size: bool,
    /// Whether its processes may run on all CPUs, and not only on the two of the settings.
    pub runs_anywhere: bool,
    /// The equivalent options of `fullbore write` and `fullbore read`, if there are any.
    pub endpoints: Option<(&'static str, &'static str)>,
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
            table: None,
            compared_as: None,
            takes_pipe_size: false,
            runs_anywhere: false,
            endpoints: None,
            work: Box::leak(Box::new(work)),
        }
    }

    /// Returns whether a ratio of the two is meaningful: both are in one group, and in one table of
    /// it.
    pub fn is_like(&self, other: &Experiment) -> bool {
        self.group == other.group && self.table == other.table
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
