//! How a meter shows readings.

use serde::{Deserialize, Serialize};

use super::appearance::Appearance;
use super::bar::to_and_fro;
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
    /// Numbers on a line for a script.
    Number(Numbers),
}

/// The numbers on a line for a script: the time, the count, and the rate; the percentage if neither of the last two is
/// asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    pub timer: bool,
    pub count: bool,
    pub rate: bool,
    /// Whether the percentage goes to and fro if the total is not known, as in pv; otherwise it is the count.
    pub wanders: bool,
    /// A format whose sequences become numbers, instead of those.
    pub format: Option<String>,
}

impl Look {
    /// Returns the line about a reading in so many columns.
    pub fn line(&self, reading: &Reading, columns: usize) -> String {
        match self {
            Look::Ours => line(reading, columns),
            Look::Format(format, appearance) => {
                Format::new(format).line(reading, appearance, columns)
            }
            Look::Parts(parts, appearance) => {
                let before = if reading.name.is_some() { "%N " } else { "" };
                Format::new(&format!("{before}{parts}")).line(reading, appearance, columns)
            }
            Look::Number(numbers) => numbers.line(reading),
        }
    }

    /// Returns how its counts and bars are written, if that was chosen.
    pub fn appearance(&self) -> Option<&Appearance> {
        match self {
            Look::Format(_, appearance) | Look::Parts(_, appearance) => Some(appearance),
            Look::Ours | Look::Number(_) => None,
        }
    }

    /// Returns whether it sets the progress in the tab of the terminal.
    pub fn sets_tab(&self) -> bool {
        self.format().is_some_and(|format| format.sets_tab())
    }

    fn format(&self) -> Option<Format> {
        match self {
            Look::Format(format, _) | Look::Parts(format, _) => Some(Format::new(format)),
            Look::Ours | Look::Number(_) => None,
        }
    }

    /// Returns how many of the last bytes are shown, if any.
    pub fn looks_at(&self) -> Option<usize> {
        self.format()?.looks_at()
    }
}

impl Numbers {
    fn line(&self, reading: &Reading) -> String {
        if let Some(format) = &self.format {
            return Format::new(format).numbers(reading);
        }
        let time = || format!("{:.4}", reading.elapsed.as_secs_f64());
        let rate = || format!("{:.4}", reading.rate());
        let percent = || match reading.total {
            None if self.wanders => to_and_fro(reading.tick).to_string(),
            _ => reading.number().to_string(),
        };
        let numbers = [
            self.timer.then(time),
            (!self.count && !self.rate).then(percent),
            self.count.then(|| reading.passed.to_string()),
            self.rate.then(rate),
        ];
        let numbers: Vec<String> = numbers.into_iter().flatten().collect();
        numbers.join(" ")
    }
}
