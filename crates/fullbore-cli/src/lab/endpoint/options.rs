//! The options of both endpoints: all of the article's programs, under their names, and ours.
//!
//! Both endpoints take all of them, as the article's programs do, so that a script can hand the
//! same options to both; one that means nothing to an endpoint is passed over. What contradicts
//! itself is refused by [`Options::check_writer`] and [`Options::check_reader`], in one line.

use clap::{Args, ValueEnum};
use fullbore::Wait;
use fullbore::linux::page_size;
use serde::{Deserialize, Serialize};

use fullbore_host::refusal::Usage;
use fullbore_host::size;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Bytes of the buffer
    #[arg(long, alias = "buf_size", value_name = "SIZE", default_value = "256K", value_parser = size::parse_in_memory)]
    pub buf_size: usize,

    /// Bytes to move in all
    #[arg(long, alias = "bytes_to_pipe", value_name = "SIZE", default_value = "10G", value_parser = size::parse)]
    pub bytes_to_pipe: u64,

    /// Stop after so many seconds instead
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "bytes_to_pipe")]
    pub seconds: Option<f64>,

    /// Capacity to give the pipe; 0 leaves it as it is (write)
    #[arg(long, alias = "pipe_size", value_name = "SIZE", default_value = "0", value_parser = size::parse_in_memory)]
    pub pipe_size: usize,

    /// Write by vmsplice(2) from two buffers in turn, into a pipe of half a buffer (write)
    #[arg(long, alias = "write_with_vmsplice")]
    pub write_with_vmsplice: bool,

    /// Read by splice(2) to /dev/null (read)
    #[arg(long, alias = "read_with_splice")]
    pub read_with_splice: bool,

    /// Splice through a pipe of its own, for a Unix socket: from it (--read-with-splice), or the
    /// pages of --write-with-vmsplice into it
    #[arg(long, alias = "through_pipe")]
    pub through_pipe: bool,

    /// Never sleep: try again and again; the same as --wait spin
    #[arg(long, alias = "busy_loop")]
    pub busy_loop: bool,

    /// Sleep in poll(2); the same as --wait poll. With --busy-loop, that wins
    #[arg(long)]
    pub poll: bool,

    /// What to do while the pipe is full or empty
    #[arg(long, value_enum, value_name = "HOW")]
    pub wait: Option<WaitName>,

    /// Put buffers on transparent huge pages
    #[arg(long, alias = "huge_page")]
    pub huge_page: bool,

    /// Fail unless the kernel really gave huge pages
    #[arg(long, alias = "check_huge_page")]
    pub check_huge_page: bool,

    /// Pass SPLICE_F_GIFT (write) and SPLICE_F_MOVE (read)
    #[arg(long)]
    pub gift: bool,

    /// Lock buffers into memory
    #[arg(long, alias = "lock_memory")]
    pub lock_memory: bool,

    /// Do not touch the pages of buffers before the start
    #[arg(long, alias = "dont_touch_pages")]
    pub dont_touch_pages: bool,

    /// Cut one buffer in two, instead of two buffers with page tables of their own (write)
    #[arg(long, alias = "same_buffer")]
    pub same_buffer: bool,

    /// Bytes of one system call, where that is not the buffer: reading, and writing with --ring
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub chunk: Option<usize>,

    /// Write by vmsplice(2) from a ring of so many bytes, reusing pages once they were read (write)
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub ring: Option<usize>,

    /// Send the way that the library's Producer does (write)
    #[arg(
        long,
        value_enum,
        value_name = "WAY",
        conflicts_with = "write_with_vmsplice"
    )]
    pub way: Option<WayName>,

    /// Hand the data over in pieces of so many bytes, as a program that prints lines does: to std's
    /// BufWriter, or to the Producer of --way (write)
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub lines: Option<usize>,

    /// The stream repeats itself after so many bytes: what --way repeat writes, and --verify expects
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory)]
    pub period: Option<usize>,

    /// What to write: the same bytes again and again, or new words for every buffer (write)
    #[arg(long, value_enum, value_name = "WHAT")]
    pub data: Option<Data>,

    /// Add up every 64-bit word that is read (read)
    #[arg(long)]
    pub sum: bool,

    /// Write a pattern that depends on the position, and check every byte of it
    #[arg(long)]
    pub verify: bool,

    /// Run on this CPU only
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,

    /// Seconds at the start that are not measured (read)
    #[arg(long, alias = "warm_up", value_name = "SECONDS", value_parser = seconds)]
    pub warm_up: Option<f64>,

    /// Report as one line of CSV, with the article's columns
    #[arg(long)]
    pub csv: bool,

    /// Report as one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,

    /// Say more on stderr
    #[arg(long, short)]
    pub verbose: bool,

    /// Sleep for so many microseconds after each read, as a slow reader does (read)
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    pub pause: u64,

    /// Die when the process that started this one does
    #[arg(long, hide = true)]
    pub die_with_parent: bool,
}

/// The names of the library's [`Wait`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
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
    /// write(2)
    Copy,
    /// vmsplice(2) of pages that are never written to again
    Fresh,
    /// vmsplice(2) of a ring of pages, used again once they were read: needs a reader that copies
    Recycle,
    /// tee(2) of pages that never change
    Repeat,
}

/// What a writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Data {
    /// Buffers are filled once and sent again and again, as the article does.
    Constant,
    /// Every buffer is filled anew with words that depend on their position in the stream.
    Words,
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|&s: &f64| s.is_finite() && s > 0.0 && s < 1e6)
        .ok_or_else(|| format!("'{text}' is no number of seconds above 0"))
}

