//! `fullbore part`: a process of an experiment that is no writer, reader or middleman. The verb is hidden:
//! only the laboratory uses it.

use std::process::ExitCode;

use clap::Args;

use fullbore_host::refusal::Usage;
use fullbore_lab::catalogue::Catalogue;
use fullbore_lab::endpoint::prepare;
use fullbore_lab::parent::ParentOptions;
use fullbore_lab::trials;

/// Run one process of an experiment
#[derive(Args)]
pub struct Part {
    /// The name of the part
    name: String,

    /// What to do, as JSON
    task: String,

    /// Run on this CPU only
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,

    #[command(flatten)]
    parent: ParentOptions,
}

impl Part {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let part = Catalogue::default()
            .part(&self.name)
            .or_else(|| trials::part(&self.name));
        let part = part.ok_or_else(|| Usage(format!("unknown part '{}'", self.name)))?;
        prepare::process(self.cpu, &self.parent)?;
        part.play(&self.task)?;
        Ok(ExitCode::SUCCESS)
    }
}
