//! The memory of a ring, and all unsafe code for it.
//!
//! It consists of two memfds. The first holds the [`Control`] words, which both sides write. The second holds the
//! bytes: only the producer can write to them, because it maps them before it seals them (`F_SEAL_FUTURE_WRITE`, Linux
//! 5.1). Neither can shrink (`F_SEAL_SHRINK`), and where the kernel does not overcommit memory, all pages are allocated
//! at the start, so accessing a mapping never raises SIGBUS.
//!
//! The bytes are mapped twice in a row, so every range of them is contiguous.
//!
//! A forked child has neither mapping (`MADV_DONTFORK`).

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::control::Control;
use crate::view;
use fullbore_linux as linux;
use fullbore_linux::Owner;
use fullbore_linux::wait::uninterrupted;

/// The largest ring that is created or accepted, in bytes.
pub(crate) const MOST: usize = 64 << 20;

/// The flag of a side that may sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag<'a> {
    pub(crate) word: &'a AtomicU64,
    /// The half of it that futex(2) compares. Only the kernel uses it: other code accesses the whole word.
    pub(crate) futex: &'a AtomicU32,
}

impl<'a> Flag<'a> {
    fn of(word: &'a AtomicU64) -> Self {
        let halves = ptr::from_ref(word).cast::<AtomicU32>();
        let low = usize::from(cfg!(target_endian = "big"));
        // SAFETY: both halves are inside the word, and aligned. Only the kernel reads through the reference.
        let futex = unsafe { &*halves.add(low) };
        Self { word, futex }
    }
}

/// The memory of a ring, as mapped by one side.
#[derive(Debug)]
pub(crate) struct Shared {
    control: Mapping,
    bytes: Mapping,
    /// Bytes of the ring.
    size: usize,
    writable: bool,
}

/// A mapping that is unmapped in the process that created it, and that a forked child does not have.
#[derive(Debug)]
struct Mapping {
    address: NonNull<u8>,
    len: usize,
    owner: Owner,
}

// SAFETY: a mapping is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference, its memory is only read, or accessed by atomic operations.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves address space.
    fn reserve(len: usize) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let address = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE)
        }?;
        Self::at(address.cast(), len)
    }

    fn at(address: *mut u8, len: usize) -> Result<Self, Errno> {
        Ok(Self {
            address: NonNull::new(address).ok_or(Errno::NOMEM)?,
            len,
            owner: Owner::this(),
        })
    }

    /// Maps the first `len` bytes of `file` at `offset` of this mapping.
    fn put(
        &mut self,
        offset: usize,
        file: BorrowedFd<'_>,
        len: usize,
        protection: ProtFlags,
    ) -> Result<(), Errno> {
        assert!(offset + len <= self.len);
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: replaces a part of this mapping, which nothing refers to yet.
        unsafe {
            let at = self.address.as_ptr().add(offset).cast();
            rustix::mm::mmap(at, len, protection, flags, file, 0)?;
            rustix::mm::madvise(at, len, Advice::LinuxDontFork)?;
            // Huge pages are only faster. Memory is allocated at first use: a short stream does not need all of it.
            let _ = rustix::mm::madvise(at, len, Advice::LinuxHugepage);
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // In a forked child, these addresses may belong to another mapping.
        if self.owner.is_here() {
            // SAFETY: nothing refers to the mapping any more.
            let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.len) };
        }
    }
}

