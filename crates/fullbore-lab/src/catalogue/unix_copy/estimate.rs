//! Estimates what MSG_NTCOPY could gain on the machine at hand, whose kernel need not have it: the copy that
//! a send makes is made in user space, with ordinary stores and with stores that bypass the caches.
//!
//! The object is copied into memory of the size of the send buffer, in pieces of the size of the kernel's
//! buffers, again and again, and nobody reads the copy, as when the receiver splices it on. What a send does
//! besides, such as allocating buffers, queueing and waking, is not done, and the memory stays with one CPU:
//! so the figures are no throughput of a socket, and their ratio is only an indication.

use anyhow::{Result, bail};
use fullbore_results::run::Sizes;
use fullbore_ring::copy_past_caches;

use super::sender::{pages, send_and_walk};
use crate::task::{self, Timing};

/// Bytes of one buffer of the kernel: `UNIX_SKB_FRAGS_SZ` (net/unix/af_unix.c).
const PIECE: usize = 32 * 1024;

/// Copies for a time or a number of objects, and measures; then copies and walks in turn.
///
/// # Errors
/// Fails if memory or a clock cannot be had, or if the copy is wrong.
pub fn measure(past_the_caches: bool, sizes: &Sizes, timing: Timing) -> Result<()> {
    let object = pages(sizes.object)?;
    let mut buffer = pages(sizes.sndbuf.max(PIECE).next_multiple_of(PIECE))?;
    let copy: fn(&[u8], &mut [u8]) = match past_the_caches {
        false => |from, to| to.copy_from_slice(from),
        true => copy_past_caches,
    };
    let mut at = 0;
    let mut copy_object = || {
        for piece in object.chunks(PIECE) {
            copy(piece, &mut buffer[at..at + piece.len()]);
            at = (at + PIECE) % buffer.len();
        }
        Ok(())
    };
    copy_object()?;
    let sent = send_and_walk(copy_object, || {}, sizes, timing)?;
    let last = (at + buffer.len() - PIECE) % buffer.len();
    let rest = match object.len() % PIECE {
        0 => PIECE,
        rest => rest,
    };
    if buffer[last..last + rest] != object[object.len() - rest..] {
        bail!("the copy differs from the object");
    }
    task::say(&sent)
}
