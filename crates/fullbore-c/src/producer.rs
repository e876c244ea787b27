//! Memory to fd.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use fullbore::{ProducerOptions, TransferSide, Unfinished, Way};

use crate::arguments::{
    self, FULLBORE_FLAG_NONBLOCKING, Options, bytes, deadline, fd, only, place, size, wait,
};
use crate::call::{Failure, fullbore_error, status};
use crate::cancel::{self, fullbore_cancel};
use crate::handle::{Exclusive, counted, done, free, make, object, using};
use crate::ring::*;
use fullbore_linux::error::of_io;
use fullbore_linux::without_sigpipe;

/// The way in which a producer sends: chosen by the kind of the file. A pipe gets fresh pages, or bytes through a
/// socket; anything else gets copies.
pub const FULLBORE_WAY_AUTO: i32 = 0;
/// The bytes are copied by write(2). Any file.
pub const FULLBORE_WAY_COPY: i32 = 1;
/// The bytes are copied into a socket, and spliced from there into the pipe. Pipes only.
pub const FULLBORE_WAY_SOCKET: i32 = 2;
/// vmsplice(2) sends pages that are never written to again. Pipes only.
pub const FULLBORE_WAY_FRESH: i32 = 3;
/// vmsplice(2) sends pages that are reused once the pipe no longer refers to them. Pipes only, and right only if every
/// reader of the pipe COPIES the bytes out of it, as read(2) does, or drops them. A reader that forwards references, as
/// splice(2), tee(2) and recent versions of cat, tee and pv do, passes on bytes that change later.
pub const FULLBORE_WAY_RECYCLE: i32 = 4;
/// References to pages that never change are sent. Only a fullbore_repeat sends in this way.
pub const FULLBORE_WAY_REPEAT: i32 = 5;
/// Another way, for which this version has no name.
pub const FULLBORE_WAY_OTHER: i32 = 6;
/// A flag of fullbore_producer_options: do not use huge pages.
pub const FULLBORE_FLAG_NO_HUGE_PAGES: u32 = 2;

/// For `pipe_size` in options: leave the output pipe as it is. cbindgen.toml defines it for the header.
pub const FULLBORE_PIPE_SIZE_KEEP: usize = usize::MAX;

/// The options of a fullbore_producer and a fullbore_repeat. Set `size` to `sizeof options` and all other fields to 0,
/// and then change fields from their default: `fullbore_producer_options o = {.size = sizeof o}`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fullbore_producer_options {
    /// sizeof(fullbore_producer_options).
    pub size: usize,
    /// The most bytes that one system call sends, and that one fullbore_producer_reserve lends. 0 is
    /// the default: 512 KiB, and 256 KiB for FULLBORE_WAY_RECYCLE.
    pub chunk: usize,
    /// The number of bytes of memory that FULLBORE_WAY_RECYCLE uses in rotation. 0 is the default: the capacity of the
    /// pipe plus two chunks.
    pub memory: usize,
    /// The capacity in bytes that an output pipe is grown to, as far as the user's limits allow, once more than 64 KiB
    /// are to be sent. 0 is the default: 1 MiB, and less in a small memory cgroup. FULLBORE_PIPE_SIZE_KEEP leaves the
    /// pipe as it is. 64 pipes of 1 MiB use up the limit on all pipes of an unprivileged user.
    pub pipe_size: usize,
    /// The deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC, as returned by
    /// fullbore_deadline_in. 0 means none.
    pub deadline: i64,
    /// Ends calls with -ECANCELED. NULL means none. It may be freed once the object has been created.
    pub cancel: *const fullbore_cancel,
    /// FULLBORE_WAY_...; a fullbore_repeat accepts only FULLBORE_WAY_AUTO.
    pub way: i32,
    /// How to wait while the output is full: FULLBORE_WAIT_...
    pub wait: i32,
    /// FULLBORE_FLAG_NONBLOCKING, FULLBORE_FLAG_NO_HUGE_PAGES.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: it begins with its size, and consists of numbers and a pointer.
unsafe impl Options for fullbore_producer_options {
    const FIRST: usize = size_of::<Self>();
}

