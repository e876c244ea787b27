//! `fullbore meter`: what pv is for.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::completion::{pids, pids_and_names};
use anyhow::Context;
use clap::Args;
use clap_complete::ArgValueCandidates;
use fullbore_host::number;
use rustix::fs::SeekFrom;
use rustix::io::FdFlags;
use rustix::process::Pid;

use crate::exit;
use crate::meter::manner::{self, Manner};
use crate::meter::remote::{Request, ask};
use crate::meter::{
    self, Display, How, LineOptions, Passing, PidFile, Target, Watches, lines_of_all,
};
use crate::moving::{self, Existing, Input, Output, join};
use fullbore_host::refusal::Usage;
use fullbore_host::size;

/// Copy files, or stdin, to stdout, and show progress, rate and which side is slow
///
/// A line on stderr shows the number of bytes, the current and the average rate, and, if the size
/// is known, the percentage and the remaining time. At the end, a second line says which side of
/// the pipeline made the other wait; it follows from how often the pipe before was empty and the
/// pipe after was full. As with 'fullbore copy', the reader gets the bytes as they were when they
/// passed.
///
/// The options are those of pv. With -p, -t, -e, -I, -r, -a, -b, -A or -F the line is pv's as well.
#[derive(Args)]
#[command(version = env!("FULLBORE_VERSION"))]
#[command(after_help = "\
Examples:
  tar c src | fullbore meter | gzip > src.tgz
  fullbore meter access.log | grep -c ' 404 '
  fullbore meter -pterb --rate-limit 10M disk.img > copy.img
  zcat access.log.gz | fullbore meter --line-mode | sort > sorted.log
  fullbore meter --numeric --interval 0.2 access.log 2> percent.txt | wc -l
  fullbore meter -cN in access.log | gzip | fullbore meter -cN out > access.log.gz
  fullbore meter -F '%b %{slow} %p' disk.img | gzip > disk.img.gz
  fullbore meter --watch gzip
  fullbore meter --pipeline $(pgrep -n gzip)

Sequences of a FORMAT: %p %{progress} %{progress-amount-only} %{progress-bar-only} %{bar-plain} \
%{bar-block} %{bar-granular} %{bar-shaded} %{progress-conemu} %T %{buffer-percent} %t %{timer} %e %{eta} %I %{fineta} %r %{rate} %a %{average-rate} \
%b %{bytes} %nA %{last-written} %nL %{previous-line} %N %{name} %{sgr:COLOUR,...} %% as pv has \
them, and %{slow}: which side is slow.

Exit codes: 0 done, even if the reader of the output closed it early; 1 a file could not be read \
or written (also if --skip-errors went on), or a process could not be watched or told; 2 the \
command line is invalid, or an input is also the output.")]
pub struct Meter {
    /// Files to copy, in order; '-' means stdin [default: stdin]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE", help_heading = "Transfer")]
    output: Option<PathBuf>,

    /// Replace the output file at once when it is complete; until then, and after any failure, it is as it was. An
    /// input may be the output
    #[arg(long, help_heading = "Transfer", requires = "output")]
    atomic: bool,

    /// Wait until the bytes are on the disk, if the output is a file or a block device: the line shows what is, and
    /// at the end the file and its directory are synced
    #[arg(short = 'Y', long, help_heading = "Transfer")]
    sync: bool,

