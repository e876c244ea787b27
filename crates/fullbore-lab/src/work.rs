//! Defines what the runner needs from an experiment: something that can be measured once.
//!
//! Each group of the catalogue implements its own kind of work, in its own file or folder; the runner and
//! the reports know none of these kinds. Work runs in separate processes, on the CPUs that it is given,
//! and ends within a time that follows from the settings.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::Result;

use crate::measurement::Measured;
use crate::program::Program;
use crate::task::Timing;
use fullbore_host::machine::CpuPair;
use fullbore_results::run::{Outcome, Settings};
use fullbore_results::soundness::Soundness;

/// What one experiment does.
pub trait Work: Debug + Sync {
    /// Measures once.
    ///
    /// # Errors
    /// Fails if not even a pipe or a process can be made, so that nothing else could be measured either.
    /// If only this experiment is impossible here, or breaks, the error is a
    /// [`Stop`](crate::measurement::Stop).
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured>;

    /// Returns what the outcomes of its table show, in a sentence. Only the first experiment of a table is asked.
    fn remark(&self, _table: &[&Outcome]) -> Option<String> {
        None
    }

    /// Adds details that only this kind of work knows to an outcome.
    fn describe(&self, _outcome: &mut Outcome, _settings: &Settings) {}

    /// Checks whether its bytes stay right whichever program reads them; `None` means that the question
    /// does not apply.
    ///
    /// # Errors
    /// Fails as [`measure`](Self::measure) does.
    fn check(&self, _bench: &Bench<'_>) -> Result<Option<Soundness>> {
        Ok(None)
    }

    /// Returns the command line of the equivalent program in `peers/`, starting with the program's name,
    /// or `None` if there is none. The caller adds where and for how long it measures.
    fn peer(&self, _settings: &Settings) -> Option<String> {
        None
    }

    /// Returns the longest time that one measurement of this experiment, or of its program in `peers/`,
    /// may take.
    fn patience(&self, settings: &Settings) -> Duration {
        Timing::of(settings).patience()
    }
}

/// The context that all measurements of a run share.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The settings of the run.
    pub settings: &'a Settings,
    /// The CPUs on which the experiment runs.
    pub cpus: &'a CpuPair,
    /// The executable from which the processes of experiments are started.
    pub program: &'a Program,
    /// Values that experiments make once and share.
    pub store: Store,
}

impl<'a> Bench<'a> {
    /// Creates a bench with an empty store.
    pub fn new(settings: &'a Settings, cpus: &'a CpuPair, program: &'a Program) -> Self {
        Self {
            settings,
            cpus,
            program,
            store: Store::default(),
        }
    }
}

/// Values that an experiment makes on first use and keeps for the run, such as a file that several
/// experiments read. There is one value per type, and only the experiments that use a type know it.
#[derive(Debug, Default)]
pub struct Store(HashMap<TypeId, Box<dyn Any>>);

impl Store {
    /// Returns the value of this type, and makes it on first use.
    ///
    /// # Errors
    /// Fails as `make` does.
    pub fn of<T: Any>(&mut self, make: impl FnOnce() -> Result<T>) -> Result<&mut T> {
        let value = match self.0.entry(TypeId::of::<T>()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Box::new(make()?)),
        };
        let value = value.downcast_mut();
        Ok(value.expect("each value is stored under its own type"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_for_each_type_and_kept() {
        let mut store = Store::default();
        assert!(store.of::<u8>(|| anyhow::bail!("no")).is_err());
        for (number, letter) in [(1, "a"), (2, "b")] {
            let numbers: &mut Vec<u8> = store.of(|| Ok(Vec::new())).unwrap();
            numbers.push(number);
            let letters = store.of(|| Ok(letter.to_owned())).unwrap();
            assert_eq!(letters, "a");
        }
        assert_eq!(*store.of::<Vec<u8>>(|| unreachable!()).unwrap(), [1, 2]);
    }
}
