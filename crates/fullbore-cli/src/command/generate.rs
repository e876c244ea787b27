//! `fullbore generate`: what packages contain besides the program. The verb is hidden: only packaging needs it.

use std::fs;
use std::io::{IsTerminal, Write, stdout};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::{Args, Command, ValueEnum};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use super::output::{self, write_to_file};
use crate::names::NAMES;
use crate::{inherited, manual};
use fullbore_host::refusal::Usage;

/// The variable of the environment by which a shell asks what can stand in a command line.
pub const VARIABLE: &str = "FULLBORE_COMPLETE";

/// Print a manual page, or what makes a shell complete command lines
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore generate man copy
  fullbore generate man --dir man1
  fullbore generate complete-bash > fullbore.bash
  fullbore generate links --dir names

Exit codes: 0 done; 1 a page or a link could not be written; 2 the command line is invalid.")]
pub struct Generate {
    /// What to print
    #[arg(value_name = "WHAT")]
    what: What,

    /// The verb of the manual page [default: the page about fullbore itself]
    #[arg(value_name = "VERB", conflicts_with = "dir")]
    verb: Option<String>,

    /// Write all manual pages, or the links pv, mbuffer, tee and cat to this program, to this directory, and create it
    /// if it does not exist
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Man,
    CompleteBash,
    CompleteZsh,
    CompleteFish,
    Links,
}

impl Generate {
    pub fn run(self, parser: Command) -> anyhow::Result<ExitCode> {
        let shell: &dyn EnvCompleter = match self.what {
            What::Man => return self.man(parser),
            What::Links => return self.links(),
            What::CompleteBash => &Bash,
            What::CompleteZsh => &Zsh,
            What::CompleteFish => &Fish,
        };
        if self.verb.is_some() || self.dir.is_some() {
            let text = "only 'man' takes a verb, and only 'man' and 'links' take --dir";
            bail!(Usage(text.into()));
        }
        let name = "fullbore";
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, name, name, name, &mut script)?;
        let mut script = String::from_utf8(script)?;
        match self.what {
            // Names of files are those of readline, which quotes them.
            What::CompleteBash => script = script.replace("-o bashdefault", "-o bashdefault -o default"),
            // The first call loads this file as a function, and has to complete too.
            What::CompleteZsh => script.push_str(
                "if [[ $funcstack[1] == _fullbore ]]; then _clap_dynamic_completer_fullbore \"$@\"; fi\n",
            ),
            _ => {}
        }
        print(script.as_bytes())
    }

    fn links(&self) -> anyhow::Result<ExitCode> {
        let Some(dir) = self.dir.as_ref().filter(|_| self.verb.is_none()) else {
            bail!(Usage("'links' needs --dir, and no verb".into()));
        };
        let program = std::env::current_exe().context("find this program")?;
        create(dir)?;
        for (name, _) in NAMES {
            let link = dir.join(name);
            let cannot = || format!("cannot make the link '{}'", link.display());
            // Another file of that name is not replaced.
            if link.is_symlink() {
                fs::remove_file(&link).with_context(cannot)?;
            }
            symlink(&program, &link).with_context(cannot)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn man(&self, parser: Command) -> anyhow::Result<ExitCode> {
        let commands = manual::commands(parser);
        if let Some(dir) = &self.dir {
            create(dir)?;
            for command in &commands {
                let page = manual::page(command)?;
                let write = |out: &mut dyn Write| Ok(out.write_all(&page)?);
                write_to_file(&write, &dir.join(manual::file_name(command)))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let name = self.verb.as_deref().unwrap_or("fullbore");
        let command = commands.iter().find(|command| command.get_name() == name);
        let command = command.ok_or_else(|| Usage(format!("there is no verb '{name}'")))?;
        let page = manual::page(command)?;
        if stdout().is_terminal() && show(&page) {
            return Ok(ExitCode::SUCCESS);
        }
        print(&page)
    }
}

fn print(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    inherited::stdout()?;
    output::print(&|out| Ok(out.write_all(bytes)?)).context("write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

fn create(dir: &Path) -> anyhow::Result<()> {
    let made = fs::create_dir_all(dir);
    made.with_context(|| format!("cannot create the directory '{}'", dir.display()))
}

/// Shows a page on the terminal by man(1). Returns whether it could.
fn show(page: &[u8]) -> bool {
    let mut man = std::process::Command::new("man");
    let Ok(mut man) = man.args(["-l", "-"]).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    // man may have ended before it has read all of it.
    let _ = man.stdin.take().map(|mut pipe| pipe.write_all(page));
    man.wait().is_ok_and(|status| status.success())
}
