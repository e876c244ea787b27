//! `fullbore explain`: reports what an experiment or a command spends its time on.

use std::io::Write;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use crate::completion::experiments;
use anyhow::bail;
use clap::Args;
use clap_complete::ArgValueCandidates;
use fullbore_host::number::within;

use super::json;
use super::output::{print, write_to, write_to_file};
use super::reports::check_path;
use crate::processes::ending;
use crate::processes::interrupt::Interrupt;
use crate::processes::launch;
use crate::run::Failure;
use crate::terminal::lines::say_line;
use crate::terminal::stderr;
use fullbore_diagnose::explain;
use fullbore_host::machine::{CpuPair, Topology};
use fullbore_host::proc::{self, Need};
use fullbore_host::refusal::Usage;
use fullbore_host::seconds;
use fullbore_lab::catalogue::Catalogue;
use fullbore_lab::catalogue::unix_copy::CopyOptions;
use fullbore_results::explain::Explanation;
use fullbore_results::run::Settings;

/// Report where an experiment, or any command, spends its time
///
/// It samples every process of the experiment or command, and reports what share of each side's
/// time went to copying, to looking up pages, to waiting for the pipe's lock, to sleeping and
/// waking, and so on, and what would reduce the largest share. EXPERIMENT is a name that 'fullbore
/// bench --list' prints; it is measured alternately with and without sampling, which takes about
/// ten seconds. COMMAND follows '--' and runs until it ends. It keeps stdin and stdout, so the
/// report goes to stderr.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore explain -- 'tar c src | gzip -9 | wc -c'
  fullbore explain --output report.txt -- sort access.log
  fullbore explain --seconds 3 -- 'cat disk.img | sort | gzip > sorted.gz'
  fullbore explain write_read
  fullbore explain vmsplice_read --output why.txt
  fullbore explain busy_loop_huge --json=busy_loop.json

Exit codes: 0 done, even if sampling is not permitted (the report says so); 1 the experiment or \
the command failed; 2 the command line is invalid; 3 this machine does not allow the experiment; 126 the command cannot \
be run; 127 it is not found.")]
pub struct Explain {
    /// Name of an experiment
    #[arg(value_name = "EXPERIMENT", required_unless_present = "command", add = ArgValueCandidates::new(experiments))]
    experiment: Option<String>,

    /// A command and its arguments, or a shell command line in quotes
    #[arg(last = true, value_name = "COMMAND", value_hint = clap::ValueHint::CommandName)]
    #[arg(conflicts_with_all = ["rounds", "cpus"])]
    command: Vec<String>,

    /// Number of pairs of measurements, one with and one without sampling
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = within::<u32>(1..=1000))]
    rounds: u32,

    /// How long one measurement takes, in seconds [default: 0.5]; a command is ended after this
    /// time
    #[arg(long, value_name = "SECONDS", value_parser = seconds::within(0.05..=86_400.0))]
    seconds: Option<Duration>,

    /// CPUs for the writer and the reader [default: chosen from the topology]
    #[arg(long, value_name = "A,B", value_parser = super::bench::cpu_pair)]
    cpus: Option<(usize, usize)>,

    /// Print one JSON object instead, or write it to FILE, which a COMMAND needs; docs/explain.md describes its fields
    #[arg(long, value_name = "FILE", require_equals = true)]
    json: Option<Option<PathBuf>>,

    /// Write the report to FILE; '-' for stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Explain {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.experiment.is_some() && !self.command.is_empty() {
            bail!(Usage("give an experiment or a command, not both".into()));
        }
        if self.experiment.is_none() {
            json::check(&self.json, "the command", &[])?;
        }
        self.output.as_deref().map_or(Ok(()), check_path)?;
        proc::check(Need::Processes, "what the processes did is read from there")?;
        match &self.experiment {
            Some(name) => {
                self.report(&self.experiment(name)?)?;
                Ok(ExitCode::SUCCESS)
            }
            None => Failure::said("fullbore explain", self.watch()),
        }
    }

    /// Runs the command, and reports what it did. Returns the exit code.
    fn watch(&self) -> anyhow::Result<ExitCode> {
        let interrupt = Interrupt::noted();
        ending::spare_the_living();
        let mut ended = None;
        let explained = explain::command(&self.command, &super::program(), || {
            ended = launch::run(&self.command, self.seconds, &interrupt)?;
            Ok(())
        })?;
        self.report(&explained)?;
        Ok(code_of(ended))
    }

    fn experiment(&self, name: &str) -> anyhow::Result<Explanation> {
        let catalogue = Catalogue::default();
        let unknown = "'fullbore bench --list' lists all; give a command after '--'";
        let experiment = catalogue.iter().find(|e| e.name == name);
        let experiment =
            experiment.ok_or_else(|| Usage(format!("unknown experiment '{name}': {unknown}")))?;
        let topology = Topology::read();
        let cpus = CpuPair::wanted(self.cpus, &topology)?;
        let seconds = self.seconds.map_or(0.5, |time| time.as_secs_f64());
        let settings = Settings {
            unix_copy: CopyOptions::default().settle(&[*experiment], None)?,
            ..Settings::new(self.rounds, seconds, 0.1)
        };
        explain::experiment(experiment, &settings, &cpus, &super::program())
    }

    fn report(&self, explanation: &Explanation) -> anyhow::Result<()> {
        let written = json::write(&self.json, explanation);
        let write = |out: &mut dyn Write| Ok(explain::report::write(explanation, out)?);
        let printed = match &self.output {
            None if json::is_on_stdout(&self.json) => Ok(()),
            Some(path) => write_to_file(&write, path),
            None if self.experiment.is_some() => print(&write),
            None => write_to(&write, &mut stderr()),
        };
        written.and(printed)
    }
}

/// Returns the exit code for the end of a command, and prints how it failed. A command that was ended because its time
/// was up has succeeded.
fn code_of(status: Option<ExitStatus>) -> ExitCode {
    let Some(status) = status.filter(|status| !status.success()) else {
        return ExitCode::SUCCESS;
    };
    say_line(format_args!(
        "fullbore explain: the command ended with {status}"
    ));
    match status.code() {
        // As a shell says that there is no such program, or that it cannot be run.
        Some(code @ (126 | 127)) => ExitCode::from(code as u8),
        _ => ExitCode::FAILURE,
    }
}
