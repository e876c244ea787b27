//! What was moved, and what kept it from going on, in words.

use std::fmt;
use std::io::{self, Write, stderr};
use std::time::Duration;

use fullbore::transfer::Route;
use fullbore::{Error, Failure, Report, Side};
use indicatif::{BinaryBytes, HumanDuration};

use super::ends::{Input, Output, both_ends, said};

/// A side that failed, by its name.
#[derive(Debug)]
pub struct Broken {
    /// The side.
    pub side: Side,
    /// What kind of failure it was.
    pub kind: io::ErrorKind,
    text: String,
}

impl Broken {
    /// In words: `write to 'out.bin': No space left on device (after 1.20 GiB)`.
    pub fn new(error: &Error, source: &dyn fmt::Display, sink: &dyn fmt::Display) -> Option<Self> {
        let Error::Moving {
            side,
            operation,
            errno,
            moved,
        } = error
        else {
            return None;
        };
        let what = match side {
            Side::Source => format!("read from {source}"),
            Side::Sink => format!("write to {sink}"),
        };
        let by = match *operation {
            "read" | "write" => None,
            operation => Some(operation.to_owned()),
        };
        let after = (*moved > 0).then(|| format!("after {}", BinaryBytes(*moved)));
        let more: Vec<String> = by.into_iter().chain(after).collect();
        let more = match more.as_slice() {
            [] => String::new(),
            more => format!(" ({})", more.join(", ")),
        };
        Some(Self {
            side: *side,
            kind: errno.kind(),
            text: format!("{what}: {}{more}", said(errno)),
        })
    }

    /// Whether it is only that nobody reads any more.
    pub fn is_closed_output(&self) -> bool {
        self.side == Side::Sink && self.kind == io::ErrorKind::BrokenPipe
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Broken {}

/// An error of the library, with the names of what it is about.
pub fn named(error: Error, input: &Input, output: &Output) -> anyhow::Error {
    match error {
        // The only thing that these verbs can ask for that makes no sense.
        Error::Invalid(_) => both_ends(input).into(),
        error => match Broken::new(&error, input, output) {
            Some(broken) => broken.into(),
            None => error.into(),
        },
    }
}

/// What several transfers have done together.
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
    /// Adds what a transfer has done, and says what it failed at, by name.
    ///
    /// # Errors
    /// [`Broken`], or [`fullbore_host::refusal::Usage`] where input and output are the same file.
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

    /// Says it on stderr.
    pub fn print(&self) {
        let routes = match self.routes.as_slice() {
            [] => String::new(),
            [(route, _)] => format!(", by {route}"),
            routes => {
                let routes: Vec<String> = routes
                    .iter()
                    .map(|(route, bytes)| format!("{} by {route}", BinaryBytes(*bytes)))
                    .collect();
                format!(", {}", routes.join(", "))
            }
        };
        let _ = writeln!(
            stderr(),
            "{} in {}{}{routes}",
            BinaryBytes(self.bytes),
            duration(self.elapsed),
            rate(self.bytes, self.elapsed).map_or_else(String::new, |r| format!(", {r}")),
        );
    }
}

/// A time as short as it is: `0.012 s`, `8.40 s`, `3 minutes`.
pub fn duration(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{:.3} s", time.as_secs_f64())
    } else if time < Duration::from_secs(120) {
        format!("{:.2} s", time.as_secs_f64())
    } else {
        HumanDuration(time).to_string()
    }
}

/// Bytes a second: `4.10 GiB/s`.
pub fn rate(bytes: u64, time: Duration) -> Option<String> {
    let seconds = time.as_secs_f64();
    (seconds > 0.0).then(|| format!("{}/s", BinaryBytes((bytes as f64 / seconds) as u64)))
}
