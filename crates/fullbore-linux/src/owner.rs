//! The process that an object belongs to, as opposed to a forked child with a copy of the object.
//!
//! A process id does not identify the process: in its own PID namespace (`CLONE_NEWPID`) a child can have the same id
//! as its parent. So a number is kept in a page that the kernel zeroes in every child (`MADV_WIPEONFORK`, since Linux
//! 4.14).

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::{Error, Result};
use crate::sizes::page_size;

/// A bit that is set only in an owner that is identified by its process id.
const BY_PROCESS_ID: u64 = 1 << 63;

/// The process that created an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner(u64);

impl Owner {
    /// Returns the calling process.
    pub fn this() -> Self {
        /// The last number that this process or an ancestor used. Unlike the page, a child inherits it, so it uses a
        /// number that no ancestor used.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let Some(mark) = wiped_in_children() else {
            return Self::by_process_id();
        };
        match mark.load(Ordering::Relaxed) {
            0 => {
                let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                let set = mark.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
                Self(set.map_or_else(|by_another_thread| by_another_thread, |_| new))
            }
            number => Self(number),
        }
    }

    /// Identifies the process by its id, if there is no such page.
    fn by_process_id() -> Self {
        let process = rustix::process::getpid().as_raw_nonzero().get();
        Self(u64::from(process.unsigned_abs()) | BY_PROCESS_ID)
    }

    /// Returns whether the calling process is this one, and not a child with a copy.
    pub fn is_here(self) -> bool {
        match self.0 & BY_PROCESS_ID {
            0 => self == Self::this(),
            _ => self == Self::by_process_id(),
        }
    }

    /// # Errors
    /// [`Error::Invalid`] in a child of this process: what the object, a `what`, has in flight is its parent's.
    pub fn check(self, what: &str) -> Result<()> {
        match self.is_here() {
            true => Ok(()),
            false => Err(Error::Invalid(format!(
                "the {what} belongs to the process that created it, and not to its child"
            ))),
        }
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::this()
    }
}

/// Returns a number that is 0 again in every child; `None` if the kernel does not support that.
fn wiped_in_children() -> Option<&'static AtomicU64> {
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
    // No lock is used: a child does not have the thread that held it, so it would never be released there.
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let new = map_one()?;
        match PAGE.compare_exchange(page, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => page = new,
            Err(by_another_thread) => {
                page = by_another_thread;
                // SAFETY: the mapping was created above, and no other code has its address.
                let _ = unsafe { rustix::mm::munmap(new.cast(), page_size()) };
            }
        }
    }
    // SAFETY: a page from `map_one`, which is never unmapped, is zeroed and aligned, and is only used as this one
    // atomic number.
    Some(unsafe { &*page })
}

fn map_one() -> Option<*mut AtomicU64> {
    let len = page_size();
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let page = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }
    .ok()?;
    // SAFETY: the advice concerns children, and the range is the new mapping.
    match unsafe { rustix::mm::madvise(page, len, Advice::LinuxWipeOnFork) } {
        Ok(()) => Some(page.cast()),
        Err(_) => {
            // SAFETY: no other code has the mapping's address.
            let _ = unsafe { rustix::mm::munmap(page, len) };
            None
        }
    }
}
