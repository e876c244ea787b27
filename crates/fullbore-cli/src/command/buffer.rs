//! `fullbore buffer`: what mbuffer is for.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::terminal::stderr;
use anyhow::anyhow;
use clap::Args;
use fullbore::buffer::{BufferFailure, BufferReport, Level};
use fullbore::tee::{OnError, Policy};
use fullbore::{Error, TransferSide};
use fullbore_host::number::within;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::json;
use crate::buffer::memory::{Asked, Memory};
use crate::buffer::outputs::Outputs;
use crate::buffer::refused::RefusedOptions;
use crate::buffer::show::{Show, TICK};
use crate::buffer::summary;
use crate::exit;
use crate::inherited::descriptor;
use crate::moving::failure::Broken;
use crate::moving::{self, Existing, Input, Output};
use crate::terminal::lines::Screen;
use fullbore_host::refusal::Usage;
use fullbore_host::size;
use fullbore_host::text::{clean, error_text};
use fullbore_results::buffer::Destination;

/// Copy stdin to stdout through a large buffer, so that neither side waits for the other
///
/// The buffer reads on while its output is slow, and keeps its output busy while its input is slow. It
/// takes the options of mbuffer. A byte is passed on as soon as it is there, unless -P or -R says
/// otherwise. Every output gets the bytes as they were when they were read.
///
/// A line on stderr shows the rates and how full the buffer is. At the end, a summary says how much
/// passed, how often the buffer was empty and full, and whether a larger one would have helped.
#[derive(Args)]
#[command(version = env!("FULLBORE_VERSION"))]
#[command(after_help = "\
Examples:
  tar c src | fullbore buffer -m 1G | gzip > src.tgz
  fullbore buffer -i disk.img -o copy1.img -o copy2.img -f
  tar c src | fullbore buffer -m 500M -P 80 -o backup.tar --report
  tar c src | fullbore buffer -t -m 64M | gzip > src.tgz

Exit codes: 0 done, even if the reader of stdout closed it early; 1 the input or an output failed; \
2 the command line is invalid, or an output is also the input.")]
pub struct Buffer {
    /// Read FILE instead of stdin; '-' means stdin
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,

    #[command(flatten)]
    outputs: Outputs,

    /// Replace output files that exist; without it they are left alone, and not written to
    #[arg(short, long)]
    force: bool,

    /// Put each output file in its place at once when it is complete; until then, and after any failure, a file that
    /// exists (-f) is as it was. The input may be an output
    #[arg(long, requires = "output")]
    atomic: bool,

    /// Memory of the buffer: a size, or a percentage of the memory such as 10% [default: 2%]
    #[arg(short, long, value_name = "SIZE|%")]
    memory: Option<Asked>,

    /// Read and write at most SIZE bytes at a time [default: 1M]
    #[arg(short = 's', long, value_name = "SIZE", value_parser = positive)]
    block_size: Option<u64>,

    /// Size of the buffer in blocks of -s, at least 5
    #[arg(short = 'b', long, value_name = "N", value_parser = within::<u64>(5..=u64::MAX))]
    blocks: Option<u64>,

    /// Begin to write when the buffer is filled to PERCENT, and again after it was empty
    #[arg(short = 'P', long, value_name = "PERCENT", value_parser = start_percent)]
    start_writing: Option<f64>,

    /// After the buffer was full, begin to read again when at most PERCENT of it is filled
    #[arg(short = 'p', long, value_name = "PERCENT", value_parser = percent)]
    start_reading: Option<f64>,

    /// Read at most SIZE bytes per second
    #[arg(short = 'r', long, value_name = "SIZE", value_parser = positive)]
    read_rate: Option<u64>,

    /// Write at most SIZE bytes per second
    #[arg(short = 'R', long, value_name = "SIZE", value_parser = positive)]
    write_rate: Option<u64>,

    /// Pause MICROSECONDS after each write
    #[arg(short = 'u', long, value_name = "MICROSECONDS", default_value_t = 0)]
    #[arg(hide_default_value = true)]
    pause: u64,

