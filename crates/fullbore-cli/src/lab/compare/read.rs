//! Reading runs from files that anybody may have written: what is no run is refused in one line.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::exit::Usage;
use crate::lab::date::rfc3339;
use crate::lab::report::one_line;
use crate::lab::result::{Run, SCHEMA};
use crate::lab::statistics::Spread;

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
        let written = file.metadata().and_then(|about| about.modified()).ok();
        (at_most(file)?, written.map(rfc3339))
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
        return Err(format!(
            "more than {} MiB, and no run is that long",
            MOST_BYTES >> 20
        ));
    }
    Ok(bytes)
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
