//! The options of `run` and `parallel` that say what is shown and reported.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use fullbore_host::{seconds, size};
use serde::Serialize;

use crate::inherited;

/// What is shown while something runs, and reported at its end.
#[derive(Debug, Default, Args)]
#[command(group(ArgGroup::new("shows").args(["progress", "log"]).multiple(true)))]
pub struct Shown {
    /// At the end, print on stderr how each stage or process spent its time, and which part was slow
    #[arg(long)]
    pub report: bool,

    /// Show the progress in the last row of the terminal on stderr: of the whole pipeline, with the slow stage, or of
    /// stdin. The total is the size of the file that is read, or --size
    #[arg(long)]
    pub progress: bool,

    /// Print a plain line about the progress on stderr each SECONDS and at the end, with the time of day, for a log
    #[arg(long, value_name = "SECONDS", value_parser = seconds::within(0.1..=86_400.0))]
    pub log: Option<Duration>,

    /// Bytes to expect at the start of the pipeline or on stdin, for --progress and --log
    #[arg(short, long, value_name = "SIZE", requires = "shows", value_parser = size::parse)]
    pub size: Option<u64>,

    /// Write the report as one JSON object to FILE; the verb's page in docs/ describes its fields
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub json: Option<Option<PathBuf>>,

    /// The file of --json, if it is a FIFO.
    #[arg(skip)]
    fifo: Option<File>,
}

impl Shown {
    /// Opens the file of `--json` if it is a FIFO, which waits for a reader: while signals have their usual effect.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_fifo(&mut self) -> Result<()> {
        let is_fifo =
            |path: &&PathBuf| path.metadata().is_ok_and(|data| data.file_type().is_fifo());
        let fifo = self.json.iter().flatten().find(is_fifo);
        self.fifo = fifo.map(|path| inherited::create(path)).transpose()?;
        Ok(())
    }

    /// Creates the file of `--json`, if that was given.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn json_file(&self) -> Result<Option<File>> {
        if let Some(fifo) = &self.fifo {
            return Ok(Some(fifo.try_clone().context("dup the FIFO of --json")?));
        }
        let json = self.json.iter().flatten().next();
        json.map(|path| inherited::create(path)).transpose()
    }
}

/// Writes the report into the file of `--json`.
///
/// # Errors
/// Those of writing.
pub fn write_json(mut file: File, report: &impl Serialize) -> Result<()> {
    // Straight into the file, each of its hundreds of words would be a system call.
    let text = serde_json::to_string_pretty(report).context("write the JSON")?;
    writeln!(file, "{text}").context("write the JSON")?;
    fullbore::close(file).context("close the JSON")
}
