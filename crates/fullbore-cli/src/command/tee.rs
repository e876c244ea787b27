//! `fullbore tee`: what tee is for.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use fullbore::tee::{OnError, Policy};
use fullbore::{EndReason, TeeOptions};

use crate::copying::{self, AtLeast, Existing, Input, Output, SourcePipe, WriteBack};
use crate::exit;
use fullbore_host::refusal::Usage;
use fullbore_host::size;

/// Copy stdin to stdout, and to each of the files
///
/// Every output gets the same bytes, as they were when they were copied.
///
/// With -p or --output-error, it ends as soon as no output has a reader any more, even if nothing
/// arrives on stdin. Files and devices always count as having one.
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
    #[arg(short, long, conflicts_with = "at_least")]
    append: bool,

    /// Replace each of the files in one step when it is complete; until then, and after any failure, it is as it was.
    /// An empty input is complete, unless --at-least 1 is given
    #[arg(long, requires = "files", conflicts_with = "append")]
    atomic: bool,

    #[command(flatten)]
    at_least: AtLeast,

    /// Wait until the bytes are on the disk, every 64 MiB and at the end, when the directories of the files are synced
    /// too. Needs an output that is a file or a block device
    #[arg(long)]
    sync: bool,

    /// Capacity of each output pipe, within the user's limits, once more than 64 KiB are to be copied; 0 leaves them, and
    /// the pipe on stdin, as they are, and none is ever shrunk [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pipe_size: Option<usize>,

    /// Ignore SIGINT (Ctrl-C), and continue until stdin ends
    #[arg(short, long)]
    ignore_interrupts: bool,

    /// Continue if an output pipe has no reader; the same as --output-error=warn-nopipe
    #[arg(short = 'p', overrides_with = "output_error")]
    pipes: bool,

    /// What to do if an output fails [without MODE: warn-nopipe]
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "warn-nopipe", overrides_with = "pipes")]
    output_error: Option<Mode>,
}

/// The bytes after which to wait for the disk.
const WINDOW: u64 = 64 << 20;

/// What to do when an output fails.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
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
    pub fn policy(self) -> Policy {
        match self {
            Mode::Warn => Policy::DROP,
            Mode::WarnNopipe => Policy::IGNORE_CLOSED,
            Mode::Exit => Policy::FAIL_ALL,
            Mode::ExitNopipe => Policy {
                closed: OnError::Ignore,
                other: OnError::FailAll,
            },
        }
    }
}

/// Without a mode: stop when a pipe has no reader, and only warn when a file fails.
pub const BY_DEFAULT: Policy = Policy {
    closed: OnError::FailAll,
    other: OnError::Drop,
};

