//! `fullbore top`: every pipe on this machine, live.

use std::io::{IsTerminal, Write, stdin, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use crate::inherited;
use crate::top::metrics::{self, Address};
use crate::top::{Scope, Top, Whose, screen};
use fullbore_host::refusal::Usage;
use fullbore_host::text::clean;

/// Looking once, this is how long it takes.
const A_MOMENT: Duration = Duration::from_millis(600);

/// Show every pipe and FIFO whose ends this user may see, live
///
/// Who writes to it and who reads from it, how much it holds and how full it is, how much goes through it
/// where that can be known, who waits, and which side is the slow one. Pipelines are shown as chains. It is
/// never between two programs: it only looks.
///
/// To ask how full a pipe is, it opens that for writing, for a few microseconds. Stopped by SIGSTOP or a frozen
/// cgroup just then, it holds that end until it goes on, and the pipe's reader does not see the end of the file
/// before: docs/top.md says how likely that is. Ctrl-Z waits until no end is open.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore top                      live; '?' says what the keys do, 'q' leaves
  fullbore top gzip                 only pipelines with a gzip in them
  fullbore top --pid $$             only those of this shell and of all that it has started
  fullbore top --once               a table, after a moment
  fullbore top --json --interval 1s --count 3
  fullbore top --prometheus 9464    metrics at http://127.0.0.1:9464/metrics, until Ctrl-C

Exit codes: 0 done; 1 something failed, or there is no such process (looking once: or nothing of NAME to \
show); 2 the command line is wrong, or \
stdout is no terminal and none of --once, --json and --prometheus is given; 3 this user may not listen \
there, or /proc is not mounted.
docs/top.md says what each column means, and how it is found out.")]
pub struct Options {
    /// Only pipes of processes that are called so, and FIFOs, with the pipelines that they are in
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Only pipes of this process and of all below it, with the pipelines that they are in
    #[arg(long, value_name = "PID", conflicts_with = "name")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Also pipes that processes keep to themselves: their alarm bells, make's jobserver
    #[arg(short, long)]
    all: bool,

    /// Look for a moment, print a table (with --json, an object), and leave
    #[arg(long, conflicts_with_all = ["interval", "count"])]
    once: bool,

    /// Print one JSON object on one line, after a moment; with --interval, one for each look
    #[arg(long)]
    json: bool,

    /// Time from one look to the next, as 1s, 0.5 or 10ms [default: 1s]
    #[arg(short, long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,

    /// With --json, leave after so many looks
    #[arg(short = 'n', long, value_name = "LOOKS", requires = "json")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Serve metrics for Prometheus at a port of loopback, or at an address, until Ctrl-C
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    #[arg(conflicts_with_all = ["once", "json", "interval", "count"])]
    prometheus: Option<Address>,
}

impl Options {
    /// Whether one look is asked for.
    fn is_one(&self) -> bool {
        match self.count {
            None => self.interval.is_none(),
            Some(count) => count == 1,
        }
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        let name = self.name.as_deref().map(clean);
        let is_one = self.once || (self.json && self.is_one());
        if self.once || self.json {
            // Before anything is looked at.
            inherited::stdout()?;
        }
        let mut top = Top::new(Scope {
            whose: match (self.name, self.pid) {
                (Some(name), _) => Whose::Called(name),
                (None, Some(pid)) => Whose::Tree(pid),
                (None, None) => Whose::Everybody,
            },
            all: self.all,
        })?;
        if let Some(address) = self.prometheus {
            metrics::serve(address, top)?;
        } else if is_one {
            let picture = top.once(A_MOMENT)?;
            match self.json {
                true => print_json(&picture)?,
                false => print(picture.to_string().as_bytes())?,
            }
            if let (Some(name), true) = (name, picture.pipes.is_empty()) {
                anyhow::bail!("no process with a pipe, and no FIFO, is called '{name}'");
            }
        } else if self.json {
            each_look(&mut top, self.interval.unwrap_or(SECOND), self.count)?;
        } else if stdout().is_terminal() && stdin().is_terminal() {
            screen::run(&mut top, self.interval.unwrap_or(SECOND))?;
        } else {
            return Err(Usage(
                "stdin or stdout is no terminal: use --once for a table, --json, or --prometheus PORT".into(),
            )
            .into());
        }
        Ok(ExitCode::SUCCESS)
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Prints what each look finds, until nobody reads it any more.
fn each_look(top: &mut Top, interval: Duration, count: Option<u64>) -> anyhow::Result<()> {
    // The first one has something to say as well.
    top.warm_up(interval.min(A_MOMENT))?;
    let mut next = Instant::now();
    for look in 1.. {
        print_json(&top.look()?)?;
        if Some(look) == count {
            break;
        }
        // One that took too long is not made up for.
        next = (next + interval).max(Instant::now());
        top.glance_until(next);
    }
    Ok(())
}

fn print_json(picture: &crate::top::Picture) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(picture)?;
    line.push(b'\n');
    print(&line)
}

fn print(text: &[u8]) -> anyhow::Result<()> {
    let mut out = inherited::stdout()?.lock();
    let written = out.write_all(text).and_then(|()| out.flush());
    written.context("write to stdout")
}

/// A time as people write it: `1s`, `0.5`, `10ms`.
fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let seconds = number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number * unit);
    seconds
        .filter(|seconds| (1e-3..=86_400.0).contains(seconds))
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("'{text}' is no time from 1ms to a day; write 1s, 0.5 or 10ms"))
}
