//! Makes the inputs of pipelines: files and trees of files, made when the first row that needs them is
//! measured, and kept for the others.
//!
//! Command lines name files, so the inputs have names and must be removed. A separate process (`keeper.rs`)
//! waits until no process is left that could use them, so that they are also removed after the laboratory
//! is interrupted or killed. They are in memory (tmpfs) if there is space, because the kernel may evict
//! pages from the page cache during a measurement.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{statvfs, syncfs};
use serde::{Deserialize, Serialize};

use super::once::{Made, run};
use super::table::{Input, PIPELINES, Pipeline, SHELL, WAYS};
use crate::catalogue::text::{SEED, log_lines};
use crate::keeper::{Keeper, wait_for_the_end_of_stdin};
use crate::measurement::Stop;
use crate::memory::{self, memory_file};
use crate::part::Task;
use crate::process::{self, on_path};
use crate::program::Program;
use fullbore_results::run::Settings;

/// The size of the block that files repeat: larger than the window of the compressors.
const BLOCK: usize = 16 << 20;

/// The number of files in a directory of the tree.
const FILES_OF_A_DIRECTORY: usize = 64;

/// The divisor of the free space that all inputs may use, in memory and on the file system that holds
/// them.
const PART_OF_THE_ROOM: u64 = 3;

/// The inputs that were made so far.
#[derive(Debug, Default)]
pub struct Inputs {
    directory: Option<Directory>,
    made: BTreeMap<&'static str, Made>,
    lines: OnceCell<Vec<u8>>,
    words: OnceCell<Vec<u8>>,
}

impl Inputs {
    /// Returns what a pipeline reads, and the expected output.
    ///
    /// # Errors
    /// Fails if a process cannot be started or waited for.
    pub fn of(
        &mut self,
        program: &Program,
        pipeline: &'static Pipeline,
        settings: &Settings,
    ) -> Result<&Made> {
        if !self.made.contains_key(pipeline.name) {
            let missing = |program: &&&str| on_path(program).is_none();
            let programs = [SHELL].iter().chain(pipeline.programs);
            if let Some(missing) = { programs }.find(missing) {
                let reason = format!("{missing} is not on PATH");
                bail!(Stop::Skipped(reason));
            }
            let made = self
                .make(program, pipeline, settings)
                .context("create its input");
            let made = made.map_err(Stop::skipped)?;
            let expected = made.expected.try_clone()?;
            run(program, pipeline, &WAYS[0], &made, expected, settings)?;
            self.made.insert(pipeline.name, made);
        }
        Ok(&self.made[pipeline.name])
    }

    fn make(
        &mut self,
        program: &Program,
        pipeline: &'static Pipeline,
        settings: &Settings,
    ) -> Result<Made> {
        let parent = match &self.directory {
            Some(directory) => directory,
            None => self.directory.insert(Directory::make(program, settings)?),
        };
        let directory = parent.path.join(pipeline.name);
        match fs::create_dir(&directory) {
            // It is left from an attempt that was given up.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        // Without an input, nothing takes up space.
        let share = match pipeline.input {
            Input::Nothing => 1.0,
            _ => parent.share,
        };
        let bytes = pipeline.bytes(settings.seconds * share);
        let in_short = share < 1.0;
        let note = in_short.then(|| {
            let place = parent.path.display();
            format!(
                "its input is smaller than --seconds asks for, because '{place}' has no space \
             for more"
            )
        });
        let path = |name| directory.join(name);
        let lines = || self.lines.get_or_init(|| log_lines(BLOCK));
        let words = || self.words.get_or_init(words);
        let bytes = match pipeline.input {
            Input::Nothing => bytes,
            Input::Lines(name) => repeated(lines(), bytes, &path(name))?,
            Input::Words(name) => repeated(words(), bytes, &path(name))?,
            Input::Compressed(name) => compressed(lines(), bytes, &path(name))?,
            Input::Tree => tree(words(), bytes, &path("tree"))?,
        };
        // Write the files back now, so that the kernel does not do it during a measurement.
        syncfs(File::open(&directory)?)?;
        Ok(Made {
            directory,
            bytes,
            expected: memory_file()?,
            note,
        })
    }
}

/// The directory that contains all inputs.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// The fraction of the wanted bytes for which there is space.
    share: f64,
    _keeper: Keeper,
}

impl Directory {
    fn make(program: &Program, settings: &Settings) -> Result<Self> {
        let made = PIPELINES.iter().filter(|p| p.input != Input::Nothing);
        let wanted: u64 = made.map(|pipeline| pipeline.bytes(settings.seconds)).sum();
        let share = |place: &Path| {
            let room = room(place) / PART_OF_THE_ROOM;
            (room as f64 / wanted as f64).min(1.0)
        };
        let (memory, temporary) = (PathBuf::from("/dev/shm"), std::env::temp_dir());
        let place = match share(&memory) >= share(&temporary) {
            true => memory,
            false => temporary,
        };
        let directory = tempfile::Builder::new()
            .prefix("fullbore-bench-")
            .tempdir_in(&place)
            .with_context(|| format!("a directory in '{}'", place.display()))?;
        let kept = Kept {
            directory: directory.path().to_owned(),
        };
        let keeper = Keeper::start(program, &kept)?;
        Ok(Self {
            share: share(&place),
            path: directory.keep(),
            _keeper: keeper,
        })
    }
}

