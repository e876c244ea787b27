//! How far a running process has read or written the files that it has open, and how full its pipes
//! are.
//!
//! The kernel reports the position of each fd in /proc/PID/fdinfo (proc_pid_fdinfo(5)). Reads that name
//! their own position (pread(2)) and memory maps do not move it.

use std::fs::read_link;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use fullbore_observe::census::link::fill_of;
use fullbore_process::{live_thread, proc_directory};
use procfs::ProcError;
use procfs::process::{Process, all_processes};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, statx};
use rustix::io::Errno;

use super::line_options::LineOptions;
use super::target::{One, Target};
use crate::error_text::Failed;
use crate::processes::interrupt::Interrupt;
use crate::terminal::line::{Reading, gauge};
use crate::terminal::lines::{Screen, say_line};
use fullbore_host::machine::{access_mode, field};
use fullbore_host::text::{clean, cut};
use fullbore_observe::Rate;

/// A closed fd or a signal is noticed within this time.
const NOTICE: Duration = Duration::from_millis(100);

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
    followed: Vec<Followed>,
    is_over: bool,
}

/// One fd: where it stands in a file of some size, or how many bytes are in a pipe of some capacity.
#[derive(Clone)]
struct Followed {
    fd: i32,
    identity: (u32, u32, u64),
    path: String,
    is_pipe: bool,
    rate: Rate,
    total: Option<u64>,
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

    /// Shows each fd until it is over: in a line if stderr is a terminal or the options ask for it anyway, or as a
    /// number.
    pub fn run(mut self) {
        let (mut screen, interrupt) = match self.options.numeric {
            true => (None, Interrupt::default()),
            false => (Screen::new(self.options.force), Interrupt::noted()),
        };
        let mut due = Instant::now() + self.options.interval();
        self.show(screen.as_mut(), false);
        loop {
            let now = Instant::now();
            thread::sleep(due.saturating_duration_since(now).min(NOTICE));
            let now = Instant::now();
            let is_due = now >= due;
            if interrupt.came() || !self.goes_on(is_due) {
                break;
            }
            if is_due {
                due = now + self.options.interval();
                self.show(screen.as_mut(), false);
            }
        }
        // The last ones are shown once more.
        self.show(screen.as_mut(), true);
        interrupt.obey();
    }

    /// Takes samples if they are due. Returns whether there is still something to watch.
    fn goes_on(&mut self, is_due: bool) -> bool {
        for one in &mut self.all {
            one.is_over = !one.goes_on(&self.options, is_due);
        }
        let is_over = self.all.iter().all(|one| one.is_over);
        self.all.retain(|one| is_over || !one.is_over);
        !is_over
    }

    fn show(&self, screen: Option<&mut Screen>, ended: bool) {
        let options = &self.options;
        if options.numeric {
            for one in &self.all {
                for followed in &one.followed {
                    let reading = followed.reading(options, self.name(one, followed), false);
                    say_line(options.line(&reading, 0));
                }
            }
        }
        let Some(screen) = screen else { return };
        screen.height = options.height.map(usize::from);
        let (columns, rows) = screen.size();
        let lines = self.rows(columns, rows, ended);
        match ended {
            true => screen.leave(&lines),
            false => screen.draw(&lines),
        }
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
                let reading = followed.reading(&self.options, self.name(one, followed), ended);
                lines.push(match followed.is_pipe {
                    true => gauge(&reading, columns),
                    false => self.options.line(&reading, columns),
                });
            }
        }
        if lines.len() >= rows {
            let more = lines.len() - (rows - 2);
            lines.truncate(rows - 2);
            lines.push(format!("and {more} more"));
        }
        lines
    }

    /// Returns the name of a file. In a line of pv, it has the PID if there are several targets, and is empty if there is
    /// one fd only.
    fn name(&self, one: &Watch, followed: &Followed) -> String {
        let Followed { fd, path, .. } = followed;
        match (self.all.len() > 1, one.target.fd) {
            _ if !self.as_pv || self.options.numeric => format!("{fd}: {path}"),
            (true, _) => format!("{:>8}:{fd:>4}:{path}", one.target.pid),
            (false, None) => format!("{fd:>4}:{path}"),
            (false, Some(_)) => String::new(),
        }
    }
}

