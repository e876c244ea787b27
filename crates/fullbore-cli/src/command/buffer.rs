//! `fullbore buffer`: what mbuffer is for.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use fullbore::buffer::{BufferFailure, BufferReport, Level};
use fullbore::tee::{OnError, Policy, SinkReport};
use fullbore::{Cancel, EndReason, Error};
use fullbore_host::number::within;

use super::json;
use crate::buffer::file::Holding;
use crate::buffer::hashing::Hashing;
use crate::buffer::manner::{self, Manner};
use crate::buffer::memory::Asked;
use crate::buffer::messages::Messages;
use crate::buffer::network;
use crate::buffer::opening::{Opening, device_block, lock_memory};
use crate::buffer::outputs::Outputs;
use crate::buffer::refused::RefusedOptions;
use crate::buffer::show::{Idle, Show, TICK};
use crate::buffer::sizes::{AskedSizes, Sizes};
use crate::buffer::summary;
use crate::buffer::values::{percent, positive, seconds, start_percent};
use crate::exit;
use crate::moving::failure::Broken;
use crate::moving::hash::Algorithm;
use crate::moving::{self, Existing, Input, Output, WriteBack};
use crate::terminal::lines::say;
use fullbore_host::refusal::Usage;
use fullbore_host::size;
use fullbore_host::text::error_text;
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

    /// Start to write output files to their disks at once, and end when their bytes and names are there
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

    /// As in mbuffer: 0 is no message, 1 errors, 2 warnings too
    #[arg(short, value_name = "0-6", hide = true, value_parser = within::<u8>(0..=6))]
    verbose: Option<u8>,

    /// Accepted as in mbuffer: files are never written with O_DIRECT
    #[arg(long, hide = true)]
    no_direct: bool,

    /// Accepted as in mbuffer: the file of -t is written through the page cache
    #[arg(long, hide = true)]
    direct: bool,

    /// Size of the buffers of TCP connections
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    tcpbuffer: Option<usize>,

    /// A connection fails if it delivers, or its peer accepts, nothing for this time: microseconds, or a number with us,
    /// ms, s, m or h
    #[arg(long, value_name = "NUMBER", value_parser = network::timeout)]
    tcptimeo: Option<Duration>,

    /// Print the MD5 digest of what passes
    #[arg(short = 'H', long)]
    md5: bool,

    /// Print the digest of what passes
    #[arg(long, value_name = "ALGORITHM", ignore_case = true)]
    hash: Option<Algorithm>,

    /// Keep the memory from being swapped out (mlockall(2))
    #[arg(short = 'L')]
    lock: bool,

    /// Write to a device in blocks of its block size
    #[arg(short = 'd')]
    device_block: bool,

    /// As whom it speaks.
    #[arg(skip)]
    manner: Manner,

    #[command(flatten)]
    refused: RefusedOptions,
}

impl Buffer {
    pub fn speaking_as_mbuffer(mut self) -> Self {
        self.manner = Manner::Mbuffer;
        self
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.refused.check()?;
        json::file(&self.json, "the bytes")?;
        let asked = AskedSizes {
            memory: self.memory,
            block: self.block_size,
            blocks: self.blocks,
        };
        let holding = Holding::new(self.temporary_file, self.file.clone());
        let sizes = asked.sizes(holding.is_memory())?;
        self.check_thresholds()?;
        let level = self.verbose.unwrap_or(2);
        let messages = Messages::new(self.log.as_deref(), self.manner, level)?;
        match self.pass(&sizes, &holding, &messages) {
            Err(error) if messages.has_log() => {
                let Some(code) = exit::code(&error) else {
                    return Ok(ExitCode::SUCCESS);
                };
                messages.error(&error);
                Ok(code)
            }
            Ok(_) if messages.has_failed() => Ok(ExitCode::FAILURE),
            outcome => outcome,
        }
    }

