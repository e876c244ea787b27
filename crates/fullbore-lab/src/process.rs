//! The processes that the laboratory starts: `fullbore` (`program.rs`), and the programs that it is
//! compared with.

use std::env;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::de::DeserializeOwned;

use crate::taken::Stop;
use fullbore_host::refusal::UNSUPPORTED;

/// What a process may take to end when the one before or behind it has gone.
pub const GRACE: Duration = Duration::from_secs(5);

/// What a process reported: the last line of what it printed.
pub fn report<T: DeserializeOwned>(printed: &[u8]) -> Result<T, serde_json::Error> {
    let text = String::from_utf8_lossy(printed);
    serde_json::from_str(text.lines().last().unwrap_or_default())
}

/// The last line that a process wrote to stderr, without its name in front.
pub fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("without a message");
    ["fullbore write: ", "fullbore read: ", "fullbore part: "]
        .iter()
        .find_map(|prefix| line.strip_prefix(prefix))
        .unwrap_or(line)
        .to_owned()
}

/// A process that is killed if it still runs when this is dropped, so that none outlives its measurement,
/// also where that ends with an error.
#[derive(Debug)]
pub struct Process(Option<Child>);

/// How a process ended.
pub struct Ended {
    /// Its exit status, and what it wrote to stdout and stderr.
    pub output: Output,
    /// Whether it had to be killed, because its time was up.
    pub killed: bool,
}

impl Process {
    /// Starts it, and closes the fds that it was given.
    pub fn start(mut command: Command) -> Result<Self> {
        let child = command
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        Ok(Self(Some(child)))
    }

    /// Its stdin, where that is a pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.0.as_mut()?.stdin.take()
    }

    /// Whether it ends within so long.
    pub fn ends_within(&mut self, patience: Duration) -> Result<bool> {
        let child = self
            .0
            .as_mut()
            .context("the process was waited for twice")?;
        ends_within(child, patience)
    }

    /// Kills what is left of a process that leads a group of its own, and of what it started.
    pub fn kill_group(&self) {
        if let Some(child) = &self.0 {
            // Not waited for yet, so the number is still its own. It fails where no process of the group is left.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        }
    }

    /// Waits for its end, for so long, and then kills it.
    pub fn end_within(mut self, patience: Duration) -> Result<Ended> {
        let mut child = self.0.take().context("the process was waited for twice")?;
        let killed = !ends_within(&mut child, patience)?;
        if killed {
            // It may have ended by itself in the meantime; it has not been waited for.
            let _ = child.kill();
        }
        let output = output_of(child)?;
        Ok(Ended { output, killed })
    }
}

impl Process {
    /// What a process came to that was `measured` as `role` by another one, and whether this one, which is
    /// killed now, had gone wrong before: where it is at fault, the other one only sees an end.
    pub fn behind(self, own_role: &str, measured: &Ended, role: &str) -> Result<Result<(), Stop>> {
        let Err(stop) = measured.went_well(role) else {
            return Ok(Ok(()));
        };
        Ok(Err(self.own_fault(own_role)?.unwrap_or(stop)))
    }

    /// What this process, which is killed now, had gone wrong with before, as `role`.
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
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Ended {
    /// Whether it did what it was asked to, or else why not: as `role`, such as `reader`.
    ///
    /// # Errors
    /// What to give the experiment up for.
    pub fn went_well(&self, role: &str) -> Result<(), Stop> {
        let status = self.output.status;
        if self.killed {
            return Err(Stop::Failed(format!(
                "the {role} did not finish in time and was killed"
            )));
        }
        if status.code() == Some(i32::from(UNSUPPORTED)) {
            return Err(Stop::Skipped(last_words(&self.output)));
        }
        if !status.success() {
            return Err(Stop::Failed(format!(
                "the {role} {}: {}",
                ended(status),
                last_words(&self.output)
            )));
        }
        Ok(())
    }
}

/// What a process writes to stdout and stderr until both have ended, and how it ends.
///
/// It does what `Child::wait_with_output` does, but for the ioctl(2) (FIONBIO) that std makes of each
/// pipe, with a panic where that is refused.
fn output_of(mut child: Child) -> Result<Output> {
    drop(child.stdin.take());
    let mut pipes = [
        child.stdout.take().map(OwnedFd::from),
        child.stderr.take().map(OwnedFd::from),
    ];
    let mut written = [Vec::new(), Vec::new()];
    while pipes.iter().any(Option::is_some) {
        let mut open: Vec<PollFd<'_>> = pipes
            .iter()
            .flatten()
            .map(|pipe| PollFd::new(pipe, PollFlags::IN))
            .collect();
        retry_on_intr(|| poll(&mut open, None)).context("poll")?;
        let mut ready = open.into_iter().map(|fd| !fd.revents().is_empty());
        let ready = [0, 1].map(|at| pipes[at].is_some() && ready.next().unwrap_or(false));
        for at in [0, 1] {
            let Some(pipe) = pipes[at].as_ref().filter(|_| ready[at]) else {
                continue;
            };
            let mut buffer = [0; 4096];
            match retry_on_intr(|| rustix::io::read(pipe, &mut buffer)).context("read")? {
                0 => pipes[at] = None,
                n => written[at].extend_from_slice(&buffer[..n]),
            }
        }
    }
    let [stdout, stderr] = written;
    Ok(Output {
        status: child.wait().context("wait for a process")?,
        stdout,
        stderr,
    })
}

/// Runs a command to its end, without stdin, and returns what it writes.
///
/// # Errors
/// Where it cannot be started.
pub fn output(mut command: Command) -> Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process::start(command)?;
    let child = process
        .0
        .take()
        .context("a process that was just started")?;
    output_of(child)
}

/// How a process ended, for people.
pub fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// Whether a process ends within so long. What it says is not read meanwhile: it has to be short.
fn ends_within(child: &mut Child, patience: Duration) -> Result<bool> {
    if let Ok(process) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
        return is_readable_within(&process, patience);
    }
    // A kernel before 5.3, or something that only looks like one.
    let began = Instant::now();
    while began.elapsed() < patience {
        if child.try_wait().context("wait for a process")?.is_some() {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}

/// Whether there is something to read, or an end to see, within so long.
pub fn is_readable_within(fd: &impl AsFd, patience: Duration) -> Result<bool> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            answer => return Ok(answer.context("poll")? > 0),
        }
    }
}

/// Where a program is, if it is on PATH.
pub fn on_path(program: &str) -> Option<PathBuf> {
    find(program, env::var_os("PATH").unwrap_or_default())
}

fn find(program: &str, path: OsString) -> Option<PathBuf> {
    use rustix::fs::{Access, access};
    env::split_paths(&path)
        // An empty entry means the current directory: not where to look for a peer.
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
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
    fn all_of_stdout_and_stderr_is_read_whichever_comes_first() {
        // More than a pipe holds, of both.
        let line =
            "head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero; echo a; echo b >&2; exit 7";
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        let output = output(command).unwrap();
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(
            (output.stdout.len(), output.stderr.len()),
            (200_002, 300_002)
        );
        assert!(output.stdout.ends_with(b"a\n") && output.stderr.ends_with(b"b\n"));
    }

    #[test]
    fn programs_are_looked_for_on_path_alone() {
        assert!(find("sh", "/nowhere:/bin:/usr/bin".into()).is_some());
        assert_eq!(find("sh", "".into()), None);
        assert_eq!(find("sh", "/nowhere".into()), None);
        // A directory is no program.
        assert_eq!(find("usr", "/".into()), None);
    }
}
