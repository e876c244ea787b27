//! The output of `--once`: a table of all pipes, and notes about what is not in it.

use std::fmt;

use super::cells::{notes, progress};
use super::columns::COLUMNS;
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
            let columns = || COLUMNS.iter().filter(|one| one.once);
            let mut rows = vec![Vec::from_iter(columns().map(|one| one.name.to_owned()))];
            for at in order(overview, Sort::default(), false, "") {
                let row = &overview.pipes[at];
                let cells = columns().map(|one| (one.text)(overview, row, usize::MAX));
                rows.push(cells.collect());
            }
            for line in table_lines(&rows, |at| at > 0) {
                writeln!(f, "{line}")?;
            }
        }
        if overview.chains.len() <= FEW {
            for chain in &overview.chains {
                if let Some(verdict) = &chain.verdict {
                    writeln!(f, "{verdict}")?;
                    if let Some(next) = &verdict.next {
                        writeln!(f, "next: {next}")?;
                    }
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
