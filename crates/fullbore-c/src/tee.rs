//! Fd to many.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use fullbore::tee::{OnError, Policy, SinkReport, TeeReport};
use fullbore::{Guarantee, TeeOptions};

use crate::arguments::{self, FULLBORE_FLAG_NONBLOCKING, fd, only};
use crate::call::{FULLBORE_SIDE_SINK, Failure, fullbore_error, status};
use crate::cancel::fullbore_cancel;
use crate::handle::{Exclusive, counted, done, free, given, make, object, using};
use crate::transfer::{
    FULLBORE_FLAG_PLAIN, configured, fullbore_transfer_options, guarantee, number_of_ended,
};
use fullbore_linux::without_sigpipe;

/// An error of one sink makes the whole tee fail.
pub const FULLBORE_ON_ERROR_FAIL_ALL: i32 = 0;
/// A sink with an error is dropped, and its error is kept.
pub const FULLBORE_ON_ERROR_DROP: i32 = 1;
/// A sink with an error is dropped without an error of the tee.
pub const FULLBORE_ON_ERROR_IGNORE: i32 = 2;

/// Moves bytes from one file descriptor to many. A stalled sink delays the others only once its own pipe is full.
pub struct fullbore_tee(Exclusive<Splitting>);

type FdTee = fullbore::Tee<BorrowedFd<'static>, BorrowedFd<'static>>;

pub struct Splitting {
    options: TeeOptions,
    source: BorrowedFd<'static>,
    sinks: Vec<(BorrowedFd<'static>, Policy)>,
    /// `None` before the first run.
    tee: Option<FdTee>,
    report: Option<TeeReport>,
}

object!(fullbore_tee is "tee", of Splitting);

impl Splitting {
    fn run(&mut self) -> Result<c_int, Failure> {
        if self.sinks.is_empty() {
            return Err(Failure::invalid(
                "the tee has no sink: fullbore_tee_add adds one",
            ));
        }
        let tee = self.tee.get_or_insert_with(|| {
            let options = self.options.clone();
            options.open(self.source, self.sinks.iter().copied())
        });
        match without_sigpipe(|| tee.run()) {
            Ok(report) => {
                let ended = number_of_ended(report.ended);
                self.report = Some(report);
                Ok(ended)
            }
            Err(failed) => {
                self.report = Some(*failed.report);
                let mut failure = Failure::from(failed.error);
                failure.sink = (failed.sink).map_or(-1, |sink| sink.try_into().unwrap_or(i32::MAX));
                Err(failure)
            }
        }
    }

    /// Returns the report of a sink; `None` before the first run.
    fn sink(&self, index: usize) -> Result<Option<&SinkReport>, Failure> {
        if index >= self.sinks.len() {
            let count = self.sinks.len();
            let message = format!("there is no sink {index}: the tee has {count}");
            return Err(Failure::invalid(message));
        }
        Ok((self.report.as_ref()).and_then(|report| report.sinks.get(index)))
    }
}

fn on_error(number: i32) -> Result<OnError, Failure> {
    match number {
        FULLBORE_ON_ERROR_FAIL_ALL => Ok(OnError::FailAll),
        FULLBORE_ON_ERROR_DROP => Ok(OnError::Drop),
        FULLBORE_ON_ERROR_IGNORE => Ok(OnError::Ignore),
        _ => Err(Failure::invalid(format!(
            "nothing can be done on an error by the number {number}"
        ))),
    }
}

/// Creates a tee of `source` without sinks, and stores it in `*tee`. Free it with fullbore_tee_free.
///
/// The caller owns all file descriptors, and must keep them open as long as the tee exists. `options` may be NULL for
/// the defaults.
///
/// Returns 0; -EBADF if `source` is not open; -EINVAL for options that are invalid or not supported by a tee, and if
/// `tee` is NULL.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_new(
    source: c_int,
    options: *const fullbore_transfer_options,
    tee: Option<&mut MaybeUninit<*mut fullbore_tee>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        make(tee, || {
            let options = arguments::options(options)?;
            let known = FULLBORE_FLAG_NONBLOCKING | FULLBORE_FLAG_PLAIN;
            only(options.flags, known, options.reserved)?;
            if options.source_offset != 0 || options.sink_offset != 0 {
                return Err(Failure::invalid("a tee has no offsets"));
            }
            if guarantee(options.guarantee)? != Guarantee::Snapshot {
                return Err(Failure::invalid("a tee copies: it has no other guarantee"));
            }
            Ok(fullbore_tee(Exclusive::new(Splitting {
                options: configured!(&options),
                source: fd("source", source)?,
                sinks: Vec::new(),
                tee: None,
                report: None,
            })))
        })
    })
}

