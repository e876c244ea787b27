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
//! Into a pipe, this sends whole pages by reference instead of copying them; to anything else it calls write(2). In
//! both cases the reader gets the bytes as they were written, whatever it does with them.
//!
//! # Two guarantees
//! The fast calls of Linux, splice(2), vmsplice(2) and tee(2), move *references* to pages. A
//! process that can still write to such a page can change what a reader gets later.
//!
//! - **Snapshot** means that a reader gets the bytes as they were when the call returned.
//!   [`Producer`], [`Repeat`], [`Consumer`], [`Tee`] and [`Buffer`] keep it, and [`Transfer`] keeps it by
//!   default.
//! - **Reference** has to be requested by name: [`Guarantee::Reference`], and [`Way::Recycle`], which is right only
//!   for readers that copy. Neither is `unsafe`, because no memory of this process is at risk.
//!
//! docs/guarantees.md in the repository argues each guarantee from what the kernel does.
//!
//! # Roomy pipes
//! An output pipe is grown to 1 MiB once more than 64 KiB go through it, as far as the user's limits allow: this makes
//! most outputs faster. Large pipes can slow down other programs: 64 of them use up the limit on all pipes of an
//! unprivileged user, and until some are closed, each new pipe of that user has one or two pages.
//! [`pipe_size`](ProducerOptions::pipe_size) sets another size; 0 leaves the pipe as it is. A pipe that bytes are read from is never resized.
//!
//! # The parts
//! | module | for |
//! |---|---|
//! | [`producer`] | memory to fd: [`Producer`], and [`Repeat`] for a repeated pattern |
//! | [`transfer`] | fd to fd: [`Transfer`] |
//! | [`tee`] | fd to many: [`Tee`] |
//! | [`buffer`] | fd to many, through a large memory: [`Buffer`] |
//! | [`consumer`] | fd to memory: [`Consumer`], a [`BufRead`](std::io::BufRead) |
//! | [`Pipe`], [`PipeEnd`] | a pipe: its capacity, queued bytes and identity |
//! | [`Pages`] | page-aligned memory to send without a copy |
//! | [`Wait`], [`Cancel`] | how to wait while a pipe is full or empty, and how to end a wait |
//! | [`copy`], [`close`] | a whole transfer in one call, and a close(2) whose errors are reported |
//!
//! The library never prints, never exits and reads no environment variable. It runs only on Linux. It gets the page
//! size from the kernel, and makes no other assumption about the architecture.

#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod buffer;
pub mod consumer;
mod failure;
mod fresh;
mod kind;
mod memory;
mod options;
#[allow(unsafe_code)]
mod outlet;
mod own_pipe;
mod pages_to_send;
#[allow(unsafe_code)]
pub mod producer;
mod splice;
#[allow(unsafe_code)]
mod stage;
#[allow(unsafe_code)]
mod store;
pub mod tee;
pub mod transfer;
mod way;

pub use buffer::{Buffer, BufferOptions};
pub use consumer::{Consumer, ConsumerOptions, ConsumerReport};
pub use failure::Failure;
pub use fullbore_types::{
    Cancel, Error, Pipe, PipeEnd, PipeGrowth, PipeIdentity, PipeLimit, Result, Stopped,
    TransferSide, Wait, close,
};
pub use options::Options;
pub use pages_to_send::Pages;
pub use producer::{Producer, ProducerOptions, ProducerReport, Repeat, Unfinished};
pub use tee::{Tee, TeeOptions};
pub use transfer::{
    EndReason, Guarantee, Transfer, TransferFailure, TransferOptions, TransferReport, copy,
};
pub use way::Way;

/// The examples of the README, which `cargo test` compiles; `fullbore-ring` has those of docs/library.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
