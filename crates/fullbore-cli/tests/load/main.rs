//! The tests of the command that need load, or that depend on chance, sampling or timing. The latter are
//! repeated, and each has to succeed a given number of times. `cargo test` leaves this target out:
//! `cargo test -p fullbore-cli --test load -- --test-threads=1` runs it, and FULLBORE_TEST_LOAD=quick in front of
//! it makes a quarter of the repetitions.

// Users build the command with `rust-version`, but nobody builds its tests with that.
#![allow(clippy::incompatible_msrv)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../command/copying/every_mover.rs"]
mod every_mover;
mod explain;
mod faults;
mod fifo;
mod fuzzed;
mod large;
mod meter;
mod network;
mod parallel_whole;
mod pipeline_verdict;
mod run_whole;
mod top;
