//! The file that holds the bytes instead of memory: `-t` and `-T`.
//!
//! It is mapped in the place of the memory. Only system calls access it there: if another process shortens the file, or
//! its disk fails, they return `EFAULT`, and no signal is raised. mmap(2) is an unsafe call.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::anyhow;
use fullbore::{BufferOptions, Error};
use fullbore_host::size;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

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
        // A full disk is found before an output is opened.
        let (flags, bytes) = (rustix::fs::FallocateFlags::empty(), bytes as u64);
        let reserved = match rustix::fs::fallocate(&file, flags, 0, bytes) {
            // This file system cannot reserve space, so a full disk is noticed only later.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(&file, bytes),
            reserved => reserved,
        };
        let needs = size::format(bytes);
        reserved.failed(format_args!("the buffer's file {shown} needs {needs}"))?;
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

/// Keeps the bytes of a buffer in this file, which is at least as long as its memory.
pub fn keep_in(file: OwnedFd, options: BufferOptions) -> BufferOptions {
    options.mapped_by(move |memory| {
        let (protection, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED,
        );
        let start = memory.as_mut_ptr().cast();
        // SAFETY: it replaces whole pages of a private mapping, which is passed in for this purpose, and only system
        // calls access them afterwards.
        let mapped = unsafe { mmap(start, memory.len(), protection, flags, &file, 0) };
        mapped.map(drop).map_err(|errno| Error::System {
            operation: "mmap",
            errno: errno.into(),
        })
    })
}
