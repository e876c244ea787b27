//! Reading runs from files that anybody may have written: what is no run is refused in one line.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::results::report::one_line;
use crate::results::run::{Run, SCHEMA};
use crate::results::statistics::Spread;
use fullbore_host::date::rfc3339;
use fullbore_host::refusal::Usage;

/// The most runs that are set side by side: one a letter.
pub const MOST_RUNS: usize = 26;

/// The most bytes of a file that are read. The largest run that the laboratory makes, 10 000 rounds
/// of all experiments, stays below this.
const MOST_BYTES: u64 = 256 << 20;

/// What stands for stdin.
const STDIN: &str = "-";

/// A run, and where it came from.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The name of the file, as it was given.
    pub file: String,
    /// When the file was last written, where it is one.
    pub written_at: Option<String>,
    /// What was in it.
    pub run: Run,
}

/// Reads the runs in `files`, `-` for stdin.
///
/// # Errors
///
/// Where there are fewer than two or too many, or one of them is no run of this schema; the error
/// names it, and is one line without control characters.
pub fn read(files: &[PathBuf]) -> Result<Vec<Taken>, Usage> {
    match files.len() {
        0 | 1 => {
            return Err(Usage(
                "--compare needs two files or more, each what 'fullbore bench --json' prints"
                    .into(),
            ));
        }
        2..=MOST_RUNS => {}
        more => {
            return Err(Usage(format!(
                "--compare sets at most {MOST_RUNS} runs side by side, not {more}"
            )));
        }
    }
    if files
        .iter()
        .filter(|file| file.as_os_str() == STDIN)
        .count()
        > 1
    {
        return Err(Usage("stdin ('-') can be read only once".into()));
    }
    files
        .iter()
        .map(|file| {
            read_one(file).map_err(|reason| {
                Usage(one_line(&format!(
                    "--compare '{}': {reason}",
                    file.display()
                )))
            })
        })
        .collect()
}

fn read_one(path: &Path) -> Result<Taken, String> {
    let (bytes, written_at) = if path.as_os_str() == STDIN {
        (at_most(io::stdin().lock())?, None)
    } else {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let about = file.metadata().map_err(|error| error.to_string())?;
        if about.len() > MOST_BYTES {
            return Err(too_long());
        }
        (at_most(file)?, about.modified().ok().map(rfc3339))
    };
    Ok(Taken {
        file: path.display().to_string(),
        written_at,
        run: parse(&bytes)?,
    })
}

/// All bytes, if there are not too many.
fn at_most(source: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = source.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(too_long());
    }
    Ok(bytes)
}

fn too_long() -> String {
    let most = MOST_BYTES >> 20;
    format!("longer than {most} MiB, and no run is")
}

