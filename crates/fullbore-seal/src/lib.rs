//! Sealed streams, whose truncation is detected.
//!
//! A reader of a pipe, a socket or a remote command sees the same end of file whether the writer has finished or
//! crashed. A *sealed* stream ends with its length and its digest, which only a writer that has finished writes:
//!
//! ```
//! use std::io::{Read, Write};
//! use fullbore_seal::{Damage, Sealer, Unsealer};
//!
//! let mut sealer = Sealer::new(Vec::new())?;
//! sealer.write_all(b"hello")?;
//! let mut sealed = sealer.finish()?;
//!
//! let mut content = String::new();
//! Unsealer::new(&sealed[..]).read_to_string(&mut content)?;
//! assert_eq!(content, "hello");
//!
//! sealed.pop();
//! let error = Unsealer::new(&sealed[..]).read_to_string(&mut content).unwrap_err();
//! assert_eq!(error.to_string(), "the stream ends after 68 bytes, without its seal");
//! assert_eq!(Damage::of(&error), Some(Damage::NoSeal { after: 68 }));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The stream consists of frames. Each has a check of everything up to its end, so an [`Unsealer`] returns only
//! verified bytes, and holds back at most one frame. docs/seal.md in the repository specifies the format.
//!
//! The digest detects accidental damage. It is not a signature: anyone who can change a stream can seal it again.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod damage;
mod format;
mod sealer;
mod unsealer;

pub use damage::Damage;
pub use sealer::Sealer;
pub use unsealer::Unsealer;
