//! Makes the inputs of pipelines: files and trees of files, made when the first row that needs them is
//! measured, and kept for the others.
//!
//! Command lines name files, so the inputs have names and must be removed. A separate process waits until no process
//! is left that could use them, so that they are also removed after the laboratory is interrupted or killed. They are
//! in memory (tmpfs) if there is space, because the kernel may evict pages from the page cache during a measurement.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{statvfs, syncfs};
use serde::{Deserialize, Serialize};

use super::once::{Made, run};
use super::table::{Input, Pipeline, SHELL, WAYS};
use crate::catalogue::text::{SEED, log_lines};
use crate::measurement::Stop;
use crate::memory::{self, memory_file};
use crate::process::{self, Process, on_path};
use crate::program::Program;
use crate::task::{Task, wait_for_the_end_of_stdin};
use fullbore_results::run::Settings;

/// The size of the block that files repeat: larger than the window of the compressors.
const BLOCK: usize = 16 << 20;

/// The number of files in a directory of the tree.
const FILES_OF_A_DIRECTORY: usize = 64;

/// The divisor of the free space that all inputs may use, in memory and on the file system that holds
/// them.
const PART_OF_THE_ROOM: u64 = 3;

/// How long cleaning up may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The inputs that were made so far, their directory, and what they are made of.
pub struct Inputs {
    made: BTreeMap<&'static str, Made>,
    /// The directories that are filled, and how many bytes are in each.
    filled: BTreeMap<PathBuf, u64>,
    path: PathBuf,
    /// The fraction of the wanted bytes for which there is space.
    share: f64,
    lines: Vec<u8>,
    words: Vec<u8>,
    /// Removes the directory once its stdin has ended.
    keeper: Process,
}

impl Inputs {
    /// Returns what a pipeline reads, and the expected output: what bash prints for this `line` of so many bytes.
    ///
    /// # Errors
    /// Fails if a process cannot be started or waited for.
    pub fn of(
        &mut self,
        program: &Program,
        pipeline: &'static Pipeline,
        line: impl FnOnce(u64) -> String,
        settings: &Settings,
    ) -> Result<&Made> {
        if !self.made.contains_key(pipeline.name) {
            let missing = |program: &&&str| on_path(program).is_none();
            let programs = [SHELL].iter().chain(pipeline.programs);
            if let Some(missing) = { programs }.find(missing) {
                let reason = format!("{missing} is not on PATH");
                bail!(Stop::Skipped(reason));
            }
            let made = self.fill(pipeline, settings).context("create its input");
            let made = made.map_err(Stop::skipped)?;
            let expected = made.expected.try_clone()?;
            let line = line(made.bytes);
            run(program, line, &WAYS[0], &made, expected, settings)?;
            self.made.insert(pipeline.name, made);
        }
        Ok(&self.made[pipeline.name])
    }

    /// Makes the files of a pipeline, unless they were made for another one.
    fn fill(&mut self, pipeline: &'static Pipeline, settings: &Settings) -> Result<Made> {
        let directory = self.path.join(pipeline.directory());
        let bytes = match self.filled.get(&directory) {
            Some(&bytes) => bytes,
            None => self.make_files(pipeline, &directory, settings)?,
        };
        self.filled.insert(directory.clone(), bytes);
        Ok(Made {
            directory,
            bytes,
            expected: memory_file()?,
        })
    }

    fn make_files(
        &self,
        pipeline: &'static Pipeline,
        directory: &Path,
        settings: &Settings,
    ) -> Result<u64> {
        // It may be left from an attempt that was given up.
        fs::create_dir_all(directory)?;
        for (name, text) in pipeline.scripts {
            fs::write(directory.join(name), text)?;
        }
        let wanted = |share| pipeline.bytes(settings.seconds * share);
        let bytes = wanted(self.share);
        let (lines, words) = (
            whole_lines(&self.lines, bytes),
            whole_lines(&self.words, bytes),
        );
        let repeated = |block: &[u8], lines: &[u8], name: &str| {
            repeated(block, lines.len(), bytes, &directory.join(name))
        };
        let bytes = match pipeline.input {
            // Without an input, nothing takes up space.
            Input::Nothing => wanted(1.0),
            Input::Lines(name) => repeated(lines, lines, name)?,
            Input::Words(name) => repeated(words, words, name)?,
            // The concatenation of gzip files is a gzip file (RFC 1952, 2.2), and so it is with zstd (RFC 8878, 3.1).
            Input::Compressed(name) => repeated(&compressed(lines, name)?, lines, name)?,
            Input::Tree => tree(&self.words, bytes, &directory.join("tree"))?,
        };
        // Write the files back now, so that the kernel does not do it during a measurement.
        syncfs(File::open(directory)?)?;
        Ok(bytes)
    }

