//! What is found out about a pipeline while it runs, on the terminal: the same tables and verdict as at
//! the end, of the last second or so, drawn over and over in its last rows.

use super::footer::Footer;
use super::report;
use fullbore_observe::Findings;
use fullbore_observe::Watch;

/// The place where it is drawn.
#[derive(Debug)]
pub struct Live {
    footer: Footer,
}

impl Live {
    /// Stderr, if it is a terminal that can be drawn on.
    pub fn new() -> Option<Self> {
        Footer::new().map(|footer| Self { footer })
    }

    /// Draws what was found out lately, unless that would be in somebody's way.
    pub fn draw(&mut self, watch: &Watch) {
        if !self.footer.is_in_the_way() {
            let lines = self.lines(&watch.recent());
            self.footer.draw(&lines);
        }
    }

    /// Takes it off the screen if it is in somebody's way.
    pub fn give_way(&mut self) {
        if self.footer.is_in_the_way() {
            self.footer.clear();
        }
    }

    /// Takes it off the screen: for whoever stops.
    pub fn clear(&mut self) {
        self.footer.clear();
    }

    /// Takes it off for good; what comes next on the terminal begins a line.
    pub fn end(&mut self) {
        self.footer.clear();
        self.footer.begin_a_line();
    }

    /// No line wraps, and what does not fit is left out from the tables, never the verdict.
    fn lines(&self, findings: &Findings) -> Vec<String> {
        let (columns, rows) = self.footer.room();
        let (mut tables, verdict) = report::parts(findings, columns);
        tables.truncate(rows.saturating_sub(verdict.len() + 1));
        let rule = "-".repeat(columns);
        (std::iter::once(rule))
            .chain((tables.iter()).map(|line| line.chars().take(columns).collect()))
            .chain(verdict)
            .take(rows)
            .collect()
    }
}
