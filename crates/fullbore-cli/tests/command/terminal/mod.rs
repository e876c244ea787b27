//! The tests of what `buffer`, `copy`, `meter`, `parallel`, `run` and `top` draw on a terminal, and of completion there, which is provided
//! by tmux, or by script(1).

mod buffer;
mod completions;
mod copy;
mod drawing;
mod meter;
mod parallel;
mod run;
mod top;
