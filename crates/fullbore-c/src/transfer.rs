//! Fd to fd.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;

use fullbore::transfer::Progress;
use fullbore::{EndReason, Guarantee, TransferOptions, TransferReport, TransferSide, Way};

use crate::arguments::{self, FULLBORE_FLAG_NONBLOCKING, Options, fd, only, place};
use crate::call::{Failure, fullbore_error, number, status};
use crate::cancel::fullbore_cancel;
use crate::handle::{Exclusive, counted, done, free, given, make, object, using};
use fullbore_linux::without_sigpipe;

/// A reader gets the bytes as they were when they were moved, whatever any process does afterwards. This
/// is the default.
pub const FULLBORE_GUARANTEE_SNAPSHOT: i32 = 0;
/// A reader may get what the source's pages contain when it reads them. This is faster, and right if no process changes
/// the source's bytes before they have been read.
pub const FULLBORE_GUARANTEE_REFERENCE: i32 = 1;

/// A run ended because the source has no more bytes; for a fullbore_tee also because no sink is left.
pub const FULLBORE_ENDED_AT_END: i32 = 0;
/// A run ended because the limit was reached.
pub const FULLBORE_ENDED_AT_LIMIT: i32 = 1;
/// A run was ended by a fullbore_cancel, or by the progress function.
pub const FULLBORE_ENDED_CANCELLED: i32 = 2;
/// A run ended because the deadline passed.
pub const FULLBORE_ENDED_TIMED_OUT: i32 = 3;
/// A run ended because there is nothing to read yet, with FULLBORE_FLAG_NONBLOCKING.
pub const FULLBORE_ENDED_SOURCE_WOULD_BLOCK: i32 = 4;
/// A run ended because there is no room to write, with FULLBORE_FLAG_NONBLOCKING.
pub const FULLBORE_ENDED_SINK_WOULD_BLOCK: i32 = 5;
/// A run ended for another reason, for which this version has no name.
pub const FULLBORE_ENDED_OTHER: i32 = 6;

/// Bytes are moved by copy_file_range(2).
pub const FULLBORE_METHOD_COPY_FILE_RANGE: i32 = 1;
/// Bytes are moved by splice(2).
pub const FULLBORE_METHOD_SPLICE: i32 = 2;
/// Bytes are moved by two splice(2) calls, with a private pipe between them.
pub const FULLBORE_METHOD_SPLICE_THROUGH: i32 = 3;
/// Bytes are moved by sendfile(2).
pub const FULLBORE_METHOD_SENDFILE: i32 = 4;
/// Bytes are read into fresh pages, which are given to the pipe.
pub const FULLBORE_METHOD_FRESH: i32 = 5;
/// Bytes are read, copied into a socket and spliced from there into the pipe.
pub const FULLBORE_METHOD_SOCKET: i32 = 6;
/// Bytes are moved by read(2) and write(2).
pub const FULLBORE_METHOD_READ_WRITE: i32 = 7;
/// Bytes are moved in another way, for which this version has no name.
pub const FULLBORE_METHOD_OTHER: i32 = 8;

/// A flag of fullbore_transfer_options: start reading at `source_offset`, and do not change the position of the source.
pub const FULLBORE_FLAG_AT_SOURCE_OFFSET: u32 = 4;
/// A flag of fullbore_transfer_options: start writing at `sink_offset`, and do not change the position of the sink.
pub const FULLBORE_FLAG_AT_SINK_OFFSET: u32 = 8;
/// A flag of fullbore_transfer_options: pass all bytes through the memory of this process and to the progress function.
pub const FULLBORE_FLAG_VISIBLE: u32 = 16;
/// A flag of fullbore_transfer_options: use only read(2) and write(2).
pub const FULLBORE_FLAG_PLAIN: u32 = 32;

