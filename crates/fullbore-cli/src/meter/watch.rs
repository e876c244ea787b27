//! How far a running process has read or written the files that it has open, and how full its pipes
//! are.
//!
//! The kernel reports the position of each fd in /proc/PID/fdinfo (proc_pid_fdinfo(5)). Reads that name
//! their own position (pread(2)) and memory maps do not move it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use fullbore_linux::live_thread;
use procfs::ProcError;
use procfs::process::{Process, all_processes};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::found::{Found, lives};
use super::line_options::LineOptions;
use crate::interrupt::Interrupt;
use crate::terminal::line::{Reading, gauge};
use crate::terminal::lines::{Screen, say_line};
use crate::waiting::wait_for;
use crate::words::Failed;
use fullbore_host::process_name::{self, ProcessName};
use fullbore_host::text::{clean, cut, error_text};
use fullbore_observe::Rate;
use fullbore_observe::census::scope::is_hidden;

/// A closed fd or a signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(100);

/// What is to be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `PID` or `PID:FD`.
    One(One),
    /// `NAME` or, as pv has it, `=NAME`: all processes with this name.
    Named(String),
}

/// A process, or one fd of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct One {
    pid: i32,
    fd: Option<i32>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (name, fd) = match text.split_once(':') {
            Some((pid, fd)) if is_number(pid) => (pid, Some(fd)),
            _ => (text, None),
        };
        let number = |text: &str| text.parse().ok().filter(|_| is_number(text));
        let read = |fd| number(fd).ok_or_else(|| format!("invalid file descriptor '{fd}'"));
        let fd = fd.map(read).transpose()?;
        Ok(match process_name::parse(name)? {
            ProcessName::Pid(pid) => Self::One(One {
                pid: pid as i32,
                fd,
            }),
            ProcessName::Name(name) => Self::Named(name),
        })
    }
}

/// Watches files until they are closed, or their processes have ended.
pub struct Watches {
    all: Vec<Watch>,
    options: LineOptions,
    /// Whether files are named as pv names them.
    as_pv: bool,
}

/// Watches the files of one process.
struct Watch {
    process: Process,
    target: One,
    /// Becomes readable when the process ends, on kernels that have pidfds (Linux 5.3).
    pidfd: Option<OwnedFd>,
    followed: Vec<Followed>,
}

/// One fd.
struct Followed {
    fd: i32,
    identity: (u32, u32, u64),
    path: String,
    state: State,
}

enum State {
    File {
        rate: Rate,
        total: Option<u64>,
    },
    /// How many bytes it holds, and how many it can hold.
    Pipe(usize, usize),
}

impl Watches {
    /// Starts to watch running processes, or single fds that they have open.
    ///
    /// # Errors
    /// If there is no such process or fd, or this user lacks permission.
    pub fn new(targets: &[Target], options: LineOptions, as_pv: bool) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for target in targets {
            match target {
                Target::One(one) => all.push(Watch::new(*one, &options)?),
                Target::Named(name) => all.extend(Watch::named(name, &options)?),
            }
        }
        Ok(Self {
            all,
            options,
            as_pv,
        })
    }

    /// Draws a line for each fd if stderr is a terminal, or if `anyway` is set, until it is over.
    pub fn lines(mut self, anyway: bool) {
        let mut screen = Screen::new(anyway);
        let interrupt = Interrupt::noted();
        self.each_interval(&interrupt, |watch, ended| {
            let Some(screen) = &mut screen else { return };
            screen.height = watch.options.height.map(usize::from);
            let (columns, rows) = screen.size();
            let lines = watch.rows(columns, rows, ended);
            if ended {
                screen.leave(&lines);
            } else {
                screen.draw(&lines);
            }
        });
        interrupt.obey();
    }

    /// Prints the position, one number per line, until it is over.
    pub fn numbers(mut self) {
        self.each_interval(&Interrupt::default(), |watch, _| {
            for followed in watch.all.iter().flat_map(|one| &one.followed) {
                let reading = followed.reading(&watch.options, None, false);
                say_line(watch.options.line(&reading, 0));
            }
        });
    }

    /// Returns a line for each file, at most as many as there are rows.
    fn rows(&self, columns: usize, rows: usize, ended: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for one in &self.all {
            if one.followed.is_empty() {
                let text = format!("{}: no regular file is open", one.target);
                lines.push(cut(&text, columns));
            }
            for followed in &one.followed {
                let name = self.name_for_pv(one, followed);
                lines.push(followed.line(&self.options, name, columns, ended));
            }
        }
        if lines.len() >= rows {
            let more = lines.len() - (rows - 2);
            lines.truncate(rows - 2);
            lines.push(format!("and {more} more"));
        }
        lines
    }

    /// Returns the name that pv gives a file, if it is to be named so: with the PID if there are several targets, and
    /// without anything if there is one fd only.
    fn name_for_pv(&self, one: &Watch, followed: &Followed) -> Option<String> {
        let Followed { fd, path, .. } = followed;
        self.as_pv
            .then(|| match (self.all.len() > 1, one.target.fd) {
                (true, _) => format!("{:>8}:{fd:>4}:{path}", one.target.pid),
                (false, None) => format!("{fd:>4}:{path}"),
                (false, Some(_)) => String::new(),
            })
    }

    /// Calls `show` in each interval, and once more when it is over.
    fn each_interval(&mut self, interrupt: &Interrupt, mut show: impl FnMut(&Self, bool)) {
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            if now >= due {
                show(self, false);
                due = now + self.options.interval();
            }
            self.sleep(due.saturating_duration_since(now).min(NOTICE));
            // A sleep that was interrupted does not mean that the process has ended.
            let is_due = Instant::now() >= due;
            if interrupt.came() {
                return show(self, true);
            }
            let options = &self.options;
            let goes_on: Vec<bool> = (self.all.iter_mut())
                .map(|one| one.update(options, is_due))
                .collect();
            if !goes_on.contains(&true) {
                // The last ones are shown once more.
                return show(self, true);
            }
            let mut goes_on = goes_on.into_iter();
            self.all.retain(|_| goes_on.next() == Some(true));
        }
    }

    /// Sleeps for this time, or until the process ends or a signal arrives.
    fn sleep(&self, time: Duration) {
        let pidfds = self.all.iter().filter_map(|one| one.pidfd.as_ref());
        let pidfds: Vec<_> = pidfds.map(AsFd::as_fd).collect();
        wait_for(&pidfds, Some(time));
    }
}

