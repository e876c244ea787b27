//! What an experiment does, as the runner sees it: something that can be measured once.
//!
//! Each group of the catalogue has its own kind of work, in its own file or folder; the runner and
//! the reports know none of them. Work runs in processes of its own, on the CPUs that it is given,
//! and ends within a time that follows from the settings.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::Result;

use crate::part::Timing;
use crate::program::Program;
use crate::taken::Measurement;
use fullbore_host::machine::CpuPair;
use fullbore_results::run::{Outcome, Settings};
use fullbore_results::soundness::Soundness;

/// What one experiment does.
pub trait Work: Debug + Sync {
    /// Measures once.
    ///
    /// # Errors
    /// Where not even a pipe or a process can be made, and nothing else could be measured either.
    /// What this experiment alone cannot do, or breaks at, goes into the [`Measurement`].
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measurement>;

    /// The table of its group that it stands in; `None` where the group is one table.
    fn table(&self) -> Option<&'static str> {
        None
    }

    /// What it is called where each table of its group compares the same programs with the first of them;
    /// their ratios are then summed up over the tables.
    fn compared_as(&self) -> Option<&'static str> {
        None
    }

    /// Adds to an outcome what only this kind of work knows.
    fn describe(&self, _outcome: &mut Outcome, _settings: &Settings) {}

    /// Whether its bytes are right whatever stands behind it; `None` where that is no question.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    fn check(&self, _bench: &Bench<'_>) -> Result<Option<Soundness>> {
        Ok(None)
    }

    /// The command line of the program in `peers/` that does the same, its name first; `None` where
    /// there is none. The caller adds where and for how long it measures.
    fn peer(&self, _settings: &Settings) -> Option<String> {
        None
    }

    /// The longest that one measurement may take, of this experiment or of its program in `peers/`.
    fn patience(&self, settings: &Settings) -> Duration {
        Timing::of(settings).patience()
    }

    /// The options of `fullbore write` and `fullbore read` that it stands for, if it does. Tests ask.
    #[cfg_attr(not(test), allow(dead_code))]
    fn endpoints(&self) -> Option<(&'static str, &'static str)> {
        None
    }
}

/// What measurements share.
#[derive(Debug)]
pub struct Bench<'a> {
    /// How to measure.
    pub settings: &'a Settings,
    /// Where.
    pub cpus: &'a CpuPair,
    /// What processes of this program are started from.
    pub program: &'a Program,
    /// What experiments make once and share.
    pub store: Store,
}

impl<'a> Bench<'a> {
    /// With nothing in the store yet.
    pub fn new(settings: &'a Settings, cpus: &'a CpuPair, program: &'a Program) -> Self {
        Self {
            settings,
            cpus,
            program,
            store: Store::default(),
        }
    }
}

/// What experiments make when it is first wanted and keep for the run, such as a file that several of
/// them read: one value of each type, which only the experiments that use it know.
#[derive(Debug, Default)]
pub struct Store(HashMap<TypeId, Box<dyn Any>>);

impl Store {
    /// The value of this type; the default one if it is asked for the first time.
    pub fn of<T: Any + Default>(&mut self) -> &mut T {
        self.0
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Box::<T>::default())
            .downcast_mut()
            .expect("each value is stored under its own type")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_for_each_type_and_kept() {
        let mut store = Store::default();
        store.of::<Vec<u8>>().push(1);
        store.of::<String>().push('a');
        store.of::<Vec<u8>>().push(2);
        assert_eq!(*store.of::<Vec<u8>>(), [1, 2]);
        assert_eq!(store.of::<String>(), "a");
    }
}
