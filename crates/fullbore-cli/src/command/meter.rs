//! `fullbore meter`: what pv is for.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::ExitCode;

use super::output::refuse_shared;
use crate::completion::{pids, pids_and_names};
use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap_complete::ArgValueCandidates;
use fullbore_host::number;
use rustix::fs::SeekFrom;
use rustix::io::FdFlags;

use crate::copying::{self, Existing, Input, Output, join};
use crate::exit;
use crate::meter::manner::{self, Manner};
use crate::meter::remote::{Request, ask, query};
use crate::meter::{
    self, Display, LineOptions, Passing, PidFile, Target, TransferOptions, Watches, lines_of_all,
};
use fullbore_host::refusal::Usage;

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

Sequences of a FORMAT: %p %{progress} %{progress-amount-only} %{progress-bar-only} %{bar-plain} \
%{bar-block} %{bar-granular} %{bar-shaded} %{progress-conemu} %T %{buffer-percent} %t %{timer} %e %{eta} %I %{fineta} %r %{rate} %a %{average-rate} \
%b %{bytes} %nA %{last-written} %nL %{previous-line} %N %{name} %{sgr:COLOUR,...} %% as pv has \
them, and %{slow}: which side is slow.

Exit codes: 0 done, even if the reader of the output closed it early; 1 a file could not be read \
or written (also if --skip-errors went on), or a process could not be watched or told; 2 the \
command line is invalid, or an input is also the output.")]
pub struct Meter {
    /// Files to copy, in order; '-' means stdin [default: stdin]
    #[arg(value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    files: Vec<PathBuf>,

    #[command(flatten)]
    transfer: TransferOptions,

    #[command(flatten)]
    line: LineOptions,

    #[command(flatten)]
    others: OtherProcesses,

    /// As whom it speaks.
    #[arg(skip)]
    manner: Manner,
}

/// Which other processes a meter is about.
#[derive(Args)]
#[command(next_help_heading = "Other processes")]
struct OtherProcesses {
    /// Copy nothing. With PID, show the position of that process in each regular file that it has open;
    /// with PID:FD, show the position in that file, or how full that pipe is; with NAME, those of all processes
    /// with this name. May be given more than once. End when all are closed
    #[arg(short = 'd', long, value_name = "PID[:FD]|NAME")]
    #[arg(visible_alias = "watchfd", add = ArgValueCandidates::new(pids_and_names))]
    #[arg(conflicts_with_all = TRANSFER.split(' '), conflicts_with_all = ["cursor", "rate_limit"])]
    watch: Vec<Target>,

    /// Copy nothing. Change the running meter with this PID: its rate limit, size, name, interval,
    /// width, height, or what its line shows
    #[arg(short = 'R', long, value_name = "PID", value_parser = number::pid, add = ArgValueCandidates::new(pids))]
    #[arg(conflicts_with_all = TRANSFER.split(' '), conflicts_with_all = ["watch", "cursor", "force", "wait", "delay_start", "pidfile"])]
    remote: Option<u32>,

    /// Copy nothing. Show how far the running meter with this PID is
    #[arg(short = 'Q', long, value_name = "PID", value_parser = number::pid, add = ArgValueCandidates::new(pids))]
    #[arg(conflicts_with_all = TRANSFER.split(' '), conflicts_with_all = ["watch", "remote", "rate_limit", "pidfile"])]
    query: Option<u32>,

    /// Write the PID of this process to FILE, and remove the file at the end
    #[arg(short = 'P', long, value_name = "FILE")]
    pidfile: Option<PathBuf>,
}

/// The options that say what is copied, and how.
const TRANSFER: &str = "direct_io store_and_forward files output atomic at_least sync discard by_reference buffer_size \
     pipe_buffer_size no_splice skip_errors error_skip_block stop_at_size line_mode null quiet";

impl Meter {
    pub fn speaking_as_pv(mut self) -> Self {
        self.manner = Manner::Pv;
        self.line.wanders = true;
        self
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.others.watch.is_empty() {
            self.watch()
        } else if let Some(pid) = self.others.remote {
            let changes = self.line.changes(self.transfer.rate_limit);
            ask(pid, &Request::Change(changes))?;
            Ok(ExitCode::SUCCESS)
        } else if let Some(pid) = self.others.query {
            query(pid, &self.line, self.display())?;
            Ok(ExitCode::SUCCESS)
        } else {
            self.pass()
        }
    }

    fn watch(&self) -> anyhow::Result<ExitCode> {
        let are_fds = self.others.watch.iter().all(Target::is_one_fd);
        if !are_fds && (self.line.numeric || self.line.size.is_some()) {
            let option = if self.line.numeric {
                "--numeric"
            } else {
                "--size"
            };
            bail!(Usage(format!(
                "{option} needs one file descriptor: --watch PID:FD"
            )));
        }
        let _pid_file = self.others.pidfile.clone().map(PidFile::new).transpose()?;
        Watches::new(&self.others.watch, self.line.clone(), self.manner.is_pv())?.run();
        Ok(ExitCode::SUCCESS)
    }

