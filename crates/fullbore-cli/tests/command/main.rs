//! The tests of the command whose results do not depend on load or chance: a folder for each thing that they protect.
//! They are one program, so that it is linked once.

// Users build the command with `rust-version`, but nobody builds its tests with that.
#![allow(clippy::incompatible_msrv)]
// The signals and the users of the programs that are started are set between fork and exec.
#![allow(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;

mod copying;
mod fuzzed;
mod laboratory;
mod names;
mod repository;
mod run;
mod terminal;
