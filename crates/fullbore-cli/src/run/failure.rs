//! What keeps `run` from doing its work, and the exit code that tells of it.

use std::fmt;
use std::io;

use super::start::Command;
use fullbore_host::text::clean;
use fullbore_host::text::error_text;

/// `run` itself failed, and not a stage of it.
pub const FAILED: u8 = 125;

/// A stage that could not be started.
#[derive(Debug)]
pub struct Failure {
    text: String,
    /// What a shell exits with: 127 where there is no such program, 126 where it cannot be run.
    pub code: u8,
}

impl Failure {
    /// The stage of that number, from 1.
    pub fn not_started(command: &Command, number: usize, error: &io::Error) -> Self {
        let program = clean(&command.program.to_string_lossy());
        let (what, code) = match error.kind() {
            io::ErrorKind::NotFound => ("not found".to_owned(), 127),
            _ => (error_text(error), 126),
        };
        let hint = match command.words.as_slice() {
            [only] if code == 127 && only.to_string_lossy().contains([' ', '|']) => {
                "; to run a shell command line, omit '--'"
            }
            _ => "",
        };
        Self {
            text: format!("stage {number} cannot be started: {program}: {what}{hint}"),
            code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}
