//! Whether bytes stayed right: what a reader saw behind each program that stood between it and a writer.

use serde::{Deserialize, Serialize};

/// What the reader saw behind each middleman.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Soundness {
    /// Whether every byte was right behind all of them.
    pub right: bool,
    /// One verdict for each.
    pub verdicts: Vec<Verdict>,
}

/// What the reader saw behind one middleman.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What stood between writer and reader, where the writer is what is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub middleman: Option<Habit>,
    /// How it was checked, where that is what stands between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Whether every byte was right.
    pub right: bool,
    /// What the reader said, where not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

impl Soundness {
    /// Where bytes were wrong, for people; `None` where they never were.
    pub fn describe_wrong(&self) -> Option<String> {
        let wrong = || self.verdicts.iter().filter(|verdict| !verdict.right);
        let habits: Vec<&str> = wrong()
            .filter_map(|verdict| Some(verdict.middleman?.name()))
            .collect();
        if !habits.is_empty() {
            return Some(format!(
                "wrong bytes behind a program in between that does: {}",
                habits.join(", ")
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
    /// Those that a way of writing has to be sound behind.
    pub const ALL: [Habit; 4] = [Habit::Splice, Habit::Tee, Habit::Resize, Habit::Hold];

    /// Every habit.
    pub const EVERY: [Habit; 5] = [
        Habit::Splice,
        Habit::Tee,
        Habit::Resize,
        Habit::Hold,
        Habit::StdCopy,
    ];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Habit::Splice => "splice",
            Habit::Tee => "tee",
            Habit::Resize => "resize",
            Habit::Hold => "hold",
            Habit::StdCopy => "std-copy",
        }
    }

    /// What it does with the bytes, for people.
    pub fn shows(self) -> &'static str {
        match self {
            Habit::Splice => {
                "Move pages from pipe to pipe with splice(2), as some versions of cat do"
            }
            Habit::Tee => "Duplicate pages with tee(2), as some versions of tee do",
            Habit::Resize => "Copy, and repeatedly resize the pipe that it reads from",
            Habit::Hold => "Move pages into a private pipe, and read them later",
            Habit::StdCopy => "Copy with std::io::copy, for comparison only",
        }
    }
}
