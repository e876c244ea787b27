//! The tests of what `run` and `top` draw on a terminal, which is provided by tmux.

#[path = "../common/mod.rs"]
mod common;

mod run;
mod top;
