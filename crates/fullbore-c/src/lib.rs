//! The C interface of fullbore. It is documented in the headers, `include/fullbore.h` and `include/fullbore-observe.h`,
//! which cbindgen generates from the comments here; `tests/header.rs` says how to regenerate them.
//!
//! The functions only convert arguments, results and errors; the work is done by the crates `fullbore` and
//! `fullbore-observe`. Three rules hold for all of them:
//!
//! - A pointer is an `Option` of a reference, so that null is an ordinary value. The header requires that other
//!   pointers point to an object of their type.
//! - A call goes through [`call`], which turns a panic into an error code, and calls that may write into a pipe or a
//!   socket go through [`without_sigpipe`](fullbore_linux::without_sigpipe), so that the program gets no signal.
//! - An object that another call uses is refused with `EBUSY` ([`handle`]), so two threads that use one object by
//!   mistake get an error instead of a data race.

#![allow(unsafe_code)]
// The types have their C names.
#![allow(non_camel_case_types)]
// Some shared code is used only by the module that watches pipelines.
#![cfg_attr(not(feature = "observe"), allow(dead_code))]

mod handle;

// The order of the header.
mod call;

mod version;

mod arguments;
mod cancel;

mod pipe;

// This has a separate header.
mod ring;

mod producer;
mod repeat;

mod consumer;

mod transfer;

mod tee;

// This has a separate header.
#[cfg(feature = "observe")]
mod monitor;
