//! What the verbs that move bytes share: where bytes come from and go to, by name; what was moved, in
//! words; and the progress bar.

mod ends;
mod progress;
mod report;

pub use ends::{Input, Output, Source, said};
pub use progress::Bar;
pub use report::{Broken, Total, duration, named};