    /// Keep the bytes in a temporary file in $TMPDIR or /var/tmp, instead of memory
    #[arg(short, long)]
    temporary_file: bool,

    /// Keep the bytes in FILE, which must not exist, instead of memory
    #[arg(
        short = 'T',
        long,
        value_name = "FILE",
        conflicts_with = "temporary_file"
    )]
    file: Option<PathBuf>,

    /// Write output files with O_SYNC: each write returns once the bytes are on the disk. At the end, their
    /// directories are synced too
    #[arg(short = 'c', long, alias = "synchronous")]
    sync: bool,

    /// Stop at the first error of an output, instead of going on with the others
    #[arg(short = 'e', long)]
    stop_on_error: bool,

    /// Fail if nothing was read, or nothing was written, for SECONDS
    #[arg(short = 'W', long, value_name = "SECONDS", value_parser = seconds)]
    watchdog: Option<Duration>,

    /// Show neither the line nor the summary on stderr
    #[arg(short, long)]
    quiet: bool,

    /// Write messages and the summary to FILE instead of stderr
    #[arg(short, long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Do not write the summary to the file of --log
    #[arg(short = 'Q', long)]
    quiet_log: bool,

    /// Also report how full the buffer was, which side was slow, and whether a larger buffer would
    /// have helped, even with -q
    #[arg(long)]
    report: bool,

    /// Write the report as one JSON object to FILE; docs/buffer.md describes its fields
    #[arg(long, value_name = "FILE", require_equals = true)]
    json: Option<Option<PathBuf>>,

    /// Print the process id on stderr
    #[arg(long)]
    pid: bool,

    /// Leave the size of a pipe on stdin as it is. Otherwise it is enlarged once 32 MiB have passed, if its
    /// writer is known not to rely on it (as 'fullbore tune' does)
    #[arg(long)]
    keep_input: bool,

    /// Accepted as in mbuffer, without effect
    #[arg(short, value_name = "0-6", hide = true, value_parser = within::<u8>(0..=6))]
    verbose: Option<u8>,

    /// Accepted as in mbuffer: files are never written with O_DIRECT
    #[arg(long, hide = true)]
    no_direct: bool,

    #[command(flatten)]
    refused: RefusedOptions,
}

/// The memory, and how much of it is moved at a time.
struct Sizes {
    memory: usize,
    block: Option<usize>,
}

/// Where messages go.
struct Messages(Option<Mutex<File>>);

impl Buffer {
    pub fn run(mut self) -> anyhow::Result<ExitCode> {
        self.refused.check()?;
        json::file(&self.json, "the bytes")?;
        let sizes = self.sizes()?;
        self.check_thresholds()?;
        let messages = Messages::new(self.log.as_deref())?;
        match self.pass(&sizes, &messages) {
            Err(error) if self.log.is_some() => {
                let Some(code) = exit::code(&error) else {
                    return Ok(ExitCode::SUCCESS);
                };
                messages.error(&error);
                Ok(code)
            }
            outcome => outcome,
        }
    }

