//! `fullbore man`: writes the manual pages.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};

use super::output::write_to_file;
use crate::manual;

/// Write the manual pages, one for each verb
///
/// Each page has the options of the verb, its exit codes, its environment and its examples. Pages
/// that are there already are replaced. man(1) finds them by name if DIR is called man1 and its
/// parent directory is in the search path of man, which manpath(1) prints. ~/.local/share/man
/// usually is, if ~/.local/bin is in PATH.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore man --dir man1                 then: man man1/fullbore-copy.1

Exit codes: 0 done; 1 a page could not be written; 2 the command line is invalid.")]
pub struct Man {
    /// Write to this directory, and create it if it does not exist
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
}

impl Man {
    pub fn run(self, parser: Command) -> anyhow::Result<ExitCode> {
        let pages = manual::pages(parser);
        fs::create_dir_all(&self.dir)
            .with_context(|| format!("cannot create the directory '{}'", self.dir.display()))?;
        for page in pages {
            let text = page.text.as_bytes();
            let write = |out: &mut dyn Write| Ok(out.write_all(text)?);
            write_to_file(&write, &self.dir.join(page.file))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
