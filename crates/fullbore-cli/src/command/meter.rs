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

/// Copy files, or stdin, to stdout, and show progress, rate and which side is slow
///
/// A line on stderr shows the number of bytes, the current and the average rate, and, if the size
/// is known, the percentage and the remaining time. At the end, a second line says which side of
/// the pipeline made the other wait; it follows from how often the pipe before was empty and the
/// pipe after was full. As with 'fullbore copy', the reader gets the bytes as they were when they
/// passed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tar c src | fullbore meter | gzip > src.tgz
  fullbore meter access.log | grep -c ' 404 '
  fullbore meter --rate-limit 10M disk.img > copy.img
  seq 3000000 | fullbore meter --line-mode --size 3000000 > /dev/null
  fullbore meter --numeric --interval 0.2 access.log 2> percent.txt | wc -l
  fullbore meter --watch $(pgrep -n gzip)

Exit codes: 0 done, even if the reader of the output closed it early; 1 a file could not be read \
or written, or a process could not be watched; 2 the command line is invalid, or an input is \
also the output.")]
pub struct Meter {
    /// Files to copy, in order; '-' means stdin [default: stdin]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Pass references to pages instead of copying, where possible (correct only if the source does
    /// not change); never with --line-mode
    #[arg(long)]
    by_reference: bool,

    /// Expected number of bytes, or of lines with --line-mode [default: the sum of the files'
    /// sizes]
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,

    /// Limit the rate to SIZE bytes per second
    #[arg(short = 'L', long, value_name = "SIZE", value_parser = positive_size)]
    rate_limit: Option<u64>,

    /// Count lines (newline characters) instead of bytes
    #[arg(short, long)]
    line_mode: bool,

    /// Text to print before the line
    #[arg(short = 'N', long)]
    name: Option<String>,

    /// Seconds between updates
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Print one number per line, for scripts: the percentage if the size is known, otherwise the
    /// number of bytes or lines
    #[arg(short, long, conflicts_with = "name")]
    numeric: bool,

    /// Print nothing, whatever other options say
    #[arg(short, long)]
    quiet: bool,

    /// Show the line even if stderr is not a terminal
    #[arg(short, long)]
    force: bool,

    /// Copy nothing. With PID, show the position of that process in each regular file that it has open;
    /// with PID:FD, show the position in that file, or how full that pipe is. End when it is closed
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
            return Err(Usage(format!(
                "{option} needs one file descriptor: --watch PID:FD"
            ))
            .into());
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
            |error| meter.aside(|| exit::say("fullbore meter", error)),
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
        // Lines are not counted in advance: files would be read twice.
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
        0 => Err("invalid rate limit 0: no byte would ever pass".to_owned()),
        size => Ok(size),
    }
}

/// Parses the time between updates.
fn interval(text: &str) -> Result<Duration, String> {
    fullbore_host::seconds::parse(text, 0.001..=86_400.0).map(Duration::from_secs_f64)
}
