//! `--json[=FILE]`: one JSON object on stdout in place of the text, or in FILE beside the text.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::Result;
use fullbore_host::refusal::Usage;
use serde::Serialize;

use super::output::{write_to, write_to_file};
use crate::inherited;

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
        Some(None) => {
            inherited::stdout()?;
            write_to(&print, &mut stdout().lock())
        }
        Some(Some(file)) => write_to_file(&print, file),
    }
}

/// Returns the file of `--json`, in a verb whose stdout is data.
///
/// # Errors
/// If no file was named, or the file is stdout.
pub fn file<'a>(json: &'a Json, owner: &str) -> Result<Option<&'a Path>, Usage> {
    match json {
        None => Ok(None),
        Some(Some(file)) if !super::output::is_stdout(file) => Ok(Some(file)),
        Some(_) => Err(Usage(format!(
            "--json needs a file, because stdout belongs to {owner}: --json=FILE, or --json=/dev/stderr"
        ))),
    }
}