impl Shared {
    /// Creates the memory of a ring of `size` bytes for the pipe with this inode, and returns it with the files of the
    /// words and of the bytes, in this order, for the consumer.
    ///
    /// # Errors
    /// `ENOSYS` or `EINVAL` on a kernel without the seals; `EMFILE`; `ENOMEM`; `EFBIG` if RLIMIT_FSIZE does not allow
    /// files of this size.
    pub(crate) fn create(pipe: u64, size: usize) -> Result<(Self, [OwnedFd; 2]), Errno> {
        let files = [
            file(&view::name(pipe, size), words())?,
            file("fullbore-ring-bytes", size)?,
        ];
        let shared = Self::map(&files, size, true)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&files[0], seals | SealFlags::SEAL)?;
        let seals = seals | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&files[1], seals)?;
        Ok((shared, files))
    }

    /// Maps a ring of `size` bytes that another process has created, after checking that it cannot shrink.
    ///
    /// # Errors
    /// `EPROTO` for files that are not those of a ring of this size; `ENOMEM`.
    pub(crate) fn accept(files: &[OwnedFd; 2], size: usize) -> Result<Self, Errno> {
        let fits = size.is_power_of_two() && size >= linux::page_size() && size <= MOST;
        if !fits || !is_sealed(&files[0], words())? || !is_sealed(&files[1], size)? {
            return Err(Errno::PROTO);
        }
        Self::map(files, size, false)
    }

    fn map(files: &[OwnedFd; 2], size: usize, writable: bool) -> Result<Self, Errno> {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let mut control = Mapping::reserve(words())?;
        control.put(0, files[0].as_fd(), words(), both)?;
        let protection = if writable { both } else { ProtFlags::READ };
        let mut bytes = Mapping::reserve(2 * size)?;
        for half in [0, size] {
            bytes.put(half, files[1].as_fd(), size, protection)?;
        }
        Ok(Self {
            control,
            bytes,
            size,
            writable,
        })
    }

    /// Returns the size of the ring in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns whether the calling process is the one that mapped the memory, and not a forked child.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.bytes.owner.is_here()
    }

    #[inline]
    pub(crate) fn control(&self) -> &Control<AtomicU64> {
        // SAFETY: the mapping is aligned to a page and as long as the words, and every value of a word is valid. All
        // accesses on both sides are atomic.
        unsafe { self.control.address.cast().as_ref() }
    }

    /// Returns the flag of the consumer.
    pub(crate) fn consumer(&self) -> Flag<'_> {
        Flag::of(&self.control().consumer_sleeps.0)
    }

    /// Returns the flag of the producer.
    pub(crate) fn producer(&self) -> Flag<'_> {
        Flag::of(&self.control().producer_sleeps.0)
    }

    /// Returns the bytes of the ring, mapped twice in a row.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is this long, and readable. On the producer's side, no other process can write to it. On
        // the consumer's side, only claimed bytes are read through it, and an honest producer does not write to them;
        // the bytes of an untrusted one are read only with `copy`.
        unsafe { slice::from_raw_parts(self.bytes.address.as_ptr(), 2 * self.size) }
    }

    /// Returns the bytes of the ring, mapped twice in a row, on the producer's side.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.writable);
        // SAFETY: the mapping is this long, and only this process can write to it. The consumer reads only published
        // bytes, and the producer writes only to others. The two halves are the same memory: the producer uses each
        // range of it through one half at a time.
        unsafe { slice::from_raw_parts_mut(self.bytes.address.as_ptr(), 2 * self.size) }
    }

    /// Copies claimed bytes, which another process may write to meanwhile.
    pub(crate) fn copy(&self, from: Range<usize>, into: &mut [u8]) {
        assert!(from.start <= from.end && from.end <= 2 * self.size && from.len() <= into.len());
        // SAFETY: both are this long, and `into` is not in the mapping, which no code has a mutable reference to. The
        // source is read only through a raw pointer: whatever the other process writes meanwhile, each byte is a valid
        // byte.
        unsafe {
            ptr::copy_nonoverlapping(
                self.bytes.address.as_ptr().add(from.start),
                into.as_mut_ptr(),
                from.len(),
            );
        }
    }
}

/// Returns the size of the words in bytes, rounded up to whole pages.
fn words() -> usize {
    size_of::<Control<AtomicU64>>().next_multiple_of(linux::page_size())
}

fn file(name: &str, len: usize) -> Result<OwnedFd, Errno> {
    // ftruncate(2) counts against RLIMIT_FSIZE, and raises SIGXFSZ beyond it.
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < len as u64) {
        return Err(Errno::FBIG);
    }
    let file = linux::memfd(name, MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    if !overcommits() {
        reserve(&file, len)?;
    }
    Ok(file)
}

/// Returns whether the kernel gives pages at first use without refusing them (`vm.overcommit_memory` is 0 or 1). With 2,
/// a page of a memfd that exceeds the limit is refused at its first use, and the process gets SIGBUS.
fn overcommits() -> bool {
    let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    mode.is_ok_and(|mode| matches!(mode.trim(), "0" | "1"))
}

/// Allocates all pages of the file now, so that a lack of memory is an error, and not a signal at their first use.
fn reserve(file: &OwnedFd, len: usize) -> Result<(), Errno> {
    let flags = FallocateFlags::empty();
    uninterrupted(|| rustix::fs::fallocate(file, flags, 0, len as u64))
}

