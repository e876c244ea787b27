//! Defines the result of one measurement: figures, or the reason why there are none.

use anyhow::Result;
use rustix::io::Errno;

use crate::cpu_time::CpuTime;
use fullbore_results::run::{EndpointReport, Unit};

/// One measurement, or why there is none.
pub type Measurement = std::result::Result<Measured, Stop>;

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// The figure, in the experiment's unit.
    pub figure: f64,
    /// Further figures.
    pub also: Vec<(&'static str, Unit, f64)>,
    /// The bytes that arrived while any of the processes lived, if what they cost is to be reported.
    pub arrived: Option<u64>,
    /// The CPU time of all processes that moved these bytes; the runner adds it if it is that of all processes that
    /// the measurement has started.
    pub spent: Option<CpuTime>,
    /// The writer's report, if there is a writer.
    pub writer: Option<EndpointReport>,
    /// The reader's report, if there is a reader.
    pub reader: Option<EndpointReport>,
    /// Bytes and seconds, if the program was timed from its start to its end.
    pub into_file: Option<(u64, f64)>,
    /// Remarks for the user beside the figure.
    pub notes: Vec<String>,
}

impl Measured {
    /// Returns what the reader has measured.
    ///
    /// # Errors
    /// Fails if no bytes arrived.
    pub fn by_reader(
        reader: EndpointReport,
        writer: Option<EndpointReport>,
    ) -> std::result::Result<Self, Stop> {
        if reader.bytes == 0 || reader.seconds == 0.0 {
            return Err(Stop::NothingCame);
        }
        Ok(Self {
            figure: reader.gib_per_s,
            arrived: Some(reader.moved),
            writer,
            reader: Some(reader),
            ..Self::default()
        })
    }
}

/// Why an experiment was given up: an error that does not end the run.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// This machine does not allow it.
    #[error("{0}")]
    Skipped(String),
    /// The experiment failed.
    #[error("{0}")]
    Failed(String),
    /// The measurement ended before any bytes arrived, as a short one on a busy machine may. This is
    /// not a figure of zero, and the measurement may be repeated.
    #[error("no bytes arrived during the measurement")]
    NothingCame,
}

impl Stop {
    /// Returns the reason to skip an experiment because of what this machine does not allow.
    pub fn skipped(error: anyhow::Error) -> Self {
        Stop::Skipped(format!("{error:#}"))
    }
}

/// Returns the kernel's error in a chain of causes.
pub fn errno_of(error: &anyhow::Error) -> Option<Errno> {
    error.chain().find_map(|cause| {
        let of_std = || Errno::from_io_error(cause.downcast_ref()?);
        let of_nix = || Some(*cause.downcast_ref::<nix::errno::Errno>()? as i32);
        (cause.downcast_ref().copied().or_else(of_std))
            .or_else(|| of_nix().map(Errno::from_raw_os_error))
    })
}

/// How often a measurement in which no bytes arrived is taken.
const TRIES: u32 = 5;

/// Measures, and measures again if no bytes arrived.
///
/// # Errors
/// Fails as `measure` does.
pub fn until_bytes_arrive(mut measure: impl FnMut() -> Result<Measured>) -> Result<Measurement> {
    let mut tries = 0;
    loop {
        tries += 1;
        let measurement = match measure() {
            Ok(measured) => Ok(measured),
            Err(error) => Err(error.downcast()?),
        };
        if tries == TRIES || !matches!(measurement, Err(Stop::NothingCame)) {
            return Ok(measurement);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_came_through_is_tried_again_and_not_for_ever() {
        for (nothing, expected) in [(TRIES - 1, Some(1.0)), (TRIES, None)] {
            let mut tries = 0;
            let measured = until_bytes_arrive(|| {
                tries += 1;
                match tries > nothing {
                    true => Ok(Measured {
                        figure: 1.0,
                        ..Measured::default()
                    }),
                    false => Err(Stop::NothingCame.into()),
                }
            });
            let figure = measured.unwrap().ok().map(|measured| measured.figure);
            assert_eq!(figure, expected, "{nothing} times nothing");
        }
    }
}
