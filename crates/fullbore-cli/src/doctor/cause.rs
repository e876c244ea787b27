//! Defines the cause of a refusal, and the command that would change it.

use serde::Serialize;

/// The reason for a refusal, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Why it was refused.
    pub why: String,
    /// The command that would change it; `None` if there is none.
    pub remedy: Option<String>,
}

impl Cause {
    /// Creates a cause that a command can change.
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Cause {
            why: why.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// Creates a cause that no command can change.
    pub fn for_good(why: impl Into<String>) -> Self {
        Cause {
            why: why.into(),
            remedy: None,
        }
    }
}
