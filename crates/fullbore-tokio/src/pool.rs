//! The private pipes and buffers of this process: lent while they hold bytes in flight, and kept for the next
//! connection when they are empty.
//!
//! All pipes together have at most half of the capacity that the pipes of an unprivileged user may have, so that the
//! user's other programs get pipes, too. The first pipes are the largest: each gets a sixteenth of the rest.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use fullbore::Pipe;
use fullbore_linux::{page_size, pipe, pipe_user_pages_soft};

/// The size of a buffer in bytes.
pub(crate) const BUFFER: usize = 256 * 1024;

/// The largest capacity of a private pipe in bytes, and so of one call from a socket. Long calls are cheap: each call
/// wakes several tasks.
const LARGEST: usize = 1024 * 1024;

/// The fewest slots of a pipe that is used. Beyond the user's limit, the kernel creates pipes of one or two slots.
const SLOTS: usize = 16;

/// The most pipes, and the most buffers, that are kept while no connection uses them.
const KEPT: usize = 16;

struct Pool {
    pipes: Vec<LentPipe>,
    buffers: Vec<Vec<u8>>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    pipes: Vec::new(),
    buffers: Vec::new(),
});

/// The capacity of all pipes of this crate in bytes.
static CAPACITY: AtomicUsize = AtomicUsize::new(0);

/// Runs `job` with the pool. A panic leaves it in a valid state.
fn with_pool<T>(job: impl FnOnce(&mut Pool) -> T) -> T {
    job(&mut POOL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Capacity in bytes that counts as used until this is dropped.
struct Allowance(usize);

impl Allowance {
    /// Reserves the allowance for one more pipe.
    fn take() -> Option<Self> {
        static MOST: OnceLock<usize> = OnceLock::new();
        let most = *MOST.get_or_init(|| match pipe_user_pages_soft() {
            Some(0) => usize::MAX,
            pages => pages.unwrap_or(16_384).saturating_mul(page_size()) / 2,
        });
        let mut bytes = 0;
        let taken = CAPACITY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let left = most.saturating_sub(used);
            bytes = size_of_next(left)?;
            Some(used + bytes)
        });
        taken.is_ok().then_some(Self(bytes))
    }
}

/// Returns the capacity of the next pipe, a power of two of pages, if `left` bytes of the allowance suffice.
fn size_of_next(left: usize) -> Option<usize> {
    let least = SLOTS * page_size();
    let share = (left / 16).clamp(least, LARGEST.max(least));
    (least <= left).then(|| 1 << share.ilog2())
}

impl Drop for Allowance {
    fn drop(&mut self) {
        CAPACITY.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A lent pipe, and its share of the allowance. It is empty, and must be empty again when it is given back.
pub(crate) struct LentPipe {
    pub(crate) pipe: Pipe,
    _allowance: Allowance,
}

impl LentPipe {
    /// Lends a pipe; `None` if this process or the user may have no more.
    pub(crate) fn take() -> Option<Self> {
        with_pool(|pool| pool.pipes.pop()).or_else(Self::make)
    }

    fn make() -> Option<Self> {
        let allowance = Allowance::take()?;
        let (pipe, growth) = pipe::with_capacity(allowance.0).ok()?;
        let is_large_enough = growth.after >= SLOTS * page_size();
        is_large_enough.then_some(Self {
            pipe,
            _allowance: allowance,
        })
    }

    /// Gives back an empty pipe. A pipe that is dropped instead is closed.
    pub(crate) fn give_back(self) {
        // A pipe that is not kept is closed after the lock was released.
        let _closed = with_pool(|pool| match pool.pipes.len() < KEPT {
            true => {
                pool.pipes.push(self);
                None
            }
            false => Some(self),
        });
    }
}

/// A lent buffer of [`BUFFER`] bytes, or one of another size.
#[derive(Default)]
pub(crate) struct Buffer(pub(crate) Vec<u8>);

impl Buffer {
    /// Lends a buffer.
    pub(crate) fn take() -> Self {
        let kept = with_pool(|pool| pool.buffers.pop());
        Self(kept.unwrap_or_else(|| vec![0; BUFFER]))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.len() == BUFFER {
            let buffer = mem::take(&mut self.0);
            with_pool(|pool| {
                if pool.buffers.len() < KEPT {
                    pool.buffers.push(buffer);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_become_smaller_and_use_up_the_allowance() {
        let least = SLOTS * page_size();
        let mut left = 64 * LARGEST.max(least);
        let mut before = usize::MAX;
        while let Some(size) = size_of_next(left) {
            assert!(size.is_power_of_two() && (least..=before).contains(&size));
            before = size;
            left -= size;
        }
        assert!(left < least && before == least);
        assert_eq!(size_of_next(least - 1), None);
    }

    #[test]
    fn when_the_allowance_is_used_up_bytes_are_copied() {
        use std::io::{Read, Seek, Write};

        let held: Vec<LentPipe> = std::iter::from_fn(LentPipe::take).collect();
        assert!(!held.is_empty());
        let moved = |len: usize| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![7; len]).unwrap();
            file.rewind().unwrap();
            let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let report = runtime.unwrap().block_on(async {
                let near = tokio::net::UnixStream::from_std(near).unwrap();
                let options = crate::Options::new().guarantee(crate::Guarantee::Reference);
                options.copy(file, near).run().await.unwrap()
            });
            let mut got = Vec::new();
            far.read_to_end(&mut got).unwrap();
            assert!(got == vec![7; len]);
            report
        };
        assert_eq!(moved(50_000).spliced, 0);
        drop(held);
        assert_eq!(moved(50_000).spliced, 50_000);
    }
}
