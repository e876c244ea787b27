//! *Non-temporal* stores, which bypass the caches of the CPU: they go to memory, and the CPU need not fetch the lines
//! first. An ordinary store to a line that another CPU owns waits until that CPU has given it up, and a CPU has room
//! for few pending stores.
//!
//! The `unsafe` code is the copy by vector instructions.

/// Bytes of a cache line.
#[cfg(any(target_arch = "x86_64", test))]
const LINE: usize = 64;

/// Bytes that are produced in the cache before they are stored to the ring: few, so that the previous stores are still
/// in flight meanwhile.
pub(crate) const PIECE: usize = 4096;

/// Copies `from` into `to`, which has the same length, with non-temporal stores where they are available: `movntdq` on
/// x86-64, and `stnp`, which is only a hint, on aarch64. Elsewhere it is an ordinary copy.
///
/// This is faster than an ordinary copy into memory that is in the cache of another, distant CPU. Otherwise it is
/// slower.
///
/// # Panics
/// Panics if the lengths differ.
#[inline]
pub fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    let _wait = WaitForStores;
    store(from, to);
}

/// Fills `to` from its start in pieces of `PIECE` bytes and a last one, each of which `fill` produces in the cache.
pub(crate) fn fill_past_caches(to: &mut [u8], mut fill: impl FnMut(&mut [u8])) {
    let mut made = Lines([0; PIECE]);
    let _wait = WaitForStores;
    for piece in to.chunks_mut(PIECE) {
        let made = &mut made.0[..piece.len()];
        fill(made);
        store(made, piece);
    }
}

/// When dropped, also by a panic, it completes the stores before any later access to that memory. Until then, not even
/// this thread may access the memory.
struct WaitForStores;

impl Drop for WaitForStores {
    fn drop(&mut self) {
        // Elsewhere, these stores are ordered like all others.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 CPU has this instruction.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

#[repr(align(64))]
struct Lines([u8; PIECE]);

/// Copies `from` into `to`, which has the same length. The caller has a [`WaitForStores`].
#[cfg(target_arch = "x86_64")]
fn store(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    const WORD: usize = size_of::<__m128i>();

    // Only whole, aligned words can be stored in this way, and only whole lines are fast.
    let head = (to.as_ptr().addr().wrapping_neg() % LINE).min(to.len());
    let (from_head, from) = from.split_at(head);
    let (to_head, to) = to.split_at_mut(head);
    to_head.copy_from_slice(from_head);
    let (mut from, mut to) = (from.chunks_exact(LINE), to.chunks_exact_mut(LINE));
    for (from, to) in from.by_ref().zip(to.by_ref()) {
        let (from, to): (*const __m128i, *mut __m128i) =
            (from.as_ptr().cast(), to.as_mut_ptr().cast());
        for i in 0..LINE / WORD {
            // SAFETY: both are a line long, and the second one is aligned to a line. The caller waits for the stores
            // before that memory is used again.
            unsafe { _mm_stream_si128(to.add(i), _mm_loadu_si128(from.add(i))) };
        }
    }
    to.into_remainder().copy_from_slice(from.remainder());
}

#[cfg(target_arch = "aarch64")]
fn store(from: &[u8], to: &mut [u8]) {
    const PAIR: usize = 32;

    let (mut from, mut to) = (from.chunks_exact(PAIR), to.chunks_exact_mut(PAIR));
    for (from, to) in from.by_ref().zip(to.by_ref()) {
        // SAFETY: both are a pair of words long, and need no alignment.
        unsafe {
            std::arch::asm!(
                "ldp q0, q1, [{from}]",
                "stnp q0, q1, [{to}]",
                from = in(reg) from.as_ptr(),
                to = in(reg) to.as_mut_ptr(),
                out("v0") _,
                out("v1") _,
                options(nostack, preserves_flags),
            );
        }
    }
    to.into_remainder().copy_from_slice(from.remainder());
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn store(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 3 * PIECE;

    #[test]
    fn what_is_stored_past_the_caches_is_the_same_and_nothing_else_is_changed() {
        let from: Vec<u8> = (0..=255).cycle().take(LEN).collect();
        let mut memory = vec![0; LEN + 2 * LINE];
        for start in 0..40 {
            for len in [
                0,
                1,
                15,
                16,
                17,
                63,
                64,
                65,
                130,
                PIECE,
                PIECE + 1,
                2 * PIECE + 70,
            ] {
                for at in [0, 1, 15, 16, 48, 63, 64] {
                    for by_copy in [true, false] {
                        memory.fill(0);
                        let (from, to) = (&from[start..][..len], &mut memory[at..][..len]);
                        if by_copy {
                            copy_past_caches(from, to);
                        } else {
                            let mut rest = from;
                            fill_past_caches(to, |piece| {
                                let (now, later) = rest.split_at(piece.len());
                                piece.copy_from_slice(now);
                                rest = later;
                            });
                            assert!(rest.is_empty());
                        }
                        assert_eq!(memory[at..][..len], *from);
                        let others = memory[..at].iter().chain(&memory[at + len..]);
                        assert!(others.into_iter().all(|&byte| byte == 0));
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic]
    fn other_lengths_are_refused() {
        copy_past_caches(&[0; 64], &mut [0; 65]);
    }
}