/// Sends bytes from memory to any file descriptor, as fast as the guarantee of its way allows.
///
/// The reader gets the bytes as they were when they were sent, whatever it does with them, except with
/// FULLBORE_WAY_RECYCLE.
pub struct fullbore_producer(Exclusive<Sending>);

pub struct Sending {
    /// `None` once it has finished.
    producer: Option<Producer<BorrowedFd<'static>>>,
    chunk: usize,
    /// The number of bytes that were sent when it finished, and the way.
    finished: (u64, i32),
}

object!(fullbore_producer is "producer", of Sending);

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(producer) = self.producer.take() {
            without_sigpipe(|| drop(producer));
        }
    }
}

/// Converts the `pipe_size` of options; `None` is the library's default.
pub fn pipe_size(given: usize) -> Option<usize> {
    match given {
        0 => None,
        FULLBORE_PIPE_SIZE_KEEP => Some(0),
        bytes => Some(bytes),
    }
}

/// Converts the options to those of the library.
pub fn library_options(given: &fullbore_producer_options) -> Result<ProducerOptions, Failure> {
    only(
        given.flags,
        FULLBORE_FLAG_NONBLOCKING | FULLBORE_FLAG_NO_HUGE_PAGES | SHARED,
        given.reserved,
    )?;
    Ok(ProducerOptions::new()
        .huge_pages(given.flags & FULLBORE_FLAG_NO_HUGE_PAGES == 0)
        .wait(wait(given.wait)?)
        .nonblocking(given.flags & FULLBORE_FLAG_NONBLOCKING != 0)
        .chunk(size(given.chunk))
        .memory(size(given.memory))
        .pipe_size(pipe_size(given.pipe_size))
        .deadline(deadline(given.deadline)?)
        .cancel(cancel::named(given.cancel).as_ref()))
}

pub fn number_of_way(way: Way) -> i32 {
    match way {
        Way::Copy => FULLBORE_WAY_COPY,
        Way::Socket => FULLBORE_WAY_SOCKET,
        Way::Fresh => FULLBORE_WAY_FRESH,
        Way::Recycle => FULLBORE_WAY_RECYCLE,
        Way::Repeat => FULLBORE_WAY_REPEAT,
        _ => FULLBORE_WAY_OTHER,
    }
}

fn way_of(producer: &Producer<BorrowedFd<'static>>) -> i32 {
    match producer.is_sharing() {
        true => FULLBORE_WAY_RING,
        false => number_of_way(producer.inner().report().way),
    }
}

impl Sending {
    fn open(sink: BorrowedFd<'static>, given: &fullbore_producer_options) -> Result<Self, Failure> {
        let way = match given.way {
            FULLBORE_WAY_AUTO => None,
            FULLBORE_WAY_COPY => Some(Way::Copy),
            FULLBORE_WAY_SOCKET => Some(Way::Socket),
            FULLBORE_WAY_FRESH => Some(Way::Fresh),
            // The header requires readers that copy.
            FULLBORE_WAY_RECYCLE => Some(Way::Recycle),
            way => return Err(Failure::invalid(format!("a producer has no way {way}"))),
        };
        let producer = library_options(given)?.way(way).open(sink)?;
        // poll(2) does not see a ring, and a program that chose write(2) gets it.
        #[cfg(feature = "ring")]
        let producer = match given.flags & (SHARED | FULLBORE_FLAG_NONBLOCKING) {
            SHARED if given.way != FULLBORE_WAY_COPY => {
                Producer::new(producer, waiter(given.wait, given.deadline, given.cancel)?)
            }
            _ => producer.into(),
        };
        Ok(Self {
            chunk: producer.chunk(),
            producer: Some(producer),
            finished: (0, FULLBORE_WAY_AUTO),
        })
    }

