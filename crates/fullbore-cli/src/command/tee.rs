//! `fullbore tee`: what tee is for.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::{Args, ValueEnum};
use fullbore::PipeEnd;
use fullbore::split::{OnError, Policy, TeeFailure, TeeReport};

use crate::exit;
use crate::moving::{self, Input, Output};
use fullbore_host::refusal::Usage;

/// Copy stdin to stdout, and to each of the files
///
/// Every output gets the same bytes, as they were when they were copied. With --by-reference,
/// references to pages are passed on instead. That is faster, and correct only if the writer of
/// stdin does not reuse its pages.
#[derive(Args)]
#[command(after_help = "\
Examples:
  make 2>&1 | fullbore tee build.log | grep warning
  fullbore copy disk.img | fullbore tee /dev/fd/3 3>&1 > copy.img | sha256sum
  zcat access.log.gz | fullbore tee -p >(wc -l >&2) >(sha1sum >&2) | head

Exit codes: 0 done, even if the reader of stdout closed it early; 1 an output could not be \
opened or written, or the reader of a pipe other than stdout closed it; 2 the command line is \
invalid, or an output is also the input.")]
pub struct Tee {
    /// Files to write to, in addition to stdout
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Append to the files instead of replacing their contents
    #[arg(short, long)]
    append: bool,

    /// Ignore SIGINT (Ctrl-C), and continue until stdin ends
    #[arg(short, long)]
    ignore_interrupts: bool,

    /// Continue if an output pipe has no reader; the same as --output-error=warn-nopipe
    #[arg(short = 'p')]
    pipes: bool,

    /// What to do if an output fails [without MODE: warn-nopipe]
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "warn-nopipe")]
    output_error: Option<Mode>,

    /// Pass references to pages instead of copying, where possible (correct only if the source does
    /// not change)
    #[arg(long)]
    by_reference: bool,
}

/// What to do when an output fails.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Print a message, and continue with the other outputs
    Warn,
    /// The same, without a message for a pipe that has no reader
    WarnNopipe,
    /// Stop
    Exit,
    /// Stop, except for a pipe that has no reader
    ExitNopipe,
}

impl Mode {
    fn policy(self) -> Policy {
        match self {
            Mode::Warn => Policy::DROP,
            Mode::WarnNopipe => Policy::IGNORE_CLOSED,
            Mode::Exit => Policy::FAIL_ALL,
            Mode::ExitNopipe => Policy::of(OnError::Ignore, OnError::FailAll),
        }
    }
}

/// Without a mode: stop when a pipe has no reader, and only warn when a file fails.
const BY_DEFAULT: Policy = Policy::of(OnError::FailAll, OnError::Drop);

impl Tee {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.ignore_interrupts {
            ignore_interrupts()?;
        }
        let named = self.outputs()?;
        let stdin = Input::Stdin.open()?;
        let (outputs, mut all_well) = self.open(named)?;
        if outputs.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        let policy = self.mode().map_or(BY_DEFAULT, Mode::policy);
        let mut tee =
            fullbore::Tee::new(stdin.as_fd()).guarantee(moving::guarantee(self.by_reference));
        for output in &outputs {
            tee = tee.sink(output.as_fd(), self.policy_of(policy, output.as_fd()));
        }
        let ran = tee.run();
        let failed = match &ran {
            Ok(report) => report
                .sinks
                .iter()
                .map(|sink| sink.error.is_some())
                .collect(),
            Err(failure) => (0..outputs.len())
                .map(|i| failure.sink == Some(i))
                .collect(),
        };
        let outcome = self.outcome(ran, &outputs);
        // Closed whatever happened before, so that the other outputs are complete.
        all_well &= close(outputs, failed);
        match outcome {
            Ok(well) => Ok(ExitCode::from(u8::from(!(well && all_well)))),
            Err(error) if exit::code(&error).is_none() && !all_well => Ok(ExitCode::FAILURE),
            Err(error) => Err(error),
        }
    }

    /// Returns stdout and the files, none of which is the input.
    fn outputs(&self) -> anyhow::Result<Vec<Output>> {
        let named = |path: &PathBuf| Output::new(Some(path.clone()), self.append);
        let mut all = vec![Output::new(None, false)];
        all.extend(self.files.iter().map(named));
        for output in &all {
            output.refuse(&[Input::Stdin])?;
        }
        Ok(all)
    }

    /// Opens the outputs. Returns those that could be opened, and whether all could.
    fn open(&self, all: Vec<Output>) -> anyhow::Result<(Vec<Output>, bool)> {
        let mut all_well = true;
        let mut outputs = Vec::new();
        for mut output in all {
            match output.open(&[Input::Stdin]) {
                Ok(()) => outputs.push(output),
                Err(error) if self.goes_on_after(&error) => {
                    exit::say("fullbore tee", &error);
                    all_well = false;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((outputs, all_well))
    }

    /// Reports which outputs failed. Returns whether none did.
    fn outcome(
        &self,
        ran: Result<TeeReport, TeeFailure>,
        outputs: &[Output],
    ) -> anyhow::Result<bool> {
        let sinks = match ran {
            Ok(report) => report.sinks,
            Err(failure) => {
                let sink = failure.sink.map_or(&outputs[0], |i| &outputs[i]);
                let error = moving::named(failure.error, &Input::Stdin, sink);
                // That stdout has no reader is not reported, unless the mode asks for it.
                let is_of_stdout = failure.sink.is_none() || matches!(sink, Output::Stdout(_));
                let is_news = self.mode() == Some(Mode::Exit) || !is_of_stdout;
                if is_news && exit::code(&error).is_none() {
                    exit::say("fullbore tee", &error);
                    return Ok(false);
                }
                return Err(error);
            }
        };
        let mut all_well = true;
        for (sink, output) in sinks.into_iter().zip(outputs) {
            if let Some(error) = sink.error.filter(|_| !sink.ignored) {
                exit::say("fullbore tee", &moving::named(error, &Input::Stdin, output));
                all_well = false;
            }
        }
        Ok(all_well)
    }

    fn mode(&self) -> Option<Mode> {
        self.output_error.or(self.pipes.then_some(Mode::WarnNopipe))
    }

    /// Whether to continue with the other outputs after this error of opening one.
    fn goes_on_after(&self, error: &anyhow::Error) -> bool {
        !error.is::<Usage>() && !matches!(self.mode(), Some(Mode::Exit | Mode::ExitNopipe))
    }

    /// As in other implementations of tee, a missing reader differs from other errors only on a pipe.
    fn policy_of(&self, policy: Policy, fd: BorrowedFd<'_>) -> Policy {
        if PipeEnd::new(fd).is_ok() {
            policy
        } else {
            Policy::of(policy.other, policy.other)
        }
    }
}

/// Ignores SIGINT. The handler only sets a flag that nobody reads, and interrupted calls are repeated.
fn ignore_interrupts() -> anyhow::Result<()> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, flag)
        .context("cannot ignore SIGINT")?;
    Ok(())
}

/// Closes the outputs, and reports errors of those that had not `failed` before. Returns whether there
/// were none.
fn close(outputs: Vec<Output>, failed: Vec<bool>) -> bool {
    let mut all_well = true;
    for (output, failed) in outputs.into_iter().zip(failed) {
        if let Err(error) = output.close()
            && !failed
        {
            exit::say("fullbore tee", &error);
            all_well = false;
        }
    }
    all_well
}
