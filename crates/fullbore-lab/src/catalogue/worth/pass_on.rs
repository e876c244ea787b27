//! Readers that do not look at the bytes, and pass them on or drop them.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, Write, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use fullbore::Wait;
use fullbore_linux::{Calls, Ready};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::SpliceFlags;
use serde::{Deserialize, Serialize};

use super::data::{CHECKED, check, seen};
use super::table::Use;
use crate::catalogue::transports::stream::{Moved, ReadProgress};
use crate::endpoint::prepare::dev_null;
use crate::memory::memory_file;
use crate::task::Task;

/// The most bytes of one splice(2).
const CHUNK: usize = 1 << 20;

/// The size of the file, which is written again and again.
const FILE: u64 = 64 << 20;

/// Where the bytes go.
struct Sink {
    file: File,
    is_file: bool,
    written: u64,
    is_checked: bool,
}

impl Sink {
    fn open(to: Use) -> Result<Self> {
        let file = match to {
            Use::Drop => dev_null()?,
            Use::Tcp => File::from(stdout().as_fd().try_clone_to_owned()?),
            _ => memory_file()?,
        };
        Ok(Self {
            file,
            is_file: to == Use::File,
            written: 0,
            is_checked: false,
        })
    }

    /// Records that `n` more bytes have gone into it. The beginning of a file is checked once, and a file that is
    /// large enough is written again from its beginning.
    fn add(&mut self, n: usize) -> Result<()> {
        if !self.is_file {
            return Ok(());
        }
        self.written += n as u64;
        if !self.is_checked && self.written >= CHECKED {
            self.is_checked = true;
            let mut beginning = vec![0; CHECKED as usize];
            let read = self.file.read_exact_at(&mut beginning, 0);
            read.context("read the file")?;
            check(&seen(), &beginning, 0)?;
        }
        if self.written >= FILE {
            self.written = 0;
            self.file.rewind().context("seek in the file")?;
        }
        Ok(())
    }
}

/// Writes what comes from memory.
///
/// # Errors
/// Fails if the stream ends, or the sink refuses the bytes.
pub fn pass_on(mut source: impl BufRead, to: Use, mut progress: ReadProgress) -> Result<Moved> {
    let mut sink = Sink::open(to)?;
    loop {
        let bytes = source.fill_buf().context("read")?;
        if to != Use::Drop {
            sink.file.write_all(bytes).context("pass on")?;
        }
        let n = bytes.len();
        source.consume(n);
        sink.add(n)?;
        if let Some(moved) = progress.add(n)? {
            return Ok(moved);
        }
    }
}

/// Splices what comes from a pipe.
///
/// # Errors
/// Fails if the stream ends, or the sink refuses the bytes.
pub fn splice_on(source: BorrowedFd<'_>, to: Use, mut progress: ReadProgress) -> Result<Moved> {
    let mut sink = Sink::open(to)?;
    let mut calls = Calls::new(Wait::Block);
    let flags = SpliceFlags::empty();
    loop {
        let n = calls.splice(source, sink.file.as_fd(), CHUNK, flags, Ready::ToRead);
        let n = n.context("splice")?;
        sink.add(n)?;
        if let Some(moved) = progress.add(n)? {
            return Ok(moved);
        }
    }
}

/// The task of receiving from a socket, and dropping what comes.
#[derive(Debug, Serialize, Deserialize)]
pub struct DropTask {}

impl Task for DropTask {
    const NAME: &'static str = "worth_drop";

    /// Checks the first bytes, or as many of them as there are: an early end is not its failure. The others are
    /// dropped with MSG_TRUNC, with which TCP removes them from the socket without copying them (tcp(7)).
    fn play(self) -> Result<()> {
        let socket = File::from(stdin().as_fd().try_clone_to_owned()?);
        // Made before, so that the sender does not wait for it.
        let expected = seen();
        let mut beginning = Vec::with_capacity(CHECKED as usize);
        match { &socket }.take(CHECKED).read_to_end(&mut beginning) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => {
                return Err(error).context("receive the first bytes");
            }
            _ => check(&expected, &beginning, 0)?,
        }
        beginning.resize(CHUNK, 0);
        loop {
            match recv(&socket, &mut beginning[..], RecvFlags::TRUNC) {
                Ok((_, 0)) | Err(Errno::CONNRESET) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).context("receive"),
            }
        }
    }
}
