//! `fullbore top`: shows every pipe on this machine, live.

use std::io::{IsTerminal, Write, stdin, stdout};
#[cfg(feature = "metrics")]
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::completion::{pids, pids_and_names};
use anyhow::{Context, bail};
use clap::Args;
use clap_complete::ArgValueCandidates;
use fullbore_host::number::{pid, within};
use fullbore_host::process_name::{self, ProcessName};
use fullbore_host::refusal::Usage;
use fullbore_host::seconds;
use fullbore_host::text::clean;

use super::json;
use super::output::{is_stdout, print};
use crate::inherited;
use crate::terminal::is_dumb;
#[cfg(feature = "metrics")]
use crate::top::metrics;
use crate::top::screen;
use crate::top::table::Shown;
use fullbore_observe::Monitor;
use fullbore_observe::census::scope::{Scope, Whose};
use fullbore_observe::overview::Overview;

/// How long pipes are sampled for a single overview.
const A_MOMENT: Duration = Duration::from_millis(600);

/// Show all pipes and FIFOs that this user may inspect, live
///
/// For each pipe it shows the writers and readers, the capacity, how full the pipe is, the rate if
/// it can be determined, which side waits, and which side is slow. Pipelines are shown as chains.
/// It only observes: no bytes pass through it.
///
/// To find out how full a pipe is, it opens the pipe for writing for a few microseconds. If SIGSTOP
/// or a frozen cgroup stops it at that moment, it keeps this end open until it continues, and until
/// then the pipe's reader does not see the end of the file: docs/top.md says how likely that is.
/// Ctrl-Z waits until no end is open.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore top                      live; press '?' for the keys, 'q' to quit
  fullbore top gzip                 only pipelines with a process named gzip
  fullbore top --pipeline $$        only pipelines of this shell
  fullbore top --once               print a table and exit
  fullbore top --json -i 1 -n 5 > top.json
  fullbore top --prometheus 9464    metrics at 127.0.0.1:9464/metrics

Exit codes: 0 done; 1 something failed, or there is no such process (with --once or --json: or \
there is nothing to show for NAME); 2 the command line is invalid, or stdout is not a terminal \
and none of --once, --json and --prometheus is given; 3 this user may not listen at that \
address or inspect that process, or /proc is not mounted.
docs/top.md explains each column and how it is determined.")]
pub struct Top {
    /// Show only pipelines with this process, or with a process or a FIFO of this name
    #[arg(value_name = "PID|NAME", conflicts_with = "pipeline")]
    #[arg(value_parser = process_name::parse, add = ArgValueCandidates::new(pids_and_names))]
    process: Option<ProcessName>,

    /// Show only the pipeline that contains this process, and those that it has started
    #[arg(long, value_name = "PID")]
    #[arg(value_parser = pid, add = ArgValueCandidates::new(pids))]
    pipeline: Option<u32>,

    /// Also show pipes with both ends in the same processes, such as self-pipes and make's
    /// jobserver
    #[arg(long)]
    all: bool,

    /// Sample for a moment, print a table, and exit
    #[arg(long, conflicts_with_all = ["interval", "count"])]
    once: bool,

    /// Print one JSON object on one line, or write it to FILE, and exit; with --interval, one per scan
    #[arg(long, value_name = "FILE", require_equals = true)]
    json: Option<Option<PathBuf>>,

    /// Time between scans, such as 1, 0.5 or 10ms [default: 1]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds::within(0.001..=86_400.0))]
    interval: Option<Duration>,

    /// With --json, exit after N scans
    #[arg(short = 'n', long, value_name = "N", requires = "json")]
    #[arg(value_parser = within::<u64>(1..=u64::MAX))]
    count: Option<u64>,

    /// Serve metrics for Prometheus until Ctrl-C, at PORT on the loopback interface, or at
    /// ADDRESS:PORT
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics::address::parse)]
    #[arg(conflicts_with_all = ["once", "json", "interval", "count"])]
    prometheus: Option<SocketAddr>,
}

impl Top {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let shown = match &self.process {
            Some(ProcessName::Name(name)) => Some(clean(name)),
            _ => None,
        };
        let is_once = match self.count {
            None => self.interval.is_none(),
            Some(count) => count == 1,
        };
        let is_one = self.once || (self.json.is_some() && is_once);
        if self.once || self.json.is_some() {
            // stdout is checked before anything is scanned.
            inherited::stdout()?;
        }
        fullbore_observe::allow_all_files();
        let mut monitor = Monitor::new(Scope {
            whose: match (self.process, self.pipeline) {
                (Some(ProcessName::Name(name)), _) => Whose::Named(name),
                (Some(ProcessName::Pid(pid)), _) => Whose::One(pid),
                (None, Some(pid)) => Whose::Tree(pid),
                (None, None) => Whose::Everybody,
            },
            all: self.all,
        })?;
        #[cfg(feature = "metrics")]
        if let Some(address) = self.prometheus {
            metrics::serve(address, monitor)?;
            return Ok(ExitCode::SUCCESS);
        }
        let interval = self.interval.unwrap_or(Duration::from_secs(1));
        if is_one {
            let overview = monitor.once(A_MOMENT)?;
            if !json::is_on_stdout(&self.json) {
                let table = Shown(&overview);
                print(&|out| Ok(write!(out, "{table}")?)).context("write to stdout")?;
            }
            if let Some(file) = &self.json {
                write_json(file.as_deref(), |out| write_line(out, &overview))?;
            }
            if let (Some(name), true) = (shown, overview.pipes.is_empty()) {
                bail!("no process with a pipe, and no FIFO, is named '{name}'");
            }
        } else if let Some(file) = &self.json {
            let file = file.as_deref();
            write_json(file, |out| {
                write_scans(&mut monitor, interval, self.count, out)
            })?;
        } else {
            let why = match (stdout().is_terminal(), stdin().is_terminal()) {
                (true, _) if is_dumb() => "this terminal cannot be drawn on, as TERM says",
                (true, true) => {
                    screen::run(&mut monitor, interval)?;
                    return Ok(ExitCode::SUCCESS);
                }
                _ => "stdin or stdout is not a terminal",
            };
            let instead = "use --once, --json or --prometheus PORT";
            bail!(Usage(format!("{why}: {instead}")));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the result of each scan, until `count` is reached or the reader of the output is gone.
fn write_scans(
    monitor: &mut Monitor,
    interval: Duration,
    count: Option<u64>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    // The first overview needs earlier samples to compare with.
    monitor.warm_up(interval.min(A_MOMENT))?;
    let mut next = Instant::now();
    for scan in 1.. {
        write_line(out, &monitor.scan()?)?;
        if Some(scan) == count {
            break;
        }
        // If a scan took too long, the scans that were due meanwhile are skipped.
        next = (next + interval).max(Instant::now());
        monitor.sample_until(next);
    }
    Ok(())
}

/// Has JSON written to a file, or to stdout.
fn write_json(
    file: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match file.filter(|file| !is_stdout(file)) {
        None => write(&mut inherited::stdout()?.lock()),
        Some(path) => {
            let mut file = inherited::create(path)?;
            write(&mut file)?;
            fullbore::close(file).context("close the JSON")
        }
    }
}

fn write_line(out: &mut dyn Write, overview: &Overview) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(overview)?;
    line.push(b'\n');
    let written = out.write_all(&line).and_then(|()| out.flush());
    written.context("write the JSON")
}
