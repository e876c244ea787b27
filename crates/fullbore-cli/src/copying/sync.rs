//! What is reported as done is on the disk (`--sync`).
//!
//! While a file is being written, its bytes are handed to the disk in parts, without waiting. Every 64 MiB, and at
//! least every second, fdatasync(2) waits until they are there. So the page cache holds little of the file, and only
//! what is on the disk is reported as progress. At the end, fsync(2) of the file and of its directory follow.

use std::fmt;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::bail;
use fullbore_host::refusal::Usage;
use rustix::fs::{Advice, FileType, Mode, OFlags, fadvise, fdatasync, fsync, openat};
use rustix::io::Errno;

use crate::error_text::Failed;

/// The bytes that are handed to the disk at a time.
const PART: u64 = 8 << 20;

/// The bytes, and the time, after which to wait for the disk.
const WINDOW: u64 = 64 << 20;
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes a file back to its disk while it is being written.
#[derive(Debug, Default)]
pub struct WriteBack {
    /// The file and its name; `None` if nothing is to be written back.
    file: Option<(OwnedFd, String)>,
    /// The offset up to which the file is on the disk, and up to which it was handed to it.
    synced: u64,
    handed: u64,
    /// Bytes that were written after the last fdatasync(2).
    since_sync: u64,
    last: Option<Instant>,
    /// What was counted, and is not on the disk.
    pub unreported: u64,
}

impl WriteBack {
    /// Begins to write back `output`, if that has not begun yet.
    ///
    /// # Errors
    /// [`Usage`] if what is written to it is not stored; those of dup(2).
    pub fn begin(&mut self, output: &(impl AsFd + fmt::Display)) -> anyhow::Result<()> {
        if self.file.is_none() {
            *self = Self::begun(output)?;
        }
        Ok(())
    }

    /// Begins to write back each of the outputs that are stored.
    ///
    /// # Errors
    /// Those of dup(2).
    pub fn of_stored<'a, O: AsFd + fmt::Display + 'a>(
        outputs: impl IntoIterator<Item = &'a O>,
    ) -> anyhow::Result<Vec<Self>> {
        let stored = outputs.into_iter().filter(|output| is_stored(output));
        stored.map(Self::begun).collect()
    }

    /// Begins to write back `output`.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begun(output: &(impl AsFd + fmt::Display)) -> anyhow::Result<Self> {
        if !is_stored(output) {
            bail!(Usage(format!(
                "--sync needs a file or a block device to write to, and {output} is neither"
            )));
        }
        let at = place_in(output);
        Ok(Self {
            file: Some((output.as_fd().try_clone_to_owned()?, output.to_string())),
            synced: at,
            handed: at,
            last: Some(Instant::now()),
            ..Self::default()
        })
    }

    /// Notes that `bytes` were written, which count as `count`, and waits for the disk if it is time to. Returns the
    /// count of what can be reported as done.
    ///
    /// # Errors
    /// What the disk could not store.
    pub fn wrote(&mut self, bytes: u64, count: u64) -> anyhow::Result<u64> {
        let Some((file, name)) = &self.file else {
            return Ok(count);
        };
        self.unreported += count;
        let parts = self.since_sync / PART;
        self.since_sync += bytes;
        let is_due = self.last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if is_due || self.since_sync >= WINDOW {
            let at = place_in(file);
            fdatasync(file).failed(format_args!("sync {name}"))?;
            release(file, self.synced, at);
            (self.synced, self.handed) = (at, at);
            self.since_sync = 0;
            self.last = Some(Instant::now());
            return Ok(std::mem::take(&mut self.unreported));
        }
        if self.since_sync / PART > parts {
            let at = place_in(file);
            release(file, self.handed, at);
            self.handed = at;
        }
        Ok(0)
    }

    /// Hands to the disk, without waiting, what others have written to the file, and has the kernel forget what is there.
    pub fn hand_over(&self) {
        if let Some((file, _)) = &self.file {
            release(file, self.synced, place_in(file));
        }
    }

    /// Waits for the disk now.
    ///
    /// # Errors
    /// What the disk could not store.
    pub fn wait(&mut self) -> anyhow::Result<()> {
        self.last = None;
        self.wrote(0, 0).map(drop)
    }
}

fn place_in(file: impl AsFd) -> u64 {
    rustix::fs::tell(file).unwrap_or(0)
}

/// Has the kernel start to write these bytes to the disk, and forget those that are there: `POSIX_FADV_DONTNEED`
/// does both (`generic_fadvise`, mm/fadvise.c). It is advice, and cannot fail in a way that matters.
fn release(file: &OwnedFd, from: u64, to: u64) {
    if let Some(len) = NonZeroU64::new(to.saturating_sub(from)) {
        let _ = fadvise(file, from, Some(len), Advice::DontNeed);
    }
}

/// Returns whether this is a file whose bytes are stored.
pub fn is_stored(file: impl AsFd) -> bool {
    let stat = rustix::fs::fstat(file);
    stat.is_ok_and(|stat| {
        let kind = FileType::from_raw_mode(stat.st_mode);
        matches!(kind, FileType::RegularFile | FileType::BlockDevice)
    })
}

/// Waits until a file is on its disk, if what is written to it is stored at all.
///
/// # Errors
/// Those of fsync(2).
pub fn sync_file(file: &(impl AsFd + fmt::Display)) -> anyhow::Result<()> {
    match is_stored(file) {
        true => fsync(file).failed(format_args!("sync {file}")),
        false => Ok(()),
    }
}

/// Waits until the names in a directory are on the disk.
///
/// # Errors
/// Those of open(2) and fsync(2).
pub fn sync_directory(directory: impl AsFd, shown: &str) -> anyhow::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = openat(directory, ".", flags, Mode::empty()).and_then(fsync);
    match synced {
        // The file system cannot do it (fsync(2)).
        Err(Errno::INVAL) => Ok(()),
        synced => synced.failed(format_args!("sync the directory of {shown}")),
    }
}
