//! *repeat*: a pattern is sent repeatedly, from pages that never change.
//!
//! A slot of a pipe usually refers to one base page, but it can refer to a longer run: bytes spliced from a Unix stream
//! socket come in runs of 32 KiB (`outlet/socket.rs`). So a *master* pipe of 256 such slots holds 8 MiB, and tee(2)
//! duplicates all of it into the output with one call and 256 references. The kernel owns these pages and no process
//! can write to them: the guarantee is that of a copy.
//!
//! tee(2) always begins at the start of its source. If the output accepts only some of the slots, the next call can
//! continue only if each slot ends at the end of a pattern. So if a pattern fits into a slot, the slots are filled with
//! whole patterns. Otherwise the master is duplicated into a private pipe, and spliced from there.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::options::{ProducerOptions, ProducerReport};
use super::output::Output;
use crate::memory::{Geometry, Memory};
use crate::outlet::{RUN, make_roomy};
use crate::way::Way;
use fullbore_linux::pages::ReadOnlyPages;
use fullbore_linux::pipe::{self, roomy};
use fullbore_linux::{
    self as linux, Calls, Error, Owner, Pipe, Ready, Result, TransferSide, error,
};

/// Bytes of repeated pattern in memory, for sends that do not use a master pipe.
const BLOCK: usize = 1024 * 1024;

/// The most bytes that a master pipe holds.
const MASTER: usize = 8 * 1024 * 1024;

/// How often tee(2) is called that duplicates nothing, before another way is used.
const TRIES: usize = 64;

/// Patterns of at least this length are sent from memory, because they might not fit into a master pipe.
const TOO_LONG_FOR_A_MASTER: usize = 4 * 1024 * 1024;

/// Sends a pattern repeatedly. [`ProducerOptions::repeat`](super::ProducerOptions::repeat) creates it. The reader sees
/// no end of file until it is dropped.
///
/// ```
/// let pipe = fullbore::Pipe::new()?;
/// let mut repeat = fullbore::ProducerOptions::new().repeat(&pipe.writer, b"yes\n")?;
/// repeat.send(10)?;
/// let mut buf = [0; 16];
/// assert_eq!(rustix::io::read(&pipe.reader, &mut buf)?, 10);
/// assert_eq!(&buf[..10], b"yes\nyes\nye");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # fork
/// A child of fork(2) must not use its copy: sending returns an error there. The child may drop it.
#[derive(Debug)]
pub struct Repeat<Fd> {
    sink: Output<Fd>,
    calls: Calls,
    options: ProducerOptions,
    origin: Origin,
    /// The pattern, repeated until it is long enough for one send from memory.
    block: ReadOnlyPages,
    pattern: usize,
    sent: u64,
    owner: Owner,
}

/// Where the bytes are sent from.
#[derive(Debug)]
enum Origin {
    /// Slots that each hold whole patterns, which are duplicated directly into the output.
    Master(Master),
    /// Slots that do not hold whole patterns, which are first duplicated into a private pipe. `staged` bytes are in
    /// that pipe.
    Staged {
        master: Master,
        stage: Pipe,
        staged: u64,
    },
    /// The block in memory, which is sent by vmsplice(2).
    Memory,
    /// The block in memory, which is sent by write(2).
    Copy,
}

/// A pipe whose bytes are never read, but only duplicated.
#[derive(Debug)]
struct Master {
    pipe: Pipe,
    bytes: u64,
}

impl<Fd: AsFd> Repeat<Fd> {
    pub(super) fn make(sink: Fd, pattern: &[u8], options: ProducerOptions) -> Result<Self> {
        if pattern.is_empty() {
            return Err(Error::Invalid("an empty pattern repeats nothing".into()));
        }
        let sink = match pipe::of(&sink)?.is_some() {
            true => Output::own(sink)?,
            false => Output::shared(sink),
        };
        make_roomy(sink.as_fd(), options.roomy());
        let origin = match sink.is_own() {
            true => Origin::best(pattern).unwrap_or_else(Origin::from_memory),
            false => Origin::Copy,
        };
        Ok(Self {
            calls: Calls::with(options.waiter.clone()),
            options,
            block: block_of(pattern)?,
            pattern: pattern.len(),
            sent: 0,
            owner: Owner::this(),
            origin,
            sink,
        })
    }

    /// Returns the sink that it was created with.
    pub fn get_ref(&self) -> &Fd {
        self.sink.given()
    }

    /// Returns the sink that it was created with.
    pub fn into_inner(mut self) -> Fd {
        self.sink.take_back()
    }

    /// Sets the deadline for waiting and sending; `None` removes it. See [`ProducerOptions::deadline`].
    pub fn set_deadline(&mut self, at: impl Into<Option<Instant>>) {
        self.options.waiter.deadline = at.into();
        self.calls.wait_as(self.options.waiter.clone());
    }