    /// Write nothing: only read
    #[arg(
        short = 'X',
        long,
        help_heading = "Transfer",
        conflicts_with = "output"
    )]
    discard: bool,

    /// Pass references to pages instead of copying, where possible (correct only if the source does
    /// not change)
    #[arg(long, help_heading = "Transfer", conflicts_with_all = READING)]
    by_reference: bool,

    /// Limit the rate to SIZE bytes per second; 0 is no limit
    #[arg(short = 'L', long, value_name = "SIZE", value_parser = size::parse, help_heading = "Transfer")]
    rate_limit: Option<u64>,

    /// Move at most SIZE bytes with one system call, and do not splice
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = positive, help_heading = "Transfer")]
    buffer_size: Option<usize>,

    /// Let the pipe behind hold SIZE bytes, as far as this user may, instead of 1 MiB; it is never shrunk
    #[arg(short = 'J', long, value_name = "SIZE", value_parser = size::parse_in_memory, help_heading = "Transfer")]
    pipe_buffer_size: Option<usize>,

    /// Read and write instead of splicing
    #[arg(short = 'C', long, help_heading = "Transfer")]
    no_splice: bool,

    /// Skip bytes that cannot be read, and write zeros in their place; given twice, report it only
    /// once per file
    #[arg(short = 'E', long, action = clap::ArgAction::Count, help_heading = "Transfer")]
    skip_errors: u8,

    /// With --skip-errors, skip SIZE bytes at a time
    #[arg(short = 'Z', long, value_name = "SIZE", value_parser = positive, requires = "skip_errors", help_heading = "Transfer")]
    error_skip_block: Option<usize>,

    /// Read files past the page cache (O_DIRECT), where the file system can do that
    #[arg(short = 'K', long, help_heading = "Transfer")]
    direct_io: bool,

    /// Accepted as in pv, without effect
    #[arg(short = 'O', long, alias = "sparse-output", hide = true)]
    sparse: bool,

    /// Store all input in FILE first, and write the output from there, when its size is known; '-' is a temporary file
    #[arg(
        short = 'U',
        long,
        value_name = "FILE",
        help_heading = "Transfer",
        conflicts_with = "atomic"
    )]
    store_and_forward: Option<PathBuf>,

    /// Stop after the number of bytes, or of lines, of --size
    #[arg(short = 'S', long, requires = "size", help_heading = "Transfer")]
    stop_at_size: bool,

    #[command(flatten)]
    line: LineOptions,

    /// Copy nothing. With PID, show the position of that process in each regular file that it has open;
    /// with PID:FD, show the position in that file, or how full that pipe is; with NAME, those of all processes
    /// with this name. May be given more than once. End when all are closed
    #[arg(
        short = 'd',
        long,
        visible_alias = "watchfd",
        value_name = "PID[:FD]|NAME"
    )]
    #[arg(help_heading = "Other processes", conflicts_with_all = TRANSFER, conflicts_with_all = ["cursor", "rate_limit"])]
    #[arg(add = ArgValueCandidates::new(pids_and_names))]
    watch: Vec<Target>,

    /// Copy nothing. Show how far the pipeline that contains this process is in the file that its first
    /// stage reads, and which stage is slow. End when the process ends
    #[arg(long, value_name = "PID", value_parser = number::pid, add = ArgValueCandidates::new(pids))]
    #[arg(help_heading = "Other processes", conflicts_with_all = TRANSFER)]
    #[arg(conflicts_with_all = LINE, conflicts_with_all = ["watch", "remote", "query", "rate_limit", "pidfile"])]
    pipeline: Option<u32>,

    /// Copy nothing. Change the running meter with this PID: its rate limit, size, name, interval,
    /// width, height, or what its line shows
    #[arg(short = 'R', long, value_name = "PID", value_parser = pid, add = ArgValueCandidates::new(pids), help_heading = "Other processes")]
    #[arg(conflicts_with_all = TRANSFER, conflicts_with_all = ["watch", "cursor", "force", "wait", "delay_start", "pidfile"])]
    remote: Option<Pid>,

    /// Copy nothing. Show how far the running meter with this PID is
    #[arg(short = 'Q', long, value_name = "PID", value_parser = pid, add = ArgValueCandidates::new(pids), help_heading = "Other processes")]
    #[arg(conflicts_with_all = TRANSFER, conflicts_with_all = ["watch", "remote", "rate_limit", "pidfile"])]
    query: Option<Pid>,

    /// Write the PID of this process to FILE, and remove the file at the end
    #[arg(
        short = 'P',
        long,
        value_name = "FILE",
        help_heading = "Other processes"
    )]
    pidfile: Option<PathBuf>,

    /// As whom it speaks.
    #[arg(skip)]
    manner: Manner,
}

/// The options with which bytes are read and written, not spliced.
const READING: [&str; 7] = [
    "direct_io",
    "line_mode",
    "null",
    "no_splice",
    "buffer_size",
    "skip_errors",
    "last_written",
];

