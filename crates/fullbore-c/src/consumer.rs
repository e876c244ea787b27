//! Fd to memory.

use std::ffi::{c_int, c_void};
use std::io::BufRead;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use fullbore::{ConsumerOptions, TransferSide};

use crate::arguments::{
    self, FULLBORE_FLAG_NONBLOCKING, Options, fd, only, place, room, size, wait,
};
use crate::call::{Failure, fullbore_error, status};
use crate::cancel::{self, fullbore_cancel};
use crate::handle::{Exclusive, counted, done, free, make, object};
use crate::ring::*;
use fullbore_linux::error::of_io;

/// The options of a fullbore_consumer. Set `size` to `sizeof options` and all other fields to 0, and then change fields
/// from their default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fullbore_consumer_options {
    /// sizeof(fullbore_consumer_options).
    pub size: usize,
    /// The size of the buffer in bytes. 0 is the default: half of the L2 cache.
    pub buffer: usize,
    /// The deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC, as returned by
    /// fullbore_deadline_in. 0 means none.
    pub deadline: i64,
    /// How to wait while there is nothing to read: FULLBORE_WAIT_...
    pub wait: i32,
    /// FULLBORE_FLAG_NONBLOCKING.
    pub flags: u32,
    /// Ends calls with -ECANCELED when it is cancelled. NULL means none. It may be freed before the consumer.
    pub cancel: *const fullbore_cancel,
}

// SAFETY: it begins with its size, and consists of numbers and a pointer that may be null.
unsafe impl Options for fullbore_consumer_options {
    const FIRST: usize = std::mem::offset_of!(Self, cancel);
}

/// Reads bytes from any file descriptor through a buffer. It never resizes the pipe that it reads from.
pub struct fullbore_consumer(Exclusive<Consumer<BorrowedFd<'static>>>);

object!(fullbore_consumer is "consumer", of Consumer<BorrowedFd<'static>>);

fn open(
    source: BorrowedFd<'static>,
    given: &fullbore_consumer_options,
) -> Result<Consumer<BorrowedFd<'static>>, Failure> {
    let known = FULLBORE_FLAG_NONBLOCKING | SHARED;
    only(given.flags, known, 0)?;
    let consumer = ConsumerOptions::new()
        .wait(wait(given.wait)?)
        .nonblocking(given.flags & FULLBORE_FLAG_NONBLOCKING != 0)
        .buffer(size(given.buffer))
        .deadline(arguments::deadline(given.deadline)?)
        .cancel(cancel::named(given.cancel).as_ref())
        .open(source)?;
    #[cfg(feature = "ring")]
    if given.flags == SHARED {
        let waiter = waiter(given.wait, given.deadline, given.cancel)?;
        let consumer = Consumer::new(consumer, waiter);
        return Ok(match size(given.buffer) {
            Some(buffer) => consumer.buffer_size(buffer),
            None => consumer,
        });
    }
    // Without the feature, it is already of this type.
    #[allow(clippy::useless_conversion)]
    Ok(consumer.into())
}

/// Creates a consumer that reads from `source`, and stores it in `*consumer`. Free it with
/// fullbore_consumer_free.
///
/// The caller owns `source`, and must keep it open as long as the consumer exists. `options` may be NULL for the
/// defaults.
///
/// Returns 0; -EBADF if `source` is not open; -EINVAL for invalid options, and if `consumer` is NULL; -ENOMEM.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_new(
    source: c_int,
    options: *const fullbore_consumer_options,
    consumer: Option<&mut MaybeUninit<*mut fullbore_consumer>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        make(consumer, || {
            let options = arguments::options(options)?;
            let consumer = open(fd("source", source)?, &options)?;
            Ok(fullbore_consumer(Exclusive::new(consumer)))
        })
    })
}

