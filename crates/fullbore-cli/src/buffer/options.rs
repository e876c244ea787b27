//! The options of a buffer, those of mbuffer among them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fullbore::tee::{OnError, Policy};
use fullbore_host::number::within;
use fullbore_host::refusal::Usage;
use fullbore_host::{seconds, size};

use super::file::Holding;
use super::memory::Asked;
use super::network;
use super::outputs::Outputs;
use crate::copying::hash::Algorithm;
use crate::copying::{AtLeast, Existing, Output, policy_of};

/// What to copy, through how much memory, and what to say about it.
#[derive(Args)]
pub struct Options {
    /// Read FILE instead of stdin; '-' means stdin
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    #[command(flatten)]
    pub outputs: Outputs,

    /// Replace output files that exist; without it they are left alone, and not written to
    #[arg(short, long)]
    pub force: bool,

    /// Replace each output file in one step when it is complete; until then, and after any failure, a file that
    /// exists (-f) is as it was. The input may be an output. An empty input is complete, unless --at-least 1 is given
    #[arg(long, requires = "output")]
    pub atomic: bool,

    #[command(flatten)]
    pub at_least: AtLeast,

    /// Memory of the buffer: a size, or a percentage of the memory such as 10% [default: 2%]
    #[arg(short, long, value_name = "SIZE|%")]
    pub memory: Option<Asked>,

    /// Read and write at most SIZE bytes at a time [default: 1M]
    #[arg(short = 's', long, value_name = "SIZE", value_parser = size::parse_positive)]
    pub block_size: Option<u64>,

    /// Size of the buffer in blocks of -s, at least 5
    #[arg(short = 'b', long, value_name = "N", value_parser = within::<u64>(5..=u64::MAX))]
    pub blocks: Option<u64>,

    /// Begin to write when the buffer is filled to PERCENT, and again after it was empty
    #[arg(short = 'P', long, value_name = "PERCENT", value_parser = start_percent)]
    pub start_writing: Option<f64>,

    /// After the buffer was full, begin to read again when at most PERCENT of it is filled
    #[arg(short = 'p', long, value_name = "PERCENT", value_parser = percent)]
    pub start_reading: Option<f64>,

    /// Read at most SIZE bytes per second
    #[arg(short = 'r', long, value_name = "SIZE", value_parser = size::parse_positive)]
    pub read_rate: Option<u64>,

    /// Write at most SIZE bytes per second
    #[arg(short = 'R', long, value_name = "SIZE", value_parser = size::parse_positive)]
    pub write_rate: Option<u64>,

    /// Pause MICROSECONDS after each write
    #[arg(short = 'u', long, value_name = "MICROSECONDS", default_value_t = 0)]
    #[arg(hide_default_value = true, value_parser = within::<u64>(0..=u64::MAX))]
    pub pause: u64,

    /// Keep the bytes in a temporary file in $TMPDIR or /var/tmp, instead of memory
    #[arg(short, long)]
    pub temporary_file: bool,

    /// Keep the bytes in FILE, which must not exist, instead of memory
    #[arg(short = 'T', long, value_name = "FILE")]
    #[arg(conflicts_with = "temporary_file")]
    pub file: Option<PathBuf>,

    /// Wait until the bytes are on the disk: they are written to it from the start, and at the end the files and their
    /// directories are synced
    #[arg(short = 'c', long, alias = "synchronous")]
    pub sync: bool,

    /// Stop at the first error of an output, instead of going on with the others
    #[arg(short = 'e', long)]
    pub stop_on_error: bool,

    /// Fail if nothing was read, or nothing was written, for SECONDS, or if an input or output takes as long to open
    #[arg(short = 'W', long, value_name = "SECONDS", value_parser = seconds::within(0.1..=31_536_000.0))]
    pub watchdog: Option<Duration>,

    /// Show neither the line nor the summary on stderr
    #[arg(short, long)]
    pub quiet: bool,

    /// Write messages and the summary to FILE instead of stderr
    #[arg(short = 'l', long = "log-file", value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Print a plain line about the progress on stderr each SECONDS and at the end, with the time of day, for a log
    #[arg(long = "log", value_name = "SECONDS", value_parser = seconds::within(0.1..=86_400.0))]
    pub log_every: Option<Duration>,

    /// Do not write the summary to the file of -l
    #[arg(short = 'Q', long)]
    pub quiet_log: bool,

    /// Also report how full the buffer was, which side was slow, and whether a larger buffer would
    /// have helped, even with -q
    #[arg(long)]
    pub report: bool,

    /// Write the report as one JSON object to FILE; docs/buffer.md describes its fields
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub json: Option<Option<PathBuf>>,

    /// Print the process id on stderr
    #[arg(long)]
    pub pid: bool,

    /// Leave the size of a pipe on stdin as it is. Otherwise it is enlarged before the first byte is read, if its
    /// writer is known not to rely on it (as 'fullbore tune' does)
    #[arg(long)]
    pub keep_input: bool,

