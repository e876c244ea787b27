//! `fullbore meter`: what pv is for.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use fullbore::Transfer;

use crate::exit;
use crate::meter::{self, Options, Pace, Target, Unit, Watch};
use crate::moving::{self, Input, Output, Total, join};
use fullbore_host::refusal::Usage;
use fullbore_host::size;

/// Show how bytes pass from files, or stdin, to stdout, and which side is the slow one
///
/// A line on stderr says how many have passed, how fast now and on average, and where the size is
/// known, how far that is and how long it will still take. At the end a second line says which side
/// of the pipeline made the other wait, from how often the pipe before was empty and the pipe after
/// full. The bytes go as with copy: what a reader gets is what they were when they passed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tar c src | fullbore meter | gzip > src.tgz
  fullbore meter access.log | grep -c ' 500 '
  fullbore meter --rate-limit 10M disk.img > copy.img
  seq 3000000 | fullbore meter --line-mode --size 3000000 > /dev/null
  fullbore meter --numeric --interval 0.2 access.log 2> percent.txt | wc -l
  fullbore meter --watch $(pgrep -n gzip)

Exit codes: 0 done, also when the reader of the output went away early; 1 some file could not be
read or written, or a process not be watched; 2 the command line is wrong, or an input is also the
output.")]
pub struct Meter {
    /// Files to pass on, one after the other; '-' is stdin, and so is none at all
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Pass pages on instead of copying them, where that is possible; never with --line-mode
    #[arg(long)]
    by_reference: bool,

    /// How many bytes there will be, or lines; the sum of the files' sizes unless told otherwise
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,

    /// Let no more than so many bytes a second pass
    #[arg(short = 'L', long, value_name = "SIZE", value_parser = positive_size)]
    rate_limit: Option<u64>,

    /// Count lines, that is newline characters, instead of bytes
    #[arg(short, long)]
    line_mode: bool,

    /// What stands in front of the line
    #[arg(short = 'N', long)]
    name: Option<String>,

    /// Seconds between two updates
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,

    /// Print numbers instead, one a line: percent where the size is known, otherwise bytes or lines
    #[arg(short, long, conflicts_with = "name")]
    numeric: bool,

    /// Show nothing, whatever other options say
    #[arg(short, long)]
    quiet: bool,

    /// Show the line also where stderr is no terminal
    #[arg(short, long)]
    force: bool,

    /// Pass nothing on: show how far a running process has come with the regular files it has open, or
    /// with one fd, or how full the pipe is that the fd is an end of; until it is closed
    #[arg(short = 'd', long, value_name = "PID[:FD]")]
    #[arg(conflicts_with_all = ["files", "by_reference", "rate_limit", "line_mode", "quiet"])]
    watch: Option<Target>,
}

impl Meter {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.watch {
            Some(target) => self.watch(target),
            None => self.pass(),
        }
    }

    fn watch(&self, target: Target) -> anyhow::Result<ExitCode> {
        if !target.is_one_fd() && (self.numeric || self.size.is_some()) {
            let option = if self.numeric { "--numeric" } else { "--size" };
            return Err(Usage(format!("{option} is about one fd: --watch PID:FD")).into());
        }
        let watch = Watch::new(target, self.options(self.size))?;
        if self.numeric {
            watch.numbers();
        } else {
            watch.lines(self.force);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn pass(&self) -> anyhow::Result<ExitCode> {
        let inputs = Input::all(&self.files);
        let mut output = Output::new(None, false);
        output.open(&inputs)?;
        let mut meter = self.meter(&inputs);
        let mut pace = self
            .rate_limit
            .map(|per_second| Pace::new(per_second, Instant::now()));
        let mut total = Total::default();
        let passed = join(
            &inputs,
            &mut output,
            |error| meter.aside(|| exit::say("meter", error)),
            |input, output| self.pass_one(input, output, &mut total, &meter, &mut pace),
        );
        meter.finish();
        passed
    }

    fn pass_one(
        &self,
        input: &Input,
        output: &Output,
        total: &mut Total,
        meter: &meter::Meter,
        pace: &mut Option<Pace>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let source = Arc::new(input.open()?);
        meter.takes_from(Some(&source));
        let mut transfer =
            Transfer::new(source, output).guarantee(moving::guarantee(self.by_reference));
        if let Some(pace) = pace {
            transfer = transfer.chunk(pace.chunk());
        }
        if self.line_mode {
            transfer = transfer.in_sight();
        }
        let ran = transfer.run_with(|progress| {
            meter.add(match self.line_mode {
                true => memchr::memchr_iter(b'\n', progress.seen).count() as u64,
                false => progress.step,
            });
            if let Some(pace) = pace {
                meter.hold(pace.wait_after(progress.step, Instant::now()));
            }
            ControlFlow::Continue(())
        });
        meter.takes_from(None);
        total.add(ran, input, output)?;
        Ok(ControlFlow::Continue(()))
    }

    fn meter(&self, inputs: &[Input]) -> meter::Meter {
        // Files are not read twice only to count their lines.
        let bytes = || match self.line_mode {
            true => None,
            false => Input::size_of_all(inputs),
        };
        if self.quiet {
            meter::Meter::quiet()
        } else {
            let options = self.options(self.size.or_else(bytes));
            if self.numeric {
                meter::Meter::numbers(options)
            } else {
                meter::Meter::line(options, self.force)
            }
        }
    }

    fn options(&self, total: Option<u64>) -> Options {
        Options {
            name: self.name.clone(),
            unit: match self.line_mode {
                true => Unit::Lines,
                false => Unit::Bytes,
            },
            total,
            interval: self.interval,
        }
    }
}

fn positive_size(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err("nothing would ever pass".to_owned()),
        size => Ok(size),
    }
}

/// Seconds as people write them: `1`, `0.1`.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|&seconds| seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|interval| !interval.is_zero() && *interval <= Duration::from_secs(86_400))
        .ok_or_else(|| format!("'{text}' is no time of a day at most; write seconds, as 1 or 0.1"))
}
