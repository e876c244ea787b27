//! What `copy`, `tee`, `meter` and `buffer` share: inputs and outputs with their names, the report of what was
//! moved, digests, and the progress bar.

mod ends;
pub mod failure;
pub mod hash;
mod join;
mod replacement;
mod report;

pub use ends::{Existing, Input, Output, Source, block_size, end};
pub use join::join;
pub use replacement::{Replacement, directory_of};
pub use report::{Total, named, rate};

use fullbore::Guarantee;

/// Returns the guarantee that the command line asks for.
pub fn guarantee(by_reference: bool) -> Guarantee {
    if by_reference {
        Guarantee::Reference
    } else {
        Guarantee::Snapshot
    }
}
