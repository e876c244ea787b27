//! What was found out about a pipeline, as numbers.

use std::fmt;

use serde::Serialize;

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// Seconds that the pipeline ran; those in which it was stopped are not among them.
    pub seconds: f64,
    /// Its stages, in order.
    pub stages: Vec<Stage>,
    /// Its pipes, in order.
    pub pipes: Vec<Pipe>,
}

/// A stage.
#[derive(Debug, Clone, Serialize)]
pub struct Stage {
    /// What it was started as.
    pub text: String,
    /// Seconds of CPU time.
    pub cpu_seconds: f64,
}

/// A pipe.
#[derive(Debug, Clone, Serialize)]
pub struct Pipe {
    /// Bytes that it holds.
    pub capacity: usize,
    /// Bytes that it was to hold.
    pub wanted: usize,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} s", self.seconds)
    }
}