/// Returns the bytes that can be written at `place`, limited by the available memory, because they use
/// memory (tmpfs or page cache) in any case.
fn room(place: &Path) -> u64 {
    let free = statvfs(place).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    memory::available().map_or(free, |memory| memory.min(free))
}

/// The task of removing a directory when the process that made it has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    directory: PathBuf,
}

impl Task for Kept {
    const NAME: &'static str = "keep";

    /// Waits until stdin ends, and then removes the directory.
    ///
    /// # Errors
    /// Fails if it cannot be removed.
    fn play(self) -> Result<()> {
        wait_for_the_end_of_stdin();
        let mut attempts = 0;
        loop {
            match fs::remove_dir_all(&self.directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // A process that writes into the directory is still being killed.
                Err(error)
                    if error.kind() == io::ErrorKind::DirectoryNotEmpty && attempts < 100 =>
                {
                    attempts += 1;
                    std::thread::sleep(Duration::from_millis(20));
                }
                done => {
                    return done.with_context(|| format!("remove '{}'", self.directory.display()));
                }
            }
        }
    }
}

/// Writes whole lines of `block` repeatedly, up to `bytes`, and returns the number of bytes written.
fn repeated(block: &[u8], bytes: u64, path: &Path) -> Result<u64> {
    let mut file = File::create(path)?;
    let mut written = 0;
    while written < bytes {
        let lines = whole_lines(block, bytes - written);
        file.write_all(lines)?;
        written += lines.len() as u64;
        if lines.len() < block.len() {
            break;
        }
    }
    Ok(written)
}

/// Returns the lines of `block` that end within the first `bytes` bytes, or the first line if none does.
fn whole_lines(block: &[u8], bytes: u64) -> &[u8] {
    let within = &block[..block
        .len()
        .min(usize::try_from(bytes).unwrap_or(usize::MAX))];
    let end = memchr::memrchr(b'\n', within).or_else(|| memchr::memchr(b'\n', block));
    &block[..end.map_or(block.len(), |end| end + 1)]
}

/// Writes `block`, compressed, repeatedly: the concatenation of gzip files is a gzip file (RFC 1952, 2.2).
/// Returns the number of bytes after decompression.
fn compressed(block: &[u8], bytes: u64, path: &Path) -> Result<u64> {
    let member = whole_lines(block, bytes);
    let mut plain = memory_file()?;
    plain.write_all(member)?;
    io::Seek::rewind(&mut plain)?;
    let mut gzip = Command::new("gzip");
    gzip.arg("-c").stdin(plain);
    let output = process::output(gzip)?;
    anyhow::ensure!(output.status.success(), "gzip: {}", output.status);
    let members = (bytes / member.len() as u64).max(1);
    let mut file = File::create(path)?;
    for _ in 0..members {
        file.write_all(&output.stdout)?;
    }
    Ok(members * member.len() as u64)
}

/// Writes files of 512 bytes to 128 KiB, as many short ones as long ones, with parts of `block` in them,
/// until they have `bytes` in total.
fn tree(block: &[u8], bytes: u64, path: &Path) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut left = bytes;
    let mut directory = path.to_owned();
    for number in 0.. {
        if left == 0 {
            break;
        }
        if number % FILES_OF_A_DIRECTORY == 0 {
            directory = path.join(format!("part{:04}", number / FILES_OF_A_DIRECTORY));
            fs::create_dir_all(&directory)?;
        }
        let len = (2f64.powf(9.0 + 8.0 * random.f64()) as u64).min(left);
        let start = random.usize(..block.len() - len as usize);
        let name = format!("file{:02}.txt", number % FILES_OF_A_DIRECTORY);
        fs::write(directory.join(name), &block[start..start + len as usize])?;
        left -= len;
    }
    Ok(bytes)
}

/// Returns lines of words of an artificial language, in which the first words are far more frequent than
/// the last.
fn words() -> Vec<u8> {
    const VOCABULARY: u32 = 20_000;
    const SYLLABLES: [&str; 16] = [
        "ba", "ce", "di", "fo", "gu", "la", "me", "ni", "or", "pu", "ra", "se", "ti", "vo", "an",
        "er",
    ];
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut text = String::with_capacity(BLOCK + 100);
    let mut column = 0;
    while text.len() < BLOCK {
        // By Zipf's law, the logarithm of the rank is uniformly distributed.
        let rank = f64::from(VOCABULARY).powf(random.f64()) as usize;
        let before = text.len();
        let mut left = rank;
        while left > 0 || text.len() == before {
            text.push_str(SYLLABLES[left % SYLLABLES.len()]);
            left /= SYLLABLES.len();
        }
        if random.u8(..12) == 0 {
            text[before..].make_ascii_uppercase();
        }
        column += text.len() - before + 1;
        text.push(if column > 72 { '\n' } else { ' ' });
        column %= 73;
    }
    text.push('\n');
    text.into_bytes()
}
