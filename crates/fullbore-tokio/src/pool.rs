//! The private pipes and buffers of a service: lent while they hold bytes in flight, and kept for the next connection
//! when they are empty.
//!
//! All pipes together have at most half of the capacity that the pipes of an unprivileged user may have, so that the
//! user's other programs get pipes, too. The first pipes are the largest: each gets a sixteenth of the rest.
//!
//! A child of fork(2) has the descriptors of its parent's pipes: a byte that one of the two puts there, the other could
//! read. So a pool knows its process, and in a child it lends only new pipes and buffers, and keeps none. It takes no
//! lock there either, because a thread that the child does not have may hold it.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use fullbore::Pipe;
use fullbore_linux::{Aligned, Owner, page_size, pipe, pipe_user_pages_soft};

/// The default size of a buffer in bytes.
const BUFFER: usize = 256 * 1024;

/// The largest size of a buffer in bytes.
const MOST_BUFFER: usize = 16 << 20;

/// The default for the largest capacity of a private pipe in bytes, and so of one call from a socket. Long calls are
/// cheap: each call wakes several tasks.
const LARGEST: usize = 1024 * 1024;

/// The fewest slots of a pipe that is used. Beyond the user's limit, the kernel creates pipes of one or two slots.
const SLOTS: usize = 16;

/// The default for the most pipes, and the most buffers, that are kept while no connection uses them.
const KEPT: usize = 16;

/// The settings of a [`Pool`].
#[derive(Debug, Clone, Copy)]
pub struct PoolOptions {
    capacity: Option<usize>,
    pipe_size: usize,
    buffer: usize,
    kept: usize,
}

impl PoolOptions {
    /// Sets the maximum capacity of all pipes of the pool together, in bytes. Beyond it, bytes are copied. The default
    /// is half of what an unprivileged user may have, `/proc/sys/fs/pipe-user-pages-soft`; 0 makes the pool lend no
    /// pipe.
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// Sets the largest capacity of one pipe in bytes; it is rounded down to a power of two of pages. The default is
    /// 1 MiB.
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.pipe_size = bytes;
        self
    }

    /// Sets the size of a buffer in bytes, at least one page and at most 16 MiB. The default is 256 KiB.
    pub fn buffer_size(mut self, bytes: usize) -> Self {
        self.buffer = bytes.clamp(page_size(), MOST_BUFFER);
        self
    }

    /// Sets how many pipes, and how many buffers, are kept while no connection uses them. The default is 16.
    pub fn kept(mut self, most: usize) -> Self {
        self.kept = most;
        self
    }

    /// Creates a pool with these settings. It holds nothing yet.
    pub fn create(self) -> Pool {
        Pool(Arc::new(Shared {
            settings: self,
            owner: Owner::this(),
            used: AtomicUsize::new(0),
            kept: Mutex::default(),
        }))
    }
}

/// The private pipes and buffers that transfers borrow while they have bytes in flight. Clones are the same pool.
///
/// A service that creates a pool decides how much its transfers may use, by [`Options::pool`](crate::Options::pool).
/// All others share the pool of the process.
///
/// # fork
/// A child of fork(2) may use its copy: pipes and buffers of its parent are never used there, and those that it makes
/// are not kept. For a service whose children serve connections, create a pool in each child, or use the default one.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    settings: PoolOptions,
    owner: Owner,
    /// The capacity of all pipes in bytes.
    used: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    pipes: Vec<LentPipe>,
    buffers: Vec<Aligned>,
}

impl Pool {
    /// Returns the settings of a pool, with their defaults.
    pub fn options() -> PoolOptions {
        PoolOptions {
            capacity: None,
            pipe_size: LARGEST,
            buffer: BUFFER,
            kept: KEPT,
        }
    }