/// The run that `bytes` are.
fn parse(bytes: &[u8]) -> Result<Run, String> {
    /// What says whether the rest can be read.
    #[derive(Deserialize)]
    struct Known {
        schema: Option<Value>,
        comparison_schema: Option<Value>,
    }
    const NO_RUN: &str = "not what 'fullbore bench --json' prints";
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(format!("empty, {NO_RUN}"));
    }
    let known: Known = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() {
            NO_RUN.to_owned()
        } else {
            format!("no JSON: {error}")
        }
    })?;
    // A struct may be written as an array for serde, and is not here.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(NO_RUN.into());
    }
    match known {
        Known {
            comparison_schema: Some(_),
            ..
        } => {
            return Err("a comparison already, where a run is wanted".into());
        }
        Known {
            schema: Some(Value::Number(schema)),
            ..
        } => {
            if schema.as_u64() != Some(u64::from(SCHEMA)) {
                return Err(format!(
                    "of schema {schema}, and this fullbore reads schema {SCHEMA}: compare by the \
                     version that printed it, or measure anew"
                ));
            }
        }
        Known { .. } => return Err(NO_RUN.into()),
    }
    let mut run: Run =
        serde_json::from_slice(bytes).map_err(|error| format!("{NO_RUN}: {error}"))?;
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
    let mut names: Vec<(&str, &str)> = run
        .experiments
        .iter()
        .map(|outcome| (outcome.group.as_str(), outcome.name.as_str()))
        .collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!(
            "experiment '{}/{}' is there twice",
            twice[0].0, twice[0].1
        )),
        None => Ok(run),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{compare, csv, table, write_json};
    use super::*;
    use crate::results::report::fixture;

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
            ("", "empty"),
            (" \n", "empty"),
            ("GiB/s", "no JSON"),
            ("{} {}", "no JSON"),
            (cut, "no JSON"),
            (&nested, "no JSON"),
            ("[]", "not what"),
            ("[2, 1]", "not what"),
            ("7", "not what"),
            ("null", "not what"),
            ("{}", "not what"),
            (r#"{"schema": "2"}"#, "not what"),
            (r#"{"schema": 2}"#, "missing field"),
            (
                r#"{"schema": 1}"#,
                "schema 1, and this fullbore reads schema 2",
            ),
            (r#"{"schema": 1e9}"#, "schema 1000000000"),
            (r#"{"comparison_schema": 1}"#, "a comparison already"),
            (&twice, "'ladder/write_read' is there twice"),
            (&run.replace("GiB/s", "\\u001b[2J"), "unknown variant"),
            (&run.replace("0.93", "1e999"), "out of range"),
            (&run.replace("0.93", "NaN"), "no JSON"),
        ];
        for (text, reason) in cases {
            let said = parse(text.as_bytes()).unwrap_err();
            assert!(said.contains(reason), "{said}");
            assert!(!one_line(&said).chars().any(char::is_control));
        }
        assert!(parse(&[0xff, 0xfe]).is_err());
        assert!(parse(&[0; 1000]).is_err());
    }

    #[test]
    fn a_run_that_does_not_know_its_date_or_newer_fields_is_read() {
        let mut run = serde_json::to_value(fixture()).unwrap();
        let fields = run.as_object_mut().unwrap();
        fields.remove("taken_at");
        fields.insert("newer".into(), Value::Bool(true));
        let read = parse(run.to_string().as_bytes()).unwrap();
        assert_eq!(read.taken_at, None);
    }

    #[test]
    fn medians_are_those_of_the_rounds() {
        let mut run = fixture();
        run.experiments[0].figure.as_mut().unwrap().median = 1e9;
        let read = parse(&text(&run)).unwrap();
        assert_eq!(read.experiments[0].figure.as_ref().unwrap().median, 0.93);
    }

    /// Every place in a document.
    fn places(value: &Value) -> usize {
        1 + match value {
            Value::Array(values) => values.iter().map(places).sum(),
            Value::Object(fields) => fields.values().map(places).sum(),
            _ => 0,
        }
    }

    /// Puts `new` at one of them.
    fn put(value: &mut Value, at: &mut usize, new: &Value) {
        if *at == 0 {
            *value = new.clone();
        }
        *at = at.wrapping_sub(1);
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| put(value, at, new)),
            Value::Object(fields) => fields.values_mut().for_each(|value| put(value, at, new)),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn nothing_in_a_file_breaks_a_comparison_or_reaches_the_terminal(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), 0..14_usize), 1..6),
        ) {
            let odd: [Value; 14] = [
                Value::Null,
                true.into(),
                0.into(),
                (-1).into(),
                u64::MAX.into(),
                1e308.into(),
                5e-324.into(),
                "".into(),
                "\u{1b}[2J\u{7}\r\n\u{9b}31m".into(),
                "long ".repeat(50).into(),
                "w".repeat(300).into(),
                Value::Array(vec![]),
                Value::Array(vec![1e308.into(), 0.into(), (-1e308).into()]),
                Value::Object(serde_json::Map::new()),
            ];
            let mut value = serde_json::to_value(fixture()).unwrap();
            for (index, with) in changes {
                let mut at = index.index(places(&value));
                put(&mut value, &mut at, &odd[with]);
            }
            if let Ok(run) = parse(value.to_string().as_bytes()) {
                let of = |run: Run| Taken { file: "\u{1b}[1m.json".into(), written_at: None, run };
                let runs = [of(fixture()), of(run.clone()), of(run)];
                let comparison = compare(&runs, &[]).unwrap();
                write_json(&comparison, &mut Vec::new()).unwrap();
                csv::write(&comparison, &mut Vec::new()).unwrap();
                for width in [60_u16, 100] {
                    let mut text = Vec::new();
                    table::write(&comparison, Some(width), false, &mut text).unwrap();
                    for line in String::from_utf8(text).unwrap().lines() {
                        prop_assert!(!line.chars().any(char::is_control), "{line:?}");
                        prop_assert!(line.chars().count() <= usize::from(width), "{line:?}");
                    }
                }
            }
        }
    }
}
