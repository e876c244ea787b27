//! Where the messages of a buffer go, and in whose words.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use fullbore_host::text::{clean, error_text};
use rustix::fs::OFlags;

use super::as_mbuffer::before;
use crate::error_text::{Failed, shown};
use crate::exit;
use crate::inherited::descriptor;
use crate::terminal::lines::{Screen, say_line};
use crate::terminal::log_line::time_of_day;

/// Where messages go.
pub struct Messages {
    log: Option<Log>,
    as_mbuffer: bool,
    /// The level of mbuffer: errors are printed from 1 on, warnings from 2 on.
    level: u8,
}

/// The file for messages, and its name in quotes.
struct Log {
    file: File,
    name: String,
    /// Whether lines begin with the time of day, which those of mbuffer do not.
    is_timed: bool,
    has_failed: Cell<bool>,
}

impl Messages {
    /// Returns messages to this file, or to stderr.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn new(log: Option<&Path>, as_mbuffer: bool, level: u8) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let opened = descriptor(path, OFlags::WRONLY).unwrap_or_else(|| File::create(path));
            let name = format!("'{}'", shown(path));
            anyhow::Ok(Log {
                file: opened.failed(format_args!("open the log {name}"))?,
                has_failed: Cell::new(false),
                is_timed: !as_mbuffer,
                name,
            })
        };
        Ok(Self {
            log: log.map(open).transpose()?,
            as_mbuffer,
            level,
        })
    }

    /// Whether messages go to a file.
    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Whether the log did not take a line.
    pub fn has_failed(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.has_failed.get())
    }

    pub fn error(&self, error: &anyhow::Error) {
        self.text(&exit::text(error));
    }

    /// Writes about an error, on stderr if the log does not take it.
    pub fn text(&self, text: &str) {
        if self.level > 0 {
            self.prefixed("error", text);
        }
    }

    /// Writes about what is no error.
    pub fn warn(&self, text: &str) {
        if self.level > 1 {
            self.prefixed("warning", text);
        }
    }

    fn prefixed(&self, kind: &str, text: &str) {
        let line = before(self.as_mbuffer, kind) + &clean(text);
        if self.log_takes(&line) != Some(true) {
            say_line(line);
        }
    }

    /// Writes a text, on a terminal in lines that are broken between words.
    pub fn sentences(&self, text: &str) {
        match Screen::new(false).filter(|_| self.log.is_none()) {
            Some(screen) => screen.wrapped(text).iter().for_each(|line| self.line(line)),
            None => self.line(text),
        }
    }

    /// Writes a line, on stderr if there is no log or the log does not take it.
    pub fn line(&self, line: &str) {
        match self.log_takes(line) {
            Some(true) => {}
            // mbuffer says nothing, and ends as if its log were complete.
            Some(false) if self.as_mbuffer => {}
            _ => say_line(line),
        }
    }

    /// Whether the log takes a line; `None` if there is none.
    fn log_takes(&self, line: &str) -> Option<bool> {
        let log = self.log.as_ref()?;
        let Err(error) = log.write(line) else {
            return Some(true);
        };
        let is_first = !self.as_mbuffer && !log.has_failed.replace(true);
        if is_first && self.level > 0 {
            let (who, why) = (before(false, "error"), error_text(&error));
            say_line(format!("{who}write the log {}: {why}", log.name));
        }
        Some(false)
    }
}

impl Log {
    fn write(&self, line: &str) -> io::Result<()> {
        match self.is_timed {
            true => writeln!(&self.file, "{} {line}", time_of_day())?,
            false => writeln!(&self.file, "{line}")?,
        }
        // Each close(2) reports the errors of the file, that of a duplicate too.
        fullbore::close(self.file.try_clone()?).map_err(Into::into)
    }
}
