//! The tests of the command that need load, or that depend on chance, sampling or timing. The latter are
//! repeated with `FULLBORE_TEST_LOAD=1`, and each has to succeed a given number of times. Tests that do not
//! depend on chance have a small form here, which always runs.

#[path = "../common/mod.rs"]
mod common;

mod bytes;
mod explain;
mod meter;
mod pipeline_verdict;
mod place;
mod top;
