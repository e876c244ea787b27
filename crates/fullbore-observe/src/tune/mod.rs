//! `fullbore tune`: grows the pipes of a running pipeline, and restores their old sizes.
//!
//! A pipe is grown from outside, by an fd that is open only for that. Its writer is not involved,
//! so it first has to be known whether the writer depends on the capacity that it once read
//! ([`evidence`]). If that is not known, the pipe is left as it is, unless the options force it.

pub mod evidence;
pub mod outcome;
pub mod producers;
pub mod report;
mod sizes;
mod state_file;
pub mod target;

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_linux::PipeEnd;
use fullbore_linux::PipeLimit;
use rustix::io::Errno;

use crate::census::chains::PipeKind;
use crate::census::link::{Fill, WriteEnd, open_for_writing};
use crate::census::proc_files::needs_proc;
use crate::census::{Census, Holder, Pipe};
use crate::error::Error;
use evidence::gather;
use outcome::{Options, Outcome, Tuned, Tuning, is_safe};
use sizes::Sizes;
use target::Target;

/// How long to retry while a pipe holds more bytes than its old size, before it is left as it is; and the
/// interval.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(1);

/// Changes the sizes of the pipes of a target as the options say.
///
/// # Errors
/// If there is no such target, or another process is tuning pipes. An error with one pipe is in the report.
pub fn tune(target: &Target, options: Options) -> Result<Tuning, Error> {
    needs_proc()?;
    let census = Census::take().map_err(Error::system("look at /proc"))?;
    let found = target.find(&census)?;
    // The sizes are locked before anything is grown, so that two runs of this command do not change
    // one pipe at once.
    let needs_sizes = options.revert || !options.dry_run;
    let mut sizes = match needs_sizes.then(Sizes::open) {
        Some(Err(error)) if error.is_busy() => return Err(error),
        sizes => sizes,
    };
    let mut all: Vec<Tuned> = Vec::with_capacity(found.pipes.len());
    let mut trial = options.dry_run.then(Trial::default);
    let mut writers = match options.revert {
        true => Default::default(),
        false => gather(&census, &to_be_grown(&census, &found.pipes, options.size)),
    };
    for &index in &found.pipes {
        let writers = writers.remove(&index).unwrap_or_default();
        let is_safe = options.force || is_safe(&writers);
        let mut one = Tuned {
            pipe: index,
            outcome: Outcome::HalfOpen,
            limit: None,
            writers,
        };
        let kept = sizes.as_mut().and_then(|sizes| sizes.as_mut().ok());
        one.work(&census, options, is_safe, kept, trial.as_mut());
        all.push(one);
    }
    // A pipe that is in use may be full now and nearly empty a moment later.
    let began = Instant::now();
    while began.elapsed() < PATIENCE && all.iter().any(Tuned::is_too_full) {
        thread::sleep(INTERVAL);
        for one in all.iter_mut().filter(|one| one.is_too_full()) {
            let kept = sizes.as_mut().and_then(|sizes| sizes.as_mut().ok());
            one.work(&census, options, false, kept, None);
        }
    }
    let has_changed = all.iter().any(|one| one.outcome.is_change());
    let kept = match sizes {
        Some(Ok(sizes)) if has_changed && !options.dry_run => {
            sizes.save(|pipe| census.pipes.iter().any(|known| known.identity == pipe))
        }
        Some(Err(error)) if has_changed || options.revert => Err(error),
        _ => Ok(()),
    };
    Ok(Tuning {
        census,
        found,
        all,
        options,
        kept,
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
    /// Grows or reverts one pipe, and returns the outcome.
    fn work(
        &mut self,
        census: &Census,
        options: Options,
        is_safe: bool,
        sizes: Option<&mut Sizes>,
        trial: Option<&mut Trial>,
    ) {
        let done = self.resize(census, options, is_safe, sizes, trial);
        self.outcome = done.unwrap_or_else(Outcome::Failed);
    }

    fn resize(
        &mut self,
        census: &Census,
        options: Options,
        is_safe: bool,
        mut sizes: Option<&mut Sizes>,
        trial: Option<&mut Trial>,
    ) -> Result<Outcome, Errno> {
        let pipe = &census.pipes[self.pipe];
        let Some(handle) = handle(census, pipe)? else {
            return Ok(Outcome::HalfOpen);
        };
        let end = open_for_writing(handle.as_fd())?;
        let size = rustix::pipe::fcntl_getpipe_size(&end)?;
        if options.revert {
            return revert(&end, size, pipe, options, sizes);
        }
        if size >= options.size {
            return Ok(Outcome::Roomy { size });
        }
        if !is_safe {
            return Ok(Outcome::Refused { size });
        }
        let (to, limit) = match trial {
            Some(trial) => {
                let is_own = pipe.owner == rustix::process::geteuid().as_raw();
                trial.expected(size, options.size, is_own)?
            }
            None => grow(&end, options.size)?,
        };
        self.limit = limit;
        if let (Some(sizes), true, false) = (&mut sizes, to > size, options.dry_run) {
            sizes.keep(pipe.identity, size, to);
        }
        Ok(match to > size {
            true => Outcome::Grown { from: size, to },
            false => Outcome::Stopped { size },
        })
    }
}

fn grow(end: &impl AsFd, size: usize) -> Result<(usize, Option<PipeLimit>), Errno> {
    let grown = PipeEnd::new(end.as_fd()).and_then(|end| end.grow(size));
    match grown {
        Ok(growth) => Ok((growth.after, growth.limit)),
        Err(error) => Err(errno(error)),
    }
}

/// Pipes of this process, which are grown instead of the pipes in question, because only the kernel knows how
/// much of a user's allowance is left. They are kept until all pipes have been tried, because all of them use
/// the same allowance.
#[derive(Debug, Default)]
struct Trial {
    taken: Vec<fullbore_linux::Pipe>,
}

impl Trial {
    /// Returns the size that growing a pipe would reach, and the limit that would stop it. `is_own` says
    /// whether this user has created it: the allowance of another user is not known.
    fn expected(
        &mut self,
        from: usize,
        size: usize,
        is_own: bool,
    ) -> Result<(usize, Option<PipeLimit>), Errno> {
        let (mut goal, mut limit) = (size, None);
        if let Some(max) = fullbore_linux::pipe_max_size().filter(|&max| size > max) {
            match rustix::pipe::fcntl_setpipe_size(&new_pipe()?.writer, size) {
                // A process that may do this is not subject to the allowance either
                // (`pipe_set_size`, fs/pipe.c).
                Ok(size) => return Ok((size, None)),
                Err(Errno::PERM) => (goal, limit) = (max, Some(PipeLimit::PipeMaxSize(max))),
                Err(errno) => return Err(errno),
            }
        }
        let mut to = from;
        // An existing pipe uses only the additional pages of the allowance: from one power of two to the
        // next, that is its own size again.
        while to < goal {
            if is_own {
                let pipe = new_pipe()?;
                // A new pipe may be larger than this one was, which would use too much; or smaller, if little
                // of the allowance is left.
                if rustix::pipe::fcntl_getpipe_size(&pipe.writer)? > to {
                    rustix::pipe::fcntl_setpipe_size(&pipe.writer, to)?;
                }
                let (after, stopped) = grow(&pipe.writer, to)?;
                self.taken.push(pipe);
                if after < to {
                    limit = stopped;
                    break;
                }
            }
            to *= 2;
        }
        Ok((to, limit))
    }
}

fn new_pipe() -> Result<fullbore_linux::Pipe, Errno> {
    fullbore_linux::Pipe::new().map_err(errno)
}

/// Returns the errno of an error of the library.
fn errno(error: fullbore_linux::Error) -> Errno {
    fullbore_linux::error::errno(&error).unwrap_or(Errno::INVAL)
}

fn revert(
    end: &impl AsFd,
    size: usize,
    pipe: &Pipe,
    options: Options,
    sizes: Option<&mut Sizes>,
) -> Result<Outcome, Errno> {
    let Some((sizes, tuned)) = sizes.and_then(|sizes| {
        let tuned = sizes.of(pipe.identity)?;
        Some((sizes, tuned))
    }) else {
        return Ok(Outcome::NeverTuned { size });
    };
    if size != tuned.after && !options.force {
        return Ok(Outcome::ChangedSince { size });
    }
    let done = Outcome::Reverted {
        from: size,
        to: tuned.before,
    };
    if options.dry_run {
        let queued = rustix::io::ioctl_fionread(end)? as usize;
        return Ok(match queued > tuned.before {
            true => Outcome::TooFull {
                size,
                wanted: tuned.before,
            },
            false => done,
        });
    }
    match rustix::pipe::fcntl_setpipe_size(end, tuned.before) {
        Ok(_) => {
            sizes.forget(pipe.identity);
            Ok(done)
        }
        Err(Errno::BUSY) => Ok(Outcome::TooFull {
            size,
            wanted: tuned.before,
        }),
        Err(errno) => Err(errno),
    }
}
