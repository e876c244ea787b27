//! What the verbs that move bytes share: where bytes come from and go to, by name; what was moved, in
//! words; and the progress bar.

mod ends;
pub mod failure;
mod join;
mod progress;
mod report;

pub use ends::{Input, Output, Source};
pub use join::join;
pub use progress::Bar;
pub use report::{Total, duration, named};

use fullbore::Guarantee;

/// The guarantee that the command line asks for.
pub fn guarantee(by_reference: bool) -> Guarantee {
    if by_reference {
        Guarantee::Reference
    } else {
        Guarantee::Snapshot
    }
}
