//! `fullbore part`: what a process of an experiment does that is no writer, reader or middleman. Not
//! a verb for people: it is hidden, and the laboratory is who calls it.

use std::process::ExitCode;

use clap::Args;

use crate::doctor::trials;
use crate::lab::endpoint::prepare;
use crate::lab::parts::PARTS;
use fullbore_host::refusal::Usage;

/// Play a part in an experiment
#[derive(Args)]
pub struct Part {
    /// The part
    name: String,

    /// What to do, as JSON
    task: String,

    /// Run on this CPU only
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,

    /// Die when the process that started this one does
    #[arg(long)]
    die_with_parent: bool,
}

impl Part {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut parts = PARTS.iter().copied().chain([trials::PARTS]).flatten();
        let part = parts
            .find(|part| part.name == self.name)
            .ok_or_else(|| Usage(format!("no part is called '{}'", self.name)))?;
        prepare::process(self.cpu, self.die_with_parent)?;
        part.play(&self.task)?;
        Ok(ExitCode::SUCCESS)
    }
}
