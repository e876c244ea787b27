//! The output of `--once`: a table of all pipes, and notes about what is not in it.

use std::fmt;

use super::cells::{branch, capacity, ends, filled, notes, progress, rate, slow, waits};
use super::order::{Sort, order};
use fullbore_host::text::table_lines;
use fullbore_observe::overview::Overview;

/// The most pipelines for which each verdict is printed in full.
const FEW: usize = 3;

/// The table, and the lines below it.
pub struct Shown<'a>(pub &'a Overview);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overview = self.0;
        if overview.pipes.is_empty() {
            writeln!(f, "no pipes")?;
        } else {
            let header = ["writer → reader", "holds", "full", "rate", "waits", "slow"];
            let mut rows = vec![header.map(str::to_owned).to_vec()];
            for at in order(overview, Sort::default(), false, "") {
                let row = &overview.pipes[at];
                rows.push(vec![
                    format!("{}{}", branch(overview, row), ends(row)),
                    capacity(row),
                    filled(row),
                    rate(row),
                    waits(row),
                    slow(overview, row),
                ]);
            }
            for line in table_lines(&rows, |at| at > 0) {
                writeln!(f, "{line}")?;
            }
        }
        if overview.chains.len() <= FEW {
            for chain in &overview.chains {
                if let Some(verdict) = &chain.verdict {
                    writeln!(f, "{verdict}")?;
                }
                if let Some(progress) = progress(chain) {
                    writeln!(f, "{progress}")?;
                }
            }
        }
        for note in notes(overview) {
            writeln!(f, "not shown: {note}")?;
        }
        Ok(())
    }
}
