//! The ways to send an object, and what it means that the kernel refuses one.

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

    /// As the program in C is told; it does not know the flag.
    pub fn of_peer(self) -> Option<&'static str> {
        match self {
            Mode::Normal => Some("normal"),
            Mode::NtCopy => None,
            Mode::ZeroCopy => Some("zero_copy"),
            Mode::SendFile => Some("sendfile"),
        }
    }
}

/// What a call's answer means: that this machine has not got it, or that it broke.
pub fn failed(call: &str, errno: Errno) -> anyhow::Error {
    match errno {
        Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP => {
            Unsupported(format!("this machine refuses {call}: {errno}")).into()
        }
        _ => anyhow::Error::new(errno).context(call.to_owned()),
    }
}
