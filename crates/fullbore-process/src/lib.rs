//! Facts about another process: the thread whose files in /proc describe it, and the process and the user at the other
//! end of a Unix socket.
//!
//! ```
//! let (one, _other) = std::os::unix::net::UnixStream::pair()?;
//! let peer = fullbore_process::peer_of(&one)?;
//! assert_eq!(peer.process, std::process::id());
//! assert_eq!(fullbore_process::live_thread(peer.process), Some(peer.process));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod peer;
mod threads;

pub use peer::{Peer, peer_of};
pub use threads::{live_thread, proc_directory};
