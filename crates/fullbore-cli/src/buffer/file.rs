//! The file that holds the bytes instead of memory: `-t` and `-T`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::anyhow;
use fullbore::{Error, TransferSide};
use fullbore_host::size;
use fullbore_host::text::{clean, error_text};
use rustix::io::Errno;

/// Where the bytes are held.
#[derive(Debug, Clone)]
pub enum Holding {
    Memory,
    /// A temporary file in this directory.
    Temporary(PathBuf),
    /// This file, which must not exist.
    Named(PathBuf),
}

impl Holding {
    /// Returns what the options say; a temporary file is in `$TMPDIR` or /var/tmp.
    pub fn new(temporary: bool, file: Option<PathBuf>) -> Self {
        match file {
            Some(file) => Self::Named(file),
            None if !temporary => Self::Memory,
            None => {
                let directory = std::env::var_os("TMPDIR").filter(|name| !name.is_empty());
                Self::Temporary(directory.map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from))
            }
        }
    }

    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Memory)
    }

    /// Creates the file that holds so many bytes, if there is to be one. It has no name any more.
    ///
    /// # Errors
    /// Those of creating it, and that the disk has no room.
    pub fn create(&self, bytes: usize) -> anyhow::Result<Option<OwnedFd>> {
        let created = match self {
            Self::Memory => return Ok(None),
            Self::Temporary(directory) => tempfile::tempfile_in(directory),
            Self::Named(path) => {
                let mut options = File::options();
                options.mode(0o600).read(true).write(true).create_new(true);
                let created = options.open(path);
                created.and_then(|file| std::fs::remove_file(path).map(|()| file))
            }
        };
        let created = created.map_err(|error| {
            anyhow!(
                "create the buffer's file {}: {}",
                self.shown(),
                error_text(&error)
            )
        });
        let file: OwnedFd = created?.into();
        // The library does this too. Here, a full disk is found before an output is opened.
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&file, flags, 0, bytes as u64) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Some(file)),
            Err(errno) => Err(anyhow!(
                "the buffer's file {} needs {}: {}",
                self.shown(),
                size::format(bytes as u64),
                error_text(&errno.into())
            )),
        }
    }

    /// Returns the error if it is that the file could not be reached.
    pub fn fault(&self, error: &Error) -> Option<anyhow::Error> {
        (!self.is_memory() && is_fault(error)).then(|| {
            anyhow!(
                "the buffer's file {} cannot be read or written: its disk is full or has failed, or it \
                 was shortened",
                self.shown()
            )
        })
    }

    /// Returns the name of the file, or of the directory that it is in.
    fn shown(&self) -> String {
        match self {
            Self::Memory => String::new(),
            Self::Temporary(path) | Self::Named(path) => {
                format!("'{}'", clean(&path.to_string_lossy()))
            }
        }
    }
}

/// Returns whether the memory itself could not be reached, which only a file can cause.
fn is_fault(error: &Error) -> bool {
    matches!(error, Error::Moving { side: TransferSide::Source | TransferSide::Sink, errno, .. }
        if Errno::from_io_error(errno) == Some(Errno::FAULT))
}
