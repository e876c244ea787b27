//! `fullbore meter`: what pv is for.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::completion::{pids, pids_and_names};
use clap::Args;
use clap_complete::ArgValueCandidates;
use fullbore_host::number::{self, within};
use rustix::process::Pid;

use crate::exit;
use crate::meter::pv::OptionsOfPv;
use crate::meter::remote::{Request, ask};
use crate::meter::{
    self, Changes, Display, Format, How, Look, Numbers, Options, Passing, PidFile, Scale, Target,
    Unit, Watches,
};
use crate::moving::{self, Existing, Input, Output, join};
use fullbore_host::refusal::Usage;
use fullbore_host::size;
use fullbore_host::text::error_text;

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

Sequences of a FORMAT: %p %{progress} %{progress-amount-only} %{bar-plain} %{bar-block} \
%{bar-granular} %{bar-shaded} %t %{timer} %e %{eta} %I %{fineta} %r %{rate} %a %{average-rate} \
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

    /// Stop after the number of bytes, or of lines, of --size
    #[arg(short = 'S', long, requires = "size", help_heading = "Transfer")]
    stop_at_size: bool,

    /// Show a bar, with the percentage if the size is known
    #[arg(short, long, help_heading = "Line")]
    progress: bool,

    /// Show the elapsed time
    #[arg(short, long, help_heading = "Line")]
    timer: bool,

    /// Show the remaining time, if the size is known
    #[arg(short, long, help_heading = "Line")]
    eta: bool,

    /// Show when it will be done, if the size is known
    #[arg(short = 'I', long, help_heading = "Line")]
    fineta: bool,

    /// Show the current rate
    #[arg(short, long, help_heading = "Line")]
    rate: bool,

    /// Show the average rate
    #[arg(short, long, help_heading = "Line")]
    average_rate: bool,

    /// Show the number of bytes, or of lines
    #[arg(short, long, help_heading = "Line")]
    bytes: bool,

    /// Show the last NUM bytes that were written
    #[arg(short = 'A', long, value_name = "NUM", help_heading = "Line")]
    #[arg(value_parser = within::<u16>(1..=256))]
    last_written: Option<u16>,

    /// Show bits instead of bytes
    #[arg(short = '8', long, help_heading = "Line")]
    bits: bool,

    /// Show powers of 1000 instead of 1024
    #[arg(short = 'k', long, help_heading = "Line")]
    si: bool,

    /// Show a line of this format
    #[arg(short = 'F', long, value_parser = format, help_heading = "Line")]
    format: Option<String>,

    /// Expected number of bytes, or of lines with --line-mode; @FILE is the size of that file or device
    /// [default: the sum of the files' sizes]
    #[arg(short, long, value_name = "SIZE|@FILE", value_parser = expected, help_heading = "Line")]
    size: Option<u64>,

    /// Count lines (newline characters) instead of bytes
    #[arg(short, long, help_heading = "Line")]
    line_mode: bool,

    /// Count lines that end with a null character
    #[arg(short = '0', long, help_heading = "Line")]
    null: bool,

    /// Text to print before the line
    #[arg(short = 'N', long, help_heading = "Line")]
    name: Option<String>,

    /// Draw below the other meters of the pipeline that have this option too
    #[arg(short, long, help_heading = "Line")]
    cursor: bool,

    /// Seconds between updates [default: 1]
    #[arg(short, long, value_name = "SECONDS", value_parser = interval, help_heading = "Line")]
    interval: Option<Duration>,

    /// Start the display and the timer at the first byte
    #[arg(short = 'W', long, help_heading = "Line")]
    wait: bool,

    /// Wait SECONDS before the first line
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = delay, help_heading = "Line")]
    delay_start: Option<Duration>,

    /// The columns of a line [default: those of the terminal, or 80]
    #[arg(short, long, value_name = "COLUMNS", help_heading = "Line")]
    #[arg(value_parser = within::<u16>(1..=65_535))]
    width: Option<u16>,

    /// The rows that lines may take [default: those of the terminal]
    #[arg(short = 'H', long, value_name = "ROWS", help_heading = "Line")]
    #[arg(value_parser = within::<u16>(2..=65_535))]
    height: Option<u16>,

    /// Print one number per line, for scripts: the percentage if the size is known, otherwise the number of bytes or
    /// lines. With --bytes or --rate, those; with --timer, after the seconds; with --format, its sequences as numbers
    #[arg(short, long, help_heading = "Line")]
    numeric: bool,

    /// Print nothing, whatever other options say
    #[arg(short, long, help_heading = "Line")]
    quiet: bool,

    /// Show the line even if stderr is not a terminal
    #[arg(short, long, help_heading = "Line")]
    force: bool,

    /// Copy nothing. With PID, show the position of that process in each regular file that it has open;
    /// with PID:FD, show the position in that file, or how full that pipe is; with NAME, those of all processes
    /// with this name. May be given more than once. End when all are closed
    #[arg(
        short = 'd',
        long,
        visible_alias = "watchfd",
        value_name = "PID[:FD]|NAME"
    )]
    #[arg(help_heading = "Other processes", conflicts_with_all = TRANSFER, conflicts_with = "cursor")]
    #[arg(add = ArgValueCandidates::new(pids_and_names))]
    watch: Vec<Target>,

    /// Copy nothing. Show how far the pipeline that contains this process is in the file that its first
    /// stage reads, and which stage is slow. End when the process ends
    #[arg(long, value_name = "PID", value_parser = number::pid, add = ArgValueCandidates::new(pids))]
    #[arg(help_heading = "Other processes", conflicts_with_all = TRANSFER)]
    #[arg(conflicts_with_all = ["watch", "remote", "query", "cursor", "numeric", "size", "rate_limit", "format"])]
    pipeline: Option<u32>,

    /// Copy nothing. Change the running meter with this PID: its rate limit, size, name, interval,
    /// width, height, or what its line shows
    #[arg(short = 'R', long, value_name = "PID", value_parser = pid, add = ArgValueCandidates::new(pids), help_heading = "Other processes")]
    #[arg(conflicts_with_all = TRANSFER, conflicts_with_all = ["watch", "cursor", "force", "wait", "delay_start"])]
    remote: Option<Pid>,

    /// Copy nothing. Show how far the running meter with this PID is
    #[arg(short = 'Q', long, value_name = "PID", value_parser = pid, add = ArgValueCandidates::new(pids), help_heading = "Other processes")]
    #[arg(conflicts_with_all = TRANSFER, conflicts_with_all = ["watch", "remote", "rate_limit"])]
    query: Option<Pid>,

    /// Write the PID of this process to FILE, and remove the file at the end
    #[arg(
        short = 'P',
        long,
        value_name = "FILE",
        help_heading = "Other processes"
    )]
    pidfile: Option<PathBuf>,

    #[command(flatten)]
    _of_pv: OptionsOfPv,
}

