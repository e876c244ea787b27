//! The findings about a pipeline: the numbers, and the verdict that is based on them.

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;
use crate::verdict::numbers::Numbers;

/// The findings about a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Findings {
    /// The numbers.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// Which stage is the slow one.
    pub verdict: Verdict,
}

impl From<Numbers> for Findings {
    fn from(numbers: Numbers) -> Self {
        Self {
            verdict: Verdict::of(&numbers),
            numbers,
        }
    }
}
