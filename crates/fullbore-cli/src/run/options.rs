//! The options that a caller of `run` chooses.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fullbore_host::{seconds, size};

use super::accept::Accept;
use super::place::Place;
use super::shown::Shown;
use crate::copying::AtLeast;

/// How to run a pipeline, and what to report about it.
#[derive(Debug, Default, Args)]
pub struct Options {
    /// Capacity of each pipe
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = size::parse_capacity)]
    pub pipe_size: usize,

    /// All or nothing: a stage sees the end of its input only after the stage before it has
    /// succeeded. If a stage fails, the stages behind it are ended without seeing an end, and the
    /// exit code is that of the failed stage
    #[arg(long, conflicts_with = "no_pipefail")]
    pub whole: bool,

    /// Replace FILE with the output of the last stage, when all stages have succeeded and not before; implies --whole
    #[arg(short, long, value_name = "FILE", conflicts_with = "no_pipefail")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub at_least: AtLeast,

    /// Wait until the bytes are on the disk: they are written to it while the pipeline runs, and at the end FILE and its
    /// directory are synced
    #[arg(long, requires = "output")]
    pub sync: bool,

    /// Time between SIGTERM and SIGKILL when processes are ended
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds::within(0.0..=86_400.0))]
    pub grace: Duration,

    /// Take a failure of STAGE for a success. STAGE is its number, or the name of its program, which stands for all
    /// stages that run it; a stage in parentheses has only a number. CODES are exit codes and ranges of them, and
    /// 'early': any failure, if the next stage succeeded without reading to the end, as head does. Can be given
    /// several times
    #[arg(long, value_name = "STAGE=CODES", value_parser = Accept::parse)]
    pub accept: Vec<Accept>,

    /// End all stages, none of which sees an end of its input then, if no byte has moved through the pipeline for
    /// SECONDS, and exit with 122. It has to be longer than any stage computes without reading or writing, as sort does
    #[arg(long, value_name = "SECONDS", value_parser = seconds::within(0.1..=31_536_000.0))]
    pub stalled: Option<Duration>,

    /// Exit with the code of the last stage, even if another stage failed
    #[arg(long)]
    pub no_pipefail: bool,

    /// Treat a stage as failed if SIGPIPE ended it because a later stage had read enough, such as
    /// 'yes' in 'yes | head': its exit code is 141, as with bash's pipefail
    #[arg(long, conflicts_with = "no_pipefail")]
    pub sigpipe_fails: bool,

    /// The CPUs on which the stages run: 'none' leaves the choice to the scheduler; 'together' puts
    /// all stages on one CPU; 'spread' puts each stage on another CPU; or the CPUs of each stage,
    /// such as 0/0/1 or 0-3/4,6
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = Place::parse)]
    pub place: Place,

    /// The shell that runs the stages
    #[arg(long, value_name = "SHELL", default_value = "sh")]
    #[arg(conflicts_with = "words")]
    pub shell: OsString,

    #[command(flatten)]
    pub shown: Shown,

    /// Also show the report while the pipeline runs, in the last rows of the terminal on stderr.
    /// Output scrolls above it; a full-screen program such as less gets the whole terminal
    #[arg(long, conflicts_with = "progress")]
    pub live: bool,

    /// End the pipeline, as SIGTERM does, when the other end of the descriptor FD, a pipe, is closed: for a program
    /// that runs pipelines, so that they end with it
    #[arg(long, value_name = "FD", value_parser = fullbore_host::number::within::<u16>(0..=65_535))]
    pub lifeline: Option<u16>,

    /// Keep stdin open, a pipe whose write end is the descriptor FD, until a byte comes through --lifeline: for a program
    /// that writes to it, whose death is no end of the input
    #[arg(long, value_name = "FD", requires = "lifeline", value_parser = fullbore_host::number::within::<u16>(3..=65_535))]
    pub hold_stdin: Option<u16>,

    /// Do not warn about pipes that could not be enlarged, or about processes left in the
    /// background
    #[arg(short, long)]
    pub quiet: bool,

    /// Print each program that is started
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
}

impl Options {
    /// Returns whether the pipeline is all or nothing: a file is only replaced by the output of such a one.
    pub fn is_whole(&self) -> bool {
        self.whole || self.output.is_some()
    }

    /// Returns whether a process has to keep pipes open as long as a stage that could not be ended reads from them.
    pub fn is_held(&self) -> bool {
        self.is_whole() || self.stalled.is_some()
    }

    /// Returns whether the pipeline has to be observed.
    pub fn watched(&self) -> bool {
        self.is_reported() || self.stalled.is_some()
    }

    /// Returns whether it has to be observed for a report.
    pub fn is_reported(&self) -> bool {
        let shown = &self.shown;
        self.live || shown.report || shown.progress || shown.log.is_some() || shown.json.is_some()
    }
}