    /// Returns what was sent so far, and how.
    pub fn report(&self) -> ProducerReport {
        ProducerReport {
            bytes: self.sent,
            way: match self.origin {
                Origin::Copy => Way::Copy,
                _ => Way::Repeat,
            },
            calls: self.calls.made(),
        }
    }

    /// Sends `bytes` more bytes, from where the last call stopped in the pattern. `u64::MAX` sends until the reader
    /// closes the pipe, which is an error.
    ///
    /// # Errors
    /// [`Error::Moving`] as write(2), tee(2) or splice(2), with `EPIPE` if no reader is left; [`Error::Stopped`] if it
    /// was cancelled, or its deadline has passed. The [`report`](Self::report) counts the bytes sent before, and the
    /// next call continues from there.
    pub fn send(&mut self, bytes: u64) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            left -= self.send_some(left)?;
        }
        Ok(())
    }

    /// Sends as many bytes as one system call can, at most `most`, and returns how many were sent.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_some(&mut self, most: u64) -> Result<u64> {
        self.owner.check("repeat")?;
        if most == 0 {
            return Ok(0);
        }
        let at = (self.sent % self.pattern as u64) as usize;
        if at == 0 {
            if let Err(errno) = self.fill_stage() {
                return self.degrade_or_fail("tee", Some(errno), most);
            }
        }
        let (sink, block) = (self.sink.as_fd(), &self.block);
        let (operation, answer) = match &mut self.origin {
            Origin::Master(master) if at == 0 => ("tee", master.tee(&mut self.calls, sink, most)),
            Origin::Staged { stage, staged, .. } if *staged > 0 => {
                let (from, most) = (stage.reader.as_fd(), length(most.min(*staged)));
                let (flags, ready) = (SpliceFlags::NONBLOCK, Ready::ToWrite);
                let spliced = self.calls.splice(from, sink, most, flags, ready);
                ("splice", spliced.inspect(|&n| *staged -= n as u64))
            }
            Origin::Copy => {
                let bytes = up_to(&block[at..], most);
                ("write", self.calls.write(sink, bytes))
            }
            Origin::Memory => {
                let bytes = up_to(&block[at..], most);
                // SAFETY: nothing writes to the block's pages after `block_of` has filled them; they are a private
                // mapping, whose pages live on in the pipe after munmap; and `Output::own` has checked that the sink is
                // the write end of a pipe, on a descriptor that no other code can redirect.
                let answer = unsafe { self.calls.vmsplice(sink, bytes, SpliceFlags::empty()) };
                ("vmsplice", answer)
            }
            // A master can be duplicated only from the start of a pattern, so the rest of the current one is written
            // first.
            Origin::Master(_) | Origin::Staged { .. } => {
                let bytes = up_to(&block[at..self.pattern], most);
                ("write", self.calls.write(sink, bytes))
            }
        };
        match answer {
            Ok(n @ 1..) => {
                self.sent += n as u64;
                Ok(n as u64)
            }
            nothing => self.degrade_or_fail(operation, nothing.err(), most),
        }
    }

    /// Duplicates the master into the private pipe, if there is one and it is empty.
    fn fill_stage(&mut self) -> Result<(), Errno> {
        if let Origin::Staged {
            master,
            stage,
            staged: staged @ 0,
        } = &mut self.origin
        {
            let (from, to) = (master.pipe.reader.as_fd(), stage.writer.as_fd());
            let most = length(master.bytes);
            *staged = self.calls.tee(from, to, most, Ready::ToWrite)? as u64;
        }
        Ok(())
    }

    /// Falls back to a simpler way if this one is refused, or has moved nothing without an error.
    fn degrade_or_fail(
        &mut self,
        operation: &'static str,
        errno: Option<Errno>,
        most: u64,
    ) -> Result<u64> {
        let refused = errno.is_none_or(linux::is_refusal);
        self.origin = match self.origin {
            Origin::Master(_) | Origin::Staged { .. } if refused => Origin::from_memory(),
            Origin::Memory if refused => Origin::Copy,
            _ => return Err(self.failed(operation, errno.unwrap_or(Errno::IO))),
        };
        self.send_some(most)
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> Error {
        (self.calls.waiter).error(TransferSide::Sink, operation, errno, self.sent)
    }
}

/// The sink, or the duplicate of it that a pipe is written through.
impl<Fd: AsFd> AsFd for Repeat<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }
}

/// Returns the first `most` bytes of `bytes`, or all if there are fewer.
fn up_to(bytes: &[u8], most: u64) -> &[u8] {
    &bytes[..bytes.len().min(length(most))]
}

/// Returns a length for one system call; the next call sends the bytes beyond it.
fn length(bytes: u64) -> usize {
    // MAX_RW_COUNT (include/linux/fs.h) limits one call to less than 2 GiB anyway.
    bytes.min(1 << 30) as usize
}

