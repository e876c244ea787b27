//! Whether the bytes were right: what a reader received through each program between a writer and it.

use serde::{Deserialize, Serialize};

/// Whether the reader received the right bytes through each program in between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Soundness {
    /// Whether every byte was right through all of them.
    pub right: bool,
    /// One verdict for each program in between.
    pub verdicts: Vec<CheckResult>,
}

/// Whether the reader received the right bytes through one program in between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The program between writer and reader, where a way of writing is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub middleman: Option<Habit>,
    /// How the program in between was checked, where it is the one that is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Whether every byte was right.
    pub right: bool,
    /// The message of the reader, where a byte was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

impl Soundness {
    /// Returns where bytes were wrong, in words; `None` where they were right everywhere.
    pub fn describe_wrong(&self) -> Option<String> {
        let wrong = || self.verdicts.iter().filter(|verdict| !verdict.right);
        let habits = wrong().filter_map(|verdict| Some(verdict.middleman?.name()));
        let habits = habits.collect::<Vec<_>>().join(", ");
        if !habits.is_empty() {
            return Some(format!(
                "wrong bytes behind a program in between that does: {habits}"
            ));
        }
        let check = wrong().find_map(|verdict| verdict.check.as_ref())?;
        Some(format!("wrong bytes {check}"))
    }
}

/// A habit that programs in the middle of a pipeline have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Habit {
    /// Move pages from pipe to pipe with splice(2), as some versions of cat do
    Splice,
    /// Duplicate pages with tee(2), as some versions of tee do
    Tee,
    /// Copy, and repeatedly resize the pipe that it reads from
    Resize,
    /// Move pages into a private pipe, and read them later
    Hold,
    /// Copy with std::io::copy, for comparison only
    StdCopy,
}

impl Habit {
    /// The habits that a way of writing has to be safe with.
    pub const ALL: [Habit; 4] = [Habit::Splice, Habit::Tee, Habit::Resize, Habit::Hold];

    /// Every habit.
    pub const EVERY: [Habit; 5] = [
        Habit::Splice,
        Habit::Tee,
        Habit::Resize,
        Habit::Hold,
        Habit::StdCopy,
    ];

    /// Returns the word on the command line.
    pub fn name(self) -> &'static str {
        ["splice", "tee", "resize", "hold", "std-copy"][self as usize]
    }
}
