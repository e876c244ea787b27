//! The progress in the last row of the terminal, and the lines of `--log`.

use std::time::{Duration, Instant};

use rustix::stdio::stdin;

use crate::copying;
use crate::run::Shown;
use crate::terminal::footer::Footer;
use crate::terminal::lines::say_line;
use crate::terminal::log_line::Due;
use crate::terminal::progress::ProgressLine;
use fullbore_observe::Progress;

/// The interval at which the progress is drawn.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// What is shown while the workers run.
pub struct Display {
    progress: Option<(Footer, ProgressLine, Instant)>,
    log: Option<(ProgressLine, Due)>,
    /// The bytes to expect, if that is known.
    total: Option<u64>,
}

impl Display {
    pub fn new(shown: &Shown) -> Self {
        let progress = shown.progress.then(Footer::new).flatten();
        Self {
            progress: progress.map(|footer| (footer, ProgressLine::from_start(), Instant::now())),
            log: (shown.log).map(|every| (ProgressLine::from_start(), Due::every(every))),
            total: shown.size.or_else(|| copying::end(stdin())),
        }
    }

    /// Draws the progress, and writes the line of the log, when they are due.
    pub fn show(&mut self, read: u64) {
        if self.log.as_mut().is_some_and(|(_, due)| due.is_due()) {
            self.log(read, false);
        }
        let at = self.at(read);
        let Some((footer, line, due)) = &mut self.progress else {
            return;
        };
        if Instant::now() >= *due {
            *due = Instant::now() + DRAW_EVERY;
            if !footer.is_in_the_way() {
                let text = line.line(at, None, footer.room().0);
                footer.draw(&[text]);
            }
        }
    }

    /// Writes a line of the log, if it was asked for.
    pub fn log(&mut self, read: u64, ended: bool) {
        let at = self.at(read);
        if let Some((line, _)) = &mut self.log {
            say_line(line.log_line(at, None, ended));
        }
    }

    fn at(&self, read: u64) -> Progress {
        Progress {
            passed: Some(read),
            total: self.total,
        }
    }

    /// Returns the time until something is due.
    pub fn due(&self) -> Option<Duration> {
        let drawing = self.progress.as_ref().map(|(.., at)| *at);
        let line = self.log.as_ref().map(|(_, due)| due.at());
        let next = drawing.into_iter().chain(line).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Removes the progress from the terminal.
    pub fn clear(&mut self) {
        if let Some((footer, ..)) = &mut self.progress {
            footer.clear();
        }
    }
}
