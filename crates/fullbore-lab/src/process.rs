//! Handles the processes that the laboratory starts: `fullbore` (`program.rs`), and the programs that it is
//! compared with.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::de::DeserializeOwned;

use crate::measurement::Stop;
use crate::memory::memory_file;
use fullbore_host::refusal::UNSUPPORTED;

/// How long a process may take to end after the process before or behind it has ended. A process that does
/// not stand still takes much less, even on a machine with ten others for each CPU.
pub const GRACE: Duration = Duration::from_secs(20);

/// Parses the report of a process, which is the last line that it printed.
pub fn report<T: DeserializeOwned>(printed: &[u8]) -> Result<T, Stop> {
    let text = String::from_utf8_lossy(printed);
    serde_json::from_str(text.lines().last().unwrap_or_default())
        .map_err(|error| Stop::Failed(format!("cannot parse the report of a process: {error}")))
}

/// Returns the last line that a process wrote to stderr, without the program's name in front.
pub fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    let line = line.unwrap_or("without a message");
    let mut ours = ["fullbore write: ", "fullbore read: ", "fullbore part: "].iter();
    let said = ours.find_map(|prefix| line.strip_prefix(prefix));
    said.unwrap_or(line).to_owned()
}

/// A process that is killed if it still runs when this value is dropped, so that none outlives its
/// measurement, also if the measurement ends with an error.
#[derive(Debug)]
pub struct Process(Child);

/// How a process ended.
pub struct Ended {
    /// Its exit status, and what it wrote to stdout and stderr.
    pub output: Output,
    /// Whether it was killed because its time was up.
    pub killed: bool,
}

impl Process {
    /// Starts the process, and closes this process's copies of the fds that it was given.
    pub fn start(mut command: Command) -> Result<Self> {
        let program = Path::new(command.get_program()).display().to_string();
        command
            .spawn()
            .map(Self)
            .with_context(|| format!("start {program}"))
    }

