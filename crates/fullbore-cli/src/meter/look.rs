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
    /// A line of this format, if it `is_named` after the name.
    Format {
        format: String,
        is_named: bool,
        appearance: Appearance,
    },
    /// A line for a script with the numbers of this format. A percentage that is not known goes to and fro if it
    /// `wanders`, as in pv; otherwise it is the count.
    Number { format: String, wanders: bool },
}

impl Look {
    /// Returns the line about a reading in so many columns.
    pub fn line(&self, reading: &Reading, columns: usize) -> String {
        match self {
            Look::Ours => line(reading, columns),
            Look::Format {
                format,
                is_named,
                appearance,
            } => {
                let is_named = *is_named && reading.name.is_some();
                let before = if is_named { "%N " } else { "" };
                Format::new(&format!("{before}{format}")).line(reading, appearance, columns)
            }
            Look::Number { format, wanders } => Format::new(format).numbers(reading, *wanders),
        }
    }

    /// Whether it is for scripts.
    pub fn is_number(&self) -> bool {
        matches!(self, Look::Number { .. })
    }

    /// Returns how its counts and bars are written, if that was chosen.
    pub fn appearance(&self) -> Option<&Appearance> {
        match self {
            Look::Format { appearance, .. } => Some(appearance),
            Look::Ours | Look::Number { .. } => None,
        }
    }

    /// Returns the format of its line, if it has one.
    pub fn format(&self) -> Option<Format> {
        match self {
            Look::Format { format, .. } => Some(Format::new(format)),
            Look::Ours | Look::Number { .. } => None,
        }
    }

    /// Returns how many of the last bytes are shown, if any.
    pub fn looks_at(&self) -> Option<usize> {
        self.format()?.looks_at()
    }
}
