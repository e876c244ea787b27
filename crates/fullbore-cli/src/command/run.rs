//! `fullbore run`: runs a pipeline as the shell would, with larger pipes.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fullbore_results::report::Report;
use fullbore_results::report::html::Html;
use fullbore_results::summary::{Reports, Summary};

use super::{json, line_or_words, output};
use crate::copying::TooFew;
use crate::error_text::shown;
use crate::exit;
use crate::run::{FAILED, Failure, Options, Others, Plan, keep, run};
use fullbore_host::refusal::Usage;
use fullbore_host::text::error_text;

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
  fullbore run -o src.tgz 'tar c src | gzip'
  fullbore run --report 'tar c src | gzip -9 | wc -c'
  fullbore run 'zcat access.log.gz | sort | uniq -c | sort -rn | head'
  fullbore run -o errors.gz --accept grep=1 'grep error access.log | gzip'
  fullbore run --stalled 600 -o src.tgz --at-least 1 'tar c src | gzip'
  fullbore run --live 'cat disk.img | gzip > disk.img.gz'
  fullbore run --json=report.json 'zcat access.log.gz | sort | uniq -c'
  fullbore run --summary report.json
  fullbore run --place together 'zcat access.log.gz | wc -l'
  fullbore run --shell bash 'comm -13 <(sort access.log) <(zcat access.log.gz | sort) | wc -l'
  fullbore run --no-pipefail 'grep error access.log | wc -l'

Exit codes: the exit code of the last stage that failed (128 plus the signal number if a signal \
ended it), or 0 if none failed; with --no-pipefail, the exit code of the last stage. A stage \
that SIGPIPE ended because a later stage had read enough has not failed, unless --sigpipe-fails \
is given, and one that --accept names has not. A '!' before the pipeline inverts the exit code. Also: 2 for an invalid command line \
or a shell syntax error; 1 if fewer bytes came than --at-least asks for; 122 if nothing moved \
for the time of --stalled; 125 if fullbore itself failed; 126 if a program cannot be run; 127 if \
it is not found.")]
pub struct Run {
    /// The pipeline, as one argument in quotes
    #[arg(value_name = "LINE")]
    line: Vec<OsString>,

    /// Programs and their arguments, separated by '|', without a shell
    #[arg(last = true, value_name = "WORD", value_hint = clap::ValueHint::CommandName)]
    words: Vec<OsString>,

    /// Run nothing: instead of LINE, give the files that --json has written, of this machine or of many, and print
    /// which stage was slow in how many of these pipelines. --json alone prints it as JSON
    #[arg(long, conflicts_with = "words")]
    summary: bool,

    /// Also write the summary to FILE, as an HTML page that needs no other file
    #[arg(long, value_name = "FILE", requires = "summary")]
    html: Option<PathBuf>,

    #[command(flatten)]
    options: Options,
}

impl Run {
    pub fn run(mut self) -> anyhow::Result<ExitCode> {
        if self.summary {
            return self.summarize();
        }
        self.check()?;
        let ran = self.options.shown.open_fifo().and_then(|()| {
            keep(
                self.options.live || self.options.shown.progress,
                self.options.grace,
                self.options.is_held(),
                self.options.hold_stdin,
                |keeper, signals, shelf, holder| {
                    let others = Others {
                        keeper,
                        shelf,
                        holder,
                    };
                    run(others, signals, || self.plan(), &self.options)
                },
            )
        });
        Failure::said("fullbore run", ran).or_else(|error| {
            if error.is::<Usage>() {
                return Err(error);
            }
            exit::say("fullbore run", &error);
            Ok(ExitCode::from(if error.is::<TooFew>() {
                1
            } else {
                FAILED
            }))
        })
    }

    /// Says what the reports in these files have in common.
    fn summarize(&self) -> anyhow::Result<ExitCode> {
        let mut reports = Reports::default();
        for name in &self.line {
            let file = File::open(name).map_err(|error| error_text(&error));
            file.and_then(|file| reports.read(file))
                .map_err(|why| Usage(format!("'{}': {why}", shown(name))))?;
        }
        let Some(summary) = Summary::of(&reports) else {
            let text = "--summary: give the files that 'fullbore run --json=FILE' has written";
            return Err(Usage(text.into()).into());
        };
        if let Some(file) = &self.html {
            output::write_to_file(&|out| Ok(Html.write(&summary, out)?), file)?;
        }
        json::write(&self.options.shown.json, &summary)?;
        if !json::is_on_stdout(&self.options.shown.json) {
            output::print(&|out| Ok(write!(out, "{summary}")?))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn check(&self) -> Result<(), Usage> {
        let data: Vec<_> = self.options.output.as_deref().into_iter().collect();
        json::check(&self.options.shown.json, "the pipeline", &data)?;
        if self.options.at_least.is_given() && self.options.output.is_none() {
            let text = "--at-least needs -o FILE: run does not see the bytes on stdout";
            return Err(Usage(text.into()));
        }
        if self.options.hold_stdin.is_some() && !self.options.is_whole() {
            return Err(Usage("--hold-stdin needs --whole".into()));
        }
        let example = ["a x | b y", "a x '|' b y"];
        match line_or_words(&self.line, &self.words, "pipeline", example)? {
            Some(_) => Ok(()),
            None => Plan::of_words(&self.words).map(drop),
        }
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let plan = match self.line.as_slice() {
            [line] => Plan::of_line(line, &self.options.shell)?,
            _ => Plan::of_words(&self.words)?,
        };
        if self.options.whole && !self.options.quiet {
            plan.warn_of_another_machine();
        }
        Ok(plan)
    }
}
