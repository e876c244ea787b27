//! `fullbore tune`: grows the pipes of a running pipeline, and makes them as small as usual again.
//!
//! A pipe is grown from outside, by an fd that is open only for that. Its writer is not involved,
//! so it first has to be known whether the writer depends on the capacity that it once read
//! ([`evidence`]). If that is not known, the pipe is left as it is, unless the options force it.

pub mod evidence;
pub mod outcome;
pub mod producers;
pub mod report;
pub mod target;

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_linux::PipeEnd;
use fullbore_linux::PipeLimit;
use rustix::io::Errno;

use crate::capacity::USUAL;
use crate::census::chains::PipeKind;
use crate::census::link::{Fill, WriteEnd, open_for_writing};
use crate::census::proc_files::needs_proc;
use crate::census::{Census, Holder, Pipe};
use crate::error::Error;
use evidence::gather;
use outcome::{Options, Outcome, Tuned, Tuning, is_safe};
use target::Target;

/// How long to retry while a pipe holds more bytes than its new size, before it is left as it is; and the
/// interval.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(1);

/// Changes the sizes of the pipes of a target as the options say.
///
/// # Errors
/// If there is no such target. An error with one pipe is in the report.
pub fn tune(target: &Target, options: Options) -> Result<Tuning, Error> {
    needs_proc()?;
    let census = Census::take().map_err(Error::system("look at /proc"))?;
    let found = target.find(&census)?;
    let mut all: Vec<Tuned> = Vec::with_capacity(found.pipes.len());
    let mut writers = match options.revert {
        true => Default::default(),
        false => gather(&census, &to_be_grown(&census, &found.pipes, options.size)),
    };
    for &pipe in &found.pipes {
        let mut one = Tuned {
            pipe,
            outcome: Outcome::HalfOpen,
            from: None,
            to: None,
            limit: None,
            errno: None,
            writers: writers.remove(&pipe).unwrap_or_default(),
        };
        one.work(&census, options);
        all.push(one);
    }
    // A pipe that is in use may be full now and nearly empty a moment later.
    let is_too_full = |one: &Tuned| one.outcome == Outcome::TooFull;
    let began = Instant::now();
    while began.elapsed() < PATIENCE && all.iter().any(is_too_full) {
        thread::sleep(INTERVAL);
        for one in all.iter_mut().filter(|one| is_too_full(one)) {
            one.work(&census, options);
        }
    }
    Ok(Tuning {
        census,
        found,
        all,
        options,
    })
}

/// Returns the pipes that would be grown, and whose writers therefore matter.
fn to_be_grown(census: &Census, pipes: &[usize], size: usize) -> Vec<usize> {
    let is_small = |pipe: &&usize| {
        let pipe = &census.pipes[**pipe];
        let handle = handle(census, pipe).ok().flatten();
        let fill = handle.and_then(|handle| Fill::of(handle.as_fd()).ok());
        fill.is_some_and(|fill| fill.capacity < size)
    };
    pipes.iter().filter(is_small).copied().collect()
}

/// Returns an `O_PATH` fd of a pipe, if it may be opened. A FIFO that is open on one side only must not be
/// opened on the other, so one of its writers must still have it open at this moment.
fn handle(census: &Census, pipe: &Pipe) -> Result<Option<OwnedFd>, Errno> {
    let handle = census.handle(pipe)?;
    let writes = |holder: &Holder| {
        holder.writes.is_some_and(|fd| {
            let end = WriteEnd {
                pid: census.processes[holder.process].id.pid,
                fd,
                pipe: pipe.identity,
            };
            end.is_open()
        })
    };
    let is_open = || pipe.kind() != PipeKind::OneSided && pipe.holders.iter().any(writes);
    Ok((!pipe.is_named() || is_open()).then_some(handle))
}

impl Tuned {
    /// Grows or reverts one pipe, and notes the outcome.
    fn work(&mut self, census: &Census, options: Options) {
        match self.resize(census, options) {
            Ok(outcome) => self.outcome = outcome,
            Err(errno) => (self.outcome, self.errno) = (Outcome::Failed, Some(errno)),
        }
    }

    fn resize(&mut self, census: &Census, options: Options) -> Result<Outcome, Errno> {
        let Some(handle) = handle(census, &census.pipes[self.pipe])? else {
            return Ok(Outcome::HalfOpen);
        };
        let end = open_for_writing(handle.as_fd())?;
        let size = rustix::pipe::fcntl_getpipe_size(&end)?;
        (self.from, self.to) = (Some(size), Some(size));
        if options.revert {
            return self.revert(&end, size, options.dry_run);
        }
        if size >= options.size {
            return Ok(Outcome::Roomy);
        }
        if !options.force && !is_safe(&self.writers) {
            return Ok(Outcome::Refused);
        }
        let (to, limit) = match options.dry_run {
            true => {
                let own = fullbore_linux::Pipe::new().map_err(errno)?;
                grow(&own.writer, options.size)?
            }
            false => grow(&end, options.size)?,
        };
        (self.to, self.limit) = (Some(to.max(size)), limit);
        Ok(match to > size {
            true => Outcome::Grown,
            false => Outcome::Stopped,
        })
    }

    /// Gives a pipe that is larger than the default this size again.
    fn revert(&mut self, end: &impl AsFd, size: usize, dry_run: bool) -> Result<Outcome, Errno> {
        if size <= USUAL {
            return Ok(Outcome::NotLarger);
        }
        let done = match dry_run {
            true if rustix::io::ioctl_fionread(end)? > USUAL as u64 => Err(Errno::BUSY),
            true => Ok(USUAL),
            false => rustix::pipe::fcntl_setpipe_size(end, USUAL),
        };
        match done {
            Err(Errno::BUSY) => Ok(Outcome::TooFull),
            Err(errno) => Err(errno),
            Ok(to) => {
                self.to = Some(to);
                Ok(Outcome::Reverted)
            }
        }
    }
}

fn grow(end: &impl AsFd, size: usize) -> Result<(usize, Option<PipeLimit>), Errno> {
    let grown = PipeEnd::new(end.as_fd()).and_then(|end| end.grow(size));
    grown
        .map(|growth| (growth.after, growth.limit))
        .map_err(errno)
}

fn errno(error: fullbore_linux::Error) -> Errno {
    fullbore_linux::error::errno(&error).unwrap_or(Errno::INVAL)
}
