//! Lists the ways to send an object.

use serde::{Deserialize, Serialize};

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
