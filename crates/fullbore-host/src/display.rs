//! Other names of what `size` and `text` have.

pub use crate::text::{error_text, one_line};
