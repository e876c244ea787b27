//! `fullbore write`: the writing endpoint of every experiment, as a shell command.

use std::process::ExitCode;

use clap::Args;

use super::json;
use crate::inherited;
use fullbore_lab::endpoint::{Options, Role, print, writer};

/// Write to the pipe on stdout, as an experiment does
///
/// It accepts the options of the program 'write' of the article 'How fast are Linux pipes anyway?',
/// with underscores or dashes, and some more. Both ends accept the article's options; those
/// that have an effect only at the other end are not listed. The report (--verbose, --json=FILE)
/// cannot go to stdout, which is the pipe.
#[derive(Args)]
#[command(mut_arg("sum", |option| option.hide(true)))]
#[command(mut_arg("pause", |option| option.hide(true)))]
#[command(mut_arg("read_with_splice", |option| option.hide(true)))]
#[command(mut_arg("warm_up", |option| option.hide(true)))]
#[command(mut_arg("csv", |option| option.hide(true)))]
#[command(after_help = "\
Examples:
  fullbore write --seconds 2 | wc -c
  fullbore write --write-with-vmsplice --huge-page --busy-loop |
    fullbore read --read-with-splice --busy-loop
  fullbore write --memory 2M --chunk 512K --pipe-size 1M --verify |
    fullbore read --verify

Exit codes: 0 done, even if the reader closed the pipe early; 1 something failed; 2 the command \
line is invalid, or an option needs a pipe on stdout; 3 this machine does not allow it, or \
--check-huge-page finds that the kernel gave no huge pages.")]
pub struct Write {
    #[command(flatten)]
    options: Options,
}

impl Write {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        json::check(&self.options.json, "the reader", &[])?;
        inherited::stdout()?;
        let report = writer::run(&self.options)?;
        print(&report, &self.options, Role::Writer)?;
        Ok(ExitCode::SUCCESS)
    }
}
