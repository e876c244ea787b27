//! Runs one command line once, and times it from the start of its shell, or of `fullbore run`, to its
//! end.
//!
//! A separate process does this. It has its own session without a terminal, and everything that it
//! starts is in its process group. When the laboratory ends, for whatever reason, it ends all of them
//! and itself. It reads all files before the clock starts. The line's stdout is a file in memory, as
//! with `> file`.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, getpgrp, kill_process_group, setsid};
use serde::{Deserialize, Serialize};

use super::table::Way;
use crate::cpu_time::{CpuTime, largest_child};
use crate::measurement::Stop;
use crate::memory::memory_file;
pub use crate::process::Process;
use crate::process::ended;
use crate::program::Program;
use crate::task::{self, Task, wait_for_the_end_of_stdin};
use fullbore_results::run::Settings;

/// The input of a line, and its expected output.
#[derive(Debug)]
pub struct Made {
    /// The directory in which the line is run.
    pub directory: PathBuf,
    /// The total number of bytes that it reads.
    pub bytes: u64,
    /// What it prints when bash runs it.
    pub expected: File,
}

/// Runs a line once, in this way and with this stdout.
///
/// # Errors
/// Fails if a process cannot be started or waited for.
pub fn run(
    program: &Program,
    line: String,
    way: &'static Way,
    made: &Made,
    stdout: File,
    settings: &Settings,
) -> Result<Ran> {
    // The number of bytes was chosen for another machine, and this one may be busy.
    let patience = Duration::from_secs_f64(60.0 + 60.0 * settings.seconds);
    let process = start(program, line, way, Some(&made.directory), stdout)?;
    end(process, way.title, patience)
}

/// Starts a line in this way and with this stdout, in the current directory, or in one whose files are read first.
///
/// # Errors
/// Fails if a process cannot be started.
pub fn start(
    program: &Program,
    line: String,
    way: &'static Way,
    directory: Option<&Path>,
    stdout: impl Into<Stdio>,
) -> Result<Process> {
    let options = way.options.iter().map(|&word| word.to_owned());
    let mut command = program.part_that_cleans_up(&Once {
        program: way.program.map_or_else(|| program.path(), Path::new).into(),
        words: options.chain([line]).collect(),
        directory: directory.map(Path::to_owned),
    })?;
    command.stdout(stdout);
    Process::start(command)
}

/// Waits for the end of a line, for no longer than `patience`.
///
/// # Errors
/// Fails with a [`Stop`] if the line failed.
pub fn end(process: Process, title: &str, patience: Duration) -> Result<Ran> {
    let ran: Ran = process.end_group_within(patience)?.report("pipeline")?;
    let status = ExitStatus::from_raw(ran.status);
    if !status.success() {
        let said = Some(ran.said).filter(|said| !said.is_empty());
        let said = said.unwrap_or_else(|| "no word why".into());
        bail!(Stop::Failed(format!("{title} {}: {said}", ended(status))));
    }
    Ok(ran)
}

/// A command that is run once, as a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Once {
    /// The program to run.
    program: PathBuf,
    /// Its options, and the line.
    words: Vec<String>,
    /// The directory with the files that the line names, which are read beforehand; `None` for the current one, of
    /// which nothing is read.
    directory: Option<PathBuf>,
}

/// The result of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ran {
    /// From the start of the program to its end.
    pub seconds: f64,
    /// The CPU time of all processes of the line.
    pub spent: CpuTime,
    /// The most bytes of memory that one of its processes had (`ru_maxrss`, getrusage(2)).
    pub largest: u64,
    /// The wait status, as wait(2) returns it.
    status: i32,
    /// The last line that the command wrote to stderr.
    said: String,
}

impl Task for Once {
    const NAME: &'static str = "once";

    /// Runs the command on this process's stdout, and reports how long it took.
    ///
    /// # Errors
    /// Fails if the files cannot be read, or the program cannot be started.
    fn play(self) -> Result<()> {
        // In a session without a terminal, the terminal cannot influence the line, and the line cannot
        // change it.
        setsid().context("setsid")?;
        thread::spawn(|| {
            wait_for_the_end_of_stdin();
            let _ = kill_process_group(getpgrp(), Signal::KILL);
        });
        let mut stderr = memory_file()?;
        let mut command = Command::new(&self.program);
        if let Some(directory) = &self.directory {
            read_all(directory).context("read the files")?;
            command.current_dir(directory);
        }
        command.args(&self.words);
        command.stdin(Stdio::null()).stderr(stderr.try_clone()?);
        let began = Instant::now();
        let child = command.spawn();
        let child = child.with_context(|| format!("start {}", self.program.display()));
        let status = child?.wait().context("wait for the line")?;
        let seconds = began.elapsed().as_secs_f64();
        let mut said = Vec::new();
        stderr.rewind()?;
        stderr.read_to_end(&mut said)?;
        let said = String::from_utf8_lossy(&said);
        task::say(&Ran {
            seconds,
            spent: CpuTime::of_children(),
            largest: largest_child(),
            status: status.into_raw(),
            said: said.lines().next_back().unwrap_or_default().to_owned(),
        })
    }
}

/// Reads every file below a directory, because the kernel may have evicted its pages since it was last
/// read.
fn read_all(directory: &Path) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            read_all(&entry.path())?;
        } else {
            let mut file = File::open(entry.path())?;
            while file.read(&mut buffer)? > 0 {}
        }
    }
    Ok(())
}
