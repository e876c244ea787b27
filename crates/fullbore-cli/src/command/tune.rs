//! `fullbore tune`: enlarges the pipes of a running pipeline.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::completion::{pids, pids_and_names};
use crate::terminal::lines::say_line;
use clap::Args;
use clap_complete::ArgValueCandidates;
use fullbore_host::number::pid;
use fullbore_host::process_name::{self, ProcessName};
use fullbore_host::size;

use super::json;
use super::output::print;
use crate::tune_report::Report;
use fullbore_observe::tune::outcome::Options;
use fullbore_observe::tune::target::Target;
use fullbore_observe::tune::tune;

/// Enlarge the pipes of a running pipeline
///
/// It prints the old and the new capacity of each pipe, and the limit that prevented a larger one.
/// It does not enlarge a pipe if that could make its writer corrupt data: a program that passes its
/// own pages to the pipe (vmsplice) may rely on the pipe's original capacity. Programs that are
/// known to use write(2) are accepted; others need --force. Only --revert makes a pipe smaller.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore tune zstd                       all pipes of all processes named zstd
  fullbore tune --pipeline $(pgrep -n zstd)
  fullbore tune 4711 --pipe-size 256K --dry-run
  fullbore tune zstd --revert              back to 64 KiB

Exit codes: 0 done; 1 a pipe was not changed, or all pipes are already larger than --pipe-size, or there is no \
such process; 2 the command line is invalid; 3 a limit \
keeps a pipe below --pipe-size, this user may not inspect a process, or /proc is not mounted.
docs/tune.md lists the known programs.")]
pub struct Tune {
    /// Enlarge the pipes of this process, or of all processes with this name
    #[arg(value_name = "PID|NAME", value_parser = process_name::parse)]
    #[arg(required_unless_present = "pipeline", conflicts_with = "pipeline")]
    #[arg(add = ArgValueCandidates::new(pids_and_names))]
    process: Option<ProcessName>,

    /// Enlarge all pipes of the pipeline that contains this process, or that this shell has started
    #[arg(long, value_name = "PID", value_parser = pid, add = ArgValueCandidates::new(pids))]
    pipeline: Option<u32>,

    /// Least capacity of each pipe [default: 1M, or as much as the limits allow]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_capacity)]
    pipe_size: Option<usize>,

    /// Give the pipes the default capacity of 64 KiB again
    #[arg(long, conflicts_with_all = ["pipe_size", "force"])]
    revert: bool,

    /// Enlarge a pipe whatever program writes to it
    #[arg(short, long)]
    force: bool,

    /// Print the changes without making them
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object instead, or write it to FILE; docs/tune.md describes its fields
    #[arg(long, value_name = "FILE", require_equals = true)]
    json: Option<Option<PathBuf>>,
}

impl Tune {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let target = match (self.pipeline, self.process) {
            (Some(pid), _) => Target::Pipeline(pid),
            (None, Some(ProcessName::Pid(pid))) => Target::Process(pid),
            (None, Some(ProcessName::Name(name))) => Target::Name(name),
            (None, None) => unreachable!("clap requires one"),
        };
        let options = Options {
            size: self.pipe_size.unwrap_or(1 << 20),
            is_strict: self.pipe_size.is_some(),
            revert: self.revert,
            force: self.force,
            dry_run: self.dry_run,
            most_looks: None,
        };
        let report = Report(tune(&target, options)?);
        if !json::is_on_stdout(&self.json) {
            print(&|out| Ok(write!(out, "{report}")?))?;
        }
        json::write(&self.json, &report.0)?;
        for warning in report.warnings() {
            say_line(format_args!("fullbore tune: {warning}"));
        }
        Ok(ExitCode::from(report.code()))
    }
}