/// The options of a fullbore_transfer and a fullbore_tee. Set `size` to `sizeof options` and all other fields to 0, and
/// then change fields from their default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fullbore_transfer_options {
    /// sizeof(fullbore_transfer_options).
    pub size: usize,
    /// The most bytes to move; no more than that are taken from the source. 0 means no limit.
    pub limit: u64,
    /// With FULLBORE_FLAG_AT_SOURCE_OFFSET: where to start reading. Not for a fullbore_tee.
    pub source_offset: u64,
    /// With FULLBORE_FLAG_AT_SINK_OFFSET: where to start writing. Not for a fullbore_tee.
    pub sink_offset: u64,
    /// The most bytes that one system call moves. 0 is the default, which depends on the method.
    pub chunk: usize,
    /// The capacity in bytes that output pipes and private pipes are grown to, as far as the user's limits allow. 0 is
    /// the default: 1 MiB, and less in a small memory cgroup. FULLBORE_PIPE_SIZE_KEEP leaves them as they are.
    pub pipe_size: usize,
    /// The deadline at which a run ends with FULLBORE_ENDED_TIMED_OUT, in nanoseconds of CLOCK_MONOTONIC, as returned
    /// by fullbore_deadline_in. 0 means none.
    pub deadline: i64,
    /// Ends a run with FULLBORE_ENDED_CANCELLED. NULL means none. It may be freed once the object has been created.
    pub cancel: *const fullbore_cancel,
    /// FULLBORE_GUARANTEE_...; for a fullbore_tee only FULLBORE_GUARANTEE_SNAPSHOT.
    pub guarantee: i32,
    /// How to wait while there is nothing to read or no room to write: FULLBORE_WAIT_...
    pub wait: i32,
    /// FULLBORE_FLAG_NONBLOCKING, FULLBORE_FLAG_AT_SOURCE_OFFSET, FULLBORE_FLAG_AT_SINK_OFFSET,
    /// FULLBORE_FLAG_VISIBLE, FULLBORE_FLAG_PLAIN; for a fullbore_tee only FULLBORE_FLAG_NONBLOCKING and
    /// FULLBORE_FLAG_PLAIN.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: it begins with its size, and consists of numbers and a pointer.
unsafe impl Options for fullbore_transfer_options {
    const FIRST: usize = size_of::<Self>();
}

/// The progress of a transfer. Later versions may add to its end.
#[repr(C)]
pub struct fullbore_progress {
    /// Bytes that have arrived in total.
    pub bytes: u64,
    /// Bytes that arrived with this step.
    pub step: u64,
    /// The bytes of this step themselves, with FULLBORE_FLAG_VISIBLE; otherwise NULL. They are lent during the call.
    pub seen: *const c_void,
    /// The number of bytes in `seen`.
    pub seen_len: usize,
    /// How they were moved: FULLBORE_METHOD_...
    pub method: i32,
}

/// A function that is called after each step of a transfer that moved bytes, in the thread that runs the transfer, with
/// the `user` pointer of the run. It returns 0 to continue, anything else to stop. It must return: neither longjmp nor
/// a C++ exception may leave it. In it, calls with the same transfer fail with -EBUSY, and SIGPIPE is blocked.
pub type fullbore_progress_fn =
    Option<extern "C" fn(user: *mut c_void, progress: &fullbore_progress) -> c_int>;

/// Moves bytes from any file descriptor to any other.
pub struct fullbore_transfer(Exclusive<Moving>);

type FdTransfer = fullbore::Transfer<BorrowedFd<'static>, BorrowedFd<'static>>;

pub struct Moving {
    /// `None` once its bytes have been taken back.
    transfer: Option<FdTransfer>,
    report: Option<TransferReport>,
    under_way: Vec<u8>,
}

object!(fullbore_transfer is "transfer", of Moving);

