//! `fullbore run`: a pipeline as the shell would run it, in roomier pipes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::exit;
use crate::run::{FAILED, Failure, Options, Plan, keep, run};
use fullbore_host::refusal::Usage;
use fullbore_host::size;

/// Run a pipeline as the shell would, in roomier pipes, and say which stage holds it up
///
/// The line is cut at its pipes, and each stage is run by sh: quotes, variables, redirections, lists
/// and subshells are what they are there. Pipes hold 1 MiB instead of 64 KiB, as far as this user may
/// have that. After '--' there is no shell: the words are programs and their arguments, and '|' stands
/// between them. Nothing is left running: what a stage has left in the background is waited for as for a
/// stage, and what has made a session of its own, as daemons do, is ended with the last of them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore run 'tar c src | gzip | wc -c'
  fullbore run 'seq 100000 | sort -R | head -n 3 2> /dev/null'
  fullbore run --report 'seq 5000000 | sort -n | md5sum'
  fullbore run --live 'seq 3000000 | sort -R | tail -n 3'
  fullbore run --json how.json -- seq 5 '|' tr '\\n' ' '
  fullbore run --shell bash 'diff <(seq 3) <(seq 4) | wc -l'
  fullbore run --no-pipefail 'false | true'

Exit codes: that of the last stage that failed, 128 and its number for a signal, or 0 if none failed; \
with --no-pipefail that of the last stage. A stage that SIGPIPE ended before a later one, which had \
read enough, has not failed, unless --sigpipe-fails says so. A '!' before the pipeline turns it round. 2 also where the \
command line is wrong, or the line no shell's; 126 and 127 also where a program cannot be started or \
is not found; 125 where fullbore itself failed.")]
pub struct Run {
    /// The pipeline, as one word
    #[arg(value_name = "LINE")]
    line: Vec<OsString>,

    /// Programs and their arguments, without a shell, with '|' between them
    #[arg(last = true, value_name = "WORD")]
    words: Vec<OsString>,

    /// What each pipe is to hold
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = size::parse_in_memory)]
    pipe_size: usize,

    /// Exit as the last stage does, also if another one failed
    #[arg(long)]
    no_pipefail: bool,

    /// Count a stage as failed that SIGPIPE ended because a later one had read enough, such as 'yes' in
    /// 'yes | head': 141, as with bash's pipefail
    #[arg(long, conflicts_with = "no_pipefail")]
    sigpipe_fails: bool,

    /// What runs the stages
    #[arg(
        long,
        value_name = "SHELL",
        default_value = "sh",
        conflicts_with = "words"
    )]
    shell: OsString,

    /// Say at the end, on stderr, what each stage did with its time, and which one held up the others
    #[arg(long)]
    report: bool,

    /// Say it all the time too, in the last rows of the terminal that stderr is; output scrolls above
    /// them, and a program that takes the terminal for itself, such as less, has all of it
    #[arg(long)]
    live: bool,

    /// Write the same as JSON to a file; stdout is the pipeline's
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Do not say what is not as it was asked for: that pipes could not be made roomy, or what was left in
    /// the background
    #[arg(short, long)]
    quiet: bool,

    /// Say what is started
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
}

impl Run {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.check()?;
        let ran = keep(self.live, |keeper, signals| {
            run(keeper, signals, || self.plan(), &self.options())
        });
        ran.or_else(|error| {
            if error.is::<Usage>() {
                return Err(error);
            }
            exit::say("run", &error);
            let code = error
                .downcast_ref::<Failure>()
                .map_or(FAILED, |failure| failure.code);
            Ok(ExitCode::from(code))
        })
    }

    fn check(&self) -> Result<(), Usage> {
        match (self.line.len(), self.words.len()) {
            (1, 0) => {}
            (0, 1..) => {
                Plan::of_words(&self.words)?;
            }
            (0, 0) => return Err(Usage("there is no pipeline".into())),
            (_, 0) => {
                return Err(Usage(
                    "the pipeline is one word: 'a x | b y' in quotes; or words after '--': a x '|' b y"
                        .into(),
                ));
            }
            _ => return Err(Usage("a line or words after '--', not both".into())),
        }
        if self
            .json
            .as_ref()
            .is_some_and(|path| path.as_os_str() == "-")
        {
            return Err(Usage(
                "stdout is the pipeline's: name a file for --json, or /dev/stderr".into(),
            ));
        }
        Ok(())
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        match self.line.as_slice() {
            [line] => Plan::of_line(line, &self.shell),
            _ => Ok(Plan::of_words(&self.words)?),
        }
    }

    fn options(&self) -> Options {
        Options {
            pipe_size: self.pipe_size,
            pipefail: !self.no_pipefail,
            sigpipe_fails: self.sigpipe_fails,
            report: self.report,
            live: self.live,
            json: self.json.clone(),
            quiet: self.quiet,
            verbose: self.verbose,
        }
    }
}
