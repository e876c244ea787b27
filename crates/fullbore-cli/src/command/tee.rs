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
/// Every output gets the same bytes, and what a reader gets is what they were when they were
/// copied. With --by-reference, pages are passed on instead; that is faster, and right where the
/// writer of stdin does not use its pages again.
#[derive(Args)]
#[command(after_help = "\
Examples:
  make 2>&1 | fullbore tee build.log | grep warning
  fullbore copy disk.img | fullbore tee /dev/fd/3 3>&1 > copy.img | sha256sum
  zcat log.gz | fullbore tee -p >(wc -l >&2) >(sha1sum >&2) | head

Exit codes: 0 done, also when the reader of stdout went away early; 1 some output could not be
opened or written, or the reader of another pipe went away; 2 the command line is wrong, or an output is also the input.")]
pub struct Tee {
    /// Files to write to, beside stdout
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Append to the files instead of replacing what they hold
    #[arg(short, long)]
    append: bool,

    /// Go on when interrupted (Ctrl-C), until stdin ends
    #[arg(short, long)]
    ignore_interrupts: bool,

    /// Go on when nobody reads a pipe any more; the same as --output-error=warn-nopipe
    #[arg(short = 'p')]
    pipes: bool,

    /// What to do when an output fails; without a MODE, warn-nopipe
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "warn-nopipe")]
    output_error: Option<Mode>,

    /// Pass pages on instead of copying them, where that is possible
    #[arg(long)]
    by_reference: bool,
}

/// What to do when an output fails.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Say so, and go on with the others
    Warn,
    /// The same, and say nothing where nobody reads a pipe any more
    WarnNopipe,
    /// Stop
    Exit,
    /// Stop, unless it is only that nobody reads a pipe any more
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

/// Without a mode: the end of all when a pipe has no reader, and only a warning for a file that fails.
const BY_DEFAULT: Policy = Policy::of(OnError::FailAll, OnError::Drop);

impl Tee {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.ignore_interrupts {
            // A handler that does nothing else: the calls that it interrupts are made again.
            signal_hook::flag::register(
                signal_hook::consts::SIGINT,
                Arc::new(AtomicBool::new(false)),
            )
            .context("SIGINT cannot be ignored")?;
        }
        let mut all_well = true;
        let named = |path: &PathBuf| Output::new(Some(path.clone()), self.append);
        let mut all = vec![Output::new(None, false)];
        all.extend(self.files.iter().map(named));
        for output in &all {
            output.refuse(&[Input::Stdin])?;
        }
        let stdin = Input::Stdin.open()?;
        let mut outputs = Vec::new();
        for mut output in all {
            match output.open(&[Input::Stdin]) {
                Ok(()) => outputs.push(output),
                Err(error) if self.goes_on_after(&error) => {
                    exit::say("tee", &error);
                    all_well = false;
                }
                Err(error) => return Err(error),
            }
        }
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
        // Whatever happened before: what the others got is theirs.
        all_well &= close(outputs, failed);
        match outcome {
            Ok(well) => Ok(ExitCode::from(u8::from(!(well && all_well)))),
            Err(error) if exit::code(&error).is_none() && !all_well => Ok(ExitCode::FAILURE),
            Err(error) => Err(error),
        }
    }

    /// Says which outputs failed, and whether all is well.
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
                // That nobody reads any more is no news where it is stdout's reader, unless asked for.
                let is_of_stdout = failure.sink.is_none() || matches!(sink, Output::Stdout(_));
                let is_news = self.mode() == Some(Mode::Exit) || !is_of_stdout;
                if is_news && exit::code(&error).is_none() {
                    exit::say("tee", &error);
                    return Ok(false);
                }
                return Err(error);
            }
        };
        let mut all_well = true;
        for (sink, output) in sinks.into_iter().zip(outputs) {
            if let Some(error) = sink.error.filter(|_| !sink.ignored) {
                exit::say("tee", &moving::named(error, &Input::Stdin, output));
                all_well = false;
            }
        }
        Ok(all_well)
    }

    fn mode(&self) -> Option<Mode> {
        self.output_error.or(self.pipes.then_some(Mode::WarnNopipe))
    }

    /// Whether an output that cannot be opened leaves the others to go on.
    fn goes_on_after(&self, error: &anyhow::Error) -> bool {
        !error.is::<Usage>() && !matches!(self.mode(), Some(Mode::Exit | Mode::ExitNopipe))
    }

    /// As with the other tees, only on a pipe is a missing reader different from other errors.
    fn policy_of(&self, policy: Policy, fd: BorrowedFd<'_>) -> Policy {
        if PipeEnd::new(fd).is_ok() {
            policy
        } else {
            Policy::of(policy.other, policy.other)
        }
    }
}

/// Closes the outputs, and says what went wrong with those that had not `failed` before.
fn close(outputs: Vec<Output>, failed: Vec<bool>) -> bool {
    let mut all_well = true;
    for (output, failed) in outputs.into_iter().zip(failed) {
        if let Err(error) = output.close()
            && !failed
        {
            exit::say("tee", &error);
            all_well = false;
        }
    }
    all_well
}
