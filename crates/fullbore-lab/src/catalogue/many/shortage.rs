//! Makes memory short for the processes of an experiment, without endangering any others.
//!
//! They run in a memory cgroup whose limit another process in it keeps reaching: it reads a file that is larger than
//! the limit again and again. The pages of the file are clean page cache, which the kernel can always drop; so each
//! allocation may have to reclaim some of it first, and none has to fail. The file is a hole: it takes no space on
//! the disk, and reading it no time there.
//!
//! Where no cgroup can be made, another process takes a share of the available memory and returns it, again and
//! again. Whether anything has to be reclaimed then depends on the machine; to force it there would endanger others.

use std::fs::File;
use std::io::{stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use fullbore_host::size;
use fullbore_linux::{Backing, Pages};
use rustix::fs::fstatfs;
use serde::{Deserialize, Serialize};

use super::board::Board;
use super::cgroup::{self, Cgroup, Directory};
use crate::measurement::Stop;
use crate::memory;
use crate::part::Task;
use crate::program::Program;

/// The least limit of the cgroup: several times what the processes of any experiment of the group need, so that most
/// of it is page cache.
const LIMIT: u64 = 192 << 20;

/// What the limit is larger for each CPU, for the memory that the kernel charges to a CPU in advance
/// (MEMCG_CHARGE_BATCH, include/linux/memcontrol.h).
const FOR_EACH_CPU: u64 = 1 << 20;

/// How many times as large as the limit the file is.
const FILE: u64 = 3;

/// The share of the available memory that is used at most: 1/SHARE.
const SHARE: u64 = 4;

/// What is taken and returned at most where there is no cgroup.
const MOST: u64 = 512 << 20;

/// What is read at once.
const CHUNK: usize = 256 << 10;

/// Below this distance from the limit, the cgroup counts as full.
const NEARLY: u64 = 8 << 20;

/// How memory is made short in this run. It is decided on first use.
#[derive(Debug, Default)]
pub struct Shortage(Option<Result<Means, String>>);

/// How memory is made short.
#[derive(Debug)]
pub enum Means {
    Limit {
        cgroup: Cgroup,
        limit: u64,
        file: File,
    },
    Taking {
        bytes: u64,
        why: String,
    },
}

/// How the notes of the two begin.
const LIMITED: &str = "memory is short: in a cgroup with a limit of";
const TAKEN: &str = "memory is taken and returned:";

/// The note on a measurement during which the processes of the cgroup used less.
pub const NOT_REACHED: &str = "the limit was not reached while this was measured";

impl Shortage {
    /// Returns how memory is made short.
    ///
    /// # Errors
    /// Returns the reason if this machine has too little memory.
    pub fn means(&mut self, program: &Program) -> Result<&Means, Stop> {
        let decided = self.0.get_or_insert_with(|| decide(program));
        decided.as_ref().map_err(|why| Stop::Skipped(why.clone()))
    }
}

fn decide(program: &Program) -> Result<Means, String> {
    let limit = LIMIT + FOR_EACH_CPU * available_parallelism().map_or(1, |n| n.get() as u64);
    let available = memory::available().unwrap_or(0);
    if available < SHARE * limit {
        return Err(format!(
            "{} of memory are available, and memory can be made short without danger from {} on",
            size::format(available),
            size::format(SHARE * limit)
        ));
    }
    let limited = || -> Result<Means> {
        Ok(Means::Limit {
            file: hole(FILE * limit)?,
            cgroup: Cgroup::make(program, limit)?,
            limit,
        })
    };
    Ok(limited().unwrap_or_else(|error| Means::Taking {
        bytes: (available / SHARE).min(MOST),
        why: format!("{error:#}"),
    }))
}

/// Creates an unnamed file of this size, none of which is on the disk.
fn hole(bytes: u64) -> Result<File> {
    let places = [
        std::env::temp_dir(),
        PathBuf::from("/var/tmp"),
        PathBuf::from("."),
    ];
    let file = places
        .into_iter()
        .filter_map(|place| tempfile::tempfile_in(place).ok())
        .find(is_page_cache)
        .context("no directory for a temporary file on a disk")?;
    file.set_len(bytes).context("set the size of a file")?;
    Ok(file)
}

/// Returns whether the kernel may drop the pages of this file, because it is not itself in memory.
fn is_page_cache(file: &File) -> bool {
    /// TMPFS_MAGIC and RAMFS_MAGIC, include/uapi/linux/magic.h.
    const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    fstatfs(file).is_ok_and(|system| !IN_MEMORY.contains(&(system.f_type as u32)))
}

impl Means {
    /// Returns the cgroup that the processes have to enter, if there is one.
    pub fn cgroup(&self) -> Option<&Path> {
        Some(&self.directory()?.path)
    }

    fn directory(&self) -> Option<&Directory> {
        match self {
            Means::Limit { cgroup, .. } => Some(&cgroup.directory),
            Means::Taking { .. } => None,
        }
    }

    /// Returns how often the limit was reached so far, if there is one.
    pub fn times_at_limit(&self) -> Option<u64> {
        self.directory()?.times_at_limit()
    }

    /// Returns the command of the process that uses up memory. Its stdout is the board.
    ///
    /// # Errors
    /// Fails if the file has no further fd.
    pub fn command(&self, program: &Program) -> Result<Command> {
        match self {
            Means::Limit {
                cgroup,
                limit,
                file,
            } => {
                let task = ReadAllTask {
                    cgroup: cgroup.directory.clone(),
                    limit: *limit,
                };
                let mut command = program.part(&task, None)?;
                command.stdin(file.try_clone()?);
                Ok(command)
            }
            Means::Taking { bytes, .. } => program.part(&TakeTask { bytes: *bytes }, None),
        }
    }

    /// Returns a note that says which one it is.
    pub fn note(&self) -> String {
        match self {
            Means::Limit { limit, .. } => format!(
                "{LIMITED} {}, where another process reads a larger file again and again",
                size::format(*limit)
            ),
            Means::Taking { bytes, why } => format!(
                "{TAKEN} another process maps {} again and again, because no cgroup could be used ({why})",
                size::format(*bytes)
            ),
        }
    }
}

/// Returns the beginning of a sentence about experiments with these notes, such as `in a cgroup`.
pub fn while_short(notes: &[String]) -> Option<&'static str> {
    let has = |beginning: &str| notes.iter().any(|note| note.starts_with(beginning));
    if has(NOT_REACHED) {
        Some("in a cgroup with a limit that was not always reached")
    } else if has(LIMITED) {
        Some("while memory has to be reclaimed in a cgroup with a limit")
    } else if has(TAKEN) {
        Some("while another process takes and returns memory")
    } else {
        None
    }
}