/// Returns the options that a transfer and a tee have in common.
macro_rules! configured {
    ($given:expr) => {{
        let given: &$crate::transfer::fullbore_transfer_options = $given;
        let has = |flag| given.flags & flag != 0;
        fullbore::Options::new()
            .wait($crate::arguments::wait(given.wait)?)
            .deadline($crate::arguments::deadline(given.deadline)?)
            .nonblocking(has($crate::arguments::FULLBORE_FLAG_NONBLOCKING))
            .plain(has($crate::transfer::FULLBORE_FLAG_PLAIN))
            .limit((given.limit != 0).then_some(given.limit))
            .cancel($crate::cancel::named(given.cancel).as_ref())
            .chunk($crate::arguments::size(given.chunk))
            .pipe_size($crate::producer::pipe_size(given.pipe_size))
    }};
}
pub(crate) use configured;

/// # Errors
/// `EINVAL` for a number that is none of `FULLBORE_GUARANTEE_…`.
pub fn guarantee(number: i32) -> Result<Guarantee, Failure> {
    match number {
        FULLBORE_GUARANTEE_SNAPSHOT => Ok(Guarantee::Snapshot),
        FULLBORE_GUARANTEE_REFERENCE => Ok(Guarantee::Reference),
        other => Err(Failure::invalid(format!("there is no guarantee {other}"))),
    }
}

pub fn number_of_ended(ended: EndReason) -> c_int {
    match ended {
        EndReason::AtEnd => FULLBORE_ENDED_AT_END,
        EndReason::AtLimit => FULLBORE_ENDED_AT_LIMIT,
        EndReason::Cancelled => FULLBORE_ENDED_CANCELLED,
        EndReason::TimedOut => FULLBORE_ENDED_TIMED_OUT,
        EndReason::WouldBlock(TransferSide::Source) => FULLBORE_ENDED_SOURCE_WOULD_BLOCK,
        EndReason::WouldBlock(TransferSide::Sink) => FULLBORE_ENDED_SINK_WOULD_BLOCK,
        _ => FULLBORE_ENDED_OTHER,
    }
}

fn number_of_method(way: Way) -> i32 {
    match way {
        Way::CopyFileRange => FULLBORE_METHOD_COPY_FILE_RANGE,
        Way::Splice => FULLBORE_METHOD_SPLICE,
        Way::SpliceThrough => FULLBORE_METHOD_SPLICE_THROUGH,
        Way::Sendfile => FULLBORE_METHOD_SENDFILE,
        Way::Fresh => FULLBORE_METHOD_FRESH,
        Way::Socket => FULLBORE_METHOD_SOCKET,
        Way::Copy => FULLBORE_METHOD_READ_WRITE,
        _ => FULLBORE_METHOD_OTHER,
    }
}

/// Copies all bytes of `source` to `sink`, with the default options of a fullbore_transfer.
///
/// Returns how many bytes there were; errors of the side that `error` names, with the number of bytes that
/// had arrived; -EBADF if one is not open; -EINVAL if both are the same file or pipe.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_copy(
    source: c_int,
    sink: c_int,
    error: Option<&mut fullbore_error>,
) -> i64 {
    number(error, || {
        let (source, sink) = (fd("source", source)?, fd("sink", sink)?);
        Ok(without_sigpipe(|| fullbore::copy(&source, &sink)).map_err(fullbore::Error::from)?)
    })
}

