//! Makes the pipes of a pipeline, and starts its stages.
//!
//! Programs get what a shell would give them: the environment, the directory, the signals that are blocked
//! or ignored, and the file descriptors that are open, of which 0 and 1 are ends of pipes.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::{Context, Result};
use fullbore::{Growth, Limit, Pipe};
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use crate::inherited;
use fullbore_host::size;

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What it is, for people.
    pub text: OsString,
    /// What is looked for along PATH, if it has no slash.
    pub program: OsString,
    /// What it is called, and its arguments.
    pub words: Vec<OsString>,
    /// What is started where it is no program to the kernel: a script without `#!` is one to a shell.
    pub or_else: Option<Box<Command>>,
}

/// What all programs that this process starts have in common.
pub struct Starting {
    environment: Vec<CString>,
    attributes: PosixSpawnAttr,
}

impl Starting {
    /// With these signals blocked.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn new(blocked: &SigSet) -> Result<Self> {
        inherited::close_for_children();
        let mut attributes = PosixSpawnAttr::init().context("posix_spawnattr_init")?;
        attributes.set_sigmask(blocked)?;
        // Rust ignores SIGPIPE in this process.
        let pipe = (!inherited::was_ignored(Signal::SIGPIPE as i32)).then_some(Signal::SIGPIPE);
        attributes.set_sigdefault(&SigSet::from_iter(pipe))?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        )?;
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| {
                let mut variable = name.into_vec();
                variable.push(b'=');
                variable.extend(value.into_vec());
                CString::new(variable).ok()
            })
            .collect();
        Ok(Self {
            environment,
            attributes,
        })
    }

    /// Starts a program, with these as stdin and stdout, if they are given.
    ///
    /// # Errors
    /// The kernel's, of fork(2) or execve(2).
    pub fn start(
        &self,
        command: &Command,
        stdin: Option<BorrowedFd<'_>>,
        stdout: Option<BorrowedFd<'_>>,
    ) -> io::Result<Pid> {
        match (self.spawn(command, stdin, stdout), &command.or_else) {
            (Err(Errno::ENOEXEC), Some(other)) => self.spawn(other, stdin, stdout),
            (spawned, _) => spawned,
        }
        .map_err(io::Error::from)
    }

    fn spawn(
        &self,
        command: &Command,
        stdin: Option<BorrowedFd<'_>>,
        stdout: Option<BorrowedFd<'_>>,
    ) -> nix::Result<Pid> {
        let mut actions = PosixSpawnFileActions::init()?;
        for (fd, number) in [(stdin, 0), (stdout, 1)] {
            if let Some(fd) = fd {
                actions.add_dup2(fd.as_raw_fd(), number)?;
            }
        }
        let program = c_string(&command.program)?;
        let words = command
            .words
            .iter()
            .map(|word| c_string(word))
            .collect::<nix::Result<Vec<_>>>()?;
        let pid = posix_spawnp(
            &program,
            &actions,
            &self.attributes,
            &words,
            &self.environment,
        )?;
        Pid::from_raw(pid.as_raw()).ok_or(Errno::ESRCH)
    }
}

/// No argument of this process has a zero in it, and so none of theirs.
fn c_string(text: &OsStr) -> nix::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| Errno::EINVAL)
}

/// What each of so many pipes may hold where memory is scarce: all together a sixteenth of what the cgroup
/// allows, because what lies in pipes counts there, and no less than the kernel gives by itself.
pub fn affordable(pipes: usize, wanted: usize, memory: Option<u64>) -> usize {
    let Some(memory) = memory else {
        return wanted;
    };
    let each = memory / 16 / pipes.max(1) as u64;
    // The kernel rounds up to a power of two.
    let each = 1 << each.max(1).ilog2();
    wanted.min(each.max(USUAL))
}

/// What the kernel gives a pipe (pipe(7)), where pages have 4 KiB.
const USUAL: usize = 64 << 10;

/// The pipes between so many stages, each as roomy as it may be.
///
/// # Errors
/// Where there are too many open files or pipes.
pub fn pipes(stages: usize, wanted: usize) -> Result<Vec<(Pipe, Growth)>> {
    (1..stages)
        .map(|number| {
            Pipe::with_capacity(wanted).with_context(|| {
                format!(
                    "make pipe {number} of {} ('ulimit -n' says how many files may be open)",
                    stages - 1
                )
            })
        })
        .collect()
}

/// What keeps pipes from being as roomy as they were to be, and what helps; nothing where nothing does.
pub fn too_small(pipes: &[(Pipe, Growth)], wanted: usize) -> Option<String> {
    let (growth, limit) = pipes
        .iter()
        .map(|(_, growth)| growth)
        .filter(|growth| growth.after < wanted)
        .min_by_key(|growth| growth.after)
        .and_then(|growth| Some((growth, growth.limit?)))?;
    let smaller = pipes.iter().filter(|(_, g)| g.after < wanted).count();
    let which = match (smaller, pipes.len()) {
        (1, 1) => "the pipe holds".to_owned(),
        (some, all) if some == all => "the pipes hold".to_owned(),
        (some, all) => format!("{some} of {all} pipes hold"),
    };
    let help = match limit {
        Limit::PipeMaxSize(_) => {
            format!("as root, 'sysctl -w fs.pipe-max-size={wanted}' allows it, or ask for less")
        }
        _ => "'fullbore doctor' says who holds how many, and as root, \
             'sysctl -w fs.pipe-user-pages-soft=…' allows more"
            .to_owned(),
    };
    Some(format!(
        "{which} {} instead of {}: {limit}; {help}",
        size::format(growth.after as u64),
        size::format(wanted as u64)
    ))
}

/// The pipe by `O_PATH`: neither a reader nor a writer, so that nobody waits for it or because of it.
///
/// # Errors
/// Where /proc is not there.
pub fn handle(pipe: &Pipe) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", pipe.writer.as_fd().as_raw_fd());
    rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .with_context(|| format!("open {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_take_a_small_part_of_the_memory_that_the_cgroup_allows() {
        const MIB: u64 = 1 << 20;
        for (pipes, memory, expected) in [
            (1, None, 1 << 20),
            (1, Some(1024 * MIB), 1 << 20),
            (1, Some(8 * MIB), 512 << 10),
            (3, Some(8 * MIB), 128 << 10),
            (3, Some(MIB), 64 << 10),
            (0, Some(0), 64 << 10),
        ] {
            assert_eq!(
                affordable(pipes, 1 << 20, memory),
                expected,
                "{pipes} in {memory:?}"
            );
        }
        assert_eq!(
            affordable(1, 4096, Some(MIB)),
            4096,
            "no more than is asked for"
        );
    }
}