/// The options of the line, without the interval and `--force`.
const LINE: [&str; 26] = [
    "progress",
    "timer",
    "eta",
    "fineta",
    "rate",
    "average_rate",
    "bytes",
    "buffer_percent",
    "last_written",
    "bits",
    "si",
    "format",
    "size",
    "gauge",
    "bar_style",
    "average_rate_window",
    "stats",
    "extra_display",
    "conemu",
    "name",
    "cursor",
    "wait",
    "delay_start",
    "width",
    "height",
    "numeric",
];

/// The options that say what is copied, and how.
const TRANSFER: [&str; 17] = [
    "direct_io",
    "store_and_forward",
    "files",
    "output",
    "atomic",
    "sync",
    "discard",
    "by_reference",
    "buffer_size",
    "pipe_buffer_size",
    "no_splice",
    "skip_errors",
    "error_skip_block",
    "stop_at_size",
    "line_mode",
    "null",
    "quiet",
];

impl Meter {
    pub fn speaking_as_pv(mut self) -> Self {
        self.manner = Manner::Pv;
        self.line.wanders = true;
        self
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.watch.is_empty() {
            self.watch()
        } else if let Some(pid) = self.pipeline {
            meter::follow(pid, self.line.options(None).interval, self.line.force)?;
            Ok(ExitCode::SUCCESS)
        } else if let Some(pid) = self.remote {
            ask(pid, &Request::Change(self.line.changes(self.rate_limit)))?;
            Ok(ExitCode::SUCCESS)
        } else if let Some(pid) = self.query {
            let display = self.display();
            meter::query(pid, self.line.options(self.line.size), display)?;
            Ok(ExitCode::SUCCESS)
        } else {
            self.pass()
        }
    }

