//! What `copy`, `tee`, `meter` and `buffer` share: inputs and outputs with their names, the report of what was
//! moved, digests, and the progress bar.

mod at_least;
mod ends;
pub mod failure;
pub mod hash;
mod join;
mod replacement;
mod report;
mod sealing;
mod source_pipe;
mod sync;

pub use at_least::{AtLeast, TooFew};
pub use ends::{Existing, Input, Output, Same, SameFile, block_size, end, set_back};
pub use failure::policy_of;
pub use join::join;
pub use replacement::{Replacement, directory_of};
pub use report::{Total, named, rate};
pub use sealing::Sealing;
pub use source_pipe::{SourcePipe, enlarge};
pub use sync::{WriteBack, is_stored};

use fullbore::Guarantee;
use fullbore_host::refusal::Usage;

/// Returns whether the user wants bytes to be moved by read(2) and write(2) only (`FULLBORE_PLAIN=1`).
///
/// # Errors
/// If the variable has any other value than 0 and 1.
pub fn is_plain() -> Result<bool, Usage> {
    let value = std::env::var_os("FULLBORE_PLAIN").unwrap_or_default();
    match value.to_str() {
        Some("1") => Ok(true),
        Some("" | "0") => Ok(false),
        _ => Err(Usage(format!(
            "FULLBORE_PLAIN is {value:?}: expected 1, to move bytes by read(2) and write(2) only, or 0"
        ))),
    }
}

/// Returns the guarantee that the command line asks for.
pub fn guarantee(by_reference: bool) -> Guarantee {
    match by_reference {
        true => Guarantee::Reference,
        false => Guarantee::Snapshot,
    }
}