    fn pass(&self) -> anyhow::Result<ExitCode> {
        if self.transfer.by_reference && self.line.look().looks_at().is_some() {
            let text = "--by-reference cannot be used with a --format that shows the last bytes";
            bail!(Usage(text.into()));
        }
        let inputs = Input::all(&self.files);
        let is_atomic = self.transfer.atomic || self.transfer.at_least.is_given();
        let output = match &self.transfer.output {
            Some(path) => Output::of(path, Existing::Replace, is_atomic)?,
            None if self.transfer.discard => Output::named("/dev/null".into(), Existing::Replace),
            None => Output::Stdout,
        };
        if self.transfer.output.is_some() {
            // No output is truncated for an input that is not there.
            inputs[0].check()?;
        }
        output.refuse(&inputs)?;
        if let Some(file) = &self.others.pidfile {
            let data = self.files.iter().chain(&self.transfer.output);
            refuse_shared(
                "--pidfile",
                file,
                &data.map(PathBuf::as_path).collect::<Vec<_>>(),
            )?;
        }
        // It starts a process, which has to be before any thread is started.
        let _pid_file = match self.others.pidfile.clone().map(PidFile::new).transpose() {
            Err(error) if self.manner.is_pv() => {
                exit::say(self.manner.who(), &error);
                return Ok(ExitCode::from(manner::NOT_TOLD));
            }
            pid_file => pid_file?,
        };
        let Some(stored) = &self.transfer.store_and_forward else {
            return self.stage(&inputs, output, self.transfer.stop_at_size);
        };
        // Without a name, it is gone with the process, whatever ends that.
        let temporary = (stored.as_os_str() == "-").then(nameless).transpose();
        let temporary = temporary.context("create a temporary file")?;
        let path = match &temporary {
            Some(file) => format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
            None => stored.clone(),
        };
        let store = Output::named(path.clone(), Existing::Replace);
        store.refuse(&inputs)?;
        let code = self.stage(&inputs, store, self.transfer.stop_at_size)?;
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
        let is_plain = copying::is_plain()?;
        output.open(inputs)?;
        let is_unknown = self.line.size.is_none() && !self.line.counts_lines();
        let fills = copying::block_size(&output).filter(|_| is_unknown);
        let known = self.known_size(inputs);
        let stop = self.line.size.filter(|_| stops);
        let meter = self.meter(known.or(fills), &output);
        let mut passing = Passing::new(&meter, &self.transfer, stop, is_plain);
        passing.lines_end_with = self.line.lines_end_with();
        // As with pv, it has no effect where nothing is stored.
        if self.transfer.sync && copying::is_stored(&output) {
            passing.write_back.begin(&output)?;
        }
        let (bits, failed) = (Cell::new(0), Cell::new(0));
        let say = |error: &anyhow::Error| {
            bits.set(bits.get() | Manner::bit(error));
            failed.set(failed.get() + 1);
            meter.say(self.manner.line(error));
        };
        let pass = |input: &Input, output: &mut Output| passing.pass(input, output);
        let passed = join(inputs, &mut output, say, pass);
        // As with pv, no input at all is also an output that could not be closed.
        if failed.get() == inputs.len() && bits.get() == Manner::NOT_ACCESSED {
            bits.set(Manner::NO_INPUT);
        }
        let skipped = passing.has_skipped;
        let passed = passed.and_then(|code| {
            if code == ExitCode::SUCCESS && !skipped {
                self.transfer.at_least.check(passing.bytes)?;
            }
            Ok(code)
        });
        let is_complete = matches!(passed, Ok(ExitCode::SUCCESS)) && !skipped;
        let unreported = passing.write_back.unreported;
        let closed = output.close(is_complete, self.transfer.sync);
        if closed.is_ok() {
            meter.add(unreported);
        }
        let passed = passed.and_then(|code| closed.map(|()| code));
        let passed = match passed {
            // Below the last line, another meter would draw over it.
            Err(error) if self.line.cursor || self.manner.is_pv() => {
                let code = exit::code(&error);
                if code.is_some() {
                    say(&error);
                }
                Ok(code.unwrap_or(ExitCode::SUCCESS))
            }
            passed => passed,
        };
        // Shows the final line, and which side was slow.
        drop(meter);
        let code = passed?;
        Ok(match skipped {
            _ if self.manner.is_pv() => ExitCode::from(bits.get()),
            true => ExitCode::FAILURE,
            false => code,
        })
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
        let limit = self.transfer.rate_limit.unwrap_or(0);
        let sink = output.as_fd().try_clone_to_owned().ok();
        let is_drawn = !self.line.numeric && !self.line.quiet;
        let display = is_drawn.then(|| self.display()).flatten();
        let mut options = self.line.clone();
        options.size = total;
        meter::Meter::new(options, limit, display, sink, self.manner)
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
