//! The failure to start a stage, and its exit code.

use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;

use super::start::Command;
use crate::error_text::{shown, with_limit};
use crate::exit;

/// The exit code if `run` itself failed, and not one of its stages.
pub const FAILED: u8 = 125;

/// A stage, or another program, that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    text: String,
    /// The exit code that a shell would use: 127 if the program was not found, 126 if it cannot be run.
    pub code: u8,
}

impl Failure {
    /// Says an error that has an exit code of its own, and returns this code.
    pub fn said(who: &str, ran: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
        ran.or_else(|error| {
            let Some(failure) = error.downcast_ref::<Self>() else {
                return Err(error);
            };
            exit::say(who, &error);
            Ok(ExitCode::from(failure.code))
        })
    }

    /// Describes the failure to start a stage, whose number counts from 1.
    pub fn not_started(command: &Command, number: usize, error: &io::Error) -> Self {
        let Self { text, code } = Self::of_program(&command.program, error);
        let hint = match command.words.as_slice() {
            [only] if code == 127 && only.to_string_lossy().contains([' ', '|']) => {
                "; to run a shell command line, omit '--'"
            }
            _ => "",
        };
        Self {
            text: format!("stage {number} cannot be started: {text}{hint}"),
            code,
        }
    }

    /// Describes the failure to start a program.
    pub fn of_program(program: &OsStr, error: &io::Error) -> Self {
        let program = shown(program);
        let (what, code) = match error.kind() {
            io::ErrorKind::NotFound => ("not found".to_owned(), 127),
            _ => (with_limit(error), 126),
        };
        let text = format!("{program}: {what}");
        Self { text, code }
    }
}