    fn pass(
        &self,
        sizes: &Sizes,
        holding: &Holding,
        messages: &Messages,
    ) -> anyhow::Result<ExitCode> {
        if self.pid {
            messages.line(&format!("PID is {}", std::process::id()));
        }
        let is_plain = moving::is_plain()?;
        let file = holding.create(sizes.memory)?;
        let opening = self.opening(messages);
        let (input, source) = &opening.input()?;
        let (outputs, mut connections, mut all_well) = opening.outputs(input)?;
        let hashing = self.hashing().map(Hashing::start).transpose()?;
        let mut buffer = fullbore::Buffer::new(source.as_fd())
            .plain(is_plain)
            .memory(sizes.memory)
            .start_at(self.start_writing.unwrap_or(0.0))
            .resume_at(self.start_reading.unwrap_or(100.0))
            .read_rate(self.read_rate)
            .write_rate(self.write_rate)
            .pause_after_write(Duration::from_micros(self.pause));
        let device = outputs
            .iter()
            .find_map(device_block)
            .filter(|_| self.device_block);
        if let Some(block) = device.or(sizes.block) {
            buffer = buffer.chunk(block);
        }
        if let Some(file) = file {
            buffer = buffer.in_file(file);
        }
        for output in &outputs {
            buffer = buffer.sink(output.as_fd(), self.policy_of(output));
        }
        let outputs_are_gone = Cancel::new()?;
        if let Some(hashing) = &hashing {
            let pipe = hashing.pipe.as_fd();
            buffer = buffer
                .sink(pipe, Policy::FAIL_ALL)
                .cancel(&outputs_are_gone);
        }
        let mut show = Show::new(!self.quiet, self.watchdog, self.manner);
        show.about(
            outputs.len(),
            Input::size_of_all(std::slice::from_ref(input)),
        );
        // For an output, the kernel measures this time.
        let listens = self.outputs.listen.is_some();
        let mut idle = Idle::new(self.tcptimeo.filter(|_| listens));
        match fullbore_linux::pipe::of(&source) {
            Ok(Some(pipe)) if !self.keep_input => show.enlarge(pipe),
            _ => {}
        }
        let write_backs = match self.sync {
            true => WriteBack::of_stored(&outputs)?,
            false => Vec::new(),
        };
        let mut is_to_be_locked = self.lock;
        let ran = buffer.run_with(TICK, |level| {
            if std::mem::take(&mut is_to_be_locked) {
                lock_memory(messages);
            }
            write_backs.iter().for_each(WriteBack::hand_over);
            // Only the digest is left, and no output ends by itself before the input.
            if hashing.is_some() && level.sinks_left == 1 && !level.has_ended {
                outputs_are_gone.cancel();
            }
            if let Some(side) = show.tick(level) {
                show.clear();
                messages.error(&anyhow!("watchdog: the {side} has stalled"));
                std::process::exit(1);
            }
            if idle.tick(level) {
                show.clear();
                messages.error(&anyhow!(
                    "the connection of the input has moved nothing for the time of --tcptimeo"
                ));
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
        let is_of_stdout =
            failed_at.is_none_or(|sink| matches!(outputs.get(sink), Some(Output::Stdout(_))));
        let failure = failure.map(|(sink, error)| match outputs.get(sink.unwrap_or(0)) {
            Some(output) => named(error, input, output, holding),
            // The sink after the outputs is the digest.
            None => (holding.fault(&error))
                .unwrap_or_else(|| anyhow::Error::new(error).context("compute the digest")),
        });
        let is_whole = |sink: &SinkReport| failure.is_none() && sink.error.is_none();
        // All of them before one is waited for: its reader may wait for the end of another.
        let mut ended: Vec<Option<io::Result<()>>> = (connections.iter())
            .zip(&report.sinks)
            .map(|(stream, sink)| stream.as_ref().filter(|_| is_whole(sink)).map(network::end))
            .collect();
        let mut destinations = Vec::with_capacity(outputs.len());
        for (i, output) in outputs.into_iter().enumerate() {
            let connection = connections[i].take();
            let sink = report.sinks.get(i);
            let dropped = sink.and_then(|sink| sink.error.as_ref());
            let error = dropped.and_then(|error| Broken::new(error, input, &output));
            let is_ignored = sink.is_some_and(|sink| sink.ignored);
            if let Some(error) = error.as_ref().filter(|_| !is_ignored) {
                match dropped.and_then(|error| holding.fault(error)) {
                    Some(fault) => messages.error(&fault),
                    None => messages.text(&error.to_string()),
                }
                all_well = false;
            }
            let name = output.to_string();
            let has_failed = error.is_some() || failed_at == Some(i);
            let is_complete = failure.is_none() && !has_failed;
            let finished = match (connection, ended.get_mut(i).and_then(Option::take)) {
                (Some(stream), Some(ended)) => ended
                    .and_then(|()| network::wait(&stream))
                    .map_err(|error| anyhow!("write to {name}: {}", error_text(&error))),
                _ => Ok(()),
            };
            let closed = finished.and_then(|()| output.close(is_complete, self.sync));
            match &closed {
                Err(error) if !has_failed => {
                    messages.error(error);
                    all_well = false;
                }
                _ => {}
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
        if let Some(hashing) = hashing {
            let digest = hashing.finish()?;
            let has_failed = failed_at == Some(destinations.len());
            // Where no output was left, it is that of no stream.
            if report.ended != EndReason::Cancelled && !has_failed {
                messages.line(&digest);
            }
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
            Some(error)
                if exit::code(&error).is_none()
                    && !(is_of_stdout && all_well && !self.manner.is_mbuffer()) =>
            {
                if !is_of_stdout || self.manner.is_mbuffer() {
                    messages.error(&error);
                }
                Ok(ExitCode::FAILURE)
            }
            Some(error) => Err(error),
            None => Ok(ExitCode::from(u8::from(!all_well))),
        }
    }

    fn check_thresholds(&self) -> Result<(), Usage> {
        match (self.start_writing, self.start_reading) {
            (Some(start), Some(resume)) if resume >= start => Err(Usage(format!(
                "-p {resume} has to be below -P {start}: reading would stop and go on all the time"
            ))),
            _ => Ok(()),
        }
    }

    fn opening<'a>(&'a self, messages: &'a Messages) -> Opening<'a> {
        Opening {
            input: self.input.as_deref(),
            outputs: &self.outputs,
            existing: match self.force {
                true => Existing::Replace,
                false => Existing::Refuse,
            },
            atomic: self.atomic,
            stop_on_error: self.stop_on_error,
            tcpbuffer: self.tcpbuffer,
            tcptimeo: self.tcptimeo,
            watchdog: self.watchdog,
            messages,
        }
    }

    fn hashing(&self) -> Option<Algorithm> {
        self.hash.or(self.md5.then_some(Algorithm::Md5))
    }

    /// The reader of stdout may close it early, as that of every pipe; other outputs that fail are reported.
    fn policy_of(&self, output: &Output) -> Policy {
        let other = match self.stop_on_error {
            true => OnError::FailAll,
            false => OnError::Drop,
        };
        match output {
            Output::Stdout(_) if !self.manner.is_mbuffer() => Policy {
                closed: OnError::Ignore,
                other,
            },
            _ => Policy {
                closed: other,
                other,
            },
        }
    }

    fn say_at_the_end(
        &self,
        report: &BufferReport,
        destinations: Vec<Destination>,
        show: &Show,
        messages: &Messages,
    ) -> anyhow::Result<()> {
        let level: &Level = &report.level;
        let outputs = destinations
            .iter()
            .filter(|one| one.error.is_none())
            .count();
        if self.json.is_some() {
            let summary = summary::summary(level, destinations, &show.history.samples);
            json::write(&self.json, &summary)?;
        }
        let is_shown = match self.log {
            Some(_) => !self.quiet_log,
            None => !self.quiet,
        };
        if self.manner.is_mbuffer() {
            let line = manner::summary(level, outputs);
            if is_shown {
                messages.line(&line);
            }
            // With a log, the summary is on stderr too.
            if messages.has_log() && !self.quiet {
                say(&format!("{line}\n"));
            }
            return Ok(());
        }
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

/// Adds the names of input and output to an error of the library.
fn named(error: Error, input: &Input, output: &Output, holding: &Holding) -> anyhow::Error {
    if let Some(fault) = holding.fault(&error) {
        return fault;
    }
    match error {
        Error::Invalid(text) => Usage(text).into(),
        error => match Broken::new(&error, input, output) {
            Some(broken) => broken.into(),
            None => error.into(),
        },
    }
}
