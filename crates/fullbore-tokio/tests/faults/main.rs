//! System calls that fail, and a thousand connections: these tests use up the private pipes of the process, so they are
//! a separate program. None of them expects bytes to be spliced.

#![allow(unsafe_code)]

#[path = "../../../fullbore/tests/common/mod.rs"]
mod common;
#[path = "../moving/kinds.rs"]
#[allow(dead_code, reason = "each test program uses its own part of it")]
mod kinds;

mod both;
mod calls;
mod case;
mod connections;
mod setup;
