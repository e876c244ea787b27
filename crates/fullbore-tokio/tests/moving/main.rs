//! Bytes between all kinds of ends, with dropped futures and misbehaving peers. The bytes that arrived, those in flight
//! and those left in the source are always all that were sent.

#![allow(unsafe_code)]

#[path = "../../../fullbore/tests/common/mod.rs"]
mod common;

mod dropping;
mod ends;
mod fork;
mod kinds;
mod memory;
mod options;
mod pairs;
mod random;
mod shared_position;
mod urgent;
