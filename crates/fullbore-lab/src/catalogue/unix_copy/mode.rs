//! Lists the ways to send an object, and interprets the kernel's refusal of one.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use fullbore_host::refusal::Unsupported;

/// How an object is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    Normal,
    NtCopy,
    ZeroCopy,
    SendFile,
}

impl Mode {
    #[cfg(test)]
    pub const ALL: [Mode; 4] = [Mode::Normal, Mode::NtCopy, Mode::ZeroCopy, Mode::SendFile];

    /// Returns the C program's name for the mode; it does not support the flag.
    pub fn of_peer(self) -> Option<&'static str> {
        match self {
            Mode::Normal => Some("normal"),
            Mode::NtCopy => None,
            Mode::ZeroCopy => Some("zero_copy"),
            Mode::SendFile => Some("sendfile"),
        }
    }
}

/// Returns the error for a failed call: this machine does not support it, or it broke.
pub fn failed(call: &str, errno: Errno) -> anyhow::Error {
    match errno {
        Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP => {
            Unsupported(format!("this machine refuses {call}: {errno}")).into()
        }
        _ => anyhow::Error::new(errno).context(call.to_owned()),
    }
}
