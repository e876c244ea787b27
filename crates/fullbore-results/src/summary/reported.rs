//! The reports of `fullbore run --json`, as far as a summary uses them.

use std::io::{BufReader, Read};

use fullbore_host::text::one_line;
use serde::Deserialize;
use serde_json::{Deserializer, Value};

/// The most bytes of a file that are read.
const MOST_BYTES: u64 = 1 << 30;

/// The most columns of an error that quotes what a file has.
pub(crate) const LONGEST: usize = 300;

/// The reports of many pipelines.
#[derive(Debug, Default)]
pub struct Reports {
    pub(super) ran: Vec<PipelineReport>,
    pub(super) skipped: usize,
}

/// A report of `fullbore run --json`, as far as it is used.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PipelineReport {
    /// The machine; empty if the report does not name it.
    #[serde(default)]
    pub host: String,
    /// What was processed, if a caller has added that.
    #[serde(default)]
    pub input: Option<String>,
    pub seconds: f64,
    pub stages: Vec<Stage>,
    #[serde(default)]
    pub pipes: Vec<Pipe>,
    pub verdict: ReportedVerdict,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Stage {
    pub text: String,
    pub cpu_seconds: f64,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub accepted: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Pipe {
    pub writer: usize,
    pub reader: usize,
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ReportedVerdict {
    pub kind: String,
    pub stages: Vec<usize>,
    pub bound_by: Option<BoundBy>,
    pub words: String,
}

/// `"cpu"`, `"queue"`, or `{"cause": "disk"}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum BoundBy {
    Word(String),
    Cause { cause: String },
}

impl Reports {
    /// Reads a file with the report of a pipeline, or with those of many, one after the other. An object with
    /// `"skipped": true` stands for a pipeline that was not run.
    ///
    /// # Errors
    /// Text, if it cannot be read, or is no report of `fullbore run --json`.
    pub fn read(&mut self, source: impl Read) -> Result<(), String> {
        let no_report = |error: String| {
            let error = one_line(&error, LONGEST);
            format!("not the output of 'fullbore run --json': {error}")
        };
        let source = BufReader::new(source.take(MOST_BYTES));
        let mut found = Deserializer::from_reader(source)
            .into_iter::<Value>()
            .peekable();
        if found.peek().is_none() {
            return Err(no_report("it is empty".to_owned()));
        }
        for value in found {
            let value = value.map_err(|error| no_report(error.to_string()))?;
            if value["skipped"] == true {
                self.skipped += 1;
                continue;
            }
            let report = serde_json::from_value(value);
            self.ran
                .push(report.map_err(|error| no_report(error.to_string()))?);
        }
        Ok(())
    }
}

impl PipelineReport {
    pub fn has_failed(&self) -> bool {
        let has = |stage: &Stage| {
            // 13 is SIGPIPE: a later stage had read enough.
            let failed = stage.exit_code.unwrap_or(0) != 0 && stage.exit_code != Some(128 + 13);
            let failed = failed || stage.signal.is_some_and(|signal| signal != 13);
            failed && stage.accepted.is_none()
        };
        self.stages.iter().any(has)
    }

    /// Returns the number of the slow stage, if the verdict names one.
    pub fn slow_stage(&self) -> Option<usize> {
        let is_one = self.verdict.kind == "stage";
        self.verdict.stages.first().copied().filter(|_| is_one)
    }

    /// Returns the bytes that a stage read from its pipe, or wrote if it is the first.
    pub fn bytes_of(&self, number: usize) -> Option<u64> {
        let is_it = |pipe: &&Pipe| match number {
            1 => pipe.writer == 1,
            _ => pipe.reader == number,
        };
        self.pipes.iter().find(is_it)?.bytes
    }

    pub fn limit(&self) -> String {
        match &self.verdict.bound_by {
            Some(BoundBy::Word(word)) if word == "cpu" => "the CPU".to_owned(),
            Some(BoundBy::Word(word)) if word == "queue" => "waiting for a CPU".to_owned(),
            Some(BoundBy::Word(word) | BoundBy::Cause { cause: word }) => word.replace('_', " "),
            None => "unknown".to_owned(),
        }
    }
}