/// Adds a sink. Sinks are numbered from 0 in the order in which they are added.
///
/// `on_closed` says what happens if the reader of the sink closes it (EPIPE), and `on_error` what happens after any
/// other error: FULLBORE_ON_ERROR_...
///
/// Returns 0; -EBADF if `sink` is not open; -EINVAL after the first run, for numbers that are not
/// FULLBORE_ON_ERROR_..., and if `tee` is NULL; -EBUSY while another call uses it.
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_add(
    tee: *mut fullbore_tee,
    sink: c_int,
    on_closed: i32,
    on_error: i32,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, tee, |splitting| {
        let policy = Policy {
            closed: self::on_error(on_closed)?,
            other: self::on_error(on_error)?,
        };
        if splitting.tee.is_some() {
            return Err(Failure::invalid("the tee has begun: no sink can be added"));
        }
        splitting.sinks.push((fd("sink", sink)?, policy));
        Ok(())
    })
}

/// Moves bytes until the source ends, the limit is reached, or no sink is left. A run that was cancelled, timed out or
/// would have blocked can be continued by another run.
///
/// Returns why it ended, FULLBORE_ENDED_...; the error of a side, which `error` names, with the index of the sink;
/// -EINVAL if a sink is the source, if there is no sink, or if `tee` is NULL; -EBUSY while another call uses it.
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_run(
    tee: *mut fullbore_tee,
    error: Option<&mut fullbore_error>,
) -> c_int {
    using(error, tee, Splitting::run)
}

/// Sets the deadline of a run, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
///
/// Returns 0; -EINVAL if `tee` is NULL or `deadline` is negative; -EBUSY while another call uses it.
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_set_deadline(
    tee: *mut fullbore_tee,
    deadline: i64,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, tee, |splitting| {
        let deadline = arguments::deadline(deadline)?;
        match &mut splitting.tee {
            Some(tee) => tee.set_deadline(deadline),
            None => splitting.options = splitting.options.clone().deadline(deadline),
        }
        Ok(())
    })
}

/// Sets another cancel, so that a cancelled tee can continue. `cancel` may be freed afterwards.
///
/// Returns 0; -EINVAL if an argument is NULL; -EBUSY while another call uses the tee.
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_set_cancel(
    tee: *mut fullbore_tee,
    cancel: *const fullbore_cancel,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, tee, |splitting| {
        let cancel = given(cancel)?;
        match &mut splitting.tee {
            Some(tee) => tee.set_cancel(Some(&cancel.0)),
            None => splitting.options = splitting.options.clone().cancel(&cancel.0),
        }
        Ok(())
    })
}

/// Returns the number of bytes taken from the source, in all runs; -EINVAL if `tee` is NULL; -EBUSY while another call
/// uses it.
///
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_taken(tee: *mut fullbore_tee) -> i64 {
    counted(None, tee, |splitting| {
        Ok(splitting.report.as_ref().map_or(0, |report| report.taken))
    })
}

/// Returns the number of bytes that arrived at a sink, in all runs; -EINVAL if there is no such sink, or `tee` is NULL;
/// -EBUSY while another call uses it.
///
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_sink_bytes(tee: *mut fullbore_tee, sink: usize) -> i64 {
    counted(None, tee, |splitting| {
        Ok(splitting.sink(sink)?.map_or(0, |sink| sink.bytes))
    })
}

/// Returns the error for which a sink was dropped, as a negative errno, and describes it in `*error`; 0 if it was not
/// dropped, or if its errors are ignored. -EINVAL with FULLBORE_CAUSE_ARGUMENT if there is no such sink, or `tee` is
/// NULL; -EBUSY with FULLBORE_CAUSE_IN_USE while another call uses it.
///
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_sink_error(
    tee: *mut fullbore_tee,
    sink: usize,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, tee, |splitting| {
        let report = splitting.sink(sink)?.filter(|sink| !sink.ignored);
        match report.and_then(|sink| sink.error.as_ref()) {
            Some(error) => {
                let mut failure = Failure::from(error);
                failure.side = FULLBORE_SIDE_SINK;
                failure.sink = sink.try_into().unwrap_or(i32::MAX);
                Err(failure)
            }
            None => Ok(()),
        }
    })
}

/// Returns 1 if a sink was dropped for an error, even an ignored one, otherwise 0; -EINVAL if there is no such sink, or
/// `tee` is NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_sink_is_dropped(tee: *mut fullbore_tee, sink: usize) -> c_int {
    using(None, tee, |splitting| {
        let dropped = (splitting.sink(sink)?).is_some_and(|sink| sink.error.is_some());
        Ok(dropped.into())
    })
}

/// Returns 1 if a sink has to make room before the tee can continue, after
/// FULLBORE_ENDED_SINK_WOULD_BLOCK, otherwise 0; -EINVAL if there is no such sink, or `tee` is NULL; -EBUSY
/// while another call uses it.
///
/// Threads: one at a time for one tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_sink_would_block(tee: *mut fullbore_tee, sink: usize) -> c_int {
    using(None, tee, |splitting| {
        let would_block = (splitting.sink(sink)?).is_some_and(|sink| sink.would_block);
        Ok(would_block.into())
    })
}

/// Frees a tee. Bytes that were taken from the source and that some sinks lack are lost. NULL is allowed.
///
/// Threads: any, once no other call uses this tee.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_tee_free(tee: *mut fullbore_tee) {
    free(tee);
}
