//! A running pipeline in the last rows of the terminal, drawn again and again: the same tables and verdict as at the
//! end, but for the last second or so, or one line of progress.

use std::time::Instant;

use super::footer::Footer;
use super::line::{self, Reading};
use super::report;
use crate::terminal::rate::Rate;
use fullbore_host::text::{columns, cut, one_line};
use fullbore_observe::verdict::VerdictKind;
use fullbore_observe::{Findings, Watch};

/// The place where the report is drawn.
#[derive(Debug)]
pub struct Live {
    footer: Footer,
    /// For one line of progress.
    progress: Option<Progress>,
}

/// The progress of a pipeline.
#[derive(Debug)]
struct Progress {
    /// How many bytes are to go through the first pipe, if the user has said that.
    size: Option<u64>,
    rate: Rate,
    ticks: u64,
}

impl Live {
    /// Returns the place on stderr, if stderr is a terminal that can be drawn on.
    pub fn new() -> Option<Self> {
        Footer::new().map(|footer| Self {
            footer,
            progress: None,
        })
    }

    /// Returns the place for one line of progress. `size` is the number of bytes that are to go through the first
    /// pipe, if it is known.
    pub fn progress(size: Option<u64>) -> Option<Self> {
        let rate = Rate::new(0, Instant::now());
        Self::new().map(|live| Self {
            progress: Some(Progress {
                size,
                rate,
                ticks: 0,
            }),
            ..live
        })
    }

    /// Draws the report on the last second or so, unless another job or program uses the terminal.
    pub fn draw(&mut self, watch: &Watch) {
        if !self.footer.is_in_the_way() {
            let lines = match &mut self.progress {
                Some(progress) => vec![progress.line(watch, self.footer.room().0)],
                None => self.lines(&watch.recent()),
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

    /// Returns the lines to draw. None of them wraps; what does not fit is left out of the tables, and never
    /// out of the verdict.
    fn lines(&self, findings: &Findings) -> Vec<String> {
        let (columns, rows) = self.footer.room();
        let (mut tables, verdict) = report::parts(findings, columns);
        tables.truncate(rows.saturating_sub(verdict.len() + 1));
        let rule = "-".repeat(columns);
        (std::iter::once(rule))
            .chain((tables.iter()).map(|line| cut(line, columns)))
            .chain(verdict)
            .take(rows)
            .collect()
    }
}

impl Progress {
    /// Returns the line: amount, time, rate, percentage, remaining time, and the slow stage.
    fn line(&mut self, watch: &Watch, width: usize) -> String {
        let at = watch.progress(self.size);
        self.ticks += 1;
        if let Some(passed) = at.passed {
            self.rate.update(passed, Instant::now());
        }
        let reading = Reading {
            passed: self.rate.count(),
            total: at.total,
            elapsed: self.rate.elapsed(),
            now: self.rate.now(),
            average: self.rate.average(),
            left: at.total.and_then(|total| self.rate.left(total)),
            tick: self.ticks,
            ..Reading::default()
        };
        let mut after = String::new();
        if at.total.is_none() {
            after.push_str(" size unknown");
        }
        let findings = watch.recent();
        if let VerdictKind::Stage(number, _) = findings.verdict.kind
            && let Some(stage) = findings.numbers.stages.get(number - 1)
        {
            after.push_str(&format!(" slow: {number} {}", one_line(&stage.text, STAGE)));
        }
        let room = width.saturating_sub(columns(&after));
        cut(&(line::line(&reading, room) + &after), width)
    }
}

/// The most columns that the text of the slow stage takes.
const STAGE: usize = 16;