    /// Makes the directory for the files of these pipelines, in the place with the most room.
    ///
    /// # Errors
    /// Fails if there is no such place.
    pub fn make<'a>(
        program: &Program,
        settings: &Settings,
        pipelines: impl IntoIterator<Item = &'a Pipeline>,
    ) -> Result<Self> {
        let made = pipelines.into_iter().filter(|p| p.input != Input::Nothing);
        let made: BTreeMap<String, u64> = made
            .map(|pipeline| (pipeline.directory(), pipeline.bytes(settings.seconds)))
            .collect();
        let wanted: u64 = made.values().sum();
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
        let mut command = program.part_that_cleans_up(&kept)?;
        // It is in another process group, so that Ctrl-C does not end it.
        command.stdout(Stdio::null()).process_group(0);
        let keeper = Process::start(command)?;
        Ok(Self {
            made: BTreeMap::new(),
            filled: BTreeMap::new(),
            share: share(&place),
            path: directory.keep(),
            lines: log_lines(BLOCK),
            words: words(),
            keeper,
        })
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        drop(self.keeper.take_stdin());
        let _ = self.keeper.ends_within(PATIENCE);
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
        let mut removed = fs::remove_dir_all(&self.directory);
        // A process that writes into the directory is still being killed.
        let is_filled = |error: &io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty;
        let mut tries = 0..100;
        while removed.as_ref().is_err_and(is_filled) && tries.next().is_some() {
            std::thread::sleep(Duration::from_millis(20));
            removed = fs::remove_dir_all(&self.directory);
        }
        removed.with_context(|| format!("remove '{}'", self.directory.display()))
    }
}

/// Returns the lines of `block` that end within the first `bytes` bytes.
fn whole_lines(block: &[u8], bytes: u64) -> &[u8] {
    let within = &block[..bytes.min(block.len() as u64) as usize];
    let end = memchr::memrchr(b'\n', within);
    &block[..end.map_or(block.len(), |end| end + 1)]
}

/// Writes a file of `bytes` bytes of lines at most: a block of so many bytes of them, as they are or compressed, again
/// and again. Returns how many bytes of lines it has.
fn repeated(block: &[u8], lines: usize, bytes: u64, path: &Path) -> Result<u64> {
    let mut file = File::create(path)?;
    let blocks = (bytes / lines as u64).max(1);
    for _ in 0..blocks {
        file.write_all(block)?;
    }
    Ok(blocks * lines as u64)
}

/// Returns lines as gzip or zstd compresses them, by the end of the file's name.
fn compressed(lines: &[u8], name: &str) -> Result<Vec<u8>> {
    let compressor = match name.ends_with(".zst") {
        true => "zstd",
        false => "gzip",
    };
    let mut plain = memory_file()?;
    plain.write_all(lines)?;
    plain.rewind()?;
    let mut command = Command::new(compressor);
    let (status, packed) = process::printed(command.arg("-c").stdin(plain))?;
    anyhow::ensure!(status.success(), "{compressor}: {status}");
    Ok(packed)
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
    const SYLLABLES: &str = "bacedifogulameniorpurasetivoaner";
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut text = String::with_capacity(BLOCK + 100);
    let mut column = 0;
    while text.len() < BLOCK {
        // By Zipf's law, the logarithm of the rank is uniformly distributed.
        let rank = f64::from(VOCABULARY).powf(random.f64()) as usize;
        let before = text.len();
        let mut left = rank;
        while left > 0 || text.len() == before {
            text.push_str(&SYLLABLES[left % 16 * 2..][..2]);
            left /= 16;
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
