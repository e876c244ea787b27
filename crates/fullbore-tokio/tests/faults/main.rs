//! System calls that fail, and a thousand connections: tests that take the private pipes away from other transfers of the
//! process, so they have a process of their own. None of them expects that anything is spliced.

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
