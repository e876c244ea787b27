//! A running pipeline in the last rows of the terminal, drawn every second: the same tables and verdict as at the
//! end, but for the last second or so, or one line of progress.

use super::footer::Footer;
use super::progress::ProgressLine;
use super::report;
use fullbore_host::text::cut;
use fullbore_observe::{Findings, Watch};

/// The lines of the verdict that are shown in any case, if there are as many rows.
const LEAST_OF_VERDICT: usize = 2;

/// The place where the report is drawn.
#[derive(Debug)]
pub struct Live {
    footer: Footer,
    /// For one line of progress, with the number of bytes that are to go through the first pipe, if the user has said
    /// that.
    progress: Option<(ProgressLine, Option<u64>)>,
}

impl Live {
    /// Returns the place on stderr, if stderr is a terminal that can be drawn on.
    pub fn new(progress: Option<(ProgressLine, Option<u64>)>) -> Option<Self> {
        Footer::new().map(|footer| Self { footer, progress })
    }

    /// Draws the report on the last second or so, unless another job or program uses the terminal.
    pub fn draw(&mut self, watch: &Watch) {
        if !self.footer.is_in_the_way() {
            let findings = watch.recent();
            let lines = match &mut self.progress {
                Some((line, size)) => {
                    let (at, width) = (watch.progress(*size), self.footer.room().0);
                    vec![line.line(at, findings.slow_stage(), width)]
                }
                None => self.lines(&findings),
            };
            self.footer.draw(&lines);
        }
    }

    /// Removes the drawing if another job or program uses the terminal. Returns whether there was one: a
    /// program may have drawn around it already.
    pub fn give_way(&mut self) -> bool {
        self.footer.is_in_the_way() && self.footer.clear()
    }

    /// Removes the drawing, for the job that uses the terminal while this one is stopped.
    pub fn clear(&mut self) {
        self.footer.clear();
    }

    /// Removes the drawing for good. The next output on the terminal begins a line.
    pub fn end(&mut self) {
        self.footer.clear();
        self.footer.begin_a_line();
    }

    /// Returns the lines to draw. None of them wraps. If there are few rows, the table of the pipes is left out first,
    /// and then the end of the verdict.
    fn lines(&self, findings: &Findings) -> Vec<String> {
        let (columns, rows) = self.footer.room();
        let (mut tables, mut verdict) = report::parts(findings, columns);
        let (room, stages) = (rows.saturating_sub(1), findings.numbers.stages.len() + 1);
        let of_verdict = room.saturating_sub(stages).max(LEAST_OF_VERDICT);
        if verdict.len() > of_verdict {
            verdict.truncate(of_verdict);
            if let Some(last) = verdict.last_mut() {
                *last = cut(last, columns.saturating_sub(1)) + "…";
            }
        }
        tables.truncate(room.saturating_sub(verdict.len()));
        if tables.len() == 1 {
            // A header without a row says nothing.
            tables.clear();
        }
        let rule = "-".repeat(columns);
        (std::iter::once(rule))
            .chain((tables.iter()).map(|line| cut(line, columns)))
            .chain(verdict)
            .take(rows)
            .collect()
    }
}