/// The task of reading the file on stdin until killed.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadAllTask {
    cgroup: Directory,
    limit: u64,
}

impl Task for ReadAllTask {
    const NAME: &'static str = "many_read_all";

    /// Is ready once the limit is reached.
    fn play(self) -> Result<()> {
        cgroup::enter(Some(&self.cgroup.path))?;
        let board = Board::open(stdout().as_fd())?;
        let file = File::from(stdin().as_fd().try_clone_to_owned()?);
        let len = file.metadata()?.len();
        let mut buffer = vec![0; CHUNK];
        let mut is_ready = false;
        loop {
            for at in (0..len).step_by(CHUNK) {
                file.read_at(&mut buffer, at).context("read the file")?;
                let is_full = || {
                    self.cgroup
                        .usage()
                        .is_some_and(|n| n + NEARLY >= self.limit)
                };
                if !is_ready && is_full() {
                    is_ready = true;
                    board.wait_for_the_start()?;
                }
            }
            if !is_ready {
                is_ready = true;
                board.wait_for_the_start()?;
            }
        }
    }
}

/// The task of mapping memory, touching it and unmapping it until killed.
#[derive(Debug, Serialize, Deserialize)]
pub struct TakeTask {
    bytes: u64,
}

impl Task for TakeTask {
    const NAME: &'static str = "many_take";

    fn play(self) -> Result<()> {
        Board::open(stdout().as_fd())?.wait_for_the_start()?;
        loop {
            let pages = Pages::options().backing(Backing::Base);
            pages.map(self.bytes as usize)?.touch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_tell_how_memory_was_made_short() {
        let taking = Means::Taking {
            bytes: 1 << 20,
            why: "create 'x': permission denied".into(),
        };
        assert!(taking.note().contains("maps 1 MiB"), "{}", taking.note());
        let words = while_short(&["another".into(), taking.note()]).unwrap();
        assert!(words.contains("takes and returns"));
        let limited = format!("{LIMITED} 194 MiB, …");
        assert!(while_short(&[limited]).unwrap().contains("in a cgroup"));
        assert_eq!(while_short(&[]), None);
        assert_eq!(taking.cgroup(), None);
        assert_eq!(taking.times_at_limit(), None);
    }

    #[test]
    fn a_hole_takes_no_space() {
        use std::os::unix::fs::MetadataExt;
        if let Ok(file) = hole(64 << 20) {
            let metadata = file.metadata().unwrap();
            assert_eq!((metadata.len(), metadata.blocks()), (64 << 20, 0));
        }
        let memory = crate::catalogue::movers::memory_file().unwrap();
        assert!(!is_page_cache(&memory));
    }
}
