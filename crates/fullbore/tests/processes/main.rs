//! What needs processes of its own.
//!
//! A child that is forked or started has copies of all open fds of this process for a moment, those of
//! the other tests among them. So no test here may depend on that the other side of a pipe is gone as
//! soon as it has been dropped.

#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod examples;
mod exit;
mod fork;
mod own_descriptor;
mod sigpipe;
