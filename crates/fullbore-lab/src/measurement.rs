//! Defines the result of one measurement: figures, or the reason why there are none.

use fullbore_results::run::{EndpointReport, Unit};

/// One measurement, or why there is none.
pub type Measurement = Result<Measured, Stop>;

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// The figure, in the experiment's unit.
    pub figure: f64,
    /// Further figures.
    pub also: Vec<(&'static str, Unit, f64)>,
    /// The writer's report, if there is a writer.
    pub writer: Option<EndpointReport>,
    /// The reader's report, if there is a reader.
    pub reader: Option<EndpointReport>,
    /// Bytes and seconds, if the program was timed from its start to its end.
    pub into_file: Option<(u64, f64)>,
    /// Remarks for the user beside the figure.
    pub notes: Vec<String>,
}

/// Why an experiment was given up.
#[derive(Debug)]
pub enum Stop {
    /// This machine does not allow it.
    Skipped(String),
    /// The experiment failed.
    Failed(String),
    /// The measurement ended before any bytes arrived, as a short one on a busy machine may. This is
    /// not a figure of zero, and the measurement may be repeated.
    NothingCame,
}

impl Stop {
    /// Returns the reason as text.
    pub fn reason(&self) -> &str {
        match self {
            Stop::Skipped(reason) | Stop::Failed(reason) => reason,
            Stop::NothingCame => "no bytes arrived during the measurement",
        }
    }
}