    /// Returns the capacity of all pipes of the pool, lent or kept, in bytes.
    pub fn pipe_bytes(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Runs `job` with what is kept; not in a child of the process that created the pool. A panic leaves it in a valid
    /// state.
    fn with_kept<T>(&self, job: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let is_here = self.0.owner.is_here();
        is_here.then(|| job(&mut self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Lends a pipe; `None` if this pool, this process or the user may have no more.
    pub(crate) fn pipe(&self) -> Option<LentPipe> {
        let kept = self.with_kept(|kept| kept.pipes.pop()).flatten();
        kept.or_else(|| self.new_pipe())
    }

    fn new_pipe(&self) -> Option<LentPipe> {
        let allowance = self.allowance()?;
        let (pipe, growth) = pipe::with_capacity(allowance.bytes).ok()?;
        let is_large_enough = growth.after >= SLOTS * page_size();
        is_large_enough.then_some(LentPipe {
            pipe,
            held: 0,
            owner: Owner::this(),
            _allowance: allowance,
        })
    }

    /// Reserves the allowance for one more pipe.
    fn allowance(&self) -> Option<Allowance> {
        static MOST: OnceLock<usize> = OnceLock::new();
        let settings = &self.0.settings;
        let most = settings.capacity.unwrap_or_else(|| {
            *MOST.get_or_init(|| match pipe_user_pages_soft() {
                Some(0) => usize::MAX,
                pages => pages.unwrap_or(16_384).saturating_mul(page_size()) / 2,
            })
        });
        let mut bytes = 0;
        let order = Ordering::Relaxed;
        let taken = self.0.used.fetch_update(order, order, |used| {
            bytes = size_of_next(most.saturating_sub(used), settings.pipe_size)?;
            Some(used + bytes)
        });
        taken.is_ok().then(|| Allowance {
            bytes,
            pool: Arc::downgrade(&self.0),
        })
    }

    /// Keeps an empty pipe. A pipe that is dropped instead is closed.
    pub(crate) fn give_back(&self, pipe: LentPipe) {
        let mut pipe = Some(pipe);
        self.with_kept(|kept| {
            let is_ours = pipe.as_ref().is_some_and(|pipe| pipe.owner.is_here());
            if is_ours && kept.pipes.len() < self.0.settings.kept {
                kept.pipes.extend(pipe.take());
            }
        });
        // A pipe that is not kept is closed here, without the lock.
    }

    /// Lends a buffer.
    pub(crate) fn buffer(&self) -> Buffer {
        let kept = self.with_kept(|kept| kept.buffers.pop()).flatten();
        Buffer {
            bytes: kept.unwrap_or_else(|| Aligned::new(self.0.settings.buffer)),
            held: 0..0,
            pool: Some(self.clone()),
        }
    }
}

impl Default for Pool {
    /// Returns the pool of this process, with the default settings.
    fn default() -> Self {
        static POOL: RwLock<Option<Pool>> = RwLock::new(None);
        // No call waits for the lock: in a child, a thread of the parent may hold it for ever. Then, and while another
        // thread creates the pool, the caller gets one of its own.
        let found = POOL.try_read().ok().and_then(|pool| pool.clone());
        if let Some(pool) = found.filter(|pool| pool.0.owner.is_here()) {
            return pool;
        }
        let new = Self::options().create();
        if let Ok(mut pool) = POOL.try_write() {
            *pool = Some(new.clone());
        }
        new
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.pipe_bytes();
        write!(f, "Pool({bytes} bytes of pipes, {:?})", self.0.settings)
    }
}

/// Capacity in bytes that counts as used until this is dropped.
struct Allowance {
    bytes: usize,
    /// The pool has pipes, which have allowances, so they do not keep the pool.
    pool: Weak<Shared>,
}

/// Returns the capacity of the next pipe, a power of two of pages, if `left` bytes of the allowance suffice.
fn size_of_next(left: usize, largest: usize) -> Option<usize> {
    let least = SLOTS * page_size();
    let share = (left / 16).clamp(least, largest.max(least));
    (least <= left).then(|| 1 << share.ilog2())
}

impl Drop for Allowance {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// A lent pipe, and its share of the allowance. It is empty, and must be empty again when it is given back.
pub(crate) struct LentPipe {
    pub(crate) pipe: Pipe,
    /// The bytes in it.
    pub(crate) held: usize,
    owner: Owner,
    _allowance: Allowance,
}

/// Lent memory, or memory that belongs to no pool.
#[derive(Default)]
pub(crate) struct Buffer {
    pub(crate) bytes: Aligned,
    /// The part of it that is in flight.
    pub(crate) held: Range<usize>,
    pub(crate) pool: Option<Pool>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        let mut bytes = mem::take(&mut self.bytes);
        pool.with_kept(|kept| {
            if kept.buffers.len() < pool.0.settings.kept {
                kept.buffers.push(mem::take(&mut bytes));
            }
        });
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
        while let Some(size) = size_of_next(left, LARGEST) {
            assert!(size.is_power_of_two() && (least..=before).contains(&size));
            before = size;
            left -= size;
        }
        assert!(left < least && before == least);
        assert_eq!(size_of_next(least - 1, LARGEST), None);
    }

    #[test]
    fn when_the_allowance_is_used_up_bytes_are_copied() {
        use std::io::{Read, Seek, Write};

        let held: Vec<LentPipe> = std::iter::from_fn(|| Pool::default().pipe()).collect();
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
