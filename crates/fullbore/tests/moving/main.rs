//! Objects with two or more ends: `Transfer`, `Tee` and `Buffer`.
//!
//! No test here forks or starts a process: for a moment the child would have copies of all fds, so a reader that
//! another test drops would still exist.

#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod buffer;
mod counted;
mod engines;
mod messages;
mod outcomes;
mod pollable;
mod shared_position;
mod tee;
mod tee_faults;
mod tee_gone;
mod transfer;
mod transfer_faults;
mod transfer_guarantee;
mod transfer_load;