/// Creates a transfer from `source` to `sink`, and stores it in `*transfer`. Nothing is moved yet. Free it
/// with fullbore_transfer_free.
///
/// The caller owns both file descriptors, and must keep them open as long as the transfer exists. `options` may be NULL
/// for the defaults.
///
/// Returns 0; -EBADF if a file descriptor is not open; -EINVAL for invalid options, and if `transfer` is NULL.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_new(
    source: c_int,
    sink: c_int,
    options: *const fullbore_transfer_options,
    transfer: Option<&mut MaybeUninit<*mut fullbore_transfer>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    const FLAGS: u32 = FULLBORE_FLAG_NONBLOCKING
        | FULLBORE_FLAG_AT_SOURCE_OFFSET
        | FULLBORE_FLAG_AT_SINK_OFFSET
        | FULLBORE_FLAG_VISIBLE
        | FULLBORE_FLAG_PLAIN;
    status(error, || {
        make(transfer, || {
            let options = arguments::options(options)?;
            only(options.flags, FLAGS, options.reserved)?;
            let guarantee = guarantee(options.guarantee)?;
            let (source, sink) = (fd("source", source)?, fd("sink", sink)?);
            let made: TransferOptions = configured!(&options);
            let mut made = made
                .guarantee(guarantee)
                .visible(options.flags & FULLBORE_FLAG_VISIBLE != 0);
            for (flag, offset) in [
                (FULLBORE_FLAG_AT_SOURCE_OFFSET, options.source_offset),
                (FULLBORE_FLAG_AT_SINK_OFFSET, options.sink_offset),
            ] {
                if options.flags & flag != 0 && i64::try_from(offset).is_err() {
                    let message = format!("{offset} is more than any file is long");
                    return Err(Failure::invalid(message));
                }
            }
            if options.flags & FULLBORE_FLAG_AT_SOURCE_OFFSET != 0 {
                made = made.source_offset(options.source_offset);
            }
            if options.flags & FULLBORE_FLAG_AT_SINK_OFFSET != 0 {
                made = made.sink_offset(options.sink_offset);
            }
            Ok(fullbore_transfer(Exclusive::new(Moving {
                transfer: Some(made.open(source, sink)),
                report: None,
                under_way: Vec::new(),
            })))
        })
    })
}

impl Moving {
    fn going_on(&mut self) -> Result<&mut FdTransfer, Failure> {
        (self.transfer.as_mut())
            .ok_or_else(|| Failure::invalid("the bytes of the transfer have been taken back"))
    }

    /// Changes an option between two runs.
    fn set(&mut self, change: impl FnOnce(&mut FdTransfer)) -> Result<(), Failure> {
        self.going_on().map(change)
    }

    fn run(&mut self, progress: fullbore_progress_fn, user: *mut c_void) -> Result<c_int, Failure> {
        let transfer = self.going_on()?;
        let tell = |step: Progress<'_>| {
            let stops = progress.is_some_and(|progress| {
                let seen = (!step.seen.is_empty()).then_some(step.seen.as_ptr().cast());
                let told = fullbore_progress {
                    bytes: step.bytes,
                    step: step.step,
                    seen: seen.unwrap_or(std::ptr::null()),
                    seen_len: step.seen.len(),
                    method: number_of_method(step.way),
                };
                progress(user, &told) != 0
            });
            match stops {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        match without_sigpipe(|| transfer.run_with(tell)) {
            Ok(report) => {
                let ended = number_of_ended(report.ended);
                self.report = Some(report);
                Ok(ended)
            }
            Err(failure) => {
                self.report = Some(*failure.report);
                Err(failure.error.into())
            }
        }
    }

    fn take_back(&mut self) -> Result<&[u8], Failure> {
        self.going_on()?;
        if let Some(transfer) = self.transfer.take() {
            self.under_way = transfer.into_parts()?.2;
        }
        Ok(&self.under_way)
    }

    /// Returns a number of the report; 0 before the first run.
    fn reported(&self, what: impl FnOnce(&TransferReport) -> u64) -> Result<u64, Failure> {
        Ok(self.report.as_ref().map_or(0, what))
    }
}

/// Moves bytes until the source ends, the limit is reached, or the transfer cannot continue.
///
/// `progress` is called after each step, with `user`; it may be NULL. A run that was cancelled, timed out, would have
/// blocked, or has reached a limit that was then raised can be continued by another run.
///
/// Returns why it ended, FULLBORE_ENDED_...; the error of a side, which `error` names; -EINVAL if both are
/// the same file or pipe, or if `transfer` is NULL; -EBUSY while another call uses it.
/// Threads: one at a time for one transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_run(
    transfer: *mut fullbore_transfer,
    progress: fullbore_progress_fn,
    user: *mut c_void,
    error: Option<&mut fullbore_error>,
) -> c_int {
    using(error, transfer, |moving| moving.run(progress, user))
}

