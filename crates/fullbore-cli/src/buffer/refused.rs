//! Options of mbuffer that this verb does not have: each is refused with what to use instead.

use clap::Args;
use fullbore_host::refusal::Usage;

/// Those that were given.
#[derive(Debug, Args)]
pub struct RefusedOptions {
    #[arg(short = 'n', hide = true)]
    volumes: Vec<String>,
    #[arg(short = 'D', hide = true)]
    device_size: Vec<String>,
    #[arg(short = 'A', hide = true)]
    autoload_command: Vec<String>,
    #[arg(short = 'a', hide = true)]
    autoload_time: Vec<String>,
    #[arg(long, hide = true)]
    tapeaware: bool,
}

impl RefusedOptions {
    /// # Errors
    /// If one was given.
    pub fn check(&self) -> Result<(), Usage> {
        // Each with the value that asks for nothing, and is accepted.
        let asks = |values: &[String], nothing: &str| values.iter().any(|value| value != nothing);
        let given = [
            ("-n", asks(&self.volumes, "1")),
            ("-D", asks(&self.device_size, "")),
            ("-A", asks(&self.autoload_command, "/bin/false")),
            ("-a", asks(&self.autoload_time, "")),
            ("--tapeaware", self.tapeaware),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Usage(format!(
                "{option} is not offered: tapes of several volumes are not handled; use mbuffer itself"
            ))),
        }
    }
}