/// Returns whether `file` has `len` bytes and can never shrink. Only a memfd in the kernel's own tmpfs, which
/// has no size limit, qualifies; huge pages of a pool, which may run out, are refused.
fn is_sealed(file: &OwnedFd, len: usize) -> Result<bool, Errno> {
    const TMPFS: u32 = 0x0102_1994;
    let Ok(seals) = rustix::fs::fcntl_get_seals(file) else {
        return Ok(false);
    };
    let is_tmpfs = rustix::fs::fstatfs(file)?.f_type as u32 == TMPFS;
    let is_long_enough = rustix::fs::fstat(file)?.st_size == len as i64;
    Ok(is_tmpfs && is_long_enough && seals.contains(SealFlags::SHRINK))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 256 * 1024;

    #[test]
    fn what_one_side_writes_the_other_reads_in_one_piece_across_the_end() {
        let (mut ours, files) = Shared::create(1, SIZE).unwrap();
        let theirs = Shared::accept(&files, SIZE).unwrap();
        ours.bytes_mut()[SIZE - 3..SIZE + 3].copy_from_slice(b"abcdef");
        assert_eq!(&theirs.bytes()[SIZE - 3..SIZE + 3], b"abcdef");
        assert_eq!(&theirs.bytes()[..3], b"def");
        let mut copied = [0; 6];
        theirs.copy(SIZE - 3..SIZE + 3, &mut copied);
        assert_eq!(&copied, b"abcdef");
    }

    #[test]
    fn reserved_memory_has_all_its_pages_before_its_first_use() {
        let bytes = file("test", SIZE).unwrap();
        if overcommits() {
            assert_eq!(rustix::fs::fstat(&bytes).unwrap().st_blocks, 0);
        }
        reserve(&bytes, SIZE).unwrap();
        let allocated = rustix::fs::fstat(&bytes).unwrap().st_blocks * 512;
        assert_eq!(allocated, SIZE as i64);
    }

    #[test]
    fn the_consumer_cannot_write_to_the_bytes_or_change_their_number() {
        let (_ours, files) = Shared::create(1, SIZE).unwrap();
        assert_eq!(rustix::io::write(&files[1], b"x"), Err(Errno::PERM));
        for len in [0, SIZE as u64 / 2, SIZE as u64 * 2] {
            assert_eq!(rustix::fs::ftruncate(&files[1], len), Err(Errno::PERM));
            assert_eq!(rustix::fs::ftruncate(&files[0], len), Err(Errno::PERM));
        }
        let mut mapping = Mapping::reserve(SIZE).unwrap();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let answer = mapping.put(0, files[1].as_fd(), SIZE, both);
        assert_eq!(answer, Err(Errno::PERM));
    }

    #[test]
    fn no_ring_is_made_where_files_may_not_be_so_large() {
        use rustix::process::{Rlimit, setrlimit};
        // In a separate process, because the limit applies to the process, and SIGXFSZ would kill it.
        if std::env::var_os("FULLBORE_TEST_FSIZE").is_some() {
            let limit = Rlimit {
                current: Some(SIZE as u64 - 1),
                maximum: None,
            };
            setrlimit(Resource::Fsize, limit).unwrap();
            assert_eq!(Shared::create(1, SIZE).unwrap_err(), Errno::FBIG);
            return;
        }
        let test = std::thread::current().name().unwrap().to_owned();
        let ran = std::process::Command::new(std::env::current_exe().unwrap())
            .args([&test, "--exact", "--test-threads=1"])
            .env("FULLBORE_TEST_FSIZE", "1")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    #[test]
    fn files_that_could_shrink_or_have_another_size_are_refused() {
        let (_ours, [words_file, bytes_file]) = Shared::create(1, SIZE).unwrap();
        let not_sealed = file("test", SIZE).unwrap();
        let dup = |file: &OwnedFd| file.try_clone().unwrap();
        let refused = |files: [OwnedFd; 2], size| {
            assert_eq!(Shared::accept(&files, size).unwrap_err(), Errno::PROTO);
        };
        refused([dup(&words_file), not_sealed], SIZE);
        refused([dup(&words_file), dup(&bytes_file)], SIZE * 2);
        refused([dup(&words_file), dup(&bytes_file)], SIZE - 1);
        refused([dup(&words_file), dup(&bytes_file)], 0);
        refused([dup(&words_file), dup(&bytes_file)], usize::MAX);
        refused([dup(&bytes_file), dup(&words_file)], SIZE);
        let on_disk: OwnedFd = tempfile::tempfile().unwrap().into();
        rustix::fs::ftruncate(&on_disk, SIZE as u64).unwrap();
        refused([dup(&words_file), on_disk], SIZE);
    }
}
