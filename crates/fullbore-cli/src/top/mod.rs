//! `fullbore top`: every pipe and FIFO whose ends this user may see, live.

#[allow(dead_code)]
mod picture;

#[allow(unused_imports)]
pub use picture::{Blocked, Chain, LeftOut, Picture, Row, Side, Slow, Stage, Who};
#[allow(dead_code)]
pub mod metrics;
