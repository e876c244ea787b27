//! The tests of the command whose results do not depend on load or chance: a file for each verb, for what
//! several verbs share, and for the rules of the source and the documentation. They are one program, so
//! that it is linked once.

// Users build the command with `rust-version`, but nobody builds its tests with that.
#![allow(clippy::incompatible_msrv)]
// The signals and the users of the programs that are started are set between fork and exec.
#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod article;
mod at_least;
mod atomic;
mod backups;
mod bad_days;
mod bench;
mod between;
mod buffer;
mod bytes;
mod compare;
mod completions;
mod copy;
mod descriptors;
mod doctor;
mod documentation;
mod endpoints;
mod explain;
mod faults;
mod fifo;
mod freeze;
mod html;
mod json_keys;
mod manual;
mod meter;
mod meter_pv;
mod mistakes;
mod names;
mod names_mbuffer;
mod names_pv;
mod network;
mod network_seal;
mod packaging;
mod page_lookup;
mod parallel;
mod peers;
mod pipeline_verdict;
mod pipelines;
mod place;
mod plain;
mod quoted_figures;
mod ring;
mod run;
mod run_accept;
mod run_signals;
mod run_stalled;
mod run_summary;
mod run_whole;
mod run_whole_others;
mod seal;
mod services;
mod structure;
mod sweep;
mod sync;
mod tee;
mod terminal;
mod top;
mod top_metrics;
mod transports;
mod tune;
mod unix_copy;
mod verify;
mod without_effect;
mod worth;
