//! Runs two endpoints with a pipe between them, which is what most experiments do.

use anyhow::Result;
use fullbore::Pipe;

use fullbore_host::size;

use super::options::{Data, Options, WayName};
use crate::experiment::Experiment;
use crate::measurement::{Measured, Stop};
use crate::process::{self, Ended};
use crate::soundness;
use crate::task::Timing;
use crate::work::{Bench, Work};
use fullbore_bytes::pattern;
use fullbore_results::run::{Cell, EndpointReport, Outcome, Settings};
use fullbore_results::soundness::Soundness;

/// More bytes than any measurement moves: the reader's clock ends it.
pub const ENDLESS: &str = "1048576G";

/// `fullbore write` and `fullbore read` with these options, and a pipe between them, which has the
/// default capacity unless the writer sets another.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// The options of `fullbore write`.
    pub writer: &'static str,
    /// The options of `fullbore read`.
    pub reader: &'static str,
    /// Whether the writer is also checked behind middlemen that splice, tee, resize and hold.
    pub is_checked: bool,
    /// Its position in a sweep, if it is part of one.
    pub cell: Option<Cell>,
    /// Whether both run on the reader's CPU, so that no byte and no wake-up goes from one CPU to another, and nothing
    /// runs in parallel.
    pub on_one_cpu: bool,
    /// The options of the program `pipe` in `peers/` that does the same, if there is one.
    pub peer: Option<&'static str>,
}

/// Returns a writer and a reader with these options, on two CPUs.
pub const fn pair(writer: &'static str, reader: &'static str) -> Pair {
    Pair {
        writer,
        reader,
        is_checked: false,
        cell: None,
        on_one_cpu: false,
        peer: None,
    }
}

impl Work for Pair {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let (settings, cpus) = (bench.settings, bench.cpus);
        let pipe = Pipe::new()?;
        let cpu = match self.on_one_cpu {
            true => cpus.reader,
            false => cpus.writer,
        };
        let mut writer = format!("{} --bytes-to-pipe={ENDLESS}", self.writer);
        if let Some(size) = (settings.pipe_size).filter(|_| self.takes_pipe_size()) {
            writer += &format!(" --pipe-size={size}");
        }
        let (seconds, warm_up) = (settings.seconds, settings.warm_up_seconds);
        let reader = format!("{} --seconds={seconds} --warm-up={warm_up}", self.reader);
        // The ends that this process holds are closed when they are passed on: if one stayed open, neither
        // process would notice the end of the other.
        let reader = bench.program.read(&reader, cpus.reader, pipe.reader)?;
        let writer = bench.program.write(&writer, cpu, pipe.writer)?;
        let read = reader.end_within(Timing::of(settings).patience())?;
        let written = writer.end_within(process::GRACE)?;
        Ok(self.judge(&written, &read)?)
    }

    fn describe(&self, outcome: &mut Outcome, _: &Settings) {
        outcome.cell = self.cell;
    }

    fn check(&self, bench: &Bench<'_>) -> Result<Option<Soundness>> {
        let repeats = || Options::of(self.writer).way == Some(WayName::Repeat);
        let check = || soundness::check(self.writer, repeats(), bench);
        self.is_checked.then(check).transpose()
    }

    fn peer(&self, settings: &Settings) -> Option<String> {
        let size = settings.pipe_size.filter(|_| self.takes_pipe_size());
        let size = size.map_or_else(String::new, |size| format!(" --pipe-size {size}"));
        Some(format!("pipe {}{size}", self.peer?))
    }
}

impl Pair {
    /// Returns the experiment with this work.
    pub fn experiment(self, name: impl Into<String>, shows: impl Into<String>) -> Experiment {
        Experiment {
            takes_pipe_size: self.takes_pipe_size(),
            endpoints: Some((self.writer, self.reader)),
            ..Experiment::new(name, shows, self)
        }
    }

    /// The settings must not change the pipe's size in some experiments: double buffering is right only in a pipe of
    /// half a buffer, and a row that gives a size shows the effect of that size.
    fn takes_pipe_size(&self) -> bool {
        let writer = Options::of(self.writer);
        !writer.write_with_vmsplice && writer.pipe_size == 0
    }

    /// Derives the measurement from the endpoints' exit statuses and reports.
    fn judge(&self, written: &Ended, read: &Ended) -> Result<Measured, Stop> {
        // The writer is checked first: if it is at fault, the reader only sees an early end.
        for (role, ended) in [("writer", written), ("reader", read)] {
            ended.went_well(role)?;
        }
        let reader: EndpointReport = process::report(&read.output.stdout)?;
        let writer: EndpointReport = process::report(&written.output.stderr)?;
        let has_words = Options::of(self.writer).data() == Data::Words;
        let is_wrong = |sum| has_words && sum != pattern::sum_of_stream(reader.moved);
        if reader.sum.is_some_and(is_wrong) {
            return Err(Stop::Failed(format!(
                "wrong bytes: the sum of the words read differs from the sum of the first {} \
                 written",
                reader.moved
            )));
        }
        // A figure must stand at the capacity that the pipe really had: with larger pages the kernel rounds it up.
        let wanted = self.cell.map(|cell| cell.pipe_size);
        let pair = wanted.zip(writer.pipe_capacity);
        if let Some((wanted, got)) = pair.filter(|(wanted, got)| wanted != got) {
            let (wanted, got) = (size::typed(wanted as u64), size::typed(got as u64));
            let why = format!("the kernel rounded the capacity {wanted} to {got}");
            return Err(Stop::Skipped(why));
        }
        Measured::by_reader(reader, Some(writer))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{ExitStatus, Output};

    use super::*;

    const PAIR: Pair = pair("", "");

    fn ended(code: i32, stdout: &str, stderr: &str) -> Ended {
        Ended {
            output: Output {
                status: ExitStatus::from_raw(code),
                stdout: stdout.into(),
                stderr: stderr.into(),
            },
            killed: false,
        }
    }

    #[test]
    fn what_a_machine_does_not_allow_is_skipped_with_the_endpoints_reason() {
        let refused = ended(
            3 << 8,
            "",
            "fullbore write: this machine refuses vmsplice(2)\n",
        );
        match PAIR.judge(&refused, &ended(0, "", "")) {
            Err(Stop::Skipped(reason)) => assert_eq!(reason, "this machine refuses vmsplice(2)"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pipe_of_another_capacity_is_no_figure() {
        let (chunk, pipe_size) = (4096, 4096);
        let pair = Pair {
            cell: Some(Cell { chunk, pipe_size }),
            ..PAIR
        };
        let report = |pipe_capacity| {
            let report = EndpointReport {
                bytes: 1,
                seconds: 1.0,
                pipe_capacity: Some(pipe_capacity),
                ..EndpointReport::default()
            };
            serde_json::to_string(&report).unwrap()
        };
        let judge = |got: &str| pair.judge(&ended(0, "", got), &ended(0, got, ""));
        match judge(&report(8192)) {
            Err(Stop::Skipped(reason)) => assert!(reason.ends_with("4K to 8K"), "{reason}"),
            other => panic!("{other:?}"),
        }
        assert!(judge(&report(4096)).is_ok());
    }

    #[test]
    fn a_killed_endpoint_is_a_failure_that_names_it() {
        match PAIR.judge(&ended(0, "", "{}"), &ended(9, "", "")) {
            Err(Stop::Failed(reason)) => {
                assert_eq!(
                    reason,
                    "the reader was killed by signal 9: without a message"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