impl Watch {
    fn new(target: One, options: &LineOptions) -> anyhow::Result<Self> {
        let process = Process::new(target.pid).map_err(|error| target.cannot(error))?;
        // A zombie has closed everything.
        if !lives(&process) {
            return Err(target.cannot(ProcError::NotFound(None)));
        }
        let mut watch = Self {
            process,
            target,
            followed: Vec::new(),
            is_over: false,
        };
        watch.follow(options)?;
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

    /// Takes a sample if one is due. Returns whether there is still something to watch.
    fn goes_on(&mut self, options: &LineOptions, is_due: bool) -> bool {
        let is_open = |followed: &Followed| {
            let found = status(&self.process, followed.fd);
            found.is_ok_and(|found| identity(&found) == followed.identity)
        };
        lives(&self.process)
            && match is_due {
                true => self.follow(options).is_ok(),
                false => self.target.fd.is_none() || self.followed.iter().all(is_open),
            }
    }

    /// Takes a sample of the fd, or of all regular files that are open now. If that fails, the last samples are kept.
    fn follow(&mut self, options: &LineOptions) -> anyhow::Result<()> {
        let target = self.target;
        let fds = match target.fd {
            Some(fd) => vec![fd],
            None => self.fds().map_err(|error| target.cannot(error))?,
        };
        let mut all = Vec::new();
        for fd in fds {
            let before = self.followed.iter().find(|followed| followed.fd == fd);
            match self.sample(fd, before, options) {
                Ok(Some(followed)) => all.push(followed),
                // It is no regular file, or was closed meanwhile.
                _ if target.fd.is_none() => {}
                Ok(None) => bail!("{target}: neither a regular file nor a pipe"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    bail!("{target}: no such file descriptor")
                }
                failed => drop(failed.failed(target)?),
            }
        }
        self.followed = all;
        Ok(())
    }

    /// Returns the fds that are open now.
    fn fds(&self) -> Result<Vec<i32>, ProcError> {
        let thread = live_thread(self.process.pid().unsigned_abs());
        let thread = thread.ok_or(ProcError::NotFound(None))?;
        let found = Process::new(thread as i32)?.fd()?;
        let mut fds: Vec<i32> = found.flatten().map(|info| info.fd).collect();
        fds.sort_unstable();
        Ok(fds)
    }

    /// Takes a sample, after that of `before` if it is the same file. Returns `None` if the fd is nothing that can be
    /// watched, or the only one and refers to another file now.
    fn sample(
        &self,
        fd: i32,
        before: Option<&Followed>,
        options: &LineOptions,
    ) -> io::Result<Option<Followed>> {
        let (process, is_only) = (&self.process, self.target.fd.is_some());
        let found = status(process, fd)?;
        let kind = FileType::from_raw_mode(found.stx_mode.into());
        let is_pipe = kind == FileType::Fifo && is_only;
        let same = before.filter(|before| before.identity == identity(&found));
        if !is_pipe && kind != FileType::RegularFile
            || is_only && before.is_some() != same.is_some()
        {
            return Ok(None);
        }
        let is_unread = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::NXIO);
        let (passed, total) = match is_pipe {
            false => {
                let (position, size) = position(process, fd, found.stx_size)?;
                (position, options.size.or(size))
            }
            true => match fullness(process, fd) {
                // It is shown as it was last seen.
                Err(error) if is_unread(&error) && same.is_some() => return Ok(same.cloned()),
                found => found?,
            },
        };
        let path = match same {
            Some(same) => same.path.clone(),
            None => read_link(path_of(process, "fd", fd))?.display().to_string(),
        };
        let now = Instant::now();
        // The rate of a pipe that is filled and emptied says nothing.
        let known = same.filter(|_| !is_pipe).map(|same| same.rate.clone());
        let mut rate = known.unwrap_or_else(|| Rate::new(passed, now));
        rate.update(passed, now);
        Ok(Some(Followed {
            fd,
            identity: identity(&found),
            path,
            is_pipe,
            rate,
            total,
        }))
    }
}

impl Followed {
    /// Returns what is shown, under this name, which may be empty.
    fn reading(&self, options: &LineOptions, name: String, ended: bool) -> Reading {
        Reading {
            name: match &options.name {
                Some(given) if name.is_empty() => Some(given.clone()),
                Some(given) => Some(format!("{given} {name}")),
                None => Some(name).filter(|name| !name.is_empty()),
            },
            ended,
            ..Reading::of(&self.rate, self.total)
        }
    }
}

/// Returns what the kernel knows about an fd. The server of a file system that hangs (FUSE, a network) is not
/// asked (`AT_STATX_DONT_SYNC`, statx(2)); the kernel has kept what it told the process itself
/// when that opened the file and read from it.
fn status(process: &Process, fd: i32) -> io::Result<Statx> {
    let asked = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE;
    let path = path_of(process, "fd", fd);
    Ok(statx(CWD, path, AtFlags::STATX_DONT_SYNC, asked)?)
}

/// Returns the device and the inode.
fn identity(found: &Statx) -> (u32, u32, u64) {
    (found.stx_dev_major, found.stx_dev_minor, found.stx_ino)
}

/// Returns the position of the fd in a file of this size, and the size, unless the file is still growing: an fd that only
/// writes does not tell the size at the end.
fn position(process: &Process, fd: i32, size: u64) -> io::Result<(u64, Option<u64>)> {
    let text = std::fs::read_to_string(path_of(process, "fdinfo", fd))?;
    let position = field(&text, "pos").and_then(|position| position.parse().ok());
    let position = position.unwrap_or(0);
    // A file that was truncated is shorter than what was written to it or read from it.
    let is_known = size > 0 && size >= position && access_mode(&text) != Some(OFlags::WRONLY);
    Ok((position, Some(size).filter(|_| is_known)))
}

/// Returns how many bytes the pipe holds, and how many it can hold. It is opened for writing for that, for some
/// microseconds: an additional writer can only delay the end of file for that time, while an additional reader
/// could keep a writer from learning that its last reader has gone.
///
/// # Errors
/// `ENXIO` if it is a FIFO without a reader.
fn fullness(process: &Process, fd: i32) -> io::Result<(u64, Option<u64>)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let handle = rustix::fs::open(path_of(process, "fd", fd), flags, Mode::empty())?;
    let fill = fill_of(handle.as_fd())?;
    let room = match fill.no_slot_is_free {
        // It can hold no more than it does.
        Some(true) => fill.queued,
        _ => fill.capacity,
    };
    Ok((fill.queued as u64, Some(room as u64)))
}

/// Returns whether a thread of the process lives, perhaps not the first one. The open directory of the process never
/// shows another one that has got its number since.
fn lives(process: &Process) -> bool {
    let stat = process.stat();
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X') || stat.num_threads > 1)
}

fn path_of(process: &Process, directory: &str, fd: i32) -> PathBuf {
    proc_directory(process.pid().unsigned_abs()).join(format!("{directory}/{fd}"))
}
