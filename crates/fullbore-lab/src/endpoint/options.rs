//! Defines the options of both endpoints: all options of the article's programs, under their names,
//! and ours.
//!
//! Both endpoints accept all options, as the article's programs do, so that a script can pass the
//! same options to both; an endpoint ignores those that do not concern it. [`Options::check_writer`]
//! and [`Options::check_reader`] reject contradictions with a one-line error.

use clap::{Args, ValueEnum};
use fullbore::Wait;
use fullbore_linux::page_size;
use serde::{Deserialize, Serialize};

use crate::parent::ParentOptions;
use fullbore_host::refusal::Usage;
use fullbore_host::size;

/// The options.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Size of the buffer
    #[arg(help_heading = "Data", long, alias = "buf_size", value_name = "SIZE", default_value = "256K", value_parser = size::parse_in_memory)]
    pub buf_size: usize,

    /// Total number of bytes to move
    #[arg(help_heading = "Data", long, alias = "bytes_to_pipe", value_name = "SIZE", default_value = "10G", value_parser = size::parse)]
    pub bytes_to_pipe: u64,

    /// Stop after this many seconds instead
    #[arg(help_heading = "Data", long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "bytes_to_pipe")]
    pub seconds: Option<f64>,

    /// Set the capacity of the pipe; 0 leaves it unchanged (write)
    #[arg(help_heading = "Technique", long, alias = "pipe_size", value_name = "SIZE", default_value = "0", value_parser = size::parse_in_memory)]
    pub pipe_size: usize,

    /// Write with vmsplice(2) from two buffers alternately, each of --buf-size, into a pipe with
    /// half the capacity of one of them (write)
    #[arg(help_heading = "Technique", long, alias = "write_with_vmsplice")]
    pub write_with_vmsplice: bool,

    /// Read with splice(2) into /dev/null (read)
    #[arg(help_heading = "Technique", long, alias = "read_with_splice")]
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
    #[arg(help_heading = "Memory", long, alias = "check_huge_page")]
    pub check_huge_page: bool,

    /// Pass SPLICE_F_GIFT (write) and SPLICE_F_MOVE (read)
    #[arg(help_heading = "Technique", long)]
    pub gift: bool,

    /// Lock buffers into memory
    #[arg(help_heading = "Memory", long, alias = "lock_memory")]
    pub lock_memory: bool,

    /// Do not write to the buffers before the start, so that their pages are not allocated yet
    #[arg(help_heading = "Memory", long, alias = "dont_touch_pages")]
    pub dont_touch_pages: bool,

    /// Use the halves of one buffer instead of two buffers in different page tables (write)
    #[arg(help_heading = "Technique", long, alias = "same_buffer")]
    pub same_buffer: bool,

    /// Bytes per system call, when reading, or when writing with --ring [default: the buffer size]
    #[arg(help_heading = "Technique", long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub chunk: Option<usize>,

    /// Write with vmsplice(2) from a ring of SIZE bytes, and reuse pages after they were read
    /// (write)
    #[arg(help_heading = "Technique", long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub ring: Option<usize>,

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

    /// Write in pieces of SIZE bytes, as a program that prints lines does, through std's BufWriter
    /// or the Producer of --way (write)
    #[arg(help_heading = "Data", long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub lines: Option<usize>,

    /// Length of the repeated pattern that --way repeat writes and --verify expects
    #[arg(help_heading = "Data", long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub period: Option<usize>,

    /// What to write (write)
    #[arg(help_heading = "Data", long, value_enum, value_name = "WHAT")]
    pub data: Option<Data>,

    /// Sum all 64-bit words that are read (read)
    #[arg(help_heading = "Data", long)]
    pub sum: bool,

    /// Write a pattern that depends on the position (write), or check every byte of it (read)
    #[arg(help_heading = "Data", long)]
    pub verify: bool,

    /// Run on this CPU only
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,

    /// Seconds to read before the measurement starts (read)
    #[arg(help_heading = "Report", long, alias = "warm_up", value_name = "SECONDS", value_parser = seconds)]
    pub warm_up: Option<f64>,

    /// Print the report as one line of CSV, with the article's columns
    #[arg(help_heading = "Report", long)]
    pub csv: bool,

    /// Print the report as one JSON object
    #[arg(help_heading = "Report", long, conflicts_with = "csv")]
    pub json: bool,

    /// Print details on stderr
    #[arg(help_heading = "Report", long, short)]
    pub verbose: bool,

    /// Sleep for this many microseconds after each read, like a slow reader (read)
    #[arg(
        help_heading = "Waiting",
        long,
        value_name = "MICROSECONDS",
        default_value_t = 0
    )]
    pub pause: u64,

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

fn seconds(text: &str) -> Result<f64, String> {
    fullbore_host::seconds::parse(text, 0.001..=1e6)
}

