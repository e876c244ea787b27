//! The report of what was moved.

use std::io::Write;
use std::time::Duration;

use crate::terminal::stderr;
use fullbore::transfer::Route;
use fullbore::{Error, Failure, Report};
use fullbore_host::size::amount;
use fullbore_host::text::duration;

use super::ends::{Input, Output, both_ends};
use super::failure::Broken;

/// Adds the names of input and output to an error of the library.
pub fn named(error: Error, input: &Input, output: &Output) -> anyhow::Error {
    match error {
        // The only invalid request that these verbs can make.
        Error::Invalid(_) => both_ends(input).into(),
        error => match Broken::new(&error, input, output) {
            Some(broken) => broken.into(),
            None => error.into(),
        },
    }
}

/// The sum of several transfers.
#[derive(Debug, Default)]
pub struct Total {
    /// Bytes that arrived.
    pub bytes: u64,
    /// The routes they took.
    pub routes: Vec<(Route, u64)>,
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
        ran: Result<Report, Failure>,
        input: &Input,
        output: &Output,
    ) -> anyhow::Result<()> {
        let (report, error) = match ran {
            Ok(report) => (report, None),
            Err(failure) => (failure.report, Some(failure.error)),
        };
        self.bytes += report.bytes;
        self.elapsed += report.elapsed;
        for (route, bytes) in report.routes {
            match self.routes.iter_mut().find(|(r, _)| *r == route) {
                Some((_, sum)) => *sum += bytes,
                None => self.routes.push((route, bytes)),
            }
        }
        match error {
            None => Ok(()),
            Some(error) => Err(named(error, input, output)),
        }
    }

    /// Prints the report on stderr.
    pub fn print(&self) {
        let routes = match self.routes.as_slice() {
            [] => String::new(),
            [(route, _)] => format!(", by {route}"),
            routes => {
                let routes: Vec<String> = routes
                    .iter()
                    .map(|(route, bytes)| format!("{} by {route}", amount(*bytes as f64)))
                    .collect();
                format!(", {}", routes.join(", "))
            }
        };
        let _ = writeln!(
            stderr(),
            "{} in {}{}{routes}",
            amount(self.bytes as f64),
            duration(self.elapsed),
            rate(self.bytes, self.elapsed).map_or_else(String::new, |r| format!(", {r}")),
        );
    }
}

/// Formats a rate: `4.10 GiB/s`.
pub fn rate(bytes: u64, time: Duration) -> Option<String> {
    let seconds = time.as_secs_f64();
    (seconds > 0.0).then(|| format!("{}/s", amount(bytes as f64 / seconds)))
}