/// The options with which bytes are read and written, not spliced.
const READING: [&str; 6] = [
    "line_mode",
    "null",
    "no_splice",
    "buffer_size",
    "skip_errors",
    "last_written",
];

/// The options that say what is copied, and how.
const TRANSFER: [&str; 15] = [
    "files",
    "output",
    "atomic",
    "sync",
    "discard",
    "by_reference",
    "buffer_size",
    "no_splice",
    "skip_errors",
    "error_skip_block",
    "stop_at_size",
    "line_mode",
    "null",
    "quiet",
    "pidfile",
];

impl Meter {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.watch.is_empty() {
            self.watch()
        } else if let Some(pid) = self.pipeline {
            meter::follow(pid, self.options(None).interval, self.force)?;
            Ok(ExitCode::SUCCESS)
        } else if let Some(pid) = self.remote {
            ask(pid, &Request::Change(self.changes()))?;
            Ok(ExitCode::SUCCESS)
        } else if let Some(pid) = self.query {
            let display = self.display();
            meter::query(pid, self.options(self.size), display)?;
            Ok(ExitCode::SUCCESS)
        } else {
            self.pass()
        }
    }

    fn watch(&self) -> anyhow::Result<ExitCode> {
        if self.rate_limit.is_some() {
            return Err(Usage(
                "--rate-limit cannot be used with --watch, which copies nothing".into(),
            )
            .into());
        }
        let are_fds = self.watch.iter().all(Target::is_one_fd);
        if !are_fds && (self.numeric || self.size.is_some()) {
            let option = if self.numeric { "--numeric" } else { "--size" };
            return Err(Usage(format!(
                "{option} needs one file descriptor: --watch PID:FD"
            ))
            .into());
        }
        let watch = Watches::new(&self.watch, self.options(self.size))?;
        if self.numeric {
            watch.numbers();
        } else {
            watch.lines(self.force);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn pass(&self) -> anyhow::Result<ExitCode> {
        let is_plain = moving::is_plain()?;
        if self.by_reference && self.options(None).looks_at().is_some() {
            let text = "--by-reference cannot be used with a --format that shows the last bytes";
            return Err(Usage(text.into()).into());
        }
        let inputs = Input::all(&self.files);
        let mut output = match &self.output {
            Some(path) if self.atomic => Output::replacing(path, Existing::Replace, false)?,
            Some(path) => Output::named(path.clone(), Existing::Replace),
            None if self.discard => Output::named("/dev/null".into(), Existing::Replace),
            None => Output::stdout(),
        };
        if self.output.is_some() {
            // No output is truncated for an input that is not there.
            inputs[0].check()?;
        }
        output.refuse(&inputs)?;
        output.open(&inputs)?;
        // It starts a process, which has to be before any thread is started.
        let pid_file = self.pidfile.clone().map(PidFile::new).transpose()?;
        let fills =
            moving::block_size(&output).filter(|_| self.size.is_none() && !self.counts_lines());
        let known = self.known_size(&inputs);
        let stop = match self.stop_at_size {
            true => self.size,
            false => fills.filter(|_| known.is_none()),
        };
        let mut meter = self.meter(known.or(fills), &output);
        meter.listen();
        let mut passing = Passing::new(&meter, self.how(stop, is_plain));
        // As with pv, it has no effect where nothing is stored.
        if self.sync && moving::is_stored(&output) {
            passing.write_back.begin(&output)?;
        }
        let passed = join(
            &inputs,
            &mut output,
            |error| meter.say(exit::line("fullbore meter", error)),
            |input, output| passing.pass(input, output),
        );
        let skipped = passing.has_skipped();
        let is_complete = matches!(passed, Ok(ExitCode::SUCCESS)) && !skipped;
        let unreported = passing.write_back.unreported();
        let closed = output.close(is_complete, self.sync);
        if closed.is_ok() {
            meter.add(unreported);
        }
        let passed = passed.and_then(|code| closed.map(|()| code));
        let passed = match passed {
            // Below the last line, another meter would draw over it.
            Err(error) if self.cursor => {
                let code = exit::code(&error);
                if code.is_some() {
                    meter.say(exit::line("fullbore meter", &error));
                }
                Ok(code.unwrap_or(ExitCode::SUCCESS))
            }
            passed => passed,
        };
        meter.finish();
        drop(pid_file);
        let code = passed?;
        Ok(match skipped {
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
            stop,
            lines_end_with: match (self.null, self.line_mode) {
                (true, _) => Some(0),
                (false, true) => Some(b'\n'),
                (false, false) => None,
            },
            skip_errors: self.skip_errors > 0,
            skip: self.error_skip_block.map(|bytes| bytes as u64),
            say_each: self.skip_errors < 2,
        }
    }

    fn counts_lines(&self) -> bool {
        self.line_mode || self.null
    }

    /// Returns how much will pass, if that is known.
    fn known_size(&self, inputs: &[Input]) -> Option<u64> {
        // Lines are not counted in advance: files would be read twice.
        let bytes = || match self.counts_lines() {
            true => None,
            false => Input::size_of_all(inputs),
        };
        self.size.or_else(bytes)
    }

    fn meter(&self, total: Option<u64>, output: &Output) -> meter::Meter {
        let limit = self.rate_limit.unwrap_or(0);
        if self.quiet {
            return meter::Meter::quiet(self.options(total), limit);
        }
        let sink = output.as_fd().try_clone_to_owned().ok();
        let display = match self.numeric {
            true => None,
            false => self.display(),
        };
        meter::Meter::new(self.options(total), limit, display, sink)
    }

    fn display(&self) -> Option<Display> {
        Display::new(self.force, self.cursor)
    }

    fn options(&self, total: Option<u64>) -> Options {
        Options {
            name: self.name.clone(),
            unit: match self.counts_lines() {
                true => Unit::Lines,
                false => Unit::Bytes,
            },
            total,
            interval: self.interval.unwrap_or(Duration::from_secs(1)),
            look: self.look().unwrap_or(Look::Ours),
            width: self.width.map(usize::from),
            height: self.height.map(usize::from),
            waits: self.wait,
            delay: self.delay_start.unwrap_or_default(),
        }
    }

    fn changes(&self) -> Changes {
        Changes {
            name: self.name.clone(),
            total: self.size,
            interval: self.interval,
            look: self.look(),
            width: self.width.map(usize::from),
            height: self.height.map(usize::from),
            rate_limit: self.rate_limit,
        }
    }

    /// Returns what the line shows, if the command line says so.
    fn look(&self) -> Option<Look> {
        let scale = Scale {
            si: self.si,
            bits: self.bits,
        };
        if self.numeric {
            return Some(Look::Number(Numbers {
                timer: self.timer,
                count: self.bytes,
                rate: self.rate,
                format: self.format.clone(),
            }));
        }
        if let Some(format) = &self.format {
            return Some(Look::Format(format.clone(), scale));
        }
        let last = self.last_written.map(|number| format!("%{number}A"));
        let switches = [
            (self.bytes, "%b"),
            (self.timer, "%t"),
            (self.rate, "%r"),
            (self.average_rate, "%a"),
            (self.progress, "%p"),
            (self.eta, "%e"),
            (self.fineta, "%I"),
            (last.is_some(), last.as_deref().unwrap_or_default()),
        ];
        let mut shown: Vec<&str> = (switches.iter())
            .filter_map(|&(on, sequence)| on.then_some(sequence))
            .collect();
        if shown.is_empty() && scale == Scale::default() {
            return None;
        }
        if shown.is_empty() {
            shown = vec!["%b", "%t", "%r", "%p", "%e"];
        }
        Some(Look::Parts(shown.join(" "), scale))
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match size::parse_in_memory(text)? {
        0 => Err("invalid size 0: expected at least one byte".to_owned()),
        size => Ok(size),
    }
}

/// Reads a number of bytes, or the size of the file or block device after an `@`.
fn expected(text: &str) -> Result<u64, String> {
    let Some(path) = text.strip_prefix('@') else {
        return size::parse(text);
    };
    let file = File::open(path).map_err(|error| format!("'{path}': {}", error_text(&error)))?;
    // The end of an empty file is not known by its size.
    let is_empty = file
        .metadata()
        .is_ok_and(|file| file.is_file() && file.len() == 0);
    let size = moving::end(&file).or(is_empty.then_some(0));
    size.ok_or_else(|| format!("'{path}' is neither a regular file nor a block device"))
}

fn format(text: &str) -> Result<String, String> {
    Format::new(text).map(|_| text.to_owned())
}

fn pid(text: &str) -> Result<Pid, String> {
    let pid = number::pid(text)?;
    Ok(Pid::from_raw(pid.cast_signed()).expect("it is not 0"))
}

/// Parses the time between updates.
fn interval(text: &str) -> Result<Duration, String> {
    fullbore_host::seconds::parse(text, 0.001..=86_400.0).map(Duration::from_secs_f64)
}

/// Parses the time before the first line.
fn delay(text: &str) -> Result<Duration, String> {
    fullbore_host::seconds::parse(text, 0.0..=86_400.0).map(Duration::from_secs_f64)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::Meter;
    use crate::meter::pv::{Here, TABLE};

    #[test]
    fn every_row_of_the_table_is_an_option_and_hidden_if_it_is_refused() {
        let command = Meter::augment_args(Command::new("meter"));
        for &(letter, name, here) in TABLE.iter().filter(|row| row.1 != "help") {
            let option = command.get_arguments().find(|option| {
                let also = option.get_visible_aliases().unwrap_or_default();
                option.get_long() == Some(name) || also.contains(&name)
            });
            let option = option.unwrap_or_else(|| panic!("no --{name}"));
            assert_eq!(option.get_short(), Some(letter), "{name}");
            assert_eq!(option.is_hide_set(), here != Here::Taken, "{name}");
        }
    }
}