    /// As in mbuffer: 0 is no message, 1 errors, 2 warnings too
    #[arg(short, value_name = "0-6", hide = true, value_parser = within::<u8>(0..=6))]
    pub verbose: Option<u8>,

    /// Accepted as in mbuffer: files are never written with O_DIRECT
    #[arg(long, hide = true)]
    pub no_direct: bool,

    /// Accepted as in mbuffer: the file of -t is written through the page cache
    #[arg(long, hide = true)]
    pub direct: bool,

    /// Size of the buffers of TCP connections
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub tcpbuffer: Option<usize>,

    /// A connection fails if it delivers, or its peer accepts, nothing for this time: microseconds, or a number with us,
    /// ms, s, m or h
    #[arg(long, value_name = "NUMBER", value_parser = network::timeout)]
    pub tcptimeo: Option<Duration>,

    /// Seal the streams of -O, and end with success only when each receiver (-I PORT --unseal) has answered that all of
    /// the content is in place: see docs/seal.md
    #[arg(long, requires = "connect")]
    pub seal: bool,

    /// Unseal the stream of -I, fail if it is not complete, and tell the sender when the content is in place
    #[arg(long, requires = "listen")]
    pub unseal: bool,

    /// Print the MD5 digest of what passes
    #[arg(short = 'H', long)]
    pub md5: bool,

    /// Print the digest of what passes
    #[arg(long, value_name = "ALGORITHM", ignore_case = true)]
    pub hash: Option<Algorithm>,

    /// Keep the memory from being swapped out (mlockall(2))
    #[arg(short = 'L')]
    pub lock: bool,

    /// Write to a device in blocks of its block size
    #[arg(short = 'd')]
    pub device_block: bool,

    /// Whether it was called as mbuffer, and uses the words of mbuffer.
    #[arg(skip)]
    pub as_mbuffer: bool,

    // Options of mbuffer that this verb does not have: each is refused, unless its value asks for nothing.
    #[arg(short = 'n', hide = true)]
    volumes: Vec<String>,
    #[arg(short = 'D', hide = true)]
    device_size: Vec<String>,
    #[arg(short = 'A', hide = true)]
    autoload_command: Vec<String>,
    #[arg(short = 'a', hide = true)]
    autoload_time: Vec<String>,
    #[arg(long, hide = true)]
    tapeaware: bool,
}

impl Options {
    /// Refuses options that this verb does not have, and thresholds between which reading would stop and go on all the
    /// time.
    ///
    /// # Errors
    /// If such were given.
    pub fn check(&self) -> Result<(), Usage> {
        let asks = |values: &[String], nothing: &str| values.iter().any(|value| value != nothing);
        let given = [
            ("-n", asks(&self.volumes, "1")),
            ("-D", asks(&self.device_size, "")),
            ("-A", asks(&self.autoload_command, "/bin/false")),
            ("-a", asks(&self.autoload_time, "")),
            ("--tapeaware", self.tapeaware),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Usage(format!(
                "{option} is not offered: tapes of several volumes are not handled; use mbuffer itself"
            )));
        }
        match (self.start_writing, self.start_reading) {
            (Some(start), Some(resume)) if resume >= start => Err(Usage(format!(
                "-p {resume} has to be below -P {start}: reading would stop and go on all the time"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the file that holds the bytes, if they are not in memory; a temporary one is in `$TMPDIR` or /var/tmp.
    pub fn holding(&self) -> Option<Holding> {
        if let Some(file) = &self.file {
            return Some(Holding::Named(file.clone()));
        }
        let directory = std::env::var_os("TMPDIR").filter(|name| !name.is_empty());
        let directory = directory.unwrap_or_else(|| "/var/tmp".into());
        (self.temporary_file).then(|| Holding::Temporary(directory.into()))
    }

    /// Returns what becomes of output files that exist.
    pub fn existing(&self) -> Existing {
        match self.force {
            true => Existing::Replace,
            false => Existing::Refuse,
        }
    }

    /// Returns the algorithm of the digest, if there is to be one.
    pub fn algorithm(&self) -> Option<Algorithm> {
        self.hash.or(self.md5.then_some(Algorithm::Md5))
    }

    /// Returns what to do when an output fails. The reader of stdout may close it early, as that of every pipe; other
    /// outputs that fail are reported.
    pub fn policy_of(&self, output: &Output) -> Policy {
        let other = match self.stop_on_error {
            true => OnError::FailAll,
            false => OnError::Drop,
        };
        let closed = match output {
            // With an answer, what was not taken is not in place.
            Output::Stdout if !self.as_mbuffer && !self.unseal => OnError::Ignore,
            _ => other,
        };
        policy_of(Policy { closed, other }, output)
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!(
            "invalid percentage '{text}': expected a number from 0 to 100"
        )),
    }
}

fn start_percent(text: &str) -> Result<f64, String> {
    match percent(text)? {
        0.0 => Err("0% is the default: leave -P out to write at once".to_owned()),
        percent => Ok(percent),
    }
}