    fn watch(&self) -> anyhow::Result<ExitCode> {
        let are_fds = self.watch.iter().all(Target::is_one_fd);
        if !are_fds && (self.line.numeric || self.line.size.is_some()) {
            let option = if self.line.numeric {
                "--numeric"
            } else {
                "--size"
            };
            return Err(Usage(format!(
                "{option} needs one file descriptor: --watch PID:FD"
            ))
            .into());
        }
        let _pid_file = self.pidfile.clone().map(PidFile::new).transpose()?;
        let options = self.line.options(self.line.size);
        let watch = Watches::new(&self.watch, options, self.manner.is_pv())?;
        if self.line.numeric {
            watch.numbers();
        } else {
            watch.lines(self.line.force);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn pass(&self) -> anyhow::Result<ExitCode> {
        if self.by_reference && self.line.options(None).look.looks_at().is_some() {
            let text = "--by-reference cannot be used with a --format that shows the last bytes";
            return Err(Usage(text.into()).into());
        }
        let inputs = Input::all(&self.files);
        let output = match &self.output {
            Some(path) if self.atomic => Output::replacing(path, Existing::Replace)?,
            Some(path) => Output::named(path.clone(), Existing::Replace),
            None if self.discard => Output::named("/dev/null".into(), Existing::Replace),
            None => Output::stdout(),
        };
        if self.output.is_some() {
            // No output is truncated for an input that is not there.
            inputs[0].check()?;
        }
        output.refuse(&inputs)?;
        // It starts a process, which has to be before any thread is started.
        let _pid_file = match self.pidfile.clone().map(PidFile::new).transpose() {
            Err(error) if self.manner.is_pv() => {
                exit::say(self.manner.who(), &error);
                return Ok(ExitCode::from(manner::NOT_TOLD));
            }
            pid_file => pid_file?,
        };
        let Some(stored) = &self.store_and_forward else {
            return self.stage(&inputs, output, self.stop_at_size);
        };
        // Without a name, it is gone with the process, whatever ends that.
        let temporary = match stored.as_os_str() == "-" {
            true => Some(nameless().context("create a temporary file")?),
            false => None,
        };
        let path = match &temporary {
            Some(file) => format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
            None => stored.clone(),
        };
        let store = Output::named(path.clone(), Existing::Replace);
        store.refuse(&inputs)?;
        let code = self.stage(&inputs, store, self.stop_at_size)?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
        if let Some(file) = &temporary {
            rustix::fs::seek(file, SeekFrom::Start(0)).context("rewind the temporary file")?;
        }
        self.stage(&[Input::File(path)], output, false)
    }

    /// Passes the inputs on to one output; no more than the expected size, if it `stops` there.
    fn stage(&self, inputs: &[Input], mut output: Output, stops: bool) -> anyhow::Result<ExitCode> {
        let is_plain = moving::is_plain()?;
        output.open(inputs)?;
        let fills = moving::block_size(&output)
            .filter(|_| self.line.size.is_none() && !self.line.counts_lines());
        let known = self.known_size(inputs);
        let stop = match stops {
            true => self.line.size,
            false => fills.filter(|_| known.is_none()),
        };
        let mut meter = self.meter(known.or(fills), &output);
        meter.listen();
        let mut passing = Passing::new(&meter, self.how(stop, is_plain));
        // As with pv, it has no effect where nothing is stored.
        if self.sync && moving::is_stored(&output) {
            passing.write_back.begin(&output)?;
        }
        let bits = Cell::new(0);
        let passed = join(
            inputs,
            &mut output,
            |error| {
                bits.set(bits.get() | Manner::bit(error));
                meter.say(self.manner.line(error));
            },
            |input, output| passing.pass(input, output),
        );
        let skipped = passing.has_skipped;
        let is_complete = matches!(passed, Ok(ExitCode::SUCCESS)) && !skipped;
        let unreported = passing.write_back.unreported;
        let closed = output.close(is_complete, self.sync);
        if closed.is_ok() {
            meter.add(unreported);
        }
        let passed = passed.and_then(|code| closed.map(|()| code));
        let passed = match passed {
            // Below the last line, another meter would draw over it.
            Err(error) if self.line.cursor || self.manner.is_pv() => {
                let code = exit::code(&error);
                if code.is_some() {
                    bits.set(bits.get() | Manner::bit(&error));
                    meter.say(self.manner.line(&error));
                }
                Ok(code.unwrap_or(ExitCode::SUCCESS))
            }
            passed => passed,
        };
        meter.finish();
        let code = passed?;
        Ok(match skipped {
            _ if self.manner.is_pv() => ExitCode::from(bits.get()),
            true => ExitCode::FAILURE,
            false => code,
        })
    }

    fn how(&self, stop: Option<u64>, is_plain: bool) -> How {
        How {
            guarantee: moving::guarantee(self.by_reference),
            is_plain,
            by_splice: !self.no_splice,
            most: self.buffer_size,
            pipe_size: self.pipe_buffer_size,
            stop,
            lines_end_with: self.line.lines_end_with(),
            skip_errors: self.skip_errors > 0,
            skip: self.error_skip_block.map(|bytes| bytes as u64),
            say_each: self.skip_errors < 2,
            is_direct: self.direct_io,
        }
    }

    /// Returns how much will pass, if that is known.
    fn known_size(&self, inputs: &[Input]) -> Option<u64> {
        // Lines are not counted in advance, because files would be read twice; pv does so.
        let bytes = || match self.line.lines_end_with() {
            Some(end) if self.manner.is_pv() => lines_of_all(inputs, end),
            Some(_) => None,
            None => Input::size_of_all(inputs),
        };
        self.line.size.or_else(bytes)
    }

    fn meter(&self, total: Option<u64>, output: &Output) -> meter::Meter {
        let limit = self.rate_limit.unwrap_or(0);
        if self.line.quiet && !self.line.stats {
            return meter::Meter::quiet(self.line.options(total), limit, self.manner);
        }
        let sink = output.as_fd().try_clone_to_owned().ok();
        let display = match self.line.numeric {
            true => None,
            false => self.display().filter(|_| !self.line.quiet),
        };
        meter::Meter::new(self.line.options(total), limit, display, sink, self.manner)
    }

    fn display(&self) -> Option<Display> {
        Display::new(self.line.force, self.line.cursor, self.manner.is_pv())
    }
}

/// Creates a file that a path in /proc/self/fd names.
fn nameless() -> anyhow::Result<File> {
    let file = tempfile::tempfile()?;
    // Only descriptors without FD_CLOEXEC, which are inherited, can be named.
    rustix::io::fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

fn positive(text: &str) -> Result<usize, String> {
    match size::parse_in_memory(text)? {
        0 => Err("invalid size 0: expected at least one byte".to_owned()),
        size => Ok(size),
    }
}

fn pid(text: &str) -> Result<Pid, String> {
    let pid = number::pid(text)?;
    Ok(Pid::from_raw(pid as i32).expect("it is not 0"))
}
