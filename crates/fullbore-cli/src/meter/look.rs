//! How a meter shows readings.

use serde::{Deserialize, Serialize};

use super::appearance::Appearance;
use super::format::Format;
use crate::terminal::line::{Reading, line};

/// How readings are shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Look {
    /// Our line, and at the end which side was slow.
    Ours,
    /// A line of this format.
    Format(String, Appearance),
    /// A line of this format, after the name if there is one.
    Parts(String, Appearance),
    /// A line for a script with the numbers of this format, and whether a percentage that is not known goes to and fro,
    /// as in pv; otherwise it is the count.
    Number(String, bool),
}

impl Look {
    /// Returns the line about a reading in so many columns.
    pub fn line(&self, reading: &Reading, columns: usize) -> String {
        match self {
            Look::Ours => line(reading, columns),
            Look::Format(format, look) => Format::new(format).line(reading, look, columns),
            Look::Parts(parts, look) => {
                let before = if reading.name.is_some() { "%N " } else { "" };
                Format::new(&format!("{before}{parts}")).line(reading, look, columns)
            }
            Look::Number(format, wanders) => Format::new(format).numbers(reading, *wanders),
        }
    }

    /// Whether it is for scripts.
    pub fn is_number(&self) -> bool {
        matches!(self, Look::Number(..))
    }

    /// Returns how its counts and bars are written, if that was chosen.
    pub fn appearance(&self) -> Option<&Appearance> {
        match self {
            Look::Format(_, appearance) | Look::Parts(_, appearance) => Some(appearance),
            Look::Ours | Look::Number(..) => None,
        }
    }

    /// Returns the format of its line, if it has one.
    pub fn format(&self) -> Option<Format> {
        match self {
            Look::Format(format, _) | Look::Parts(format, _) => Some(Format::new(format)),
            Look::Ours | Look::Number(..) => None,
        }
    }

    /// Returns how many of the last bytes are shown, if any.
    pub fn looks_at(&self) -> Option<usize> {
        self.format()?.looks_at()
    }
}
