//! `fullbore doctor`: reports what this machine allows, and which settings slow pipes down.

use std::io::stdout;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::json;
use super::output::print;
use super::reports::table_on;
use fullbore_diagnose::doctor::{examine, text};
use fullbore_host::proc::{self, Need};
use fullbore_results::report::table::Table;
use fullbore_results::report::text::WIDTH_WITHOUT_A_TERMINAL;

/// Report what this machine allows, and which settings slow pipes down
///
/// It tries every technique: it moves and compares bytes, and inspects memory. If a
/// technique is refused, it prints the cause, if known, and the command that would change it. Then
/// it reports settings, CPUs, whether both ends of a pipe are faster on one CPU than on two, and
/// how much of this user's limit for pipes is in use. The last lines name the change that would
/// gain most. If the machine is busy, the first line says so. It changes nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore doctor
  fullbore doctor | tail -n 7             ends with the change that would gain most
  fullbore doctor --json > before.json    for a comparison with another kernel or container

Exit codes: 0 done, even if techniques were refused; 1 a trial moved wrong bytes; 2 the command \
line is invalid; 3 /proc is not mounted.")]
pub struct Doctor {
    /// Print one JSON object instead, or write it to FILE; docs/doctor.md describes its fields
    #[arg(long, value_name = "FILE", require_equals = true)]
    json: Option<Option<PathBuf>>,
}

impl Doctor {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let why = "each trial runs in a process that is started through it";
        proc::check(Need::Program, why)?;
        let report = examine(&super::program());
        if !json::is_on_stdout(&self.json) {
            let Table { width, color, .. } = table_on(&stdout());
            let width = width.unwrap_or(WIDTH_WITHOUT_A_TERMINAL);
            print(&|out| Ok(text::write(&report, width, color, out)?))?;
        }
        json::write(&self.json, &report)?;
        Ok(ExitCode::from(u8::from(report.is_wrong())))
    }
}
