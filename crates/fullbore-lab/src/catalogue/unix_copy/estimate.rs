//! Estimates what MSG_NTCOPY could gain on the machine at hand, whose kernel need not have it: the copy that
//! a send makes is made in user space, with ordinary stores and with stores that bypass the caches.
//!
//! The object is copied into memory of the size of the send buffer, in pieces of the size of the kernel's
//! buffers, again and again, and nobody reads the copy, as when the receiver splices it on. What a send does
//! besides, such as allocating buffers, queueing and waking, is not done, and the memory stays with one CPU:
//! so the figures are no throughput of a socket, and their ratio is only an indication.
//!
//! The `unsafe` code is the copy by vector instructions.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fullbore_host::refusal::Unsupported;
use fullbore_results::run::Sizes;

use super::hot::HotSet;
use super::sender::{Sent, noted, pages};
use crate::catalogue::transports::stream::Moved;
use crate::cpu_time::CpuTime;
use crate::part::{self, Timing};

/// Bytes of one buffer of the kernel: `UNIX_SKB_FRAGS_SZ` (net/unix/af_unix.c).
const PIECE: usize = 32 * 1024;

/// Copies the first slice into the second, which has the same length.
type CopyPiece = fn(&[u8], &mut [u8]);

/// Copies for a time or a number of objects, and measures; then copies and walks in turn.
///
/// # Errors
/// Fails if this kind of CPU has no stores that bypass the caches, or none that are known here.
pub fn measure(past_the_caches: bool, sizes: &Sizes, timing: Timing) -> Result<()> {
    let object = pages(sizes.object)?;
    let mut buffer = pages(sizes.sndbuf.max(PIECE).next_multiple_of(PIECE))?;
    let copy: CopyPiece = match past_the_caches {
        false => |from, to| to.copy_from_slice(from),
        true => non_temporal()?,
    };
    let mut at = 0;
    let mut copy_object = || {
        for piece in object.chunks(PIECE) {
            copy(piece, &mut buffer[at..at + piece.len()]);
            at = (at + PIECE) % buffer.len();
        }
    };
    copy_object();
    let (warm_up, time) = (
        Duration::from_secs_f64(timing.warm_up_seconds),
        Duration::from_secs_f64(timing.seconds),
    );
    let began = Instant::now();
    while began.elapsed() < warm_up {
        copy_object();
    }
    let (began, before) = (Instant::now(), CpuTime::of_this_process());
    let mut copied = 0;
    while match sizes.count {
        Some(count) => copied < count,
        None => copied == 0 || began.elapsed() < time,
    } {
        copy_object();
        copied += 1;
    }
    let moved = Moved::since(began, before, copied * sizes.object as u64);
    let hot = HotSet::new(sizes.hot);
    let undisturbed = hot.walk_undisturbed(time)?;
    let disturbed = hot.walk_after(time, || {
        copy_object();
        Ok(())
    })?;
    let last = (at + buffer.len() - PIECE) % buffer.len();
    let rest = match object.len() % PIECE {
        0 => PIECE,
        rest => rest,
    };
    if buffer[last..last + rest] != object[object.len() - rest..] {
        bail!("the copy differs from the object");
    }
    part::say(&Sent {
        moved,
        hot: disturbed / undisturbed,
        note: noted(&object),
    })
}

/// Returns a copy whose stores bypass the caches.
#[cfg(target_arch = "x86_64")]
fn non_temporal() -> Result<CopyPiece, Unsupported> {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const WORD: usize = size_of::<__m128i>();

    Ok(|from, to| {
        assert_eq!(from.len(), to.len());
        let words = from.len() / WORD;
        assert!(to.as_ptr().addr().is_multiple_of(WORD));
        let (source, sink): (*const __m128i, *mut __m128i) =
            (from.as_ptr().cast(), to.as_mut_ptr().cast());
        for i in 0..words {
            // SAFETY: both slices have `words` whole words, and the second one is aligned to them.
            unsafe { _mm_stream_si128(sink.add(i), _mm_loadu_si128(source.add(i))) };
        }
        // SAFETY: every x86-64 CPU has the instruction.
        unsafe { _mm_sfence() };
        to[words * WORD..].copy_from_slice(&from[words * WORD..]);
    })
}

/// Returns a copy whose stores tell the CPU that what they store is not needed soon.
#[cfg(target_arch = "aarch64")]
fn non_temporal() -> Result<CopyPiece, Unsupported> {
    const PAIR: usize = 32;

    Ok(|from, to| {
        assert_eq!(from.len(), to.len());
        let pairs = from.len() / PAIR;
        for i in 0..pairs {
            // SAFETY: both slices have `pairs` whole pairs of words, which need no alignment.
            unsafe {
                std::arch::asm!(
                    "ldp q0, q1, [{source}]",
                    "stnp q0, q1, [{sink}]",
                    source = in(reg) from.as_ptr().add(i * PAIR),
                    sink = in(reg) to.as_mut_ptr().add(i * PAIR),
                    out("v0") _,
                    out("v1") _,
                    options(nostack, preserves_flags),
                );
            }
        }
        to[pairs * PAIR..].copy_from_slice(&from[pairs * PAIR..]);
    })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn non_temporal() -> Result<CopyPiece, Unsupported> {
    Err(Unsupported(
        "no stores that bypass the caches are known for this kind of CPU".into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_past_the_caches_is_the_same() {
        let Ok(copy) = non_temporal() else { return };
        let from: Vec<u8> = (0..=255).cycle().take(100_003).collect();
        for start in 0..40 {
            for len in [0, 1, 15, 16, 17, 4096, 99_000] {
                let mut to = fullbore::Pages::new(100_003).unwrap();
                copy(&from[start..start + len], &mut to[..len]);
                assert_eq!(to[..len], from[start..start + len]);
                assert!(to[len..].iter().all(|&byte| byte == 0));
            }
        }
    }
}
