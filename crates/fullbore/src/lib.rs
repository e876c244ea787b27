//! Moves bytes through Linux pipes at the speed of memory, and says what each fast way guarantees.
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
//! Into a pipe, this hands whole pages to the reader instead of copying them; into anything else
//! it writes. Either way the reader gets what was written, whatever it does with it.
//!
//! # Two guarantees
//! The fast calls of Linux, splice(2), vmsplice(2) and tee(2), move *references* to pages. A
//! process that can still write to such a page can change what a reader gets later.
//!
//! - **Snapshot** is what [`Producer`], [`Repeat`] and [`Consumer`] keep, and [`Transfer`] and [`Tee`]
//!   unless asked otherwise: a reader gets what the bytes were when the call returned. The calls in
//!   [`linux::Calls`] are the kernel's own, and keep nothing.
//! - **Reference** has to be asked for. Where it rests on how the reader behaves, the function is
//!   `unsafe`, and its `# Safety` section says on what.
//!
//! docs/guarantees.md in the repository argues each from what the kernel does.
//!
//! # Roomy pipes
//! An output pipe is grown to 1 MiB once more than 64 KiB go through it, as far as this user may:
//! that is what makes most outputs fast. The caller can choose otherwise, because other programs
//! pay for it: 64 such pipes use up what all pipes of an unprivileged user may have together, and
//! until some are closed, new pipes of all programs of this user get two pages or less.
//! [`ProducerOptions::pipe_size`], [`Transfer::pipe_size`] and [`Tee::pipe_size`] say another size,
//! or with 0 leave the pipe as it is. [`Consumer`] never resizes the pipe it reads from, and
//! neither do the others.
//!
//! # The parts
//! | module | for |
//! |---|---|
//! | [`produce`] | memory to fd: [`Producer`], and [`Repeat`] for what repeats itself |
//! | [`transfer`] | fd to fd: [`Transfer`] |
//! | [`split`] | fd to many: [`Tee`] |
//! | [`consume`] | fd to memory: [`Consumer`], a [`BufRead`](std::io::BufRead) |
//! | [`pipe`] | what a pipe is: capacity, slots, bytes queued, identity |
//! | [`pages`] | page-aligned memory, and what the kernel really backs it with |
//! | [`wait`] | what to do while a pipe is full or empty |
//! | [`linux`] | page sizes, limits, and the calls that move bytes |
//! | [`copy`], [`close`] | the whole of a transfer in one call, and a close(2) that is checked |
//!
//! The library never prints, never exits, and reads no environment variable. It is for Linux; it
//! asks for the size of pages, and assumes nothing else about the architecture.

#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod consume;
mod error;
#[allow(unsafe_code)]
pub mod linux;
mod memory;
#[allow(unsafe_code)]
pub mod pages;
pub mod pipe;
#[allow(unsafe_code)]
pub mod produce;
pub mod split;
pub mod transfer;
pub mod wait;

pub use consume::{Consumer, ConsumerOptions};
pub use error::{Error, Result, Side};
pub use linux::close;
pub use pages::{BackedBy, Backing, Pages};
pub use pipe::{Growth, Limit, Pipe, PipeEnd, PipeIdentity};
pub use produce::{Produced, Producer, ProducerOptions, Repeat, Unfinished, Way};
pub use split::Tee;
pub use transfer::{Ended, Failure, Guarantee, Report, Transfer, copy};
pub use wait::{Cancel, Stopped, Wait, Waiter};

/// The examples of the README and of docs/library.md, which `cargo test` compiles.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../README.md")]
    pub struct Readme;

    #[doc = include_str!("../../../docs/library.md")]
    pub struct Library;
}

#[cfg(not(target_os = "linux"))]
compile_error!("fullbore is about Linux pipes, and builds for Linux only");
