//! Objects with one end of a pipe, or none: producers, consumers, pages, waits, and close.
//!
//! No test here forks or starts a process: for a moment the child would have copies of all fds, so a reader that
//! another test drops would still exist.

#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod close;
mod consume;
mod dropping;
mod faults;
mod options;
mod pages;
mod produce;
mod produce_nonblocking;
mod repeat;
mod reports;
mod waits;
