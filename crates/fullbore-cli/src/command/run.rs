//! `fullbore run`: runs a pipeline as the shell would, with larger pipes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::json;
use crate::exit;
use crate::run::{FAILED, Failure, Options, Place, Plan, keep, run};
use fullbore_host::refusal::Usage;
use fullbore_host::{seconds, size};

/// Run a pipeline in larger pipes, whole or not at all if asked, and name the slow stage
///
/// LINE is split at its pipes, and sh runs each stage, so quotes, variables, redirections, lists
/// and subshells work as in sh. Each pipe has a capacity of 1 MiB instead of 64 KiB, if the user's
/// limits allow it. After '--' no shell is used: the words are programs and their arguments,
/// separated by '|'. No process is left running: fullbore waits for processes that a stage leaves
/// in the background, and when the last of them has ended, it kills processes that started their
/// own session, as daemons do.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore run 'zcat access.log.gz | sort | uniq -c | sort -rn | head'
  fullbore run --report 'tar c src | gzip -9 | wc -c'
  fullbore run --whole -o src.tgz 'tar c src | gzip'
  fullbore run --live 'cat disk.img | gzip > disk.img.gz'
  fullbore run --json=report.json 'zcat access.log.gz | sort | uniq -c'
  fullbore run --place together 'zcat access.log.gz | wc -l'
  fullbore run --shell bash 'comm -13 <(sort access.log) <(zcat access.log.gz | sort) | wc -l'
  fullbore run --no-pipefail 'grep error access.log | wc -l'

Exit codes: the exit code of the last stage that failed (128 plus the signal number if a signal \
ended it), or 0 if none failed; with --no-pipefail, the exit code of the last stage. A stage \
that SIGPIPE ended because a later stage had read enough has not failed, unless --sigpipe-fails \
is given. A '!' before the pipeline inverts the exit code. Also: 2 for an invalid command line \
or a shell syntax error; 125 if fullbore itself failed; 126 if a program cannot be run; 127 if \
it is not found.")]
pub struct Run {
    /// The pipeline, as one argument in quotes
    #[arg(value_name = "LINE")]
    line: Vec<OsString>,

    /// Programs and their arguments, separated by '|', without a shell
    #[arg(last = true, value_name = "WORD", value_hint = clap::ValueHint::CommandName)]
    words: Vec<OsString>,

    /// Capacity of each pipe
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = size::parse_capacity)]
    pipe_size: usize,

    /// All or nothing: a stage sees the end of its input only after the stage before it has
    /// succeeded. If a stage fails, the stages behind it are ended without seeing an end, and the
    /// exit code is that of the failed stage
    #[arg(long, conflicts_with = "no_pipefail")]
    whole: bool,

    /// Replace FILE with the output of the last stage, when all stages have succeeded and not before
    #[arg(short, long, value_name = "FILE", requires = "whole")]
    output: Option<PathBuf>,

    /// Wait until FILE and its name are on the disk; bytes are handed to the disk while the pipeline runs
    #[arg(long, requires = "output")]
    sync: bool,

    /// Time between SIGTERM and SIGKILL when processes are ended
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = grace)]
    grace: Duration,

    /// Exit with the code of the last stage, even if another stage failed
    #[arg(long)]
    no_pipefail: bool,

    /// Treat a stage as failed if SIGPIPE ended it because a later stage had read enough, such as
    /// 'yes' in 'yes | head': its exit code is 141, as with bash's pipefail
    #[arg(long, conflicts_with = "no_pipefail")]
    sigpipe_fails: bool,

    /// The CPUs on which the stages run: 'none' leaves the choice to the scheduler; 'together' puts
    /// all stages on one CPU; 'spread' puts each stage on another CPU; or the CPUs of each stage,
    /// such as 0/0/1 or 0-3/4,6
    #[arg(
        long,
        value_name = "HOW",
        default_value = "none",
        value_parser = Place::parse
    )]
    place: Place,

    /// The shell that runs the stages
    #[arg(
        long,
        value_name = "SHELL",
        default_value = "sh",
        conflicts_with = "words"
    )]
    shell: OsString,

    /// At the end, print on stderr how each stage spent its time, and which one was the bottleneck
    #[arg(long)]
    report: bool,

    /// Also show the report while the pipeline runs, in the last rows of the terminal on stderr.
    /// Output scrolls above it; a full-screen program such as less gets the whole terminal
    #[arg(long)]
    live: bool,

    /// Show the progress of the whole pipeline in the last row of the terminal on stderr, and the
    /// slow stage. The total is the size of the file that the first stage reads, or --size
    #[arg(long, conflicts_with = "live")]
    progress: bool,

    /// Bytes that the first stage writes, for --progress
    #[arg(short, long, value_name = "SIZE", requires = "progress", value_parser = size::parse)]
    size: Option<u64>,

    /// Write the report as one JSON object to FILE; docs/run.md describes its fields
    #[arg(long, value_name = "FILE", require_equals = true)]
    json: Option<Option<PathBuf>>,

    /// Do not warn about pipes that could not be enlarged, or about processes left in the
    /// background
    #[arg(short, long)]
    quiet: bool,

    /// Print each program that is started
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
}

impl Run {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.check()?;
        let ran = keep(
            self.live || self.progress,
            self.grace,
            |keeper, signals, shelf| run(keeper, signals, shelf, || self.plan(), &self.options()),
        );
        ran.or_else(|error| {
            if error.is::<Usage>() {
                return Err(error);
            }
            exit::say("fullbore run", &error);
            let code = error
                .downcast_ref::<Failure>()
                .map_or(FAILED, |failure| failure.code);
            Ok(ExitCode::from(code))
        })
    }

    fn check(&self) -> Result<(), Usage> {
        json::file(&self.json, "the pipeline")?;
        match (self.line.len(), self.words.len()) {
            (1, 0) => {}
            (0, 1..) => {
                Plan::of_words(&self.words)?;
            }
            (0, 0) => return Err(Usage("no pipeline was given".into())),
            (_, 0) => {
                return Err(Usage(
                    "give the pipeline as one argument in quotes, such as 'a x | b y', or as \
                     words after '--', such as -- a x '|' b y"
                        .into(),
                ));
            }
            _ => return Err(Usage("give a line, or words after '--', not both".into())),
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
            whole: self.whole,
            output: self.output.clone(),
            sync: self.sync,
            grace: self.grace,
            place: self.place.clone(),
            report: self.report,
            live: self.live,
            progress: self.progress.then_some(self.size),
            json: self.json.clone().flatten(),
            quiet: self.quiet,
            verbose: self.verbose,
        }
    }
}

/// Reads how long processes may take to end.
fn grace(text: &str) -> Result<Duration, String> {
    seconds::parse(text, 0.0..=86_400.0).map(Duration::from_secs_f64)
}