    fn going_on(&mut self) -> Result<&mut Producer<BorrowedFd<'static>>, Failure> {
        (self.producer.as_mut()).ok_or_else(|| Failure::invalid("the producer has finished"))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<u64, Failure> {
        let producer = self.going_on()?;
        let is_short = bytes.len() < producer.room();
        let mut write = || {
            let mut written = 0;
            while written < bytes.len() {
                match producer.write(&bytes[written..]) {
                    Ok(n) => written += n,
                    // The next call returns the error, because its bytes are still unsent.
                    Err(_) if written > 0 => break,
                    Err(error) => return Err(of_io(error, TransferSide::Sink, producer.sent())),
                }
            }
            Ok(written as u64)
        };
        // Without a system call there is no SIGPIPE.
        let written = match is_short {
            true => write(),
            false => without_sigpipe(write),
        };
        Ok(written?)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let producer =
            (self.producer.take()).ok_or_else(|| Failure::invalid("the producer has finished"))?;
        let is_sharing = producer.is_sharing();
        match without_sigpipe(|| producer.finish()) {
            Ok(produced) => {
                let way = match is_sharing {
                    true => FULLBORE_WAY_RING,
                    false => number_of_way(produced.way),
                };
                self.finished = (produced.bytes, way);
                Ok(())
            }
            Err(Unfinished { error, producer }) => {
                self.producer = Some(*producer);
                Err(error.into())
            }
        }
    }
}

/// Creates a producer that sends to `sink`, and stores it in `*producer`. Free it with
/// fullbore_producer_free.
///
/// The caller owns `sink`, and must keep it open as long as the producer exists. A producer that sends to a pipe keeps
/// a duplicate of it: the pipe's reader sees no end of file before the producer has finished or is freed. `options` may
/// be NULL for the defaults.
///
/// Returns 0; -EBADF if `sink` is not open, or is the read end of a pipe; -EINVAL for a way that needs a pipe if `sink`
/// is not one, for invalid options, and if `producer` is NULL; -ENOMEM.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_new(
    sink: c_int,
    options: *const fullbore_producer_options,
    producer: Option<&mut MaybeUninit<*mut fullbore_producer>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    status(error, || {
        make(producer, || {
            let options = arguments::options(options)?;
            let sending = Sending::open(fd("sink", sink)?, &options)?;
            Ok(fullbore_producer(Exclusive::new(sending)))
        })
    })
}

/// Gathers `len` bytes of `memory`, and sends them in chunks, now or in a later call. `memory` may be reused when it
/// returns.
///
/// Returns how many bytes were accepted: all of them, unless an error occurs after some, which the next call then
/// returns. Bytes that were accepted must not be written again.
/// -EPIPE if no reader is left, and other errors of write(2) and vmsplice(2), with FULLBORE_SIDE_SINK;
/// -EAGAIN with FULLBORE_FLAG_NONBLOCKING; -ETIMEDOUT; -ECANCELED; -EINVAL if `producer` or `memory` is NULL,
/// `len` is more than SSIZE_MAX, or the producer has finished; -EBUSY while another call uses it.
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_write(
    producer: *mut fullbore_producer,
    memory: *const c_void,
    len: usize,
    error: Option<&mut fullbore_error>,
) -> i64 {
    counted(error, producer, |sending| {
        sending.write(bytes(memory, len)?)
    })
}

/// Lends `len` bytes of memory to fill, and stores their address in `*memory`. Their contents are unspecified. Bytes
/// that were gathered by fullbore_producer_write are sent first.
///
/// The memory is lent until the next call with this producer that does not only return a number.
/// fullbore_producer_commit sends it.
///
/// Returns 0; -EINVAL for more bytes than fullbore_producer_chunk, if an argument is NULL, and if the
/// producer has finished; -ENOMEM; otherwise as fullbore_producer_write.
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_reserve(
    producer: *mut fullbore_producer,
    len: usize,
    memory: Option<&mut MaybeUninit<*mut c_void>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, producer, |sending| {
        let place = place("memory", memory)?;
        let producer = sending.going_on()?;
        let lent = without_sigpipe(|| producer.reserve(len))?;
        place.write(lent.as_mut_ptr().cast());
        Ok(())
    })
}