    fn pass(&self, sizes: &Sizes, messages: &Messages) -> anyhow::Result<ExitCode> {
        if self.pid {
            messages.line(&format!("PID is {}", std::process::id()));
        }
        let is_plain = moving::is_plain()?;
        let named: Vec<PathBuf> = self.input.iter().cloned().collect();
        let input = &Input::all(&named)[0];
        let source = input.open()?;
        let file = self.buffer_file(sizes)?;
        let (outputs, mut all_well) = self.open(input, messages)?;
        let mut buffer = fullbore::Buffer::new(source.as_fd())
            .plain(is_plain)
            .memory(sizes.memory)
            .start_at(self.start_writing.unwrap_or(0.0))
            .resume_at(self.start_reading.unwrap_or(100.0))
            .read_rate(self.read_rate)
            .write_rate(self.write_rate)
            .pause_after_write(Duration::from_micros(self.pause));
        if let Some(block) = sizes.block {
            buffer = buffer.chunk(block);
        }
        let has_file = file.is_some();
        if let Some(file) = file {
            buffer = buffer.in_file(file);
        }
        for output in &outputs {
            buffer = buffer.sink(output.as_fd(), self.policy_of(output));
        }
        let mut show = Show::new(!self.quiet, self.watchdog);
        if !self.keep_input
            && let Ok(Some(pipe)) = fullbore_linux::pipe::of(&source)
        {
            show.enlarge(pipe);
        }
        let ran = buffer.run_with(TICK, |level| {
            if let Some(side) = show.tick(level) {
                show.clear();
                messages.error(&anyhow!("watchdog: the {side} has stalled"));
                std::process::exit(1);
            }
        });
        show.clear();
        let (report, failure) = match ran {
            Ok(report) => (report, None),
            Err(BufferFailure {
                report,
                sink,
                error,
                ..
            }) => (*report, Some((sink, error))),
        };
        let failed_at = failure.as_ref().and_then(|(sink, _)| *sink);
        let is_of_stdout = failed_at.is_none_or(|sink| matches!(outputs[sink], Output::Stdout(_)));
        let failure = failure.map(|(sink, error)| {
            let output = sink.map_or(&outputs[0], |sink| &outputs[sink]);
            self.named(error, input, output, has_file)
        });
        let mut destinations = Vec::with_capacity(outputs.len());
        for (i, output) in outputs.into_iter().enumerate() {
            let sink = report.sinks.get(i);
            let dropped = sink.and_then(|sink| sink.error.as_ref());
            let error = dropped.and_then(|error| Broken::new(error, input, &output));
            let is_ignored = sink.is_some_and(|sink| sink.ignored);
            if let Some(error) = &error
                && !is_ignored
            {
                let file = dropped.filter(|error| has_file && is_fault(error));
                match file {
                    Some(_) => messages.error(&self.bad_file()),
                    None => messages.text(&error.to_string()),
                }
                all_well = false;
            }
            let name = output.to_string();
            let has_failed = error.is_some() || failed_at == Some(i);
            let closed = output.close(failure.is_none() && !has_failed, self.sync);
            if let Err(error) = &closed
                && !has_failed
            {
                messages.error(error);
                all_well = false;
            }
            let closed = closed.err().map(|error| format!("{error:#}"));
            destinations.push(Destination {
                name,
                bytes: sink.map_or(0, |sink| sink.bytes),
                error: match failed_at == Some(i) {
                    true => failure.as_ref().map(|error| format!("{error:#}")),
                    false => error.map(|error| error.to_string()).or(closed),
                },
            });
        }
        if !failure.as_ref().is_some_and(|error| error.is::<Usage>()) {
            let said = self.say_at_the_end(&report, destinations, &show, messages);
            if let Err(error) = said {
                messages.error(&error);
                all_well = false;
            }
        }
        match failure {
            // Only the reader of stdout may leave early without a word.
            Some(error) if exit::code(&error).is_none() && !(is_of_stdout && all_well) => {
                if !is_of_stdout {
                    messages.error(&error);
                }
                Ok(ExitCode::FAILURE)
            }
            Some(error) => Err(error),
            None => Ok(ExitCode::from(u8::from(!all_well))),
        }
    }

