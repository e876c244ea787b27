//! The options of a stage that runs in several processes.

use clap::Args;
use fullbore_host::number::within;
use fullbore_host::refusal::Usage;
use fullbore_host::size;
use fullbore_linux::{memory_limit, page_size};
use rustix::process::{Resource, getrlimit};

use super::input::Cut;
use super::records::{Ends, delimiter};
use crate::run::{Codes, Shown, WHOLE};

/// The default block behind a long input: of 2, 4, 8, 16 and 32 MiB, cat, grep and awk took the least CPU time with the
/// last two, which differed little.
const BLOCK: u64 = 16 << 20;

/// The default block of a process that runs alone: nothing is to be shared, and its input need not be kept.
const ALONE: u64 = 256 << 20;

/// The default first block.
const FIRST: u64 = 2 << 20;

/// The most memory that is taken at a time. What a fast worker gets at once is still in the cache of a CPU.
const PIECE: usize = 256 << 10;

/// The least block of the default, where memory is short.
const LEAST: u64 = 64 << 10;

/// How to cut the input, and how many processes to run.
#[derive(Debug, Default, Args)]
pub struct Options {
    /// Processes that run at a time [default: the CPUs that this process may use]
    #[arg(short, long, value_name = "N", value_parser = within::<usize>(1..=1024))]
    pub jobs: Option<usize>,

    /// Least size of a block, which ends at the end of a record [default: 2M at first, growing to 16M; with -j 1, 256M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive, conflicts_with = "lines")]
    pub block: Option<u64>,

    /// Memory for what has been read and not been written [default: 3 blocks for each process, and 3 more]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive)]
    pub memory: Option<u64>,

    /// What ends a record, instead of a newline: bytes, with \n, \t, \r, \0, \\ and \xHH
    #[arg(long, value_name = "BYTES", value_parser = delimiter_of, allow_hyphen_values = true)]
    pub delimiter: Option<Delimiter>,

    /// Records are CSV: a newline in quotes ends none (RFC 4180)
    #[arg(long, conflicts_with_all = ["delimiter", "record_size"])]
    pub csv: bool,

    /// Records have this size
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive, conflicts_with = "delimiter")]
    pub record_size: Option<u64>,

    /// Blocks have N records, whatever their size
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=u64::MAX))]
    pub lines: Option<u64>,

    /// Give the first N records to every process, before its block
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = within::<u64>(0..=u64::MAX))]
    pub header: u64,

    /// Write the output of each block when it is complete, in any order
    #[arg(long)]
    pub unordered: bool,

    /// Go on after a block has failed, and say at the end how many have
    #[arg(long)]
    pub keep_going: bool,

    /// Exit codes of COMMAND that are no failure, such as 1 of grep, which has found nothing
    #[arg(long, value_name = "CODES", value_parser = Codes::parse_numbers)]
    pub accept: Option<Codes>,

    #[command(flatten)]
    pub shown: Shown,
}

/// The bytes that end a record.
#[derive(Debug, Clone)]
pub struct Delimiter(Vec<u8>);

fn delimiter_of(text: &str) -> Result<Delimiter, String> {
    delimiter(text).map(Delimiter)
}

/// The sizes that the options, or the machine, ask for.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub jobs: usize,
    pub block: usize,
    /// Of the first block.
    pub first: usize,
    pub memory: usize,
    /// Whether no process gets a block that is not complete, as `run --whole` promises.
    pub is_whole: bool,
    /// Of the memory that is taken at a time.
    pub piece: usize,
    /// Whether a second thread has a CPU and memory of its own.
    pub may_have_a_thread: bool,
}

impl Sizes {
    /// Returns how many blocks are read before processes are free for them: one for each, as several may end at once.
    pub fn ready(&self) -> usize {
        self.jobs
    }
}

/// Returns whether the address space or the data of a process is limited (`ulimit -v`, `ulimit -d`). A thread maps 64 MiB
/// and more, which other calls would lack, and where its signal stack cannot be mapped, std ends the process.
fn is_memory_limited() -> bool {
    [Resource::As, Resource::Data]
        .map(getrlimit)
        .iter()
        .any(|limit| limit.current.is_some())
}

/// Returns how many of these bytes are in whole pages, or all of them, if they are fewer than two.
fn whole_pages(bytes: usize) -> usize {
    match bytes < 2 * page_size() {
        true => bytes,
        false => bytes - bytes % page_size(),
    }
}

impl Options {
    /// Returns how many processes run, and in how much memory.
    ///
    /// # Errors
    /// [`Usage`] if the memory has no room for three blocks.
    pub fn sizes(&self) -> Result<Sizes, Usage> {
        // It knows affinity and the quota of the cgroup.
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or(cpus);
        let blocks = 3 * (jobs as u64 + 1);
        let affordable = memory_limit().map(|limit| limit / 4);
        let block = match (self.block, self.memory.or(affordable)) {
            (Some(block), _) => block,
            (None, Some(memory)) => BLOCK.min(memory / blocks).max(LEAST.min(memory / 3)),
            (None, None) => BLOCK,
        };
        let block = match self.record_size {
            // Whole records, of which none is cut.
            Some(record) if record <= block => block / record * record,
            Some(record) => record,
            None => block,
        };
        let wanted = block.saturating_mul(blocks);
        let memory = match (self.memory, affordable) {
            (Some(memory), _) => memory,
            (None, Some(affordable)) => wanted.min(affordable.max(3 * block)),
            (None, None) => wanted,
        };
        if block == 0 || memory / 3 < block {
            return Err(Usage(format!(
                "a memory of {} has no room for three blocks of {}: use a larger --memory or a smaller --block",
                size::format(memory),
                size::format(block)
            )));
        }
        let small = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX / 4);
        let is_whole = std::env::var_os(WHOLE).is_some();
        let is_free = self.block.or(self.lines).or(self.record_size).is_none();
        let (first, block) = match (is_free, jobs, is_whole) {
            (false, ..) => (block, block),
            (true, 1, false) => (ALONE, ALONE),
            (true, ..) => (FIRST.min(block), block),
        };
        Ok(Sizes {
            jobs,
            block: small(block),
            first: small(first),
            is_whole,
            memory: small(memory),
            piece: whole_pages((small(memory) / 8).clamp(1, PIECE)),
            may_have_a_thread: cpus > 1 && !is_memory_limited(),
        })
    }

    /// Returns what ends a record.
    pub fn ends(&self) -> Ends {
        match (&self.delimiter, self.record_size) {
            (Some(Delimiter(bytes)), _) => Ends::Delimiter(bytes.clone()),
            (None, Some(size)) => Ends::Every(size),
            (None, None) if self.csv => Ends::Csv,
            (None, None) => Ends::Delimiter(b"\n".to_vec()),
        }
    }

    /// Returns how the input is cut into blocks of at least these sizes.
    pub fn cut(&self, sizes: Sizes) -> Cut {
        Cut {
            piece: sizes.piece,
            block: sizes.block,
            first: sizes.first,
            part: 2 * sizes.jobs as u64,
            records: self.lines,
            header: self.header,
        }
    }
}
