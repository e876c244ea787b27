//! Ends processes together with the process that started them.

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The options of a process that ends with its parent.
#[derive(Debug, Clone, Default, Args)]
pub struct ParentOptions {
    /// Exit when the parent process ends; and at once if the parent is not the process with this PID
    #[arg(long, hide = true, value_name = "PID", require_equals = true)]
    pub die_with_parent: Option<Option<i32>>,
}

impl ParentOptions {
    /// Makes the kernel kill this process when its parent ends, if the options ask for it.
    ///
    /// # Errors
    /// Fails if the parent has already ended: the signal is only sent for a later end
    /// (PR_SET_PDEATHSIG, prctl(2)), and this process already has another parent.
    pub fn obey(&self) -> Result<()> {
        let Some(expected) = self.die_with_parent else {
            return Ok(());
        };
        set_parent_process_death_signal(Some(Signal::KILL)).context("PR_SET_PDEATHSIG")?;
        // A parent in another PID namespace has no number in this one.
        let parent = getppid().map(|pid| pid.as_raw_nonzero().get());
        match (expected, parent) {
            (Some(expected), Some(parent)) if parent != expected => {
                bail!("process {expected}, which started this one, has ended")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_parent_is_another_one_by_now_does_not_go_on() {
        let own = getppid().map(|pid| pid.as_raw_nonzero().get());
        let with = |die_with_parent| ParentOptions { die_with_parent };
        with(Some(None)).obey().unwrap();
        with(Some(own)).obey().unwrap();
        let error = with(Some(Some(i32::MAX))).obey().unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
        with(None).obey().unwrap();
        set_parent_process_death_signal(None).unwrap();
    }
}
