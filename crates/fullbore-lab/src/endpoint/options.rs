//! Defines the options of both endpoints: all options of the article's programs, under their names,
//! and ours.
//!
//! Both endpoints accept the article's options, as its programs do, so that a script can pass the
//! same options to both; an endpoint ignores those that do not concern it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches, ValueEnum};
use fullbore::Wait;
use serde::{Deserialize, Serialize};

use crate::parent::ParentOptions;
use fullbore_host::number::within;
use fullbore_host::seconds::within as within_seconds;
use fullbore_host::size;

/// The options.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Size of the buffer [default: 256K]
    #[arg(help_heading = "Data", long, alias = "buf_size", value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub buf_size: Option<usize>,

    /// Total number of bytes to move [default: 10G]
    #[arg(help_heading = "Data", long, alias = "bytes_to_pipe", value_name = "SIZE", value_parser = size::parse)]
    pub bytes_to_pipe: Option<u64>,

    /// Stop after this time instead
    #[arg(help_heading = "Data", long, value_name = "SECONDS", value_parser = within_seconds(0.001..=1e6), conflicts_with = "bytes_to_pipe")]
    pub seconds: Option<Duration>,

    /// Set the capacity of the pipe; 0 leaves it unchanged
    #[arg(help_heading = "Technique", long, alias = "pipe_size", value_name = "SIZE", default_value = "0", value_parser = size::parse_in_memory)]
    pub pipe_size: usize,

    /// Write with vmsplice(2) from two buffers alternately, each of --buf-size, into a pipe with
    /// half the capacity of one of them
    #[arg(help_heading = "Technique", long, alias = "write_with_vmsplice")]
    pub write_with_vmsplice: bool,

    /// Read with splice(2) into /dev/null
    #[arg(help_heading = "Technique", long, alias = "read_with_splice", conflicts_with_all = ["sum", "pause"])]
    pub read_with_splice: bool,

    /// For a Unix socket on stdin or stdout: splice through a private pipe (with --read-with-splice
    /// or --write-with-vmsplice)
    #[arg(help_heading = "Technique", long, alias = "through_pipe")]
    pub through_pipe: bool,

    /// Retry in a loop instead of sleeping; the same as --wait spin
    #[arg(help_heading = "Waiting", long, alias = "busy_loop")]
    pub busy_loop: bool,

    /// Sleep in poll(2); the same as --wait poll. --busy-loop takes precedence
    #[arg(help_heading = "Waiting", long)]
    pub poll: bool,

    /// What to do while the pipe is full or empty
    #[arg(help_heading = "Waiting", long, value_enum, value_name = "HOW")]
    pub wait: Option<WaitName>,

    /// Allocate the buffers on transparent huge pages
    #[arg(help_heading = "Memory", long, alias = "huge_page")]
    pub huge_page: bool,

    /// Fail unless the kernel backs the buffers with huge pages
    #[arg(
        help_heading = "Memory",
        long,
        alias = "check_huge_page",
        conflicts_with = "dont_touch_pages"
    )]
    pub check_huge_page: bool,

    /// Pass SPLICE_F_GIFT (write) and SPLICE_F_MOVE (read)
    #[arg(help_heading = "Technique", long, conflicts_with = "through_pipe")]
    pub gift: bool,

    /// Lock buffers into memory
    #[arg(help_heading = "Memory", long, alias = "lock_memory")]
    pub lock_memory: bool,

    /// Do not write to the buffers before the start, so that their pages are not allocated yet
    #[arg(help_heading = "Memory", long, alias = "dont_touch_pages")]
    pub dont_touch_pages: bool,

    /// Use the halves of one buffer instead of two buffers in different page tables
    #[arg(help_heading = "Technique", long, alias = "same_buffer")]
    pub same_buffer: bool,

    /// Bytes per system call, instead of --buf-size
    #[arg(
        help_heading = "Technique",
        long,
        value_name = "SIZE",
        value_parser = size::parse_in_memory,
        conflicts_with_all = ["buf_size", "write_with_vmsplice"]
    )]
    pub chunk: Option<usize>,

    /// Write with vmsplice(2) from SIZE bytes of memory, and reuse pages after they were read
    #[arg(help_heading = "Technique", long, value_name = "SIZE", value_parser = size::parse_in_memory, conflicts_with = "write_with_vmsplice")]
    pub memory: Option<usize>,

    /// Write with the library's Producer, by this method (write); with 'auto' or 'ring', read with its
    /// Consumer (read)
    #[arg(
        help_heading = "Technique",
        long,
        value_enum,
        value_name = "WAY",
        conflicts_with = "write_with_vmsplice"
    )]
    pub way: Option<WayName>,

    /// Write lines of SIZE bytes, as a program that prints does, through std's BufWriter or the
    /// Producer of --way
    #[arg(help_heading = "Data", long, value_name = "SIZE", value_parser = size::parse_in_memory, conflicts_with = "write_with_vmsplice")]
    pub lines: Option<usize>,

    /// Length of the repeated pattern that --way repeat writes and --verify expects
    #[arg(help_heading = "Data", long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub period: Option<usize>,

    /// What to write
    #[arg(help_heading = "Data", long, value_enum, value_name = "WHAT")]
    pub data: Option<Data>,

    /// Sum all 64-bit words that are read
    #[arg(help_heading = "Data", long)]
    pub sum: bool,

    /// Write a pattern that depends on the position (write), or check every byte of it (read)
    #[arg(help_heading = "Data", long)]
    pub verify: bool,

    /// Run on this CPU only
    #[arg(long, value_name = "N", value_parser = within::<usize>(0..=u64::MAX))]
    pub cpu: Option<usize>,

    /// Read for this time before the measurement starts
    #[arg(help_heading = "Report", long, alias = "warm_up", value_name = "SECONDS", value_parser = within_seconds(0.001..=1e6))]
    pub warm_up: Option<Duration>,

    /// Print the report as one line of CSV, with the article's columns
    #[arg(help_heading = "Report", long)]
    pub csv: bool,

    /// Print the report as one JSON object, or write it to FILE, which 'write' needs
    #[arg(
        help_heading = "Report",
        long,
        value_name = "FILE",
        require_equals = true,
        conflicts_with = "csv"
    )]
    pub json: Option<Option<PathBuf>>,

    /// Print details on stderr
    #[arg(help_heading = "Report", long, short)]
    pub verbose: bool,

    /// Sleep after each read, like a slow reader: 300us, for example
    #[arg(help_heading = "Waiting", long, value_name = "SECONDS", value_parser = within_seconds(0.0..=3600.0))]
    pub pause: Option<Duration>,

    /// Whether it ends with the process that started it
    #[command(flatten)]
    pub parent: ParentOptions,
}

