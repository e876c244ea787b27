//! Shared memory between the two ends of a pipe that both request it, on top of [`fullbore`](https://docs.rs/fullbore).
//!
//! **This crate is experimental, and has no stable interface.** [`Producer`] offers memory to the consumer of its pipe,
//! fills it as long as the consumer reads it, and passes unclaimed bytes to its inner [`fullbore::Producer`].
//! [`Consumer`] checks for an offer before it reads. If the two ends do not connect, both use the pipe as `fullbore`
//! does.
//!
//! # The protocol
//! 1. The producer listens, and the consumer connects when it begins to read, and again later (`meeting.rs`). Unless
//!    they are connected, both use the pipe.
//! 2. Between two sends, the producer accepts the connection. If the peer is the consumer of its pipe, and the pipe is
//!    empty, it creates the memory (`memory.rs`) and sends it: the *offer*. From then on, everything it sends goes into
//!    the ring.
//! 3. Before the consumer reads from the pipe, it queries the number of queued bytes, and then checks for an offer. If
//!    there is none, those bytes were written before any offer. Neither side waits for the other: if the consumer never
//!    accepts the offer, the producer takes back the bytes in the ring.
//! 4. The producer *publishes* bytes; the consumer *claims* them, uses them, and *releases* their memory
//!    (`control.rs`). Claiming bytes corresponds to read(2) on a pipe: from then on the consumer owns them.
//! 5. Either side can *close* the ring at any time. The consumer keeps the bytes that it has claimed. The producer gets
//!    back all others, and writes them and everything after them into the pipe, where the consumer continues to read.
//!
//! The producer closes the ring when it finishes or is dropped (unless it has a deadline or a `Cancel`), and when it
//! finds that the consumer has exited (the socket shows it), or that the pipe has a second reader or another writer. So
//! when it has finished, all bytes are in the pipe or were claimed, as if there had been no ring.
//!
//! # Other writers of the pipe
//! The order is that of a pipe. Before it publishes bytes, the producer checks whether the pipe has any. If so, they
//! come after the bytes published before, and before those to be published: the producer waits until the consumer has
//! released everything published, closes the ring, and writes the rest into the pipe. A consumer that finds the ring
//! empty and bytes in the pipe checks the ring once more, and then reads as many bytes from the pipe as it had found.
//!
//! # The end of either side
//! | what ends | what becomes of the bytes |
//! |---|---|
//! | consumer drops its `Consumer` | the producer writes the bytes that were not consumed into the pipe |
//! | consumer is killed | the same, except for claimed bytes, which read(2) would have taken too |
//! | producer finishes, or is dropped | unclaimed bytes are in the pipe |
//! | producer with a deadline or a `Cancel` is dropped | a consumer that has claimed bytes claims all published ones, as if the producer had been killed; without one, the producer writes them into the pipe, and no deadline ends that |
//! | producer is killed | the consumer claims all published bytes, and then reads the pipe; if that has no byte, it fails with `ECONNRESET` |
//! | producer is killed while the ring has bytes, and then the consumer drops its `Consumer` | the consumer writes the rest of the ring into the pipe, as far as it fits |
//! | either closes the ring, and the producer is killed before its next call | the rest of the ring is lost |
//! | producer is killed while the ring has bytes, and then the consumer too | a later reader of the pipe does not get the rest of the ring |
//!
//! The producer does its part in its next call, or when it finishes.
//!
//! # Waiting
//! An idle side sets its flag, checks once more, and sleeps: first on the flag by futex(2), which is cheap, and after
//! ten milliseconds in poll(2), until the other side has sent a byte through the socket, or the socket or the pipe has
//! reached its end (`sleeping.rs`). So it notices the end of the other side within ten milliseconds, and a
//! [`Wait`](fullbore::Wait), a deadline and a [`Cancel`](fullbore::Cancel) work as on a pipe.
//!
//! # Stores
//! If the CPUs of the two sides are far apart, non-temporal stores fill the ring faster; if they are close, slower. So
//! a long stream compares both repeatedly (`giving.rs`, `stores.rs`, `turns.rs`).
//!
//! # Observers
//! The producer keeps the file of the words open, so that other processes can see how many bytes go through the ring,
//! and which side sleeps ([`RingView`]).
//!
//! # Trust
//! Every number of the other side is checked when it is read. The consumer cannot write to the bytes of the ring. A
//! dishonest producer can change bytes that it has published: so the consumer copies bytes out before it lends them,
//! unless its caller vouches for the producer.

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
