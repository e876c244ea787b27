//! Reading the runs to be compared from files of another program. What is not a run is
//! refused with an error of one line.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::read::NotARun;
use crate::report::one_line;
use crate::run::Run;
use fullbore_host::refusal::Usage;

/// The most runs that can be compared: one for each letter.
pub const MOST_RUNS: usize = 26;

/// The name that stands for stdin.
const STDIN: &str = "-";

/// A run, and the file that it was read from.
#[derive(Debug, Clone)]
pub struct LoadedRun {
    /// The name of the file, as it was given.
    pub file: String,
    /// What was in it.
    pub run: Run,
}

/// Reads the runs in `files`; `-` is stdin.
///
/// # Errors
///
/// Where there are fewer than two or more than [`MOST_RUNS`], or one of them is not a run of this
/// schema. The error names it, and is one line without control characters.
pub fn read(files: &[PathBuf]) -> Result<Vec<LoadedRun>, Usage> {
    let of_stdin = files.iter().filter(|file| file.as_os_str() == STDIN);
    let refused = match files.len() {
        0 | 1 => {
            "--compare needs at least two files, each with the output of 'fullbore bench --json'"
                .into()
        }
        more if more > MOST_RUNS => {
            format!("--compare accepts at most {MOST_RUNS} runs, and {more} were given")
        }
        _ if of_stdin.count() > 1 => "stdin ('-') can be read only once".into(),
        _ => String::new(),
    };
    if !refused.is_empty() {
        return Err(Usage(refused));
    }
    let read = |file: &PathBuf| {
        let refused = |reason| one_line(&format!("--compare '{}': {reason}", file.display()));
        read_one(file).map_err(|reason| Usage(refused(reason)))
    };
    files.iter().map(read).collect()
}

fn read_one(path: &Path) -> Result<LoadedRun, NotARun> {
    let run = match path.as_os_str() == STDIN {
        true => Run::read(io::stdin().lock())?,
        false => Run::read(File::open(path)?)?,
    };
    Ok(LoadedRun {
        file: path.display().to_string(),
        run,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use serde_json::Value;

    use super::super::compare;
    use super::*;
    use crate::report::json::Json;
    use crate::report::table::Table;
    use crate::report::{Report, fixture};

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
            if let Ok(run) = Run::from_json(value.to_string().as_bytes()) {
                let of = |run: Run| LoadedRun { file: "\u{1b}[1m.json".into(), run };
                let runs = [of(fixture()), of(run.clone()), of(run)];
                let comparison = compare(&runs, &[]).unwrap();
                Json.write(&comparison, &mut Vec::new()).unwrap();
                for width in [60_u16, 100] {
                    let mut text = Vec::new();
                    Table { width: Some(width), ..Table::default() }.write(&comparison, &mut text).unwrap();
                    for line in String::from_utf8(text).unwrap().lines() {
                        prop_assert!(!line.chars().any(char::is_control), "{line:?}");
                        prop_assert!(line.chars().count() <= usize::from(width), "{line:?}");
                    }
                }
            }
        }
    }
}
