//! What `copy`, `tee` and `meter` share: inputs and outputs with their names, the report of what was
//! moved, and the progress bar.

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

/// Returns the guarantee that the command line asks for.
pub fn guarantee(by_reference: bool) -> Guarantee {
    if by_reference {
        Guarantee::Reference
    } else {
        Guarantee::Snapshot
    }
}