    /// Returns the memory and the block size. As with mbuffer, each follows from two of -m, -s and -b.
    fn sizes(&self) -> anyhow::Result<Sizes> {
        let in_memory = !self.temporary_file && self.file.is_none();
        let memory = Memory::here()?;
        let asked = match (self.memory, self.block_size, self.blocks) {
            (None, Some(size), Some(blocks)) => Some(Asked::Bytes(size.saturating_mul(blocks))),
            (asked, ..) => asked,
        };
        let bytes = memory.bytes(asked, in_memory)?;
        let block = match (self.block_size, self.blocks) {
            (None, Some(blocks)) => Some(bytes as u64 / blocks),
            (size, _) => size,
        };
        if let (Some(Asked::Bytes(bytes)), Some(size), Some(blocks)) =
            (self.memory, self.block_size, self.blocks)
            && size.checked_mul(blocks) != Some(bytes)
        {
            return Err(Usage(format!(
                "-m {bytes} is not {blocks} blocks (-b) of {size} bytes (-s): leave one of them out"
            ))
            .into());
        }
        if let (Some(0), Some(blocks)) = (block, self.blocks) {
            return Err(Usage(format!(
                "a buffer of {} has fewer bytes than the {blocks} blocks of -b",
                size::format(bytes as u64)
            ))
            .into());
        }
        if let Some(size) = block
            && bytes as u64 / size.max(1) < 5
        {
            return Err(Usage(format!(
                "a buffer of {} holds fewer than five blocks of {}",
                size::format(bytes as u64),
                size::format(size)
            ))
            .into());
        }
        let least = 2 * fullbore_linux::page_size();
        if bytes < least {
            return Err(Usage(format!(
                "a buffer of {bytes} bytes is too small: it needs at least {least}"
            ))
            .into());
        }
        Ok(Sizes {
            memory: bytes,
            block: block.and_then(|block| usize::try_from(block).ok()),
        })
    }

    fn check_thresholds(&self) -> Result<(), Usage> {
        match (self.start_writing, self.start_reading) {
            (Some(start), Some(resume)) if resume >= start => Err(Usage(format!(
                "-p {resume} has to be below -P {start}: reading would stop and go on all the time"
            ))),
            _ => Ok(()),
        }
    }

    /// Creates the file that holds the bytes, if one was asked for. It has no name any more.
    fn buffer_file(&self, sizes: &Sizes) -> anyhow::Result<Option<OwnedFd>> {
        let place = self.place();
        let created = match &self.file {
            None if !self.temporary_file => return Ok(None),
            None => tempfile::tempfile_in(&place),
            Some(path) => {
                let mut options = File::options();
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let created = options.read(true).write(true).create_new(true).open(path);
                created.and_then(|file| std::fs::remove_file(path).map(|()| file))
            }
        };
        let file: OwnedFd = match created {
            Ok(file) => file.into(),
            Err(error) => {
                return Err(anyhow!(
                    "create the buffer's file {}: {}",
                    shown(&place),
                    error_text(&error)
                ));
            }
        };
        // The library does this too. Here, a full disk is found before an output is opened.
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&file, flags, 0, sizes.memory as u64) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Some(file)),
            Err(errno) => Err(anyhow!(
                "the buffer's file {} needs {}: {}",
                shown(&place),
                size::format(sizes.memory as u64),
                error_text(&errno.into())
            )),
        }
    }

    /// Returns the file that holds the bytes, or the directory that it is in.
    fn place(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| {
            let directory = std::env::var_os("TMPDIR").filter(|name| !name.is_empty());
            directory.map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
        })
    }

    /// Opens the outputs. As with mbuffer, those that cannot be opened do not stop the others.
    fn open(&self, input: &Input, messages: &Messages) -> anyhow::Result<(Vec<Output>, bool)> {
        let existing = match self.force {
            true => Existing::Replace,
            false => Existing::Refuse,
        };
        let all = self.outputs.all(existing, self.sync, self.atomic)?;
        let inputs = std::slice::from_ref(input);
        for output in &all {
            output.refuse(inputs)?;
        }
        let (mut opened, mut last) = (Vec::new(), None);
        for mut output in all {
            match output.open(inputs) {
                Ok(()) => opened.push(output),
                Err(error) if error.is::<Usage>() || self.stop_on_error => return Err(error),
                Err(error) => {
                    if let Some(before) = last.replace(error) {
                        messages.error(&before);
                    }
                }
            }
        }
        match last {
            None => Ok((opened, true)),
            Some(error) if opened.is_empty() => Err(error),
            Some(error) => {
                messages.error(&error);
                Ok((opened, false))
            }
        }
    }

    /// The reader of stdout may close it early, as that of every pipe; other outputs that fail are reported.
    fn policy_of(&self, output: &Output) -> Policy {
        let other = match self.stop_on_error {
            true => OnError::FailAll,
            false => OnError::Drop,
        };
        match output {
            Output::Stdout(_) => Policy {
                closed: OnError::Ignore,
                other,
            },
            _ => Policy {
                closed: other,
                other,
            },
        }
    }

    /// Adds the names of input and output to an error of the library.
    fn named(&self, error: Error, input: &Input, output: &Output, has_file: bool) -> anyhow::Error {
        if has_file && is_fault(&error) {
            return self.bad_file();
        }
        match error {
            Error::Invalid(text) => Usage(text).into(),
            error => match Broken::new(&error, input, output) {
                Some(broken) => broken.into(),
                None => error.into(),
            },
        }
    }

    fn bad_file(&self) -> anyhow::Error {
        anyhow!(
            "the buffer's file {} cannot be read or written: its disk is full or has failed, or it \
             was shortened",
            shown(&self.place())
        )
    }

    fn say_at_the_end(
        &self,
        report: &BufferReport,
        destinations: Vec<Destination>,
        show: &Show,
        messages: &Messages,
    ) -> anyhow::Result<()> {
        let level: &Level = &report.level;
        if self.json.is_some() {
            let summary = summary::summary(level, destinations, show.history().samples());
            json::write(&self.json, &summary)?;
        }
        let is_shown = match self.log {
            Some(_) => !self.quiet_log,
            None => !self.quiet,
        };
        if is_shown {
            messages.sentences(&summary::line(level));
        }
        if is_shown || self.report {
            for line in summary::report(level) {
                messages.sentences(&line);
            }
        }
        Ok(())
    }
}

