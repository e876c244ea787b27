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

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use fullbore_linux::{PipeEnd, PipeGrowth};
use rustix::io::Errno;

use crate::capacity::USUAL;
use crate::census::fill::Fill;
use crate::census::link::open_for_writing;
use crate::census::proc_files::needs_proc;
use crate::census::{Census, Pipe};
use crate::error::Error;
use evidence::gather;
use fullbore_host::text::error_text;
use outcome::{Options, Outcome};
use report::{TunedPipe, TuningReport};
use target::Target;

/// How long to retry while a pipe holds more bytes than its new size, before it is left as it is; and the
/// interval.
const PATIENCE: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(1);

/// Changes the sizes of the pipes of a target as the options say.
///
/// # Errors
/// If there is no such target. An error with one pipe is in the report.
pub fn tune(target: &Target, options: Options) -> Result<TuningReport, Error> {
    needs_proc()?;
    let census = match target {
        Target::Pipe(pipe) => Census::of(*pipe, options.most_looks),
        _ => Census::take(),
    };
    let census = census.map_err(Error::system("look at /proc"))?;
    let found = target.find(&census)?;
    let seen = || found.pipes.iter().map(|&pipe| &census.pipes[pipe]);
    let new = |pipe: &Pipe| {
        // If the pipe is not grown, its writers do not matter.
        let fill = census.fill(pipe).ok().flatten();
        let is_below = fill.is_some_and(|fill| fill.capacity < options.size);
        let judged = match !options.revert && is_below {
            true => gather(&census, pipe),
            false => Vec::new(),
        };
        TunedPipe::new(&census, pipe, judged)
    };
    let mut pipes: Vec<TunedPipe> = seen().map(new).collect();
    for (one, pipe) in pipes.iter_mut().zip(seen()) {
        one.work(&census, pipe, options);
    }
    // A pipe that is in use may be full now and nearly empty a moment later.
    let is_too_full = |one: &TunedPipe| one.outcome == Outcome::TooFull;
    let began = Instant::now();
    while began.elapsed() < PATIENCE && pipes.iter().any(is_too_full) {
        thread::sleep(INTERVAL);
        let all = pipes.iter_mut().zip(seen());
        for (one, pipe) in all.filter(|(one, _)| is_too_full(one)) {
            one.work(&census, pipe, options);
        }
    }
    Ok(TuningReport {
        options,
        pipes,
        left_out: found.left_out,
        several: found.several,
    })
}

impl TunedPipe {
    /// Grows or reverts the pipe, and notes the outcome.
    fn work(&mut self, census: &Census, pipe: &Pipe, options: Options) {
        let done = self.resize(census, pipe, options);
        self.errno = done.err();
        self.error = self.errno.map(|errno| error_text(&errno.into()));
        self.outcome = done.unwrap_or(Outcome::Failed);
    }

    fn resize(&mut self, census: &Census, pipe: &Pipe, options: Options) -> Result<Outcome, Errno> {
        let Some(handle) = census.openable(pipe)? else {
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
        if !options.force && !self.is_safe() {
            return Ok(Outcome::Refused);
        }
        let growth = match options.dry_run {
            true => {
                let own = fullbore_linux::Pipe::new().map_err(errno)?;
                grow(&own.writer, options.size)?
            }
            false => grow(&end, options.size)?,
        };
        self.to = Some(growth.after.max(size));
        self.limit = growth.limit.map(|limit| limit.to_string());
        Ok(match growth.after > size {
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
            true if holds_more(Fill::at(end)?) => Err(Errno::BUSY),
            true => Ok(USUAL),
            false => rustix::pipe::fcntl_setpipe_size(end, USUAL),
        };
        if done == Err(Errno::BUSY) {
            return Ok(Outcome::TooFull);
        }
        self.to = Some(done?);
        Ok(Outcome::Reverted)
    }
}

/// Returns whether a larger pipe holds more than one of the default size can, as far as that is seen.
fn holds_more(fill: Fill) -> bool {
    fill.queued > USUAL || fill.no_slot_is_free == Some(true)
}

fn grow(end: &impl AsFd, size: usize) -> Result<PipeGrowth, Errno> {
    let grown = PipeEnd::new(end.as_fd()).and_then(|end| end.grow(size));
    grown.map_err(errno)
}

fn errno(error: fullbore_linux::Error) -> Errno {
    fullbore_linux::error::errno(&error).unwrap_or(Errno::INVAL)
}
