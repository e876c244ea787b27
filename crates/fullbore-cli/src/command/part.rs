//! `fullbore part`: what a process of an experiment does that is no writer, reader or middleman. Not
//! a verb for people: it is hidden, and the laboratory is who calls it.

use std::process::ExitCode;

use clap::Args;

use crate::lab::endpoint::prepare;
use crate::lab::part;

/// Play a part in an experiment
#[derive(Args)]
pub struct Part {
    /// What to do, as JSON
    part: part::Part,

    /// Run on this CPU only
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,

    /// Die when the process that started this one does
    #[arg(long)]
    die_with_parent: bool,
}

impl Part {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        prepare::process(self.cpu, self.die_with_parent)?;
        self.part.play()?;
        Ok(ExitCode::SUCCESS)
    }
}
