//! Bytes between all kinds of ends, with dropped futures and peers that misbehave. What arrived, what is
//! under way and what is left in the source is always all that was sent.

#![allow(unsafe_code)]

#[path = "../../../fullbore/tests/common/mod.rs"]
mod common;

mod dropping;
mod ends;
mod kinds;
mod options;
mod pairs;