impl Tee {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let is_plain = copying::is_plain()?;
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
        let sinks = outputs.iter();
        let sinks = sinks.map(|output| (output.as_fd(), copying::policy_of(policy, output)));
        let mut tee = TeeOptions::new()
            .plain(is_plain)
            .fail_without_readers(self.mode().is_some())
            .pipe_size(self.pipe_size)
            .open(stdin.as_fd(), sinks);
        if self.sync {
            tee.set_limit(WINDOW);
        }
        let mut write_backs = self.write_backs(&outputs)?;
        let mut source_pipe = SourcePipe::new(is_plain || self.pipe_size == Some(0));
        let (report, failure) = loop {
            match tee
                .run_with(|bytes| source_pipe.gave(&stdin, Some(rustix::stdio::stdout()), bytes))
            {
                Ok(report) if self.sync && report.ended == EndReason::AtLimit => {
                    for write_back in &mut write_backs {
                        write_back.wait()?;
                    }
                    tee.set_limit(report.taken + WINDOW);
                }
                Ok(report) => break (report, None),
                Err(failure) => break (*failure.report, Some((failure.sink, failure.error))),
            }
        };
        let came = self.at_least.check(report.taken);
        let failed_at = failure.as_ref().and_then(|(sink, _)| *sink);
        // One that has not failed lacks bytes if the tee has ended early.
        let has_ended = failure.is_none() && came.is_ok();
        let failure = failure.map(|(_, error)| {
            let sink = &outputs[failed_at.unwrap_or(0)];
            copying::named(error, &Input::Stdin, sink)
        });
        // That stdout has no reader is not reported, unless the mode asks for it, or files are not complete.
        let is_of_stdout = failed_at.is_none_or(|sink| outputs[sink].is_stdout());
        let is_news = self.mode() == Some(Mode::Exit) || !is_of_stdout || self.is_atomic();
        let mut sinks = report.sinks.into_iter();
        // All are closed whatever happened before, so that the others are complete.
        for (at, output) in outputs.into_iter().enumerate() {
            let sink = sinks.next();
            let is_broken = sink.as_ref().is_some_and(|sink| sink.error.is_some());
            let has_failed = failed_at == Some(at) || is_broken;
            let dropped = sink.filter(|sink| !sink.ignored);
            if let Some(error) = dropped.and_then(|sink| sink.error) {
                all_well = is_well(Err(copying::named(error, &Input::Stdin, &output)));
            }
            let closed = output.close(has_ended && !has_failed, self.sync);
            all_well &= has_failed || is_well(closed);
        }
        match failure {
            None => {
                came?;
                Ok(ExitCode::from(u8::from(!all_well)))
            }
            Some(error) if exit::code(&error).is_none() && (is_news || !all_well) => {
                if is_news {
                    exit::say("fullbore tee", &error);
                }
                Ok(ExitCode::FAILURE)
            }
            Some(error) => Err(error),
        }
    }

    /// Returns what waits for the disk, with `--sync`.
    fn write_backs(&self, outputs: &[Output]) -> anyhow::Result<Vec<WriteBack>> {
        if !self.sync {
            return Ok(Vec::new());
        }
        let write_backs = WriteBack::of_stored(outputs)?;
        if write_backs.is_empty() {
            let text = "--sync needs a file or a block device to write to, and no output is one";
            bail!(Usage(text.into()));
        }
        Ok(write_backs)
    }

    /// Returns stdout and the files, none of which is the input.
    fn outputs(&self) -> anyhow::Result<Vec<Output>> {
        let mut all = vec![Output::Stdout];
        let existing = Existing::appended(self.append);
        for path in &self.files {
            all.push(Output::of(path, existing, self.is_atomic())?);
        }
        for output in &all {
            output.refuse(&[Input::Stdin])?;
        }
        Ok(all)
    }

    /// Opens the outputs. Returns those that could be opened, and whether all could.
    fn open(&self, all: Vec<Output>) -> anyhow::Result<(Vec<Output>, bool)> {
        let stops = matches!(self.mode(), Some(Mode::Exit | Mode::ExitNopipe));
        let (mut all_well, mut outputs) = (true, Vec::new());
        for mut output in all {
            match output.open(&[Input::Stdin]) {
                Ok(()) => outputs.push(output),
                Err(error) if !stops && !exit::is_usage(&error) => all_well = is_well(Err(error)),
                Err(error) => return Err(error),
            }
        }
        Ok((outputs, all_well))
    }

    fn is_atomic(&self) -> bool {
        self.atomic || self.at_least.is_given() && !self.files.is_empty()
    }

    fn mode(&self) -> Option<Mode> {
        self.output_error.or(self.pipes.then_some(Mode::WarnNopipe))
    }
}

/// Ignores SIGINT. The handler only sets a flag that nobody reads, and interrupted calls are repeated.
pub fn ignore_interrupts() -> anyhow::Result<()> {
    let registered = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default());
    registered.map(drop).context("cannot ignore SIGINT")
}

/// Reports an error, and returns whether there was none.
fn is_well(done: anyhow::Result<()>) -> bool {
    if let Err(error) = &done {
        exit::say("fullbore tee", error);
    }
    done.is_ok()
}
