//! `--json[=FILE]`: one JSON object on stdout in place of the text, or in FILE beside the text.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use fullbore_host::refusal::Usage;
use serde::Serialize;

use super::output::{self, is_stdout, write_to_file};

/// What follows `--json`, if it was given: nothing means stdout.
type Json = Option<Option<PathBuf>>;

/// Returns whether the JSON goes to stdout, in place of the text.
pub fn is_on_stdout(json: &Json) -> bool {
    matches!(json, Some(None))
}

/// Writes a value to where `--json` says, if it was given.
///
/// # Errors
/// If it cannot be written there.
pub fn write(json: &Json, value: &impl Serialize) -> Result<()> {
    let print = |out: &mut dyn Write| -> Result<()> {
        serde_json::to_writer_pretty(&mut *out, value)?;
        Ok(out.write_all(b"\n")?)
    };
    match json {
        None => Ok(()),
        Some(None) => output::print(&print),
        Some(Some(file)) => write_to_file(&print, file),
    }
}

/// Checks that `--json` names a file, in a verb whose stdout is data, and none of those that hold the `data`.
///
/// # Errors
/// If no file was named, or the file is stdout, or one of the data.
pub fn check(json: &Json, owner: &str, data: &[&Path]) -> Result<(), Usage> {
    match json {
        None => Ok(()),
        Some(Some(file)) if !is_stdout(file) => output::refuse_shared("--json", file, data),
        Some(_) => Err(Usage(format!(
            "--json needs a file, because stdout belongs to {owner}: --json=FILE, or --json=/dev/stderr"
        ))),
    }
}
