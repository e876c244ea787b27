//! x
#![warn(missing_docs)]
pub mod consume;
mod error;
pub mod linux;
pub mod pages;
pub mod pipe;
pub mod produce;
pub mod wait;
pub use consume::{Consumer, ConsumerOptions};
pub use error::{Error, Result, Side};
pub use pages::{BackedBy, Backing, Pages};
pub use pipe::{Growth, Limit, Pipe, PipeEnd, PipeIdentity};
pub use produce::{Produced, Producer, ProducerOptions, Repeat, Way};
pub use wait::{Wait, Waiter};
