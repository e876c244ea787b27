//! Moves bytes through Linux pipes at the speed of memory, with a stated guarantee for each fast
//! way.
//!
//! ```no_run
//! use std::io::Write;
//! use fullbore::Producer;
//!
//! let mut out = Producer::new(std::io::stdout())?;
//! for i in 0..1_000_000_000u64 {
//!     writeln!(out, "line {i}")?;
//! }
//! out.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Into a pipe, this gives whole pages to the reader instead of copying them; to anything else it
//! calls write(2). In both cases the reader gets the bytes that were written, whatever it does with
//! them.
//!
//! # Two guarantees
//! The fast calls of Linux, splice(2), vmsplice(2) and tee(2), move *references* to pages. A
//! process that can still write to such a page can change what a reader gets later.
//!
//! - **Snapshot** means that a reader gets the bytes as they were when the call returned.
//!   [`Producer`], [`Repeat`], [`Consumer`], [`Tee`] and [`Buffer`] keep it, and [`Transfer`] keeps it by
//!   default.
//! - **Reference** has to be asked for by name: [`Guarantee::Reference`], and [`Way::Recycle`], which is right only
//!   for readers that copy. Neither is `unsafe`: no memory of this process is at risk.
//!
//! docs/guarantees.md in the repository argues each guarantee from what the kernel does.
//!
//! # Roomy pipes
//! An output pipe is grown to 1 MiB once more than 64 KiB go through it, as far as this user may:
//! this makes most outputs faster. The caller can choose another size, because large pipes can slow
//! down other programs: 64 such pipes use up what all pipes of an unprivileged user may have
//! together, and until some are closed, new pipes of all programs of this user get two pages or
//! less. [`ProducerOptions::pipe_size`], [`Transfer::pipe_size`] and [`Tee::pipe_size`] set another
//! size, or with 0 leave the pipe as it is. A pipe that bytes are read from is never resized.
//!
//! # The parts
//! | module | for |
//! |---|---|
//! | [`producer`] | memory to fd: [`Producer`], and [`Repeat`] for what repeats itself |
//! | [`transfer`] | fd to fd: [`Transfer`] |
//! | [`tee`] | fd to many: [`Tee`] |
//! | [`buffer`] | fd to many, through a large memory: [`Buffer`] |
//! | [`consumer`] | fd to memory: [`Consumer`], a [`BufRead`](std::io::BufRead) |
//! | [`Pipe`], [`PipeEnd`] | what a pipe is: capacity, bytes queued, identity |
//! | [`Pages`] | page-aligned memory to send without a copy |
//! | [`Wait`], [`Cancel`] | what to do while a pipe is full or empty, and how to end a wait |
//! | [`copy`], [`close`] | the whole of a transfer in one call, and a close(2) that is checked |
//!
//! The library never prints, never exits and reads no environment variable. It runs only on Linux.
//! It gets the page size from the kernel, and assumes nothing else about the architecture.

#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod buffer;
pub mod consumer;
mod fresh;
mod memory;
#[allow(unsafe_code)]
mod outlet;
mod pages_to_send;
#[allow(unsafe_code)]
pub mod producer;
#[allow(unsafe_code)]
mod stage;
#[allow(unsafe_code)]
mod store;
pub mod tee;
pub mod transfer;
mod way;

pub use buffer::Buffer;
pub use consumer::{Consumer, ConsumerOptions, ConsumerReport};
pub use fullbore_linux::{
    Cancel, Error, Pipe, PipeEnd, PipeGrowth, PipeIdentity, PipeLimit, Result, Stopped,
    TransferSide, Wait, close,
};
pub use pages_to_send::Pages;
pub use producer::{Producer, ProducerOptions, ProducerReport, Repeat, Unfinished};
pub use tee::Tee;
pub use transfer::{EndReason, Guarantee, Transfer, TransferFailure, TransferReport, copy};
pub use way::Way;

/// The examples of the README, which `cargo test` compiles; `fullbore-ring` has those of docs/library.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