impl Messages {
    fn new(log: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = log else {
            return Ok(Self(None));
        };
        let opened = descriptor(path, OFlags::WRONLY).unwrap_or_else(|| File::create(path));
        let file = opened
            .map_err(|error| anyhow!("open the log {}: {}", shown(path), error_text(&error)))?;
        Ok(Self(Some(Mutex::new(file))))
    }

    fn error(&self, error: &anyhow::Error) {
        self.text(&format!("{error:#}"));
    }

    /// Writes about an error, on stderr if the log does not take it.
    fn text(&self, text: &str) {
        let line = format!("fullbore buffer: {}", clean(text));
        if self.try_line(&line).is_err() {
            let _ = writeln!(stderr(), "{line}");
        }
    }

    /// Writes a text, on a terminal in lines that are broken between words.
    fn sentences(&self, text: &str) {
        match Screen::new(false).filter(|_| self.0.is_none()) {
            Some(screen) => screen.wrapped(text).iter().for_each(|line| self.line(line)),
            None => self.line(text),
        }
    }

    /// Writes a line. An error is ignored: the bytes that are moved do not depend on it.
    fn line(&self, line: &str) {
        let _ = self.try_line(line);
    }

    fn try_line(&self, line: &str) -> io::Result<()> {
        let Some(log) = &self.0 else {
            return writeln!(stderr(), "{line}");
        };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(log, "{line}")?;
        // Each close(2) reports the errors of the file, that of a duplicate too.
        fullbore::close(log.try_clone()?).map_err(Into::into)
    }
}

/// Returns whether the memory itself could not be reached, which only a file can cause.
fn is_fault(error: &Error) -> bool {
    matches!(error, Error::Moving { side: TransferSide::Source | TransferSide::Sink, errno, .. }
        if Errno::from_io_error(errno) == Some(Errno::FAULT))
}

fn shown(path: &Path) -> String {
    format!("'{}'", clean(&path.to_string_lossy()))
}

fn positive(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err("0 bytes: nothing would ever pass".to_owned()),
        size => Ok(size),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!(
            "invalid percentage '{text}': expected a number from 0 to 100"
        )),
    }
}

fn start_percent(text: &str) -> Result<f64, String> {
    match percent(text)? {
        0.0 => Err("0% is the default: leave -P out to write at once".to_owned()),
        percent => Ok(percent),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    fullbore_host::seconds::parse(text, 0.1..=31_536_000.0).map(Duration::from_secs_f64)
}
