//! Stores that bypass the caches of the CPU, *non-temporal* ones: what they store goes to memory, and the CPU need not
//! have the lines before. Where another CPU has them, and is far away, this is faster than an ordinary store.
//!
//! The `unsafe` code is the copy by vector instructions.

#![allow(unsafe_code)]

use fullbore_host::refusal::Unsupported;

/// Copies the first slice into the second, which has the same length.
pub type CopyPiece = fn(&[u8], &mut [u8]);

/// Returns a copy whose stores bypass the caches.
///
/// # Errors
/// Fails if this kind of CPU has no such stores, or none that are known here.
#[cfg(target_arch = "x86_64")]
pub fn copy() -> Result<CopyPiece, Unsupported> {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const WORD: usize = size_of::<__m128i>();

    Ok(|from, to| {
        assert_eq!(from.len(), to.len());
        // Only whole, aligned words can be stored so.
        let head = to.as_ptr().align_offset(WORD).min(to.len());
        let (from, to) = (&from[head..], {
            let (before, rest) = to.split_at_mut(head);
            before.copy_from_slice(&from[..head]);
            rest
        });
        let words = from.len() / WORD;
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
pub fn copy() -> Result<CopyPiece, Unsupported> {
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
pub fn copy() -> Result<CopyPiece, Unsupported> {
    Err(Unsupported(
        "no stores that bypass the caches are known for this kind of CPU".into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_past_the_caches_is_the_same() {
        let Ok(copy) = copy() else { return };
        let from: Vec<u8> = (0..=255).cycle().take(100_003).collect();
        for start in 0..40 {
            for len in [0, 1, 15, 16, 17, 4096, 99_000] {
                for at in [0, 1, 15, 16] {
                    let mut to = fullbore::Pages::new(100_003).unwrap();
                    copy(&from[start..start + len], &mut to[at..at + len]);
                    assert_eq!(to[at..at + len], from[start..start + len]);
                    let others = to[..at].iter().chain(&to[at + len..]);
                    assert!(others.into_iter().all(|&byte| byte == 0));
                }
            }
        }
    }
}
