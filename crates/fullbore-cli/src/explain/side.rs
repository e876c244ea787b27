//! The report of one side: what part of its time went to what.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::classes::Class;
use super::processes::Accounts;
use super::profile::Side;

/// One side's time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SideReport {
    /// Its role in an experiment, or its program's name.
    pub name: String,
    /// How many processes of that name there were.
    pub processes: usize,
    /// How often it was seen running.
    pub samples: u64,
    /// Of its time, the part it was on a CPU. Above 1 where threads ran side by side.
    pub ran: f64,
    /// Of its time, the part it slept.
    pub slept: f64,
    /// Of its time, the part it waited for a CPU that others had.
    pub waited: f64,
    /// What these are computed from, and more of the kind.
    pub accounts: Accounts,
    /// What its time on CPU went to, the largest share first.
    pub shares: Vec<Share>,
}

/// What part of a side's time on CPU went to one class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Share {
    pub class: Class,
    /// From 0 to 1.
    pub share: f64,
    /// The functions it was seen in, the largest first.
    pub symbols: Vec<Symbol>,
}

/// A function, and what part of the side's time on CPU it was in it, for this class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Symbol {
    pub name: String,
    pub share: f64,
}

/// Functions named of each share.
const SYMBOLS: usize = 8;

impl SideReport {
    /// Of a side. Where `whole` is false there are no samples of the kernel, and how much of the time was
    /// the kernel's is what the kernel's own accounts say.
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

    /// What part of its time on CPU went to `class`.
    pub fn share(&self, class: Class) -> f64 {
        self.shares
            .iter()
            .find(|share| share.class == class)
            .map_or(0.0, |share| share.share)
    }
}
