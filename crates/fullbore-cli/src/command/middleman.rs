//! `fullbore middleman`: a process between the writer and the reader of an experiment. The verb is hidden:
//! only the laboratory uses it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use fullbore_lab::middleman;
use fullbore_lab::parent::ParentOptions;
use fullbore_results::soundness::Habit;

/// Copy stdin to stdout with one behaviour that programs in pipelines have
#[derive(Args)]
pub struct Middleman {
    /// What it does with the bytes
    #[arg(value_parser = habit())]
    habit: Habit,

    /// Additional files to write to (std-copy)
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    parent: ParentOptions,
}

impl Middleman {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        middleman::run(self.habit, &self.files, &self.parent)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn habit() -> impl TypedValueParser<Value = Habit> {
    let values = Habit::EVERY.map(|habit| PossibleValue::new(habit.name()));
    PossibleValuesParser::new(values).map(|name| {
        let named = |habit: &Habit| habit.name() == name;
        Habit::EVERY.into_iter().find(named).expect("one of them")
    })
}
