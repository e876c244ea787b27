//! The tests of what `buffer`, `meter`, `run` and `top` draw on a terminal, and of completion there, which is provided
//! by tmux, or by script(1).

// Users build the command with `rust-version`, but nobody builds its tests with that.
#![allow(clippy::incompatible_msrv)]

#[path = "../common/mod.rs"]
mod common;

mod buffer;
mod completions;
mod drawing;
mod meter;
mod run;
mod top;
