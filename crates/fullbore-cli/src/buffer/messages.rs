//! Where the messages of a buffer go, and in whose words.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use fullbore_host::text::{clean, error_text};
use rustix::fs::OFlags;

use super::manner::before;
use crate::inherited::descriptor;
use crate::terminal::lines::{Screen, say_line};
use crate::terminal::stderr;
use crate::words::{Failed, shown};

/// Where messages go.
pub struct Messages {
    log: Option<Log>,
    as_mbuffer: bool,
    /// The level of mbuffer: errors are printed from 1 on, warnings from 2 on.
    level: u8,
}

/// The file for messages, and its name in quotes.
struct Log {
    file: Mutex<File>,
    name: String,
    has_failed: AtomicBool,
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
                file: Mutex::new(opened.failed(format_args!("open the log {name}"))?),
                has_failed: AtomicBool::new(false),
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
        let log = self.log.as_ref();
        log.is_some_and(|log| log.has_failed.load(Ordering::Relaxed))
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

    /// Writes a line, on stderr if the log does not take it.
    pub fn line(&self, line: &str) {
        if self.try_line(line).is_err() && self.has_failed() {
            say_line(line);
        }
    }

    fn try_line(&self, line: &str) -> io::Result<()> {
        let Some(log) = &self.log else {
            return writeln!(stderr(), "{line}");
        };
        let written = log.write(line);
        if let Err(error) = &written {
            // mbuffer says nothing, and ends as if its log were complete.
            if self.as_mbuffer {
                return written;
            }
            let is_first = !log.has_failed.swap(true, Ordering::Relaxed);
            if is_first && self.level > 0 {
                let (who, why) = (before(false, "error"), error_text(error));
                say_line(format!("{who}write the log {}: {why}", log.name));
            }
        }
        written
    }
}

impl Log {
    fn write(&self, line: &str) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{line}")?;
        // Each close(2) reports the errors of the file, that of a duplicate too.
        fullbore::close(file.try_clone()?).map_err(Into::into)
    }
}