impl Watch {
    fn new(target: One, options: &LineOptions) -> anyhow::Result<Self> {
        let process = Process::new(target.pid).map_err(|error| target.cannot(error))?;
        // A zombie has closed everything.
        if !lives(&process) {
            return Err(target.cannot(ProcError::NotFound(None)));
        }
        let pidfd =
            Pid::from_raw(target.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut watch = Self {
            process,
            target,
            pidfd,
            followed: Vec::new(),
        };
        let cannot = |error| target.cannot(error);
        match target.fd {
            Some(fd) => watch.follow_one(fd, options)?,
            None => watch.follow_all(options).map_err(cannot)?,
        }
        Ok(watch)
    }

    /// Watches all processes with this name that this user may watch.
    fn named(name: &str, options: &LineOptions) -> anyhow::Result<Vec<Self>> {
        let mut watched = Vec::new();
        let mut refused = None;
        for process in all_processes().map_err(|error| anyhow!("/proc: {error}"))? {
            // It may have ended meanwhile.
            let Ok(process) = process else { continue };
            let is_named = process.stat().is_ok_and(|stat| stat.comm == name);
            if !is_named || process.pid().unsigned_abs() == std::process::id() {
                continue;
            }
            let pid = process.pid();
            match Self::new(One { pid, fd: None }, options) {
                Ok(watch) => watched.push(watch),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            _ if !watched.is_empty() => Ok(watched),
            Some(error) => Err(error),
            None => Err(anyhow!("no process is named '{}'", clean(name))),
        }
    }

    /// Takes a sample, of new fds too if `is_due`. Returns whether there is still something to watch.
    fn update(&mut self, options: &LineOptions, is_due: bool) -> bool {
        if !lives(&self.process) {
            return false;
        }
        if self.target.fd.is_some() {
            // If nothing has changed, the last sample is kept.
            let process = &self.process;
            let mut all = self.followed.iter_mut();
            return all.all(|followed| followed.update(process, options, is_due).is_some());
        }
        !is_due || self.follow_all(options).is_ok()
    }

    fn follow_one(&mut self, fd: i32, options: &LineOptions) -> anyhow::Result<()> {
        let target = self.target;
        let found = match Found::at(&self.process, fd) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!("{target}: no such file descriptor")
            }
            found => found.failed(target)?,
        };
        let followed = Followed::new(&found, options).failed(target)?;
        let followed =
            followed.with_context(|| format!("{target}: neither a regular file nor a pipe"))?;
        self.followed.push(followed);
        Ok(())
    }

    /// Takes a sample of all regular files that are open now.
    fn follow_all(&mut self, options: &LineOptions) -> Result<(), ProcError> {
        let mut before = std::mem::take(&mut self.followed);
        let thread = live_thread(self.process.pid().unsigned_abs());
        let thread = thread.ok_or(ProcError::NotFound(None))?;
        for info in Process::new(thread as i32)?.fd()? {
            // It was closed meanwhile.
            let Ok(info) = info else { continue };
            let known = before.iter().position(|followed| followed.fd == info.fd);
            let known = known.map(|at| before.swap_remove(at));
            let known = known.and_then(|mut followed| {
                followed.update(&self.process, options, true)?;
                Some(followed)
            });
            let new = || {
                let found = Found::at(&self.process, info.fd).ok();
                let found = found.filter(|found| found.kind == FileType::RegularFile)?;
                Followed::new(&found, options).ok()?
            };
            self.followed.extend(known.or_else(new));
        }
        self.followed.sort_by_key(|followed| followed.fd);
        Ok(())
    }
}

