//! Memory to fd: [`Producer`], and the ways it can send.
//!
//! | way | guarantee | how a chunk goes out | file |
//! |---|---|---|---|
//! | copy | snapshot | write(2) | `sending.rs` |
//! | socket | snapshot | send(2) into a socket of our own, and splice(2) from it | `socket.rs` |
//! | fresh | snapshot | vmsplice(2); its pages are never written to again | `fresh.rs` |
//! | recycle | needs a reader that copies | vmsplice(2); its pages are used again once the pipe no longer refers to them | `recycle.rs` |
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
mod producer;
mod recycle;
mod repeat;
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
    /// Creates a producer that sends to `sink` in the [`way`](Self::way) that was chosen. If none was, the
    /// one that suits: into a pipe [`Way::Fresh`] if there are huge pages and [`Way::Socket`] otherwise,
    /// and into anything else [`Way::Copy`].
    ///
    /// # Errors
    /// [`Error::NotAPipe`] if the way needs a pipe; [`Error::Invalid`] for a chunk of 0 bytes, for
    /// [`memory`](Self::memory) of less than two chunks, and for [`Way::Repeat`]; `ENOMEM`.
    pub fn open<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        let way = match self.way {
            Some(way) => way,
            None if PipeEnd::of(&sink)?.is_some() => {
                self.any_way = true;
                Way::Fresh
            }
            None => Way::Copy,
        };
        match way {
            Way::Copy => Producer::make(self, Output::shared(sink), Policy::Copy),
            Way::Socket => {
                let mut producer = Producer::make(self, Output::own(sink)?, Policy::Copy)?;
                producer.copy_from_now_on();
                Ok(producer)
            }
            Way::Fresh => Producer::make(self, Output::own(sink)?, Policy::Fresh(None)),
            Way::Recycle => self.recycle(sink),
            Way::Repeat => Err(Error::Invalid(
                "only a Repeat sends in the way 'repeat'".into(),
            )),
        }
    }

    fn recycle<Fd: AsFd>(mut self, sink: Fd) -> Result<Producer<Fd>> {
        let output = Output::own(sink)?;
        let chunk = self.checked_chunk(RECYCLED_CHUNK)?;
        self.chunk = Some(chunk);
        let two = 2 * chunk.next_multiple_of(linux::page_size());
        match self.memory {
            Some(memory) if memory < two => Err(Error::Invalid(format!(
                "memory of {memory} bytes has no room for two chunks of {chunk} bytes"
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
