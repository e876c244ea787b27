//! What one measurement comes to: figures, or why there are none.

use fullbore_results::run::{EndpointReport, Unit};

/// One measurement, or why there is none.
pub type Measurement = Result<Taken, Stop>;

/// What was measured.
#[derive(Debug, Default)]
pub struct Taken {
    /// The figure, in the experiment's unit.
    pub figure: f64,
    /// Further figures.
    pub also: Vec<(&'static str, Unit, f64)>,
    /// The writer's report, where there is a writer.
    pub writer: Option<EndpointReport>,
    /// The reader's report, where there is a reader.
    pub reader: Option<EndpointReport>,
    /// Bytes and seconds, where it was timed from its start to its end.
    pub into_file: Option<(u64, f64)>,
    /// What a person should know beside the figure.
    pub notes: Vec<String>,
}

/// Why an experiment was given up.
#[derive(Debug)]
pub enum Stop {
    /// This machine does not allow it.
    Skipped(String),
    /// It broke.
    Failed(String),
    /// It was over before anything came through, as a short one on a busy machine may be. That is no
    /// figure of zero, and may be tried again.
    NothingCame,
}

impl Stop {
    /// The reason, for people.
    pub fn reason(&self) -> &str {
        match self {
            Stop::Skipped(reason) | Stop::Failed(reason) => reason,
            Stop::NothingCame => "no bytes arrived during the measurement",
        }
    }
}
