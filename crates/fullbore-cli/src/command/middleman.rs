//! `fullbore middleman`: the programs that stand between a writer and a reader when the laboratory
//! checks whether bytes stay right. Not a verb for people: it is hidden, and has no options.

use std::process::ExitCode;

use clap::Args;

use crate::lab::middleman::{self, Habit};

/// Pass stdin on to stdout with one habit that programs in pipelines have
#[derive(Args)]
pub struct Middleman {
    /// What it does with the bytes
    #[arg(value_enum)]
    habit: Habit,

    /// Die when the process that started this one does
    #[arg(long)]
    die_with_parent: bool,
}

impl Middleman {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        middleman::run(self.habit, self.die_with_parent)?;
        Ok(ExitCode::SUCCESS)
    }
}
