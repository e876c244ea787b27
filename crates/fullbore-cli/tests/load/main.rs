//! The tests of the command that need load, or that are a matter of chance, sampling or timing. The latter are
//! repeated, under `FULLBORE_TEST_LOAD=1`, each with how often it has to go right; what is certain has a
//! small form here, which runs always.

#[path = "../common/mod.rs"]
mod common;

mod bytes;
mod explain;
mod meter;
mod pipeline_verdict;
mod top;
