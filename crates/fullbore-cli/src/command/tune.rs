//! `fullbore tune`: room for the pipes of a running pipeline.

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::Args;

use crate::inherited;
use crate::tune::{Options, Target, tune};
use fullbore_host::refusal::Usage;
use fullbore_host::size;

/// Grow the pipes of a running pipeline
///
/// Says of each pipe from what to what, and which limit stopped it. A pipe is left as it is where
/// growing it could break its writer: one that hands pages of its own to the pipe (vmsplice) may count
/// on the size that the pipe once had. Programs that are known to write by write(2) pass silently;
/// others are looked at for a moment. Nothing is ever made smaller, but by --revert.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore tune zstd                       all pipes of all processes that are called zstd
  fullbore tune --pipeline $(pgrep -n zstd)
  fullbore tune 4711 --size 256K --dry-run
  fullbore tune zstd --revert              their old sizes

Exit codes: 0 done; 1 some pipe was left as it was, or all hold more than --size, or there is no such
process; 2 the command line is wrong; 3 this user may not: a limit keeps a pipe below --size, or a
process is closed, or /proc is not mounted.
docs/tune.md says which programs are known, and how others are judged.")]
pub struct Tune {
    /// A process, by its number or by name
    #[arg(
        value_name = "PID|NAME",
        required_unless_present = "pipeline",
        conflicts_with = "pipeline"
    )]
    target: Option<String>,

    /// All pipes of the pipeline that this process is in
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pipeline: Option<u32>,

    /// Bytes that each pipe is to hold at least; 1M, as far as this user may, unless told otherwise
    #[arg(short, long, value_name = "SIZE", value_parser = capacity)]
    size: Option<usize>,

    /// Put back the sizes that pipes had before they were tuned
    #[arg(long, conflicts_with = "size")]
    revert: bool,

    /// Grow a pipe whatever writes to it, or put its old size back whoever has resized it since
    #[arg(long)]
    force: bool,

    /// Only say what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Print one JSON object; docs/tune.md says what is in it
    #[arg(long)]
    json: bool,
}

impl Tune {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let target = match (self.pipeline, &self.target) {
            (Some(pid), _) => Target::Pipeline(pid),
            (None, Some(text)) => Target::of(text),
            (None, None) => return Err(Usage("whose pipes? give a PID or a name".into()).into()),
        };
        let report = tune(
            &target,
            Options {
                size: self.size.unwrap_or(1 << 20),
                is_strict: self.size.is_some(),
                revert: self.revert,
                force: self.force,
                dry_run: self.dry_run,
            },
        )?;
        let mut out = inherited::stdout()?.lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report.json())?;
            out.write_all(b"\n")?;
        } else {
            write!(out, "{report}")?;
        }
        out.flush()?;
        for warning in report.warnings() {
            let _ = writeln!(stderr(), "fullbore tune: {warning}");
        }
        Ok(ExitCode::from(report.code()))
    }
}

/// A capacity that the kernel could be asked for (`F_SETPIPE_SZ`: at most 2 GiB).
fn capacity(text: &str) -> Result<usize, String> {
    match size::parse_in_memory(text)? {
        0 => Err("a pipe of 0 bytes holds nothing".to_owned()),
        size if size > 1 << 31 => Err(format!("'{text}' is more than a pipe can hold (2G)")),
        size => Ok(size),
    }
}
