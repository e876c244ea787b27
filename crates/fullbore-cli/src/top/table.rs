//! `--once`: a table of all pipes, and what is not in it.

use std::fmt;

use super::cells::{branch, capacity, ends, filled, notes, rate, slow, waits};
use super::order::{Sort, order};
use super::picture::Picture;
use crate::pipeline::report;

/// Pipelines up to which each one's verdict is told in whole.
const FEW: usize = 3;

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pipes.is_empty() {
            writeln!(f, "no pipes")?;
        } else {
            let header = ["writer → reader", "holds", "full", "rate", "waits", "slow"];
            let mut table = report::table(&header);
            for at in order(self, Sort::default(), false, "") {
                let row = &self.pipes[at];
                table.add_row([
                    format!("{}{}", branch(self, row), ends(row)),
                    capacity(row),
                    filled(row),
                    rate(row),
                    waits(row),
                    slow(self, row),
                ]);
            }
            for line in report::lines(&table) {
                writeln!(f, "{line}")?;
            }
        }
        let verdicts = self
            .chains
            .iter()
            .filter_map(|chain| chain.verdict.as_ref());
        if self.chains.len() <= FEW {
            for verdict in verdicts {
                writeln!(f, "{verdict}")?;
            }
        }
        for note in notes(self) {
            writeln!(f, "not shown: {note}")?;
        }
        Ok(())
    }
}