/// The longest line of `--lines`, in bytes.
const LONGEST_LINE: usize = 1 << 20;

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
    /// Returns how to wait, whichever option it was given by.
    pub fn wait(&self) -> Wait {
        match (self.wait, self.busy_loop, self.poll) {
            (Some(name), _, _) => name.into(),
            (None, true, _) => Wait::Spin,
            (None, false, true) => Wait::Poll,
            (None, false, false) => Wait::Block,
        }
    }

    /// Returns the bytes of one system call.
    pub fn chunk(&self) -> usize {
        self.chunk.unwrap_or(self.buf_size)
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
        self.way.or(self.ring.map(|_| WayName::Recycle))
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

    fn check_both(&self) -> Result<(), String> {
        let by_flags = match (self.busy_loop, self.poll) {
            (true, _) => Some((Wait::Spin, "spin")),
            (false, true) => Some((Wait::Poll, "poll")),
            (false, false) => None,
        };
        if let (Some(name), Some((wait, other))) = (self.wait, by_flags)
            && Wait::from(name) != wait
        {
            return Err(format!(
                "--wait contradicts --busy-loop or --poll, which mean --wait {other}: give one of \
                 them"
            ));
        }
        if self.buf_size == 0 || self.chunk == Some(0) {
            return Err("--buf-size and --chunk must be above 0".into());
        }
        if self.period == Some(0) {
            return Err("--period must be above 0".into());
        }
        if self.dont_touch_pages && self.check_huge_page {
            return Err(
                "--check-huge-page cannot be used with --dont-touch-pages: pages that were not \
                 touched cannot be checked"
                    .into(),
            );
        }
        if self.check_huge_page && !self.huge_page {
            return Err("--check-huge-page requires --huge-page".into());
        }
        Ok(())
    }

    /// Rejects options that no writer can follow, on any machine.
    pub fn check_writer(&self) -> Result<(), Usage> {
        self.check_both()
            .and_then(|()| self.check_double_buffering())
            .and_then(|()| self.check_way())
            .and_then(|()| {
                if self.verify && self.data == Some(Data::Constant) {
                    Err("--verify requires --data words".into())
                } else if self.dont_touch_pages && self.data() == Data::Words {
                    Err(
                        "--dont-touch-pages cannot be used with --data words: pages that were not \
                     touched hold zeros"
                            .into(),
                    )
                } else {
                    Ok(())
                }
            })
            .map_err(Usage)
    }

    fn check_double_buffering(&self) -> Result<(), String> {
        if !self.double_buffers() {
            return if self.same_buffer {
                Err("--same-buffer requires --write-with-vmsplice".into())
            } else {
                Ok(())
            };
        }
        let half = self.buf_size / 2;
        if self.pipe_size != 0 && self.pipe_size != half {
            return Err(format!(
                "--pipe-size {} cannot be used with --write-with-vmsplice: its two buffers are \
                 safe only in a pipe with the capacity of half a buffer. Omit it, or use --ring",
                size::typed(self.pipe_size as u64)
            ));
        }
        if !self.buf_size.is_multiple_of(2) {
            return Err(format!(
                "--write-with-vmsplice needs an even --buf-size, and {} is odd",
                self.buf_size
            ));
        }
        if !half.is_multiple_of(page_size()) || !(half / page_size()).is_power_of_two() {
            return Err(format!(
                "--write-with-vmsplice needs a --buf-size of two times a power of two of {}-byte \
                 pages, because the pipe gets half of it as its capacity; {} bytes is not",
                page_size(),
                self.buf_size
            ));
        }
        if self.chunk.is_some() {
            return Err(
                "--chunk cannot be used with --write-with-vmsplice: --buf-size sets the size of \
                 its buffers"
                    .into(),
            );
        }
        Ok(())
    }

    fn check_way(&self) -> Result<(), String> {
        if let Some(ring) = self.ring {
            if self.way.is_some_and(|way| way != WayName::Recycle) {
                return Err("--ring can be used only with --way recycle".into());
            }
            let chunk = self.chunk();
            if ring < 2 * chunk {
                return Err(format!(
                    "--ring {} is too small: it must hold two chunks of {}",
                    size::typed(ring as u64),
                    size::format(chunk as u64)
                ));
            }
        }
        if self
            .lines
            .is_some_and(|len| !(1..=LONGEST_LINE).contains(&len))
        {
            let most = size::typed(LONGEST_LINE as u64);
            return Err(format!("--lines must be above 0, and {most} at most"));
        }
        if self.lines.is_some() && (self.write_with_vmsplice || self.way == Some(WayName::Repeat)) {
            return Err("--lines can be used only alone, or with another --way than repeat".into());
        }
        if self.way == Some(WayName::Socket) && self.chunk() < 32 * 1024 {
            return Err("--way socket requires chunks of 32K or more".into());
        }
        let Some(way) = self.way() else {
            return Ok(());
        };
        if way == WayName::Repeat && self.verify && self.period.is_none() {
            return Err(
                "--way repeat writes the same words again and again, and --verify cannot know after \
                 how many bytes; give --period SIZE here and the same to 'fullbore read'"
                    .into(),
            );
        }
        if self.period.is_some() && way != WayName::Repeat {
            return Err("--period requires --way repeat".into());
        }
        for (given, name) in [
            (self.gift, "--gift"),
            (self.same_buffer, "--same-buffer"),
            (self.dont_touch_pages, "--dont-touch-pages"),
            (self.lock_memory, "--lock-memory"),
        ] {
            if given {
                return Err(format!("{name} cannot be used with --way or --ring"));
            }
        }
        Ok(())
    }

    /// Rejects options that no reader can follow, on any machine.
    pub fn check_reader(&self) -> Result<(), Usage> {
        self.check_both()
            .and_then(|()| {
                if self.read_with_splice && self.consumes() {
                    Err(
                        "--read-with-splice cannot be used with --way auto or --way ring, which read \
                         with the library's Consumer: omit one of them"
                            .into(),
                    )
                } else if self.read_with_splice && self.sum {
                    Err(
                        "--sum cannot be used with --read-with-splice, which does not read the \
                         data: use --verify"
                            .into(),
                    )
                } else if self.splices_through_a_pipe() && self.verify {
                    Err(
                        "--verify cannot be used with --read-with-splice and --through-pipe: omit \
                         those two"
                            .into(),
                    )
                } else {
                    Ok(())
                }
            })
            .map_err(Usage)
    }
}
