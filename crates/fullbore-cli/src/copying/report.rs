//! The report of what was moved.

use std::time::Duration;

use crate::terminal::lines::say_line;
use fullbore::Way;
use fullbore::{Error, TransferFailure, TransferReport};
use fullbore_host::size::amount;
use fullbore_host::text::duration;

use super::ends::{Input, Output, SameFile};
use super::failure::Broken;

/// Adds the names of input and output to an error of the library.
pub fn named(error: Error, input: &Input, output: &Output) -> anyhow::Error {
    match error {
        // The only invalid request that these verbs can make.
        Error::Invalid(_) => SameFile(input.clone()).into(),
        error => Broken::moving(&error, input, output).map_or_else(|| error.into(), Into::into),
    }
}

/// The sum of several transfers.
#[derive(Debug, Default)]
pub struct Total {
    /// Bytes that arrived.
    pub bytes: u64,
    /// The ways they took.
    pub ways: Vec<(Way, u64)>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Total {
    /// Adds a transfer, and names the file that it failed at.
    ///
    /// # Errors
    /// [`Broken`], or [`fullbore_host::refusal::Usage`] if input and output are the same file.
    pub fn add(
        &mut self,
        ran: Result<TransferReport, TransferFailure>,
        input: &Input,
        output: &Output,
    ) -> anyhow::Result<()> {
        let (report, error) = match ran {
            Ok(report) => (report, None),
            Err(failure) => (*failure.report, Some(failure.error)),
        };
        self.bytes += report.bytes;
        self.elapsed += report.elapsed;
        for (method, bytes) in report.ways {
            match self.ways.iter_mut().find(|(r, _)| *r == method) {
                Some((_, sum)) => *sum += bytes,
                None => self.ways.push((method, bytes)),
            }
        }
        match error {
            None => Ok(()),
            Some(error) => Err(named(error, input, output)),
        }
    }

    /// Prints the report on stderr.
    pub fn print(&self) {
        let mut parts = vec![format!(
            "{} in {}",
            amount(self.bytes as f64),
            duration(self.elapsed)
        )];
        parts.extend(rate(self.bytes, self.elapsed));
        match self.ways.as_slice() {
            [(method, _)] => parts.push(format!("by {method}")),
            methods => parts.extend(
                (methods.iter())
                    .map(|(method, bytes)| format!("{} by {method}", amount(*bytes as f64))),
            ),
        }
        say_line(parts.join(", "));
    }
}

/// Formats a rate: `4.10 GiB/s`.
pub fn rate(bytes: u64, time: Duration) -> Option<String> {
    let seconds = time.as_secs_f64();
    (seconds > 0.0).then(|| format!("{}/s", amount(bytes as f64 / seconds)))
}
