//! Tests that need separate processes.
//!
//! For a moment, a child that is forked or started has copies of all open fds of this process, including those of the
//! other tests. So no test here may rely on the other side of a pipe being closed as soon as it was dropped.

#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod examples;
mod exit;
mod fork;
mod own_descriptor;
mod sigpipe;
mod switch;
