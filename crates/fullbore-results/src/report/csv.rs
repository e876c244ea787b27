//! The run as CSV (RFC 4180): a header and one row per experiment, for spreadsheets and scripts.
//!
//! A field is empty where nothing was measured. Figures have all their digits. The machine and the
//! settings are only in the JSON.

use std::io;

use serde::Serialize;

use super::Report;
use crate::run::{EndpointReport, Outcome, Run};

/// The run as one row per experiment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Csv;

/// One record; the names of the fields are the header.
#[derive(Default, Serialize)]
struct OutcomeRecord<'a> {
    group: &'a str,
    name: &'a str,
    /// What the figures are in.
    unit: &'static str,
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    /// Every round, in the order measured, between spaces.
    rounds: String,
    ratio: Option<f64>,
    published: Option<f64>,
    /// Further figures, each with its unit, between `; `.
    also: String,
    /// Whether the bytes were right behind every program in between.
    sound: Option<bool>,
    writer_cpu_seconds: Option<f64>,
    reader_cpu_seconds: Option<f64>,
    writer_options: &'a str,
    reader_options: &'a str,
    /// The notes, between `; `.
    notes: String,
    skipped: Option<&'a str>,
    failed: Option<&'a str>,
    /// What was to be done, and the command line of the program that did it.
    job: Option<&'a str>,
    mover: Option<&'a str>,
    /// The program in C that does the same, what it measured, and how many times as fast this was.
    peer: Option<&'a str>,
    peer_median: Option<f64>,
    peer_ratio: Option<f64>,
    /// Where it stands in a sweep, in bytes.
    chunk: Option<usize>,
    pipe_size: Option<usize>,
    /// What a GiB costs: CPU seconds of all processes.
    cpu_seconds_per_gib: Option<f64>,
    user_seconds_per_gib: Option<f64>,
    system_seconds_per_gib: Option<f64>,
}

impl<'a> OutcomeRecord<'a> {
    fn of(outcome: &'a Outcome) -> OutcomeRecord<'a> {
        let spread = outcome.figure.as_ref();
        let cost = outcome.cost.as_ref();
        let (writer, reader) = (outcome.writer.as_ref(), outcome.reader.as_ref());
        OutcomeRecord {
            group: &outcome.group,
            name: &outcome.name,
            unit: outcome.unit.name(),
            median: spread.map(|spread| spread.median),
            min: spread.map(|spread| spread.min),
            max: spread.map(|spread| spread.max),
            rounds: spread
                .map(|spread| listed(&spread.rounds))
                .unwrap_or_default(),
            ratio: outcome.ratio,
            published: outcome.published,
            also: also(outcome),
            sound: outcome.soundness.as_ref().map(|soundness| soundness.right),
            writer_cpu_seconds: writer.map(|writer| writer.cpu_seconds),
            reader_cpu_seconds: reader.map(|reader| reader.cpu_seconds),
            writer_options: options(writer),
            reader_options: options(reader),
            notes: outcome.notes.join("; "),
            skipped: outcome.skipped.as_deref(),
            failed: outcome.failed.as_deref(),
            job: outcome.mover.as_ref().map(|mover| mover.job.as_str()),
            mover: outcome.mover.as_ref().map(|mover| mover.command.as_str()),
            peer: outcome.peer.as_ref().map(|peer| peer.command.as_str()),
            peer_median: outcome
                .peer
                .as_ref()
                .and_then(|peer| Some(peer.figure.as_ref()?.median)),
            peer_ratio: outcome.peer.as_ref().and_then(|peer| peer.ratio),
            chunk: outcome.cell.map(|cell| cell.chunk),
            pipe_size: outcome.cell.map(|cell| cell.pipe_size),
            cpu_seconds_per_gib: cost.map(|cost| cost.total.median),
            user_seconds_per_gib: cost.map(|cost| cost.user.median),
            system_seconds_per_gib: cost.map(|cost| cost.system.median),
        }
    }
}

/// Returns the further figures of an outcome, such as `p99=12.5 µs`.
fn also(outcome: &Outcome) -> String {
    let texts: Vec<String> = outcome
        .also
        .iter()
        .map(|also| format!("{}={} {}", also.name, also.figure.median, also.unit.name()))
        .collect();
    texts.join("; ")
}

/// Returns numbers with spaces between them.
fn listed(numbers: &[f64]) -> String {
    let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
    texts.join(" ")
}

/// Returns the options of an endpoint; empty where it did not run.
fn options(endpoint: Option<&EndpointReport>) -> &str {
    endpoint.map_or("", |endpoint| &endpoint.options)
}

impl Report<Run> for Csv {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        write_records(run.experiments.iter().map(OutcomeRecord::of), out)
    }
}

/// Writes a header, also where there are no records, and the records.
pub(crate) fn write_records<Record: Serialize + Default>(
    records: impl Iterator<Item = Record>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut sample = ::csv::Writer::from_writer(Vec::new());
    sample.serialize(Record::default()).map_err(io_error)?;
    let sample = sample.into_inner().map_err(|error| error.into_error())?;
    out.write_all(
        sample
            .split_inclusive(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default(),
    )?;
    let mut rows = ::csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out);
    for record in records {
        rows.serialize(record).map_err(io_error)?;
    }
    rows.flush()
}

/// Returns the error of the output that `error` was caused by, so that its kind is known.
fn io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("the rows of CSV: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn written(run: &Run) -> Vec<u8> {
        let mut text = Vec::new();
        Csv.write(run, &mut text).unwrap();
        text
    }

    #[test]
    fn every_experiment_is_a_row_that_parses_back() {
        let run = fixture();
        let text = written(&run);
        let mut reader = ::csv::Reader::from_reader(text.as_slice());
        assert_eq!(reader.headers().unwrap().len(), 28);
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), run.experiments.len());
        assert_eq!(&rows[0][1], "write_read");
        assert_eq!(rows[0][3].parse::<f64>().unwrap(), 0.93);
        assert_eq!(&rows[0][6], "0.92 0.93 0.95");
        assert_eq!(&rows[0][13], "--way copy --size 128K");
        assert_eq!((&rows[1][25], &rows[1][27]), ("1.25", "0.75"));
        assert_eq!(&rows[3][3], "");
        assert_eq!(&rows[3][16], "no hugetlb page is free here");
        assert_eq!(&rows[4][0], "more <&> \"others\"");
        assert_eq!(rows[4][17], *run.experiments[4].failed.as_ref().unwrap());
    }

    #[test]
    fn a_run_of_nothing_has_a_header() {
        let mut run = fixture();
        run.experiments.clear();
        let header = String::from_utf8(written(&run)).unwrap();
        assert!(header.starts_with("group,name,unit,median,"), "{header}");
        assert_eq!(header.lines().count(), 1);
    }
}
