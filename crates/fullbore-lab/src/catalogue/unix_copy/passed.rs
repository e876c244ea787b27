//! What the work of one process costs.

use serde::{Deserialize, Serialize};

use crate::cpu_time::CpuTime;

/// How many bytes a process of the chain has passed on, and what that cost.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Passed {
    /// The bytes.
    pub bytes: u64,
    cpu_seconds: f64,
}

impl Passed {
    /// Returns what has been passed on since this process had used `from`.
    pub fn since(from: CpuTime, bytes: u64) -> Self {
        Self {
            bytes,
            cpu_seconds: CpuTime::of_this_process().since(from).total(),
        }
    }

    /// Returns the CPU seconds for each GiB.
    pub fn cost(&self) -> f64 {
        self.cpu_seconds / (self.bytes.max(1) as f64 / (1u64 << 30) as f64)
    }
}
