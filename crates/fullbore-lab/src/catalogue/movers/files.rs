//! Provides the files in memory that movers read and write.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use anyhow::{Context, Result};

use crate::memory::{self, memory_file};
use fullbore_bytes::pattern;

/// Opens the same file again, with its own offset.
pub fn reopened(file: &File) -> Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::open(&path).with_context(|| format!("open '{path}'"))
}

/// The file that is read by jobs whose source is a file. It is made when the first of them runs,
/// and kept, so that all of them find it in the page cache.
pub struct SourceFile(File);

impl SourceFile {
    /// Reading it takes long compared with the start of a process, and it is larger than any
    /// cache.
    const LEN: u64 = 1 << 30;

    /// Makes the file.
    ///
    /// # Errors
    /// Fails if there is no memory for it.
    pub fn make() -> Result<Self> {
        pattern_file(Self::len()).map(Self)
    }

    /// Opens the file, with its own offset at 0.
    pub fn open(&self) -> Result<File> {
        reopened(&self.0)
    }

    /// Returns the size of this file, and of a file that is written: less if memory is short. It is the same at
    /// every call, because these files take up memory themselves.
    pub fn len() -> u64 {
        static LEN: OnceLock<u64> = OnceLock::new();
        *LEN.get_or_init(|| Self::len_in(memory::available()))
    }

    /// Returns the size for this much available memory: a power of two, at least 16 MiB.
    fn len_in(available: Option<u64>) -> u64 {
        // There are two such files, and other programs need memory too.
        let most = available.map_or(Self::LEN, |available| available / 6);
        1 << most.clamp(16 << 20, Self::LEN).ilog2()
    }
}

/// Creates a file in memory that holds the pattern of `words` from its beginning.
pub fn pattern_file(len: u64) -> Result<File> {
    let mut file = memory_file()?;
    write_pattern(&mut file, 0, len).context("write a file in memory")?;
    Ok(file)
}

/// Writes `len` bytes of the pattern, starting at `position`, at the file's offset.
pub fn write_pattern(file: &mut File, position: u64, len: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(buffer.len() as u64) as usize;
        pattern::fill(&mut buffer[..n], position + done);
        file.write_all(&buffer[..n])?;
        done += n as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_larger_than_memory_allows_and_as_large_at_every_call() {
        let sizes = [
            (None, 1 << 30),
            (Some(64 << 30), 1 << 30),
            (Some(6 << 30), 1 << 30),
            (Some((6 << 30) - 1), 512 << 20),
            (Some(1 << 30), 128 << 20),
            (Some(0), 16 << 20),
        ];
        for (available, len) in sizes {
            assert_eq!(SourceFile::len_in(available), len, "{available:?}");
        }
        assert_eq!(SourceFile::len(), SourceFile::len());
    }
}