impl Options {
    /// How to wait, whichever way it was said.
    pub fn wait(&self) -> Wait {
        match (self.wait, self.busy_loop, self.poll) {
            (Some(name), _, _) => name.into(),
            (None, true, _) => Wait::Spin,
            (None, false, true) => Wait::Poll,
            (None, false, false) => Wait::Block,
        }
    }

    /// Bytes of one system call.
    pub fn chunk(&self) -> usize {
        self.chunk.unwrap_or(self.buf_size)
    }

    /// What to write.
    pub fn data(&self) -> Data {
        match (self.data, self.verify) {
            (Some(data), _) => data,
            (None, true) => Data::Words,
            (None, false) => Data::Constant,
        }
    }

    /// Which of the library's ways to write, if it is one of them.
    pub fn way(&self) -> Option<WayName> {
        self.way.or(self.ring.map(|_| WayName::Recycle))
    }

    /// Whether the article's two buffers are written by vmsplice.
    pub fn double_buffers(&self) -> bool {
        self.write_with_vmsplice && self.way().is_none()
    }

    /// Whether the two buffers go into a socket, through a pipe of our own.
    pub fn double_buffers_through_a_pipe(&self) -> bool {
        self.double_buffers() && self.through_pipe
    }

    /// Whether a socket is spliced from, through a pipe of our own.
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
                "--wait says one thing, and --busy-loop or --poll (which mean --wait {other}) another"
            ));
        }
        if self.buf_size == 0 || self.chunk == Some(0) {
            return Err("a buffer of 0 bytes moves nothing".into());
        }
        if self.dont_touch_pages && self.check_huge_page {
            return Err(
                "--check-huge-page needs touched pages, which --dont-touch-pages forbids".into(),
            );
        }
        if self.check_huge_page && !self.huge_page {
            return Err("--check-huge-page checks what --huge-page asks for; give both".into());
        }
        Ok(())
    }

    /// Refuses what a writer cannot do, whatever the machine.
    pub fn check_writer(&self) -> Result<(), Usage> {
        self.check_both()
            .and_then(|()| self.check_double_buffering())
            .and_then(|()| self.check_way())
            .and_then(|()| {
                if self.verify && self.data == Some(Data::Constant) {
                    Err("--verify writes --data words; constant data cannot be verified".into())
                } else if self.dont_touch_pages && self.data() == Data::Words {
                    Err("--dont-touch-pages leaves nothing to write but zeros, not words".into())
                } else {
                    Ok(())
                }
            })
            .map_err(Usage)
    }

    fn check_double_buffering(&self) -> Result<(), String> {
        if !self.double_buffers() {
            return if self.same_buffer {
                Err("--same-buffer cuts the buffer of --write-with-vmsplice; give both".into())
            } else {
                Ok(())
            };
        }
        let half = self.buf_size / 2;
        if self.pipe_size != 0 && self.pipe_size != half {
            return Err(format!(
                "--pipe-size {} fights --write-with-vmsplice, whose two buffers are safe only in a \
                 pipe of half a buffer; leave it out, or use --ring",
                size::format(self.pipe_size as u64)
            ));
        }
        if !self.buf_size.is_multiple_of(2) {
            return Err(format!(
                "--write-with-vmsplice cuts the buffer in two, and {} bytes are odd",
                self.buf_size
            ));
        }
        if !half.is_multiple_of(page_size()) || !(half / page_size()).is_power_of_two() {
            return Err(format!(
                "--write-with-vmsplice needs a buffer of twice a power of two of {}-byte pages, \
                 because a pipe has such a capacity; {} bytes are not",
                page_size(),
                self.buf_size
            ));
        }
        if self.chunk.is_some() {
            return Err(
                "--chunk has no meaning for the two buffers of --write-with-vmsplice; \
                 --buf-size is their size"
                    .into(),
            );
        }
        Ok(())
    }

    fn check_way(&self) -> Result<(), String> {
        if let Some(ring) = self.ring {
            if self.way.is_some_and(|way| way != WayName::Recycle) {
                return Err("--ring is the memory of --way recycle, and of no other way".into());
            }
            let chunk = self.chunk();
            if ring < 2 * chunk {
                return Err(format!(
                    "--ring {} has no room for two chunks of {}",
                    size::format(ring as u64),
                    size::format(chunk as u64)
                ));
            }
        }
        if self.lines == Some(0) {
            return Err("lines of 0 bytes write nothing".into());
        }
        if self.lines.is_some() && (self.write_with_vmsplice || self.way == Some(WayName::Repeat)) {
            return Err(
                "--lines are gathered by std's BufWriter or by --way copy, fresh or recycle".into(),
            );
        }
        if self.period == Some(0) {
            return Err("a stream cannot repeat itself after 0 bytes".into());
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
            return Err("--period is what --way repeat repeats; other ways write no period".into());
        }
        for (given, name) in [
            (self.gift, "--gift"),
            (self.same_buffer, "--same-buffer"),
            (self.dont_touch_pages, "--dont-touch-pages"),
            (self.lock_memory, "--lock-memory"),
        ] {
            if given {
                return Err(format!(
                    "{name} is about the article's buffers; --way and --ring have their own"
                ));
            }
        }
        Ok(())
    }

    /// Refuses what a reader cannot do, whatever the machine.
    pub fn check_reader(&self) -> Result<(), Usage> {
        self.check_both()
            .and_then(|()| {
                if self.read_with_splice && self.sum {
                    Err(
                        "--read-with-splice never sees the words that --sum adds up; use --verify"
                            .into(),
                    )
                } else if self.splices_through_a_pipe() && self.verify {
                    Err(
                        "--read-with-splice --through-pipe cannot --verify; leave the two out"
                            .into(),
                    )
                } else {
                    Ok(())
                }
            })
            .map_err(Usage)
    }
}
