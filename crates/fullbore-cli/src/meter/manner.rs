//! As whom a meter speaks: with its own words and exit codes, or with those of pv if it was called by that name.

use fullbore_host::refusal::Usage;
use fullbore_host::text::clean;

use crate::copying::failure::{Broken, Doing};
use crate::copying::{Input, SameFile};
use crate::exit;

/// As whom a meter speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Manner {
    #[default]
    Meter,
    Pv,
}

/// The exit codes of pv, which are bits except for the first. An invalid command line counts as memory that cannot be
/// had.
pub const NOT_TOLD: u8 = 1;
const SAME_FILE: u8 = 4;
const NOT_CLOSED: u8 = 8;
const NOT_TRANSFERRED: u8 = 16;
pub const SIGNAL: u8 = 32;
pub const WRONG: u8 = 64;

impl Manner {
    /// An input could not be opened.
    pub const NOT_ACCESSED: u8 = 2;
    /// None could be opened.
    pub const NO_INPUT: u8 = Self::NOT_ACCESSED | NOT_CLOSED;

    pub fn is_pv(self) -> bool {
        self == Self::Pv
    }

    /// Returns the name of the program.
    pub fn who(self) -> &'static str {
        match self {
            Self::Meter => "fullbore meter",
            Self::Pv => "pv",
        }
    }

    /// Returns the line about an error.
    pub fn line(self, error: &anyhow::Error) -> String {
        match words_of_pv(error).filter(|_| self.is_pv()) {
            Some(words) => format!("{}: {}", self.who(), clean(&words)),
            None => exit::line(self.who(), error),
        }
    }

    /// Returns the bit of pv's exit code for an error.
    pub fn bit(error: &anyhow::Error) -> u8 {
        if error.is::<SameFile>() {
            return SAME_FILE;
        } else if error.is::<Usage>() {
            return WRONG;
        }
        match error.downcast_ref().map(|broken: &Broken| broken.doing) {
            Some(Doing::Read | Doing::Write | Doing::WriteToNobody) => NOT_TRANSFERRED,
            Some(Doing::Close) => NOT_CLOSED,
            Some(Doing::Open) | None => Self::NOT_ACCESSED,
        }
    }
}

/// Returns what pv says about an error, if it has words for it.
fn words_of_pv(error: &anyhow::Error) -> Option<String> {
    let Some(Broken {
        doing, name, why, ..
    }) = error.downcast_ref()
    else {
        let name = match &error.downcast_ref::<SameFile>()?.0 {
            Input::Stdin => "(stdin)".into(),
            Input::File(path) => path.to_string_lossy(),
        };
        return Some(format!("input file is output file: {name}"));
    };
    match doing {
        Doing::Open => Some(format!("{}: {why}", plain(name))),
        Doing::Read => Some(format!("{}: read failed: {why}", plain(name))),
        Doing::Write | Doing::WriteToNobody => Some(format!("write failed: {why}")),
        Doing::Close => None,
    }
}

/// Returns the name of an input as pv writes it.
fn plain(name: &str) -> &str {
    let inner = name.strip_prefix('\'');
    let inner = inner.and_then(|name| name.strip_suffix('\''));
    inner.unwrap_or("(stdin)")
}
