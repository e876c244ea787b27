//! Shared memory between the two ends of a pipe that both ask for it, on top of
//! [`fullbore`](https://docs.rs/fullbore).
//!
//! **This crate is experimental, and makes no promise.** [`Producer`] offers memory to the consumer of its
//! pipe, fills it as long as the consumer takes it, and hands what was not claimed to the
//! [`fullbore::Producer`] inside. [`Consumer`] looks for an offer before it reads. Where the two ends do not
//! meet, both use the pipe as `fullbore` does.
//!
//! # The protocol
//! 1. The producer listens, and the consumer connects when it begins to read, and again later
//!    (`meeting.rs`). Until then, and if they never meet, both use the pipe.
//! 2. Between two sends, the producer accepts the connection. If it finds the consumer of its pipe at
//!    the other end, and the pipe is empty, it makes the memory (`memory.rs`) and sends it: the
//!    *offer*. From this moment on, what it sends goes into the ring.
//! 3. Before the consumer reads from the pipe, it queries the number of queued bytes, and then looks for an
//!    offer. If there is none, those bytes were written before any offer. Neither side waits for the other: if
//!    the consumer never takes up the offer, the producer takes back what it has put into the ring.
//! 4. The producer *publishes* bytes, the consumer *claims* them, uses them, and *releases* their memory
//!    (`control.rs`). To claim bytes is what read(2) is for a pipe: from then on they are the
//!    consumer's.
//! 5. Either side can *close* the ring at any time. What was claimed is the consumer's. All the rest is
//!    the producer's again, which writes it into the pipe, and everything that follows. The consumer
//!    goes on reading there.
//!
//! The producer closes the ring when it finishes, is dropped (unless it has a deadline or a `Cancel`),
//! finds that the consumer is gone (the socket has an end too), or finds a second reader or another writer
//! of the pipe. So when it has finished, all bytes are in the pipe or were claimed, as if there had been
//! no ring.
//!
//! # Other writers of the pipe
//! The order is that of a pipe. Before it publishes bytes, the producer queries whether the pipe has any. If it
//! has, they come after what was published before, and before what is to be published: so the producer waits
//! until the consumer has taken everything published, closes the ring, and writes the rest into the pipe.
//! A consumer that finds the ring empty and bytes in the pipe looks into the ring once more, and then
//! reads as many from the pipe as it had found.
//!
//! # The end of either side
//! | what ends | what becomes of the bytes |
//! |---|---|
//! | consumer, which drops its `Consumer` | the producer writes what was not consumed into the pipe |
//! | consumer, killed | the same, except for what was claimed, which read(2) would have taken too |
//! | producer, which finishes, or is dropped | what was not claimed is in the pipe |
//! | producer with a deadline or a `Cancel`, which is dropped | the consumer claims all that was published, as if the producer had been killed: on its way into the pipe, it could be lost |
//! | producer, killed | the consumer claims all that was published, and then reads the pipe |
//! | producer killed while the ring has bytes, and then the consumer drops its `Consumer` | the consumer writes into the pipe what was left in the ring, as far as it fits |
//! | either closes the ring, and the producer is killed before its next call | what was left in the ring is lost |
//! | producer killed while the ring has bytes, and then the consumer too | a later reader of the pipe does not get what was left in the ring |
//!
//! The producer does its part when it is called next, or finishes.
//!
//! # Waiting
//! A side that has nothing to do sets its flag, checks once more, and sleeps, first on the flag by futex(2),
//! which is cheap, and after ten milliseconds in poll(2), until the other side has sent a byte through the
//! socket, or the socket or the pipe has come to its end (`sleeping.rs`). So it notices within these ten
//! milliseconds when the other side is gone, and a [`Wait`](fullbore::Wait), a deadline and a
//! [`Cancel`](fullbore::Cancel) work as they do on a pipe.
//!
//! # Stores
//! Where the CPUs of the two sides are far apart, the producer fills the ring faster by stores that bypass its
//! caches, and where they are near, slower. So a long stream tries both, again and again (`giving.rs`,
//! `stores.rs`, `turns.rs`).
//!
//! # Others
//! The producer keeps the file of the words open, so that other processes can see how many bytes go through, and which side
//! sleeps ([`RingView`]).
//!
//! # Trust
//! Every number of the other side is checked when it is read. The consumer cannot write to the bytes of
//! the ring. The producer can, also to what it has published, if it is not honest: so the consumer copies
//! bytes out before it lends them, unless its caller vouches for the producer.

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod consumer;
mod control;
mod errors;
mod giving;
#[cfg(test)]
#[allow(unsafe_code)]
mod hostile;
mod meeting;
#[allow(unsafe_code)]
mod memory;
#[cfg(test)]
#[allow(unsafe_code)]
mod model;
mod producer;
mod sleeping;
#[allow(unsafe_code)]
mod stores;
mod taking;
mod turns;
mod view;

pub use consumer::Consumer;
pub use producer::{Producer, ProducerReport};
pub use stores::copy_past_caches;
pub use view::{RingState, RingView};

/// The examples of docs/library.md, which `cargo test` compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
mod library {}
