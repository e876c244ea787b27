//! Memory to fd: [`Producer`], and the ways it can send.
//!
//! | way | guarantee | how a chunk goes out | file |
//! |---|---|---|---|
//! | copy | snapshot | write(2) | `sending.rs` |
//! | socket | snapshot | send(2) into a socket of our own, and splice(2) from it | `socket.rs` |
//! | fresh | snapshot | vmsplice(2); its pages are never written to again | `fresh.rs` |
//! | recycle | needs a reader that copies | vmsplice(2); its pages are used again once the pipe no longer refers to them | `recycle.rs` |
//! | ring | snapshot | the consumer reads it in memory that both share | `ringing.rs`, `../ring/` |
//! | repeat | snapshot | tee(2) or vmsplice(2) of pages that never change | `repeat.rs` |
//!
//! `producer.rs` has the public interface, `gathering.rs` implements [`io::Write`](std::io::Write), and
//! `sending.rs` sends the bytes. `stage.rs` has the memory of a transfer, and `store/` that of a
//! [`Buffer`](crate::Buffer).
//!
//! All ways fill a *window*, a range of memory that no pipe refers to. They differ in how a window
//! is sent, and in where the next window comes from.

mod fresh;
mod gathering;
mod into_socket;
mod options;
mod output;
pub(crate) mod owner;
mod producer;
mod recycle;
mod repeat;
mod ringing;
mod sending;
mod socket;
pub(crate) mod stage;
pub(crate) mod store;

use std::os::fd::AsFd;

use fullbore_linux as linux;
use fullbore_linux::error::{Error, Result};
use fullbore_linux::pipe::PipeEnd;
pub use options::{Produced, ProducerOptions, Way};
use output::Output;
use producer::Policy;
pub use producer::{Producer, Unfinished};
use recycle::Recycle;
pub use repeat::Repeat;

/// The default number of bytes of one system call with recycled pages. Smaller chunks can be used again
/// sooner, while they are still in a fast CPU cache.
const RECYCLED_CHUNK: usize = 256 * 1024;

impl ProducerOptions {
    /// Creates a producer that sends in the way that suits the output: into a pipe by
    /// [`fresh`](Self::fresh) if there are huge pages and by [`socket`](Self::socket) otherwise, and
    /// into anything else by [`copy`](Self::copy).
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh) and [`copy`](Self::copy).
    pub fn open<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        if PipeEnd::of(&sink)?.is_some() {
            self.any_way = true;
            self.fresh(sink)
        } else {
            self.copy(sink)
        }
    }

    /// Creates a producer that sends by write(2), to anything that can be written to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a chunk of 0 bytes; `ENOMEM`.
    pub fn copy<Fd: AsFd>(self, sink: Fd) -> Result<Producer<Fd>> {
        Producer::make(self, Output::shared(sink), Policy::Copy)
    }

    /// Creates a producer that copies bytes into a Unix socket of its own, and splices them from there
    /// into a pipe: fewer and larger pages than by [`copy`](Self::copy), and a pipe holds eight times as
    /// many bytes (8 MiB where its capacity is 1 MiB). The guarantee is that of a copy.
    ///
    /// Less than 32 KiB at a time are sent by [`copy`](Self::copy). Everything is, and [`Producer::way`]
    /// returns [`Way::Copy`], if the [`chunk`](Self::chunk) is smaller, if the producer is
    /// [`nonblocking`](Self::nonblocking), on pages of 32 KiB and more, if the memory cgroup has no room
    /// for the full pipe, and once the kernel has refused a socket or splice(2).
    ///
    /// # Errors
    /// [`Error::NotAPipe`]; otherwise as [`copy`](Self::copy).
    pub fn socket<Fd: AsFd>(self, sink: Fd) -> Result<Producer<Fd>> {
        let mut producer = Producer::make(self, Output::own(sink)?, Policy::Copy)?;
        producer.copy_from_now_on();
        Ok(producer)
    }

    /// Creates a producer that sends pages into a pipe and never writes to them again. The reader
    /// gets the bytes as they were when they were sent, whatever it does with them.
    ///
    /// If the kernel refuses vmsplice(2), which it does before the first byte is sent, or copies
    /// what it is given ([`vmsplice_shares`](linux::vmsplice_shares)), bytes are sent by
    /// [`socket`](Self::socket) instead, which [`Producer::way`] then says.
    ///
    /// # Errors
    /// [`Error::NotAPipe`]; otherwise as [`copy`](Self::copy).
    pub fn fresh<Fd: AsFd>(self, sink: Fd) -> Result<Producer<Fd>> {
        Producer::make(self, Output::own(sink)?, Policy::Fresh(None))
    }

    /// Creates a producer that sends pages into a pipe, and uses them again once the number of
    /// queued bytes proves that the pipe no longer refers to them, even if a process resizes it.
    /// Falls back to copying as [`fresh`](Self::fresh) does.
    ///
    /// # Safety
    /// Every reader of the pipe must *copy* the bytes out of it, as read(2) does, or drop them. A
    /// reader that moves them on by reference (splice(2) or tee(2) into another pipe or into a socket)
    /// takes them out of the queue while they can still be read elsewhere, and what is read
    /// there changes as the pages are written to again. `cat`, `tee`, `pv` and others do just that in
    /// their newer versions.
    ///
    /// Bytes that other writers write into the same pipe are counted as if the producer had sent
    /// them: while these bytes keep the pipe from running empty, the producer waits.
    ///
    /// # Errors
    /// [`Error::NotAPipe`]; [`Error::Invalid`] for a ring of less than two chunks; otherwise as
    /// [`copy`](Self::copy).
    pub unsafe fn recycle<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        let output = Output::own(sink)?;
        let chunk = self.checked_chunk(RECYCLED_CHUNK)?;
        self.chunk = Some(chunk);
        let two = 2 * chunk.next_multiple_of(linux::page_size());
        match self.ring {
            Some(ring) if ring < two => Err(Error::Invalid(format!(
                "a ring of {ring} bytes has no room for two chunks of {chunk} bytes"
            ))),
            _ => Producer::make(self, output, Policy::Recycle(Recycle::default())),
        }
    }

    /// Creates a [`Repeat`], which sends `pattern` again and again from pages that never change.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty pattern; `ENOMEM`.
    pub fn repeat<Fd: AsFd>(self, sink: Fd, pattern: &[u8]) -> Result<Repeat<Fd>> {
        Repeat::make(sink, pattern, self)
    }
}
