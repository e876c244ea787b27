//! The options that say what a meter copies, and how.

use std::path::PathBuf;

use crate::copying::AtLeast;
use clap::Args;
use fullbore_host::size;

/// The options with which bytes are read and written, not spliced.
const READING: &str = "direct_io line_mode null no_splice buffer_size skip_errors last_written";

/// What a meter copies, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Transfer")]
pub struct TransferOptions {
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace the output file in one step when it is complete; until then, and after any failure, it is as it was. An
    /// input may be the output. An empty input is complete, unless --at-least 1 is given
    #[arg(long, requires = "output")]
    pub atomic: bool,

    #[command(flatten)]
    pub at_least: AtLeast,

    /// Wait until the bytes are on the disk, if the output is a file or a block device: the line counts only bytes
    /// that are on the disk, and at the end the file and its directory are synced
    #[arg(short = 'Y', long)]
    pub sync: bool,

    /// Write nothing: only read
    #[arg(short = 'X', long, conflicts_with = "output")]
    pub discard: bool,

    /// Pass references to pages instead of copying, where possible (correct only if the source does
    /// not change)
    #[arg(long, conflicts_with_all = READING.split(' '))]
    pub by_reference: bool,

    /// Limit the rate to SIZE bytes per second; 0 is no limit
    #[arg(short = 'L', long, value_name = "SIZE", value_parser = size::parse)]
    pub rate_limit: Option<u64>,

    /// Move at most SIZE bytes with one system call, and do not splice
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = positive)]
    pub buffer_size: Option<usize>,

    /// Capacity of the output pipe, within the user's limit, instead of 1 MiB; it is never shrunk
    #[arg(short = 'J', long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub pipe_buffer_size: Option<usize>,

    /// Read and write instead of splicing
    #[arg(short = 'C', long)]
    pub no_splice: bool,

    /// Skip bytes that cannot be read, and write zeros in their place; given twice, report it only
    /// once per file
    #[arg(short = 'E', long, action = clap::ArgAction::Count)]
    pub skip_errors: u8,

    /// With --skip-errors, skip SIZE bytes at a time
    #[arg(short = 'Z', long, value_name = "SIZE", value_parser = positive, requires = "skip_errors")]
    pub error_skip_block: Option<usize>,

    /// Read files past the page cache (O_DIRECT), where the file system can do that
    #[arg(short = 'K', long)]
    pub direct_io: bool,

    /// Accepted as in pv, without effect
    #[arg(short = 'O', long, alias = "sparse-output", hide = true)]
    pub sparse: bool,

    /// Store all input in FILE first, and write the output from there, when its size is known; '-' is a temporary file
    #[arg(short = 'U', long, value_name = "FILE", conflicts_with_all = ["atomic", "at_least"])]
    pub store_and_forward: Option<PathBuf>,

    /// Stop after the number of bytes, or of lines, of --size
    #[arg(short = 'S', long, requires = "size")]
    pub stop_at_size: bool,
}

fn positive(text: &str) -> Result<usize, String> {
    match size::parse_in_memory(text)? {
        0 => Err("invalid size 0: expected at least one byte".to_owned()),
        size => Ok(size),
    }
}
