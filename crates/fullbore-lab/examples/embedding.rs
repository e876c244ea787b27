//! Runs two experiments without the `fullbore` command, and prints their medians.
//!
//! The laboratory starts the processes of an experiment from an executable that it is given. Here that is
//! this program itself: called with a command line of `fullbore_lab::program`, it is such a process.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use fullbore_host::machine::{CpuPair, Topology};
use fullbore_host::refusal::{UNSUPPORTED, Unsupported};
use fullbore_lab::catalogue::Catalogue;
use fullbore_lab::endpoint::{Options, Role, prepare, print, reader, writer};
use fullbore_lab::parent::ParentOptions;
use fullbore_lab::program::Program;
use fullbore_lab::{middleman, runner};
use fullbore_results::report;
use fullbore_results::run::Settings;
use fullbore_results::soundness::Habit;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// What a process of an experiment is.
#[derive(Subcommand)]
enum Verb {
    Write {
        #[command(flatten)]
        options: Options,
    },
    Read {
        #[command(flatten)]
        options: Options,
    },
    Middleman {
        habit: String,
        files: Vec<std::path::PathBuf>,
        #[command(flatten)]
        parent: ParentOptions,
    },
    Part {
        name: String,
        task: String,
        #[arg(long)]
        cpu: Option<usize>,
        #[command(flatten)]
        parent: ParentOptions,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Some(verb) => verb.run(),
        None => experiments(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            match error.is::<Unsupported>() {
                true => ExitCode::from(UNSUPPORTED),
                false => ExitCode::FAILURE,
            }
        }
    }
}

/// Runs two experiments, three times each.
fn experiments() -> Result<()> {
    let names = ["write_read", "vmsplice_splice"].map(String::from);
    let experiments = Catalogue::default().select(&names)?;
    let settings = Settings::new(3, 0.1, 0.02);
    let cpus = CpuPair::wanted(None, &Topology::read())?;
    let program = Program::at("/proc/self/exe");
    let run = runner::run(&experiments, settings, cpus, &program, None, &mut ())?;
    for outcome in run.experiments {
        match (outcome.figure, outcome.skipped.or(outcome.failed)) {
            (Some(figure), _) => {
                let unit = outcome.unit.name();
                println!("{} {} {unit}", outcome.name, report::figure(figure.median));
            }
            (None, reason) => println!("{} {}", outcome.name, reason.unwrap_or_default()),
        }
    }
    Ok(())
}

impl Verb {
    /// Does what a process of an experiment does.
    fn run(self) -> Result<()> {
        match self {
            Verb::Write { options } => {
                let report = writer::run(&options)?;
                Ok(print(&report, &options, Role::Writer)?)
            }
            Verb::Read { options } => {
                let report = reader::run(&options)?;
                Ok(print(&report, &options, Role::Reader)?)
            }
            Verb::Middleman {
                habit,
                files,
                parent,
            } => {
                let mut habits = Habit::EVERY.into_iter();
                let habit = habits.find(|known| known.name() == habit);
                middleman::run(habit.context("unknown habit")?, &files, &parent)
            }
            Verb::Part {
                name,
                task,
                cpu,
                parent,
            } => {
                prepare::process(cpu, &parent)?;
                let part = Catalogue::default().part(&name);
                part.context("unknown part")?.play(&task)
            }
        }
    }
}
