//! The types in the signatures of [`fullbore`](https://docs.rs/fullbore) that the crates below it use too.
//!
//! `fullbore` re-exports all of them, and its interface is as stable as this one. `fullbore-linux`, which has no stable
//! interface, uses them, and appears in no signature of `fullbore`. Programs depend on `fullbore`.

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod cancel;
mod error;
#[allow(unsafe_code)]
mod own;
mod pipe;
mod wait;

pub use cancel::Cancel;
pub use error::{Error, Result, Stopped, TransferSide, system};
pub use own::{close, not_standard};
pub use pipe::{Pipe, PipeEnd, PipeGrowth, PipeIdentity, PipeLimit};
pub use wait::Wait;