/// Sends the first `len` bytes of the memory that the last fullbore_producer_reserve lent. The memory must not be used
/// any more, even if this fails.
///
/// Returns 0; -EINVAL for more bytes than were lent, if `producer` is NULL, and if it has finished; otherwise as
/// fullbore_producer_write. After an error, unsent bytes stay in the producer, and the next call sends them first: do
/// not commit them again.
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_commit(
    producer: *mut fullbore_producer,
    len: usize,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, producer, |sending| {
        let producer = sending.going_on()?;
        Ok(without_sigpipe(|| producer.commit(len))?)
    })
}

/// Sends the gathered bytes.
///
/// Returns 0; -EINVAL if `producer` is NULL or has finished; otherwise as fullbore_producer_write. With
/// FULLBORE_FLAG_NONBLOCKING, after -EAGAIN, wait until the sink can be written to (poll(2)), and call it again.
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_flush(
    producer: *mut fullbore_producer,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, producer, |sending| {
        let producer = sending.going_on()?;
        without_sigpipe(|| producer.flush())
            .map_err(|error| of_io(error, TransferSide::Sink, producer.sent()).into())
    })
}

/// Sends the remaining bytes, and finishes the producer: it closes its duplicate of the sink, and afterwards only the
/// functions that return a number, and fullbore_producer_free, are allowed. With FULLBORE_WAY_RECYCLE it returns when
/// the last byte has been read.
///
/// Returns 0 if all bytes were sent; -EINVAL if `producer` is NULL or has finished; otherwise as
/// fullbore_producer_write. After an error the producer has not finished, and keeps its unsent bytes: call this again
/// to continue, or fullbore_producer_free to drop them.
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_finish(
    producer: *mut fullbore_producer,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, producer, Sending::finish)
}

/// Stores the address and the length of the bytes that were accepted and not sent yet. They are lent as by
/// fullbore_producer_reserve. After fullbore_producer_finish there are none.
///
/// Returns 0; -EINVAL if an argument is NULL; -EBUSY while another call uses the producer.
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_unsent(
    producer: *mut fullbore_producer,
    memory: Option<&mut MaybeUninit<*const c_void>>,
    len: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, producer, |sending| {
        let (memory, len) = (place("memory", memory)?, place("length", len)?);
        let unsent = (sending.producer.as_ref()).map_or(&[][..], |producer| producer.buffer());
        memory.write(unsent.as_ptr().cast());
        len.write(unsent.len());
        Ok(())
    })
}

/// Sets the deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
///
/// Returns 0; -EINVAL if `producer` is NULL or has finished, or `deadline` is negative; -EBUSY while
/// another call uses the producer.
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_set_deadline(
    producer: *mut fullbore_producer,
    deadline: i64,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, producer, |sending| {
        let deadline = arguments::deadline(deadline)?;
        sending.going_on()?.set_deadline(deadline);
        Ok(())
    })
}

/// Returns the number of bytes sent so far; -EINVAL if `producer` is NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_sent(producer: *mut fullbore_producer) -> i64 {
    counted(None, producer, |sending| {
        let producer = sending.producer.as_ref();
        Ok(producer.map_or(sending.finished.0, |producer| producer.sent()))
    })
}

/// Returns the way in which bytes are sent now, FULLBORE_WAY_...; it can change when the kernel refuses a way, or when
/// the consumer shares memory. -EINVAL if `producer` is NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_way(producer: *mut fullbore_producer) -> c_int {
    using(None, producer, |sending| {
        let producer = sending.producer.as_ref();
        Ok(producer.map_or(sending.finished.1, way_of))
    })
}

/// Returns the size of a chunk in bytes: the most that one fullbore_producer_reserve lends. -EINVAL if
/// `producer` is NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_chunk(producer: *mut fullbore_producer) -> i64 {
    counted(None, producer, |sending| Ok(sending.chunk as u64))
}

/// Frees a producer. Like fclose(3), it first sends the remaining bytes, but cannot return an error: call
/// fullbore_producer_finish before. Nothing is sent if a call has returned an error other than -EAGAIN, -ECANCELED and
/// -ETIMEDOUT since bytes were last passed in. NULL is allowed.
///
/// Threads: any, once no other call uses this producer.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_producer_free(producer: *mut fullbore_producer) {
    free(producer);
}
