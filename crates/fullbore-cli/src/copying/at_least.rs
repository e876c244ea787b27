//! `--at-least`: an output that gets fewer bytes is not put in its place, and a stream is not sealed.

use clap::Args;
use fullbore_host::size;
use fullbore_host::text::counted;

/// The fewest bytes that have to come, if there is such a number.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct AtLeast {
    /// Fail if fewer than SIZE bytes come: no file is replaced then, and no stream sealed. '--at-least 1' refuses an empty
    /// stream. An output file is replaced as with --atomic
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    at_least: Option<u64>,
}

/// Too few bytes have come.
#[derive(Debug, thiserror::Error)]
#[error("{} came, and --at-least asks for {wanted}: no file was replaced, and no stream sealed", counted(*came as usize, "byte", "bytes"))]
pub struct TooFew {
    came: u64,
    wanted: u64,
}

impl AtLeast {
    /// Whether there is such a number. Then an output file has to be replaced at the end, or not at all.
    pub fn is_given(self) -> bool {
        self.at_least.is_some()
    }

    /// Checks that enough bytes have come, before an output is put in its place or sealed.
    ///
    /// # Errors
    /// [`TooFew`].
    pub fn check(self, came: u64) -> Result<(), TooFew> {
        match self.at_least {
            Some(wanted) if came < wanted => Err(TooFew { came, wanted }),
            _ => Ok(()),
        }
    }
}
