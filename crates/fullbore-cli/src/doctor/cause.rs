//! Why something was refused, and the command that would change it.

use serde::Serialize;

/// Why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Why it was refused.
    pub why: String,
    /// The command that would change it; `None` where none would.
    pub remedy: Option<String>,
}

impl Cause {
    /// One that a command changes.
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Cause {
            why: why.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// One that nothing changes.
    pub fn for_good(why: impl Into<String>) -> Self {
        Cause {
            why: why.into(),
            remedy: None,
        }
    }
}
