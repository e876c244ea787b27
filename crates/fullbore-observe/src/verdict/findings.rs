//! The findings about a pipeline: the numbers, and the verdict that is based on them.

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;
use crate::verdict::numbers::Numbers;

/// The findings about a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Findings {
    /// The name of the machine, in a report that is read together with those of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// Which stage is the slow one.
    pub verdict: Verdict,
}

impl From<Numbers> for Findings {
    fn from(numbers: Numbers) -> Self {
        Self {
            host: None,
            verdict: Verdict::of(&numbers),
            numbers,
        }
    }
}