/// Returns about [`BLOCK`] bytes of whole patterns, and less in a small cgroup.
fn block_of(pattern: &[u8]) -> Result<ReadOnlyPages> {
    let len = pattern.len() * (Geometry::here().buffer(BLOCK) / pattern.len()).max(1);
    let mut block = Memory::map(len, true)?;
    for copy in block.chunks_exact_mut(pattern.len()) {
        copy.copy_from_slice(pattern);
    }
    ReadOnlyPages::new(block)
}

impl Origin {
    /// Returns the way that needs neither a socket nor a private pipe.
    fn from_memory() -> Self {
        match linux::shares_pages() {
            true => Origin::Memory,
            false => Origin::Copy,
        }
    }

    /// Returns a master pipe, if one can be made, whose slots end at the end of a pattern if possible.
    fn best(pattern: &[u8]) -> Option<Self> {
        if pattern.len() >= TOO_LONG_FOR_A_MASTER {
            return None;
        }
        let (master, capacity, slots_end_with_a_pattern) = Master::fill(pattern).ok()??;
        if slots_end_with_a_pattern {
            return Some(Origin::Master(master));
        }
        let (stage, growth) = pipe::with_capacity(capacity).ok()?;
        (growth.after >= capacity).then_some(Origin::Staged {
            master,
            stage,
            staged: 0,
        })
    }
}

impl Master {
    /// Fills a master pipe with whole patterns, and returns its capacity, and whether each slot holds whole patterns.
    /// Returns `None` if not even one pattern fits.
    fn fill(pattern: &[u8]) -> Result<Option<(Self, usize, bool)>> {
        // Each slot, which counts as one page of capacity, can hold a run.
        let runs = RUN / linux::page_size().min(RUN);
        let capacity = roomy().min(Geometry::here().pipe(MASTER) / runs);
        let (pipe, growth) = pipe::with_capacity(capacity)?;
        // Splicing from a socket moves no more bytes than the pipe has free slots times the page size, however long the
        // runs are (`do_splice_read`, fs/splice.c). So each run goes through a pipe with room for it.
        let (message, _) = pipe::with_capacity(2 * RUN)?;
        let (mut socket, outlet) = UnixStream::pair().map_err(|_| unsupported())?;
        // The pipe has no reader while it is filled, so a write that does not fit has to fail instead of blocking.
        socket.set_nonblocking(true).map_err(|_| unsupported())?;

        // The pipe is filled with units of whole patterns; each write makes one run.
        let unit = pattern.repeat((RUN / pattern.len()).max(1));
        let mut units = 0;
        loop {
            for run in unit.chunks(RUN) {
                socket.write_all(run).map_err(|_| unsupported())?;
                let (writer, len) = (message.writer.as_fd(), run.len());
                let (reader, sink) = (message.reader.as_fd(), pipe.writer.as_fd());
                if !splice(outlet.as_fd(), writer, len)? || !splice(reader, sink, len)? {
                    // Behind the whole units there may be a part of one, which is never duplicated. Each unit is in one
                    // slot, unless it has several runs, or memory is scarce and the kernel makes shorter ones.
                    let is_even = units * linux::page_size() == growth.after && unit.len() <= RUN;
                    let bytes = (units * unit.len()) as u64;
                    let master = Self { pipe, bytes };
                    return Ok((units > 0).then_some((master, growth.after, is_even)));
                }
            }
            units += 1;
        }
    }

    /// Duplicates as much as the output has room for.
    fn tee(&self, calls: &mut Calls, sink: BorrowedFd<'_>, most: u64) -> Result<usize, Errno> {
        // The master is never empty, so 0 does not mean the end: another writer filled the output
        // between the check for room and the move (opipe_prep and link_pipe, fs/splice.c). The next
        // call waits for room. Where all return 0, tee(2) is refused.
        let (source, most) = (self.pipe.reader.as_fd(), length(most.min(self.bytes)));
        for _ in 0..TRIES {
            match calls.tee(source, sink, most, Ready::ToWrite)? {
                0 => {}
                n => return Ok(n),
            }
        }
        Ok(0)
    }
}

/// Moves `len` bytes by splice(2) without waiting, and returns whether there was room for all of them.
fn splice(source: BorrowedFd<'_>, sink: BorrowedFd<'_>, len: usize) -> Result<bool> {
    let mut left = len;
    while left > 0 {
        match rustix::pipe::splice(source, None, sink, None, left, SpliceFlags::NONBLOCK) {
            Ok(0) => return Err(unsupported()),
            Ok(n) => left -= n,
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(error::system("splice")(errno)),
        }
    }
    Ok(true)
}

fn unsupported() -> Error {
    Error::Unsupported("a socket's pages cannot be put into a pipe here".into())
}
