//! `fullbore completions`: prints the script that a shell needs.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::completion::script;
use crate::inherited;

/// Print what makes a shell complete verbs, options and values
///
/// The shell reads the script when it starts. While a command line is typed, the script asks
/// fullbore what can stand there: verbs, options, names of experiments, processes. Where a file is
/// expected, the shell completes it as usual.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore completions bash > fullbore.bash     for 'source fullbore.bash' in bash
  fullbore completions zsh > _fullbore          for a directory in zsh's fpath
  fullbore completions fish > fullbore.fish     for ~/.config/fish/completions

Exit codes: 0 done; 1 the script could not be written; 2 the command line is invalid.")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let script = match self.shell {
            Shell::Bash => script::BASH,
            Shell::Zsh => script::ZSH,
            Shell::Fish => script::FISH,
        };
        let mut out = inherited::stdout()?.lock();
        out.write_all(script.as_bytes())
            .context("write to stdout")?;
        Ok(ExitCode::SUCCESS)
    }
}