/// Sets the most bytes to move, in all runs. Unlike in the options, 0 means that no byte is moved.
///
/// Returns 0; -EINVAL if `transfer` is NULL, or its bytes have been taken back; -EBUSY while another call
/// uses it.
/// Threads: one at a time for one transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_set_limit(
    transfer: *mut fullbore_transfer,
    limit: u64,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, transfer, |moving| {
        moving.set(|transfer| transfer.set_limit(limit))
    })
}

/// Sets the deadline of a run, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
///
/// Returns 0; -EINVAL if `transfer` is NULL, its bytes have been taken back, or `deadline` is negative;
/// -EBUSY while another call uses it.
/// Threads: one at a time for one transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_set_deadline(
    transfer: *mut fullbore_transfer,
    deadline: i64,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, transfer, |moving| {
        let deadline = arguments::deadline(deadline)?;
        moving.set(|transfer| transfer.set_deadline(deadline))
    })
}

/// Sets another cancel, so that a cancelled transfer can continue. `cancel` may be freed afterwards.
///
/// Returns 0; -EINVAL if an argument is NULL, or the bytes of the transfer have been taken back; -EBUSY
/// while another call uses it.
/// Threads: one at a time for one transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_set_cancel(
    transfer: *mut fullbore_transfer,
    cancel: *const fullbore_cancel,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, transfer, |moving| {
        let cancel = given(cancel)?;
        moving.set(|transfer| transfer.set_cancel(Some(&cancel.0)))
    })
}

/// Ends a transfer, and stores the address and the length of the bytes that were taken from the source and have not
/// arrived at the sink, in order. There are such bytes only if the sink failed or the transfer was stopped early. They
/// are lent until the transfer is freed.
///
/// Returns 0; -EINVAL if an argument is NULL, or they have been taken back before; -EBUSY while another call uses the
/// transfer; the error of read(2) if they are in a private pipe, with FULLBORE_SIDE_SOURCE.
/// Threads: one at a time for one transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_take_back(
    transfer: *mut fullbore_transfer,
    memory: Option<&mut MaybeUninit<*const c_void>>,
    len: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, transfer, |moving| {
        let (memory, len) = (place("memory", memory)?, place("length", len)?);
        let bytes = moving.take_back()?;
        memory.write(bytes.as_ptr().cast());
        len.write(bytes.len());
        Ok(())
    })
}

/// Returns the number of bytes that have arrived at the sink, in all runs; -EINVAL if `transfer` is NULL; -EBUSY while
/// another call uses it.
///
/// Threads: one at a time for one transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_bytes(transfer: *mut fullbore_transfer) -> i64 {
    counted(None, transfer, |moving| {
        moving.reported(|report| report.bytes)
    })
}

/// Returns the number of bytes taken from the source, in all runs: more than have arrived only if the sink failed, or
/// the transfer was stopped early. -EINVAL if `transfer` is NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_taken(transfer: *mut fullbore_transfer) -> i64 {
    counted(None, transfer, |moving| {
        moving.reported(|report| report.taken)
    })
}

/// Returns the method with this index, from 0, in the order of their first byte, FULLBORE_METHOD_..., and stores how
/// many bytes it moved in `*bytes`, which may be NULL. Returns 0 if fewer methods were used; -EINVAL if `transfer` is
/// NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_method(
    transfer: *mut fullbore_transfer,
    index: usize,
    bytes: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    using(None, transfer, |moving| {
        let report = moving.report.as_ref();
        let Some(&(method, moved)) = report.and_then(|report| report.ways.get(index)) else {
            return Ok(0);
        };
        if let Some(bytes) = bytes {
            bytes.write(moved);
        }
        Ok(number_of_method(method))
    })
}

/// Frees a transfer. Bytes that were taken from the source and have not arrived are lost;
/// fullbore_transfer_take_back returns them. NULL is allowed.
///
/// Threads: any, once no other call uses this transfer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_transfer_free(transfer: *mut fullbore_transfer) {
    free(transfer);
}
