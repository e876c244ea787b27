//! x
#![warn(missing_docs)]
mod error;
pub mod linux;
pub mod pages;
pub mod pipe;
pub mod produce;
pub mod wait;
pub use error::{Error, Result, Side};
pub use pages::{BackedBy, Backing, Pages};
pub use pipe::{Growth, Limit, Pipe, PipeEnd, PipeIdentity};
pub use produce::{Produced, Producer, ProducerOptions, Way};
pub use wait::{Wait, Waiter};
