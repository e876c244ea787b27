//! The C interface of fullbore. Its documentation are the headers, `include/fullbore.h` and
//! `include/fullbore-observe.h`, which cbindgen makes from the comments here; `tests/header.rs` says how to make them
//! again.
//!
//! The functions only convert: arguments from C, results and errors to C. What they do is in the crates
//! `fullbore` and `fullbore-observe`. Three rules hold for all of them:
//!
//! - A pointer is an `Option` of a reference, so that null is a value like any other. That what is not
//!   null points to an object of its type is what the header asks of the caller.
//! - A call goes through [`call`], where a panic becomes an error code, and what may write into a pipe or
//!   a socket goes through [`sigpipe`], so that no signal reaches the program.
//! - An object that is in use by another call is refused with `EBUSY` ([`handle`]), so that two threads
//!   that use one object by mistake get an error, and not each other's memory.

#![allow(unsafe_code)]
// The types have the names that they have in C.
#![allow(non_camel_case_types)]
// Some of what all modules share is only for those that watch pipelines.
#![cfg_attr(not(feature = "observe"), allow(dead_code))]

mod handle;
mod sigpipe;

// The header has them in this sequence.
mod call;

mod version;

mod arguments;
mod cancel;

mod pipe;

mod producer;
mod repeat;

mod consumer;

mod transfer;

mod tee;

// These are in a header of their own.
#[cfg(feature = "observe")]
mod monitor;
#[cfg(feature = "observe")]
mod overview;
