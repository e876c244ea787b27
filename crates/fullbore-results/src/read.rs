//! Reading a run from JSON of another program. What is not a run is refused with an
//! error of one line.

use std::collections::HashSet;
use std::io::{self, Read};

use fullbore_host::text::one_line;

use crate::run::{Run, SCHEMA};
use crate::statistics::Spread;
use crate::summary::{LONGEST, Reports};

/// The most bytes that are read. The largest run that the laboratory makes, 10 000 rounds of all
/// experiments, stays below this.
const MOST_BYTES: u64 = 256 << 20;

/// The reason why a file cannot be read as a run.
#[derive(Debug, thiserror::Error)]
pub enum NotARun {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is longer than any run.
    #[error("larger than {} MiB: runs are always smaller", MOST_BYTES >> 20)]
    TooLong,
    /// It is a report of `fullbore run`.
    #[error(
        "it is a report of one run of a pipeline: 'fullbore run --summary FILE…' sums such reports up, and \
         'fullbore bench -- LINE' compares ways to run a pipeline, in several rounds"
    )]
    Pipeline,
    /// It is not JSON, or a field is missing or wrong.
    #[error("not the output of 'fullbore bench --json': {}", one_line(&.0.to_string(), LONGEST))]
    Field(#[from] serde_json::Error),
    /// It is a run of another schema than [`SCHEMA`].
    #[error(
        "it has schema {found}, and this version reads only schema {SCHEMA}: compare with the \
         version that wrote it, or measure again"
    )]
    Schema {
        /// The schema that it says.
        found: u32,
    },
    /// Two experiments have the same group and name.
    #[error("experiment '{}' occurs twice", one_line(&format!("{group}/{name}"), LONGEST))]
    Twice {
        /// The group of the experiment.
        group: String,
        /// The name of the experiment.
        name: String,
    },
}

impl Run {
    /// Reads a run: the JSON that `fullbore bench --json` prints. Fields that this version does not
    /// know are skipped.
    ///
    /// # Errors
    /// Where `source` cannot be read, or what it has is not a run of the schema [`SCHEMA`].
    pub fn read(source: impl Read) -> Result<Run, NotARun> {
        let mut bytes = Vec::new();
        source.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        Run::from_json(&bytes)
    }

    /// Reads a run from its JSON.
    ///
    /// # Errors
    /// Where it is not a run of the schema [`SCHEMA`].
    pub fn from_json(bytes: &[u8]) -> Result<Run, NotARun> {
        if bytes.len() as u64 > MOST_BYTES {
            return Err(NotARun::TooLong);
        }
        let no_run = |error| match Reports::default().read(bytes) {
            Ok(()) => NotARun::Pipeline,
            Err(_) => NotARun::Field(error),
        };
        let mut run: Run = serde_json::from_slice(bytes).map_err(no_run)?;
        if run.schema != SCHEMA {
            return Err(NotARun::Schema { found: run.schema });
        }
        for outcome in &mut run.experiments {
            let also = outcome.also.iter_mut().map(|also| &mut also.figure);
            let peer = outcome.peer.as_mut().and_then(|peer| peer.figure.as_mut());
            for spread in outcome.figure.iter_mut().chain(also).chain(peer) {
                // Medians are those of the rounds, whatever else the file says.
                if let Some(of_rounds) = Spread::of(&spread.rounds) {
                    *spread = of_rounds;
                }
            }
        }
        let mut names = HashSet::new();
        let mut all = run.experiments.iter();
        match all.find(|outcome| !names.insert((&outcome.group, &outcome.name))) {
            Some(outcome) => Err(NotARun::Twice {
                group: outcome.group.clone(),
                name: outcome.name.clone(),
            }),
            None => Ok(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::{fixture, one_line};

    fn text(run: &Run) -> Vec<u8> {
        serde_json::to_vec(run).unwrap()
    }

    #[test]
    fn what_is_no_run_is_refused_in_a_line() {
        let run = String::from_utf8(text(&fixture())).unwrap();
        let cut = &run[..run.len() / 2];
        let twice = {
            let mut run = fixture();
            run.experiments[1].name = run.experiments[0].name.clone();
            String::from_utf8(text(&run)).unwrap()
        };
        let nested = "[".repeat(100_000);
        let cases = [
            ("", "not the output"),
            (" \n", "not the output"),
            ("GiB/s", "not the output"),
            ("{} {}", "not the output"),
            (cut, "not the output"),
            (&nested, "not the output"),
            ("[]", "not the output"),
            ("[2, 1]", "not the output"),
            ("7", "not the output"),
            ("null", "not the output"),
            ("{}", "not the output"),
            (r#"{"schema": 2}"#, "missing field"),
            (
                &run.replace("\"schema\":2", "\"schema\":1"),
                "schema 1, and this version reads only schema 2",
            ),
            (&twice, "'ladder/write_read' occurs twice"),
            (&run.replace("GiB/s", "\\u001b[2J"), "unknown variant"),
            (&run.replace("0.93", "1e999"), "out of range"),
            (&run.replace("0.93", "NaN"), "not the output"),
        ];
        for (text, reason) in cases {
            let said = Run::from_json(text.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(reason), "{said}");
            assert!(!one_line(&said).chars().any(char::is_control));
        }
        // Neither a value nor a name of the file makes the line longer than a few lines of a terminal.
        let long = "x".repeat(100_000);
        let name = twice.replace("write_read", &long);
        for text in [format!(r#"{{"schema": "{long}"}}"#), name] {
            let said = Run::from_json(text.as_bytes()).unwrap_err().to_string();
            assert!(said.len() < 500, "{} bytes", said.len());
        }
        assert!(Run::from_json(&[0xff, 0xfe]).is_err());
        assert!(Run::from_json(&[0; 1000]).is_err());
    }

    #[test]
    fn a_run_with_newer_fields_is_read() {
        let mut run = serde_json::to_value(fixture()).unwrap();
        let fields = run.as_object_mut().unwrap();
        fields.insert("newer".into(), Value::Bool(true));
        let read = Run::from_json(run.to_string().as_bytes()).unwrap();
        assert_eq!(read, fixture());
    }

    #[test]
    fn medians_are_those_of_the_rounds() {
        let mut run = fixture();
        run.experiments[0].figure.as_mut().unwrap().median = 1e9;
        let read = Run::from_json(&text(&run)).unwrap();
        assert_eq!(read.experiments[0].figure.as_ref().unwrap().median, 0.93);
    }
}