impl Target {
    /// Whether the target is one fd, not all regular files of a process.
    pub fn is_one_fd(&self) -> bool {
        matches!(self, Self::One(One { fd: Some(_), .. }))
    }
}

impl One {
    fn cannot(self, error: ProcError) -> anyhow::Error {
        let why = match error {
            ProcError::NotFound(_) if is_hidden(self.pid.unsigned_abs()) => {
                "Permission denied (/proc is mounted with hidepid)".to_owned()
            }
            ProcError::PermissionDenied(_) => "Permission denied".to_owned(),
            ProcError::NotFound(_) => "No such process".to_owned(),
            ProcError::Io(error, _) => error_text(&error),
            error => error.to_string(),
        };
        anyhow!("{self}: {why}")
    }
}

impl std::fmt::Display for One {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)?;
        match self.fd {
            None => Ok(()),
            Some(fd) => write!(f, ", fd {fd}"),
        }
    }
}

impl Followed {
    /// Returns `None` if the fd is neither a regular file nor a pipe.
    fn new(found: &Found<'_>, options: &LineOptions) -> io::Result<Option<Self>> {
        let state = match found.kind {
            FileType::RegularFile => {
                let (position, total) = found.position(options.size)?;
                State::File {
                    rate: Rate::new(position, Instant::now()),
                    total,
                }
            }
            FileType::Fifo => {
                let (queued, capacity) = found.fullness()?;
                State::Pipe(queued, capacity)
            }
            _ => return Ok(None),
        };
        let target = std::fs::read_link(found.path())?;
        Ok(Some(Self {
            fd: found.fd,
            identity: found.identity,
            path: target.display().to_string(),
            state,
        }))
    }

    /// Takes a sample. Returns `None` if the fd is closed, or refers to another file now. Rates are measured
    /// from one sample that is `due` to the next.
    fn update(&mut self, process: &Process, options: &LineOptions, is_due: bool) -> Option<()> {
        let found = Found::at(process, self.fd).ok()?;
        if found.identity != self.identity {
            return None;
        }
        match &mut self.state {
            _ if !is_due => {}
            State::File { rate, total } => {
                let (position, size) = found.position(options.size).ok()?;
                rate.update(position, Instant::now());
                *total = size;
            }
            state @ State::Pipe(..) => match found.fullness() {
                Ok((queued, capacity)) => *state = State::Pipe(queued, capacity),
                // It is shown as it was last seen.
                Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {}
                Err(_) => return None,
            },
        }
        Some(())
    }

    /// Returns what is shown, under a name that is not its own if there is one.
    fn reading(&self, options: &LineOptions, name: Option<String>, ended: bool) -> Reading {
        let own = || format!("{}: {}", self.fd, self.path);
        let name = name.unwrap_or_else(own);
        let found = match &self.state {
            State::File { rate, total } => Reading::of(rate, *total),
            State::Pipe(queued, capacity) => Reading {
                passed: *queued as u64,
                total: Some(*capacity as u64),
                ..Reading::default()
            },
        };
        Reading {
            name: match &options.name {
                Some(given) if name.is_empty() => Some(given.clone()),
                Some(given) => Some(format!("{given} {name}")),
                None => Some(name).filter(|name| !name.is_empty()),
            },
            ended,
            ..found
        }
    }

    fn line(
        &self,
        options: &LineOptions,
        name: Option<String>,
        columns: usize,
        ended: bool,
    ) -> String {
        let reading = self.reading(options, name, ended);
        match self.state {
            State::File { .. } => options.line(&reading, columns),
            State::Pipe(..) => gauge(&reading, columns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_pid_or_a_pid_and_an_fd() {
        let read = |text: &str| match text.parse::<Target>() {
            Ok(Target::One(one)) => Some((one.pid, one.fd)),
            _ => None,
        };
        for text in ["a b", "=a b"] {
            assert_eq!(text.parse(), Ok(Target::Named("a b".into())));
        }
        assert_eq!("=12".parse(), Ok(Target::Named("12".into())));
        assert_eq!(read("12"), Some((12, None)));
        assert_eq!(read("12:0"), Some((12, Some(0))));
        for text in [
            "",
            "=",
            "0",
            "99999999999",
            "0:1",
            "12:",
            "12:-1",
            "12:+1",
            "12:3:4",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