    /// Returns its stdin, if that is a pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.0.stdin.take()
    }

    /// Returns its PID.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns whether it ends within `patience`. Its output is not read meanwhile, so it must be short.
    pub fn ends_within(&mut self, patience: Duration) -> Result<bool> {
        if let Ok(process) = pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty()) {
            return is_readable_within(&process, patience);
        }
        // The kernel is older than 5.3, or an emulation without pidfd_open(2).
        let began = Instant::now();
        while began.elapsed() < patience {
            if self.0.try_wait().context("wait for a process")?.is_some() {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }

    /// Waits for its end, and kills it after `patience`.
    pub fn end_within(mut self, patience: Duration) -> Result<Ended> {
        let killed = !self.ends_within(patience)?;
        if killed {
            // The process may have ended by itself in the meantime; it has not been waited for yet.
            let _ = self.0.kill();
        }
        let output = output_of(&mut self.0)?;
        Ok(Ended { output, killed })
    }

    /// Waits for its end, and after that, or after `patience`, kills what is left of the process group that it
    /// leads, which would keep its stdout open.
    pub fn end_group_within(mut self, patience: Duration) -> Result<Ended> {
        let in_time = self.ends_within(patience)?;
        // With pidfd_open(2), the process has not been waited for, so its number has not been reused. The call fails if
        // no process of the group is left.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let mut ended = self.end_within(GRACE)?;
        ended.killed |= !in_time;
        Ok(ended)
    }

    /// Returns the report of `measured`, if that went well as `role`, and otherwise fails with a [`Stop`]. If this
    /// process, which is killed now, had failed before, its failure is the reason: the other process only sees an
    /// early end.
    pub fn behind<T: DeserializeOwned>(
        self,
        own_role: &str,
        measured: &Ended,
        role: &str,
    ) -> Result<T> {
        match measured.report(role) {
            Ok(report) => Ok(report),
            Err(stop) => Err(self.own_fault(own_role)?.unwrap_or(stop).into()),
        }
    }

    /// Returns what this process, which is killed now, had failed with before, as `own_role` describes it.
    pub fn own_fault(self, role: &str) -> Result<Option<Stop>> {
        let own = self.end_within(Duration::from_millis(100))?;
        Ok(match own.killed {
            true => None,
            false => own.went_well(role).err(),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ended {
    /// Returns the report that the process printed on stderr, if it did what it was asked to do.
    ///
    /// # Errors
    /// Returns the reason for which the experiment is given up.
    pub fn report<T: DeserializeOwned>(&self, role: &str) -> Result<T, Stop> {
        self.went_well(role)?;
        report(&self.output.stderr)
    }

    /// Checks whether the process did what it was asked to do; `role`, such as `reader`, names it in the
    /// reason.
    ///
    /// # Errors
    /// Returns the reason for which the experiment is given up.
    pub fn went_well(&self, role: &str) -> Result<(), Stop> {
        let status = self.output.status;
        let (ended, said) = (ended(status), last_words(&self.output));
        Err(match status.code() {
            _ if self.killed => {
                Stop::Failed(format!("the {role} did not finish in time and was killed"))
            }
            Some(0) => return Ok(()),
            Some(code) if code == i32::from(UNSUPPORTED) => Stop::Skipped(said),
            _ => Stop::Failed(format!("the {role} {ended}: {said}")),
        })
    }
}

/// Reads stdout of a process to its end, then stderr, and waits for the process. Until stdout has ended, what the process
/// writes to stderr must fit into the pipe.
///
/// It does what `Child::wait_with_output` does, without the ioctl(2) (FIONBIO) that std calls on each pipe
/// and whose refusal is a panic.
fn output_of(child: &mut Child) -> Result<Output> {
    drop(child.stdin.take());
    let stdout = all_of(child.stdout.take()).context("read stdout")?;
    let stderr = all_of(child.stderr.take()).context("read stderr")?;
    Ok(Output {
        status: child.wait().context("wait for a process")?,
        stdout,
        stderr,
    })
}

fn all_of(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut all)?;
    }
    Ok(all)
}

/// Runs a program, and returns how it ended and all that it wrote to stdout and stderr.
///
/// # Errors
/// Fails if it cannot be started or waited for.
pub fn printed(command: &mut Command) -> Result<(ExitStatus, Vec<u8>)> {
    let mut file = memory_file()?;
    command.stdout(file.try_clone()?).stderr(file.try_clone()?);
    let status = command.status()?;
    let mut all = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut all)?;
    Ok((status, all))
}

/// Describes how a process ended.
pub fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// Returns whether there is data, or an end of file, to read within `patience`.
pub fn is_readable_within(fd: &impl AsFd, patience: Duration) -> Result<bool> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // A time that is too long for the kernel is no limit.
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            answer => return Ok(answer.context("poll")? > 0),
        }
    }
}

/// Returns the path of a program, if it is on PATH.
pub fn on_path(program: &str) -> Option<PathBuf> {
    find(program, env::var_os("PATH").unwrap_or_default())
}

/// Returns the path of a program in a directory, if it is there and may be executed.
pub fn in_directory(program: &str, directory: &Path) -> Option<PathBuf> {
    use rustix::fs::{Access, access};
    let file = directory.join(program);
    (file.is_file() && access(&file, Access::EXEC_OK).is_ok()).then_some(file)
}

fn find(program: &str, path: OsString) -> Option<PathBuf> {
    // An empty entry means the current directory, where no peer is looked for.
    let mut directories = env::split_paths(&path).filter(|directory| directory.is_absolute());
    directories.find_map(|directory| in_directory(program, &directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_end_is_killed() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let process = Process::start(command).unwrap();
        let ended = process.end_within(Duration::from_millis(20)).unwrap();
        assert!(ended.killed);
        assert_eq!(ended.output.status.signal(), Some(9));
        assert!(matches!(ended.went_well("sleeper"), Err(Stop::Failed(_))));
    }

    #[test]
    fn all_of_stdout_and_stderr_is_read() {
        // Each stream is longer than a pipe can hold.
        let line =
            "head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero; echo a; echo b >&2; exit 7";
        let mut command = Command::new("sh");
        let (status, all) = printed(command.args(["-c", line])).unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(all.len(), 500_004);
        assert!(all.ends_with(b"a\nb\n"));
    }

    #[test]
    fn programs_are_looked_for_on_path_alone() {
        assert!(find("sh", "/nowhere:/bin:/usr/bin".into()).is_some());
        assert_eq!(find("sh", "".into()), None);
        assert_eq!(find("sh", "/nowhere".into()), None);
        // A directory is not a program.
        assert_eq!(find("usr", "/".into()), None);
    }
}
