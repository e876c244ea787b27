//! Makes the pipes of a pipeline, and starts its stages.
//!
//! A program gets what a shell would give it: the environment, the working directory, the blocked and the
//! ignored signals but for those of [`RESTORED`], and the open file descriptors, of which 0 and 1 are ends of pipes.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result};
use fullbore::{Pipe, PipeEnd, PipeGrowth, PipeLimit};
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;

use crate::inherited;
use fullbore_host::size;

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The command as it is printed.
    pub text: OsString,
    /// The program to execute, which is searched for in PATH if its name contains no slash.
    pub program: OsString,
    /// The name that the program is given as its first word (argv[0]), and its arguments.
    pub words: Vec<OsString>,
    /// The command to start if the kernel cannot execute this one.
    pub or_else: Option<Box<Command>>,
}

impl Command {
    /// Returns the command that has sh run the program, which is a script without `#!`, as execvp(3) does.
    fn as_script(&self) -> Self {
        let starter = ["sh", "-c", r#"exec "$0" "$@""#].map(OsString::from);
        let program = std::slice::from_ref(&self.program);
        let words = [&starter[..], program, &self.words[1..]].concat();
        Self {
            text: self.text.clone(),
            program: "/bin/sh".into(),
            words,
            or_else: None,
        }
    }
}

/// The signals that stages neither ignore nor block when they start, whatever the parent of this process did. Python
/// restores the same ones (`restore_signals`): who ignores them does so for itself, and passes it on by accident. An
/// ignored SIGHUP or SIGINT is meant for what is started: nohup(1), `&` in a script.
const RESTORED: [Signal; 2] = [Signal::SIGPIPE, Signal::SIGXFSZ];

/// The variable that stages of `run --whole` have in their environment, for those that would run parts of their input.
pub const WHOLE: &str = "FULLBORE_WHOLE";

/// The attributes that all programs started by this process share.
pub struct Starting {
    environment: Vec<CString>,
    attributes: PosixSpawnAttr,
}

impl Starting {
    /// Prepares to start programs with these signals blocked, but for those of [`RESTORED`].
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn new(blocked: &SigSet) -> Result<Self> {
        inherited::close_for_children();
        let mut attributes = PosixSpawnAttr::init().context("posix_spawnattr_init")?;
        let mut blocked = *blocked;
        RESTORED.iter().for_each(|&signal| blocked.remove(signal));
        attributes.set_sigmask(&blocked)?;
        attributes.set_sigdefault(&SigSet::from_iter(RESTORED))?;
        let flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
        attributes.set_flags(flags | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
        let variable = |(name, value): (OsString, OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
        };
        Ok(Self {
            environment: std::env::vars_os().filter_map(variable).collect(),
            attributes,
        })
    }

    /// Tells programs that they run below `run --whole`, by [`WHOLE`].
    pub fn tell_whole(&mut self) {
        let variable = CString::new([WHOLE, "=1"].concat());
        self.environment.extend(variable);
    }

    /// Starts a program with these as its stdin, stdout and stderr, if they are given.
    ///
    /// # Errors
    /// Returns the error of fork(2) or execve(2).
    pub fn start(&self, command: &Command, ends: [Option<BorrowedFd<'_>>; 3]) -> io::Result<Pid> {
        let spawned = self.spawn(command, ends);
        match (spawned, &command.or_else) {
            // The shell says why, as it does in any pipeline.
            (Err(_), Some(other)) => self.spawn(other, ends),
            (Err(Errno::ENOEXEC), None) => self.spawn(&command.as_script(), ends),
            (spawned, _) => spawned,
        }
        .map_err(io::Error::from)
    }

    fn spawn(&self, command: &Command, ends: [Option<BorrowedFd<'_>>; 3]) -> nix::Result<Pid> {
        let mut actions = PosixSpawnFileActions::init()?;
        for (number, fd) in ends.into_iter().enumerate() {
            if let Some(fd) = fd {
                actions.add_dup2(fd.as_raw_fd(), number as i32)?;
            }
        }
        let program = c_string(&command.program)?;
        let words = command.words.iter().map(|word| c_string(word));
        let words: Vec<CString> = words.collect::<nix::Result<_>>()?;
        let (attributes, environment) = (&self.attributes, &self.environment);
        let pid = posix_spawnp(&program, &actions, attributes, &words, environment)?;
        Pid::from_raw(pid.as_raw()).ok_or(Errno::ESRCH)
    }
}

/// Converts a word to a C string. No argument of this process contains a zero byte, and so no word does.
fn c_string(text: &OsStr) -> nix::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| Errno::EINVAL)
}

/// Creates a pipe of the `wanted` capacity or as large as the limits allow: that with this number, from 1.
///
/// # Errors
/// Fails if there are too many open files or pipes.
pub fn pipe(number: usize, of: usize, wanted: usize) -> Result<(Pipe, PipeGrowth)> {
    let pipe = fullbore_linux::pipe::with_capacity(wanted);
    let (pipe, mut growth) = pipe.with_context(|| format!("create pipe {number} of {of}"))?;
    if growth.after > wanted {
        growth.after = PipeEnd::new(pipe.writer.as_fd())?.resize(wanted)?;
    }
    Ok((pipe, growth))
}

/// Returns a note about the limit that keeps pipes below the wanted capacity and about how to raise it, or
/// `None` if no limit does.
pub fn too_small(pipes: &[PipeGrowth], wanted: usize) -> Option<String> {
    let smaller = || pipes.iter().filter(|growth| growth.after < wanted);
    let growth = smaller().min_by_key(|growth| growth.after)?;
    let limit = growth.limit?;
    let which = match (smaller().count(), pipes.len()) {
        (1, 1) => "the pipe has a capacity of".to_owned(),
        (some, all) if some == all => "the pipes have a capacity of".to_owned(),
        (some, all) => format!("{some} of {all} pipes have a capacity of"),
    };
    let help = match limit {
        PipeLimit::PipeMaxSize(_) => format!(
            "as root, run 'sysctl -w fs.pipe-max-size={wanted}', or use a smaller --pipe-size"
        ),
        limit => {
            let is_hard = matches!(limit, PipeLimit::PipeUserPagesHard(_));
            let name = if is_hard { "hard" } else { "soft" };
            format!(
                "'fullbore doctor' shows how many pages are in use; as root, 'sysctl -w \
                 fs.pipe-user-pages-{name}=…' raises the limit"
            )
        }
    };
    let [has, wanted] = [growth.after, wanted].map(|bytes| size::format(bytes as u64));
    Some(format!(
        "{which} {has} instead of {wanted}: {limit}; {help}"
    ))
}