/// Reads up to `len` bytes into `memory`.
///
/// Returns how many bytes were read, which may be fewer than `len`; 0 at the end, when all writers have closed, and if
/// `len` is 0. Errors of read(2), with FULLBORE_SIDE_SOURCE; -EAGAIN with FULLBORE_FLAG_NONBLOCKING if no bytes are
/// available; -ETIMEDOUT; -ECANCELED after the `cancel` of the options was cancelled; -EINVAL if `consumer` or `memory`
/// is NULL or `len` is more than SSIZE_MAX; -EBUSY while another call uses the consumer. Signals do not interrupt it.
/// Threads: one at a time for one consumer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_read(
    consumer: *mut fullbore_consumer,
    memory: *mut c_void,
    len: usize,
    error: Option<&mut fullbore_error>,
) -> i64 {
    counted(error, consumer, |consumer| {
        let room = room(memory, len)?;
        if room.is_empty() {
            return Ok(0);
        }
        let taken = consumer.taken();
        let bytes = consumer.fill_buf();
        let bytes = bytes.map_err(|error| of_io(error, TransferSide::Source, taken))?;
        let n = bytes.len().min(room.len());
        // The caller's memory may be uninitialized, so it is only written to.
        // SAFETY: both have `n` bytes, and the header requires memory that no other code uses during the call.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), room.as_mut_ptr().cast(), n) };
        consumer.consume(n);
        Ok(n as u64)
    })
}

/// Lends the bytes in the buffer: stores their address in `*memory` and their number in `*len`. It reads if the buffer
/// is empty, so `*len` is 0 only at the end. The bytes stay in the buffer until fullbore_consumer_consume.
///
/// The memory is lent until the next call with this consumer that does not only return a number.
///
/// Returns 0; -EINVAL if an argument is NULL; otherwise as fullbore_consumer_read.
/// Threads: one at a time for one consumer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_fill(
    consumer: *mut fullbore_consumer,
    memory: Option<&mut MaybeUninit<*const c_void>>,
    len: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, consumer, |consumer| {
        let (memory, len) = (place("memory", memory)?, place("length", len)?);
        let taken = consumer.taken();
        let bytes = consumer.fill_buf();
        let bytes = bytes.map_err(|error| of_io(error, TransferSide::Source, taken))?;
        memory.write(bytes.as_ptr().cast());
        len.write(bytes.len());
        Ok(())
    })
}

/// Removes the first `len` bytes from the buffer.
///
/// Returns 0; -EINVAL for more bytes than are in the buffer, and if `consumer` is NULL; -EBUSY while
/// another call uses it.
/// Threads: one at a time for one consumer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_consume(
    consumer: *mut fullbore_consumer,
    len: usize,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, consumer, |consumer| {
        let has = consumer.buffer().len();
        if len > has {
            let message = format!("{len} bytes consumed, and {has} are in the buffer");
            return Err(Failure::invalid(message));
        }
        consumer.consume(len);
        Ok(())
    })
}

/// Discards the next `len` bytes, or all up to the end. Bytes in a pipe are discarded without being copied.
///
/// Returns how many were discarded; otherwise as fullbore_consumer_read. Bytes that were discarded before
/// an error are lost.
/// Threads: one at a time for one consumer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_discard(
    consumer: *mut fullbore_consumer,
    len: u64,
    error: Option<&mut fullbore_error>,
) -> i64 {
    counted(error, consumer, |consumer| Ok(consumer.discard(len)?))
}

/// Sets the deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
///
/// Returns 0; -EINVAL if `consumer` is NULL or `deadline` is negative; -EBUSY while another call uses it.
/// Threads: one at a time for one consumer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_set_deadline(
    consumer: *mut fullbore_consumer,
    deadline: i64,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, consumer, |consumer| {
        consumer.set_deadline(arguments::deadline(deadline)?);
        Ok(())
    })
}

/// Returns the number of bytes taken from the source so far, including those in the buffer; -EINVAL if `consumer` is
/// NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one consumer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_taken(consumer: *mut fullbore_consumer) -> i64 {
    counted(None, consumer, |consumer| Ok(consumer.taken()))
}

/// Returns the number of bytes in the buffer, which fullbore_consumer_fill lends without reading; -EINVAL if `consumer`
/// is NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one consumer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_buffered(consumer: *mut fullbore_consumer) -> i64 {
    counted(
        None,
        consumer,
        |consumer| Ok(consumer.buffer().len() as u64),
    )
}

/// Frees a consumer. Bytes in its buffer are lost. NULL is allowed.
///
/// Threads: any, once no other call uses this consumer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_consumer_free(consumer: *mut fullbore_consumer) {
    free(consumer);
}
