//! The tests of what `run` and `top` draw on a terminal, which tmux is here.

#[path = "../common/mod.rs"]
mod common;

mod run;
mod top;
