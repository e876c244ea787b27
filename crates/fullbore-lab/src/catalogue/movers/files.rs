//! Files in memory that movers read and write.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use procfs::Current;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::endpoint::words;

/// A file that lives in memory, has no name, and goes with its last fd: so there is none to clean
/// up, whatever becomes of this process.
pub fn memory_file() -> Result<File> {
    let fd = memfd_create("fullbore-bench", MemfdFlags::CLOEXEC).context("memfd_create")?;
    Ok(File::from(fd))
}

/// The same file once more, with an offset of its own.
pub fn reopened(file: &File) -> Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::open(&path).with_context(|| format!("open '{path}'"))
}

/// The file that jobs with a file for a source read: made when the first of them runs, and kept,
/// so that all of them find it in the page cache.
#[derive(Debug, Default)]
pub struct SourceFile(Option<File>);

impl SourceFile {
    /// Long beside the time that a process takes to start, and beside any cache.
    const LEN: u64 = 1 << 30;

    /// The file, with an offset of its own at 0.
    pub fn open(&mut self) -> Result<File> {
        if self.0.is_none() {
            self.0 = Some(Self::make().context("write a file in memory")?);
        }
        let file = self.0.as_ref().context("made just now")?;
        reopened(file)
    }

    /// A stretch of the pattern again and again: these bytes are not checked.
    fn make() -> Result<File> {
        let mut block = vec![0; 1 << 20];
        words::fill(&mut block, 0);
        let mut file = memory_file()?;
        for _ in 0..Self::len() / block.len() as u64 {
            file.write_all(&block)?;
        }
        Ok(file)
    }

    /// Bytes of it, and of a file that is written: less where memory is short.
    pub fn len() -> u64 {
        let available = procfs::Meminfo::current()
            .ok()
            .and_then(|memory| memory.mem_available);
        match available {
            // There are two of them, and other programs need memory too.
            Some(available) if available < 6 * Self::LEN => Self::LEN / 4,
            _ => Self::LEN,
        }
    }
}

/// A file in memory that holds the pattern of `words` from its beginning.
pub fn pattern_file(len: u64) -> Result<File> {
    let mut file = memory_file()?;
    write_pattern(&mut file, 0, len).context("write a file in memory")?;
    Ok(file)
}

/// Writes `len` bytes of the pattern from `position` on, at the file's offset.
pub fn write_pattern(file: &mut File, position: u64, len: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(buffer.len() as u64) as usize;
        words::fill(&mut buffer[..n], position + done);
        file.write_all(&buffer[..n])?;
        done += n as u64;
    }
    Ok(())
}
