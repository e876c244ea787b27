//! Computes the report of one side: the share of each class in its time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::classes::Class;
use super::processes::Accounts;
use super::profile::Side;

/// The time of one side.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SideReport {
    /// Its role in an experiment, or its program's name.
    pub name: String,
    /// The number of processes with that name.
    pub processes: usize,
    /// The number of samples in which it was running.
    pub samples: u64,
    /// The fraction of its time in which it was on a CPU. It is above 1 if threads ran in parallel.
    pub ran: f64,
    /// The fraction of its time in which it slept.
    pub slept: f64,
    /// The fraction of its time in which it waited for a CPU that other tasks used.
    pub waited: f64,
    /// The kernel's accounts from which these are computed, and more of them.
    pub accounts: Accounts,
    /// The classes of its time on CPU, the largest share first.
    pub shares: Vec<Share>,
}

/// The share of one class in a side's time on CPU.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Share {
    pub class: Class,
    /// The share, from 0 to 1.
    pub share: f64,
    /// The functions in which it was sampled, the largest share first.
    pub symbols: Vec<Symbol>,
}

/// A function, and the share of the side's time on CPU that was in it, for this class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Symbol {
    pub name: String,
    pub share: f64,
}

/// The number of functions that are listed for each share.
const SYMBOLS: usize = 8;

impl SideReport {
    /// Creates the report of a side. If `whole` is false there are no samples of the kernel, and the
    /// kernel's share of the time is taken from the kernel's own accounts.
    pub fn of(side: &Side, whole: bool) -> Self {
        let mut report = Self::sampled(side);
        let accounts = &side.accounts;
        let ran = accounts.user_seconds + accounts.system_seconds;
        if !whole && ran > 0.0 {
            let user = accounts.user_seconds / ran;
            let mut symbols = report
                .shares
                .pop()
                .map_or(Vec::new(), |share| share.symbols);
            for symbol in &mut symbols {
                symbol.share *= user;
            }
            let share = |class, share, symbols| Share {
                class,
                share,
                symbols,
            };
            report.shares = vec![
                share(Class::User, user, symbols),
                share(Class::NotClassified, 1.0 - user, Vec::new()),
            ];
            report.shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        }
        report
    }

    fn sampled(side: &Side) -> Self {
        let samples = side.samples();
        let mut classes: BTreeMap<Class, BTreeMap<&str, u64>> = BTreeMap::new();
        for (stack, &count) in &side.stacks {
            let symbols = classes.entry(stack.class()).or_default();
            *symbols.entry(stack.leaf()).or_default() += count;
        }
        let part = |count: u64| count as f64 / samples.max(1) as f64;
        let mut shares: Vec<Share> = classes
            .into_iter()
            .map(|(class, symbols)| {
                let share = part(symbols.values().sum());
                let mut symbols: Vec<Symbol> = symbols
                    .into_iter()
                    .map(|(name, count)| Symbol {
                        name: name.to_owned(),
                        share: part(count),
                    })
                    .collect();
                symbols.sort_by(|a, b| b.share.total_cmp(&a.share));
                symbols.truncate(SYMBOLS);
                Share {
                    class,
                    share,
                    symbols,
                }
            })
            .collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        Self {
            name: side.name.clone(),
            processes: side.processes,
            samples,
            ran: side.accounts.ran(),
            slept: side.accounts.slept(),
            waited: side.accounts.waited(),
            accounts: side.accounts,
            shares,
        }
    }

    /// Returns the share of `class` in its time on CPU.
    pub fn share(&self, class: Class) -> f64 {
        self.shares
            .iter()
            .find(|share| share.class == class)
            .map_or(0.0, |share| share.share)
    }
}
