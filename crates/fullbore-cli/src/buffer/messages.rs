//! Where the messages of a buffer go, and in whose words.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use fullbore_host::text::clean;
use rustix::fs::OFlags;

use super::manner::before;
use crate::inherited::descriptor;
use crate::terminal::lines::{Screen, say_line};
use crate::terminal::stderr;
use crate::words::{Failed, shown};

/// Where messages go.
pub struct Messages {
    log: Option<Mutex<File>>,
    as_mbuffer: bool,
    /// The level of mbuffer: errors are printed from 1 on, warnings from 2 on.
    level: u8,
}

impl Messages {
    /// Returns messages to this file, or to stderr.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn new(log: Option<&Path>, as_mbuffer: bool, level: u8) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let opened = descriptor(path, OFlags::WRONLY).unwrap_or_else(|| File::create(path));
            opened.failed(format_args!("open the log '{}'", shown(path)))
        };
        let log = log.map(open).transpose()?.map(Mutex::new);
        Ok(Self {
            log,
            as_mbuffer,
            level,
        })
    }

    /// Whether messages go to a file.
    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    pub fn error(&self, error: &anyhow::Error) {
        self.text(&format!("{error:#}"));
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
        if self.try_line(&line).is_err() {
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

    /// Writes a line. An error is ignored: the bytes that are moved do not depend on it.
    pub fn line(&self, line: &str) {
        let _ = self.try_line(line);
    }

    fn try_line(&self, line: &str) -> io::Result<()> {
        let Some(log) = &self.log else {
            return writeln!(stderr(), "{line}");
        };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(log, "{line}")?;
        // Each close(2) reports the errors of the file, that of a duplicate too.
        fullbore::close(log.try_clone()?).map_err(Into::into)
    }
}
