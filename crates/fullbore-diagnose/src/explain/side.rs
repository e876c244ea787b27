//! Computes the report of one side: the share of each class in its time.

use std::collections::BTreeMap;

use super::profile::Side;
use fullbore_results::explain::{Class, ClassShare, FunctionShare, SideReport};

/// The number of functions that are listed for each share.
const SYMBOLS: usize = 8;

impl Side {
    /// Returns its report. If `whole` is false there are no samples of the kernel, and the
    /// kernel's share of the time is taken from the kernel's own accounts.
    pub fn report(&self, whole: bool) -> SideReport {
        let mut report = self.sampled();
        let accounts = &self.accounts;
        let ran = accounts.user_seconds + accounts.system_seconds;
        if !whole && ran > 0.0 {
            let user = accounts.user_seconds / ran;
            let both = [(Class::User, user), (Class::NotClassified, 1.0 - user)];
            let share = |(class, share)| ClassShare {
                class,
                share,
                symbols: Vec::new(),
            };
            report.shares = both.map(share).into();
            report.shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        }
        report
    }

    fn sampled(&self) -> SideReport {
        let samples = self.samples();
        let mut classes: BTreeMap<Class, BTreeMap<&str, u64>> = BTreeMap::new();
        for (stack, &count) in &self.stacks {
            let symbols = classes.entry(stack.class()).or_default();
            *symbols.entry(stack.leaf()).or_default() += count;
        }
        let part = |count: u64| count as f64 / samples.max(1) as f64;
        let function = |(name, count): (&str, u64)| FunctionShare {
            name: name.to_owned(),
            share: part(count),
        };
        let share = |(class, symbols): (Class, BTreeMap<&str, u64>)| {
            let share = part(symbols.values().sum());
            let mut symbols: Vec<FunctionShare> = symbols.into_iter().map(function).collect();
            symbols.sort_by(|a, b| b.share.total_cmp(&a.share));
            symbols.truncate(if class == Class::User { 0 } else { SYMBOLS });
            ClassShare {
                class,
                share,
                symbols,
            }
        };
        let mut shares: Vec<ClassShare> = classes.into_iter().map(share).collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        SideReport {
            name: self.name.clone(),
            processes: self.processes,
            samples,
            ran: self.accounts.ran(),
            slept: self.accounts.slept(),
            waited: self.accounts.waited(),
            accounts: self.accounts,
            shares,
        }
    }
}
