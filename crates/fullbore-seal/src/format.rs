//! The constants of docs/seal.md.

/// The first bytes of every sealed stream; the version of the format follows.
pub(crate) const MAGIC: [u8; 7] = *b"\x8Ffbseal";

/// The version of the format.
pub(crate) const VERSION: u8 = 1;

/// The most content bytes in a frame.
pub(crate) const FRAME: usize = 1 << 20;

/// The lengths in bytes of a frame's length, of its check, of the length of all content, and of the digest.
pub(crate) const LENGTH: usize = 4;
pub(crate) const CHECK: usize = 8;
pub(crate) const TOTAL: usize = 8;
pub(crate) const DIGEST: usize = 32;