/// The names of the library's [`Wait`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "clap would show a variant's documentation in --help"
)]
pub enum WaitName {
    Block,
    Poll,
    Spin,
    Adaptive,
}

impl From<WaitName> for Wait {
    fn from(name: WaitName) -> Self {
        match name {
            WaitName::Block => Wait::Block,
            WaitName::Poll => Wait::Poll,
            WaitName::Spin => Wait::Spin,
            WaitName::Adaptive => Wait::Adaptive,
        }
    }
}

/// The names of the library's ways to produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WayName {
    /// As the library chooses by itself
    Auto,
    /// write(2)
    Copy,
    /// send(2) into a socket of the writer, and splice(2) from it into the pipe
    Socket,
    /// vmsplice(2) of pages that are never written to again
    Fresh,
    /// vmsplice(2) of a ring of pages that are reused after they were read; requires a reader that
    /// copies
    Recycle,
    /// tee(2) of pages that never change
    Repeat,
    /// In memory that both ends share; requires the same at the other end of the pipe
    Ring,
}

/// What a writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Data {
    /// Fill the buffers once and send them repeatedly, as the article does
    Constant,
    /// Fill every buffer with new words, which depend on their position in the stream
    Words,
}

/// Parses the capacity of a pipe, in bytes; 0 leaves a pipe as it is.
///
/// # Errors
/// Fails if no machine can have such a pipe.
pub fn pipe_size(text: &str) -> Result<usize, String> {
    match size::parse_in_memory(text)? {
        0 => Ok(0),
        _ => size::parse_capacity(text),
    }
}

impl Options {
    /// Reads the options of an experiment, which are a constant of the catalogue.
    ///
    /// # Panics
    /// If an endpoint would not accept them.
    pub fn of(words: &str) -> Self {
        let command = Self::augment_args(Command::new("").no_binary_name(true));
        let matches = command.try_get_matches_from(words.split_whitespace());
        let options = matches.and_then(|matches| Self::from_arg_matches(&matches));
        options.expect("an endpoint accepts the options of its experiment")
    }

    /// Returns how to wait, whichever option it was given by.
    pub fn wait(&self) -> Wait {
        match (self.wait, self.busy_loop, self.poll) {
            (Some(name), _, _) => name.into(),
            (None, true, _) => Wait::Spin,
            (None, false, true) => Wait::Poll,
            (None, false, false) => Wait::Block,
        }
    }

    /// Returns the bytes of one system call, which is the size of a buffer.
    pub fn chunk(&self) -> usize {
        self.chunk.or(self.buf_size).unwrap_or(256 << 10)
    }

    /// Returns what to write.
    pub fn data(&self) -> Data {
        match (self.data, self.verify) {
            (Some(data), _) => data,
            (None, true) => Data::Words,
            (None, false) => Data::Constant,
        }
    }

    /// Returns the library's way to write, if one was selected.
    pub fn way(&self) -> Option<WayName> {
        self.way.or(self.memory.map(|_| WayName::Recycle))
    }

    /// Returns whether the library's consumer reads.
    pub fn consumes(&self) -> bool {
        matches!(self.way, Some(WayName::Auto | WayName::Ring))
    }

    /// Returns whether the article's two buffers are written by vmsplice.
    pub fn double_buffers(&self) -> bool {
        self.write_with_vmsplice && self.way().is_none()
    }

    /// Returns whether the two buffers are sent into a socket, through a private pipe.
    pub fn double_buffers_through_a_pipe(&self) -> bool {
        self.double_buffers() && self.through_pipe
    }

    /// Returns whether a socket is spliced from, through a private pipe.
    pub fn splices_through_a_pipe(&self) -> bool {
        self.read_with_splice && self.through_pipe
    }
}
