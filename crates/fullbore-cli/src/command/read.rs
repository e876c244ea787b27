//! `fullbore read`: the reading endpoint of every experiment, as a shell command.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::inherited;
use fullbore_lab::endpoint::{Options, Role, print, reader};

/// Read from the pipe on stdin, and report the throughput
///
/// It accepts the options of the program 'read' of the article 'How fast are Linux pipes anyway?',
/// with underscores or dashes, and some more. Both ends accept the article's options; those
/// that have an effect only at the other end are not listed. It ends after --bytes-to-pipe, after
/// --seconds, or at the end of the file.
#[derive(Args)]
#[command(mut_arg("memory", |option| option.hide(true)))]
#[command(mut_arg("lines", |option| option.hide(true)))]
#[command(mut_arg("data", |option| option.hide(true)))]
#[command(mut_arg("pipe_size", |option| option.hide(true)))]
#[command(mut_arg("write_with_vmsplice", |option| option.hide(true)))]
#[command(mut_arg("same_buffer", |option| option.hide(true)))]
#[command(after_help = "\
Examples:
  fullbore write | fullbore read
  fullbore write --bytes-to-pipe 1G --verify | fullbore read --verify
  cat /dev/zero | fullbore read --seconds 2 --json

Exit codes: 0 done; 1 something failed, or --verify found a wrong byte; 2 the command line is \
invalid, or an option needs a pipe on stdin; 3 this machine does not allow it, or \
--check-huge-page finds that the kernel gave no huge pages.")]
pub struct Read {
    #[command(flatten)]
    options: Options,
}

impl Read {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        // A report that could not be printed is refused before the run, not after it.
        inherited::stdout()?;
        if inherited::stdin_was_closed() {
            bail!("standard input is closed");
        }
        let report = reader::run(&self.options)?;
        print(&report, &self.options, Role::Reader)?;
        Ok(ExitCode::SUCCESS)
    }
}
