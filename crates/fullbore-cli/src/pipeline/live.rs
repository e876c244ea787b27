//! What is found out about a pipeline while it runs, on the terminal: the same tables and verdict as at
//! the end, of the last second or so, drawn over and over in the same place.

use super::report::wrapped;
use super::{Findings, Watch};
use crate::meter::screen::Screen;

/// The place where it is drawn.
#[derive(Debug)]
pub struct Live {
    screen: Screen,
}

impl Live {
    /// Stderr, if it is a terminal.
    pub fn new() -> Option<Self> {
        Screen::new(false).map(|screen| Self { screen })
    }

    /// Draws what was found out lately.
    pub fn draw(&mut self, watch: &Watch) {
        let lines = self.lines(&watch.recent());
        self.screen.draw(&lines);
    }

    /// Draws what was found out in all, and leaves it there for good.
    pub fn leave(&mut self, findings: &Findings) {
        let lines = self.lines(findings);
        self.screen.leave(&lines);
    }

    /// Takes it off the screen: for whoever stops, or writes there.
    pub fn clear(&mut self) {
        self.screen.clear();
    }

    /// No line wraps, and what does not fit is left out from the tables, never the verdict.
    fn lines(&self, findings: &Findings) -> Vec<String> {
        let (columns, rows) = self.screen.size();
        let text = findings.to_string();
        let mut tables: Vec<&str> = text.lines().collect();
        let verdict = wrapped(tables.pop().unwrap_or_default(), columns);
        let room = rows.saturating_sub(verdict.len() + 1);
        tables.truncate(room);
        (tables.iter())
            .map(|line| line.chars().take(columns).collect())
            .chain(verdict)
            .collect()
    }
}
