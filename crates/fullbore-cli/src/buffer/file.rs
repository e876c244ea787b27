//! The file that holds the bytes instead of memory: `-t` and `-T`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::anyhow;
use fullbore::Error;
use fullbore_host::size;
use rustix::io::Errno;

use crate::error_text::{Failed, shown};

/// The file that holds the bytes.
#[derive(Debug, Clone)]
pub enum Holding {
    /// A temporary file in this directory.
    Temporary(PathBuf),
    /// This file, which must not exist.
    Named(PathBuf),
}

impl Holding {
    /// Creates the file for so many bytes. It has no name any more.
    ///
    /// # Errors
    /// Those of creating it, and that the disk has no room.
    pub fn create(&self, bytes: usize) -> anyhow::Result<OwnedFd> {
        let created = match self {
            Self::Temporary(directory) => tempfile::tempfile_in(directory),
            Self::Named(path) => {
                let mut options = File::options();
                options.mode(0o600).read(true).write(true).create_new(true);
                let created = options.open(path);
                created.and_then(|file| std::fs::remove_file(path).map(|()| file))
            }
        };
        let shown = self.shown();
        let file = created.failed(format_args!("create the buffer's file {shown}"))?;
        let file = OwnedFd::from(file);
        // The library does this too. Here, a full disk is found before an output is opened.
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&file, flags, 0, bytes as u64) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            refused => {
                let needs = size::format(bytes as u64);
                refused.failed(format_args!("the buffer's file {shown} needs {needs}"))?;
            }
        }
        Ok(file)
    }

    /// Returns the error if it is that the file could not be reached.
    pub fn fault(&self, error: &Error) -> Option<anyhow::Error> {
        // Only a file can cause that the memory itself cannot be reached.
        let is_fault = matches!(error, Error::Moving { errno, .. }
            if Errno::from_io_error(errno) == Some(Errno::FAULT));
        let shown = self.shown();
        is_fault.then(|| {
            anyhow!(
                "the buffer's file {shown} cannot be read or written: its disk is full or has failed, or it was \
                 shortened"
            )
        })
    }

    /// Returns the name of the file, or of the directory that it is in.
    fn shown(&self) -> String {
        let (Self::Temporary(path) | Self::Named(path)) = self;
        format!("'{}'", shown(path))
    }
}
