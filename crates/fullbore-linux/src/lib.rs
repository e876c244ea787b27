//! The basis of [`fullbore`](https://docs.rs/fullbore): the system calls that move bytes, pages, pipes, waiting, and the limits of this machine.
//!
//! **This crate has no stable interface.** Any version may change any function: it exists for `fullbore`, its
//! laboratory and its command, and for experiments that need the same calls. Programs that move bytes use `fullbore`,
//! which re-exports the types that they need. [`Calls`] are plain system calls, and guarantee nothing about what a
//! reader gets.
//!
//! | module | contains |
//! |---|---|
//! | [`Calls`] | read, write, splice, tee and vmsplice, each with a [`Wait`] |
//! | [`outcome`] | what a result of a call means: the one place that decides it |
//! | [`messages`] | reads from sources that may preserve message boundaries |
//! | [`wait`] | how to wait while a pipe is full or empty |
//! | [`pipe`] | pipes: capacity, slots, queued bytes, identity |
//! | [`choice`] | which of two ways moves a stream faster |
//! | [`place`] | where the next bytes of a file are, beside processes that share its position |
//! | [`pages`] | page-aligned memory |
//! | [`Geometry`] | sizes of memory and pipes for the machine and the memory cgroup |
//! | [`error`] | the error type, and conversions from an errno |
//! | the root | page sizes, limits, descriptors, and facts about sockets |

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod aligned;
#[allow(unsafe_code)]
mod calls;
mod cgroup;
pub mod choice;
mod errno;
pub mod error;
mod geometry;
pub mod messages;
pub mod outcome;
#[allow(unsafe_code)]
mod own;
#[allow(unsafe_code)]
mod owner;
#[allow(unsafe_code)]
pub mod pages;
pub mod pipe;
pub mod place;
mod relay;
#[allow(unsafe_code)]
mod sharing;
#[allow(unsafe_code)]
mod sigpipe;
mod sizes;
#[allow(unsafe_code)]
mod unacknowledged;
pub mod wait;

pub use aligned::Aligned;
pub use calls::{Calls, can_be_read, has_hung_up};
pub use cgroup::{cgroup_directories, memory_limit};
pub use errno::{is_pipe_or_socket, is_reader_gone, is_refusal, refuse_the_same, stat_of};
pub use error::{Error, Result, TransferSide};
pub use geometry::{FIRST, Geometry, MOST_HUGE, suits_a_pipe, suits_copying};
pub use own::{memfd, not_standard, null};
pub use owner::Owner;
pub use pages::Pages;
pub use pipe::{Pipe, PipeEnd, PipeGrowth, PipeIdentity, PipeLimit};
/// The kernel's error number, from rustix.
pub use rustix::io::Errno;
/// The flags of splice(2) and vmsplice(2), from rustix.
pub use rustix::pipe::SpliceFlags;
pub use sharing::{shares_pages, vmsplice_shares};
pub use sigpipe::without_sigpipe;
pub use sizes::{cache_size, has_huge_pages, huge_page_size, page_size, pipe_user_pages_soft};
pub use unacknowledged::unacknowledged;
pub use wait::{Cancel, Pace, Ready, Stopped, Wait, Waiter, is_closed, is_ready, uninterrupted};

#[cfg(not(target_os = "linux"))]
compile_error!("fullbore is about Linux pipes, and builds for Linux only");
