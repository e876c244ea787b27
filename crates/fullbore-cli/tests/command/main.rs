//! The tests of the command whose results do not depend on load or chance: a file for each verb, for what
//! several verbs share, and for the rules of the source and the documentation. They are one program, so
//! that it is linked once.

// Users build the command with `rust-version`, but nobody builds its tests with that.
#![allow(clippy::incompatible_msrv)]
// The signals and the users of the programs that are started are set between fork and exec.
#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod at_least;
mod atomic;
mod backups;
mod buffer;
mod copy;
mod descriptors;
mod doctor;
mod every_mover;
mod faults;
mod fifo;
mod freeze;
mod fuzzed;
mod laboratory;
mod meter;
mod names;
mod network;
mod network_seal;
mod parallel;
mod pipeline_verdict;
mod place;
mod plain;
mod repository;
mod ring;
mod run;
mod run_accept;
mod run_signals;
mod run_stalled;
mod run_summary;
mod run_whole;
mod run_whole_others;
mod seal;
mod sync;
mod tee;
mod terminal;
mod top;
mod top_metrics;
mod tune;
