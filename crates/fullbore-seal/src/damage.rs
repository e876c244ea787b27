//! What is wrong with a stream.

use std::fmt;
use std::io;

use crate::format::VERSION;

/// Why a stream is not the one that was sealed.
///
/// `after` is the number of bytes of the sealed stream, not of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It does not begin like a sealed stream.
    NotSealed,
    /// It has this version of the format, which this crate does not support.
    Version(u8),
    /// It is truncated.
    NoSeal {
        /// Bytes before the end.
        after: u64,
    },
    /// A check, a length or the digest is wrong.
    Changed {
        /// Bytes before the damaged part of the stream.
        after: u64,
    },
    /// It continues after its seal.
    GoesOn {
        /// Bytes up to the end of the seal.
        after: u64,
    },
}

impl Damage {
    /// Returns the damage that `error` reports, if any. Other errors come from the source.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::NotSealed => f.write_str("the stream is not sealed"),
            Damage::Version(version) => write!(
                f,
                "the stream is sealed in version {version} of the format, which is not {VERSION}"
            ),
            Damage::NoSeal { after } => {
                write!(f, "the stream ends after {after} bytes, without its seal")
            }
            Damage::Changed { after } => {
                write!(f, "the stream was changed after {after} bytes")
            }
            Damage::GoesOn { after } => {
                write!(
                    f,
                    "the stream goes on behind its seal, which ends after {after} bytes"
                )
            }
        }
    }
}

impl std::error::Error for Damage {}

impl From<Damage> for io::Error {
    fn from(damage: Damage) -> Self {
        let kind = match damage {
            Damage::NoSeal { .. } => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, damage)
    }
}
