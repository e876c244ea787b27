//! Prepares both endpoints: pins them to a CPU and allocates their memory.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, bail};
use fullbore::{Error, Pipe, PipeEnd};
use fullbore_linux::{Calls, Pages, Ready, is_refusal, page_size};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::options::Options;
use crate::backed_by::{BackedBy, backed_by};
use crate::parent::ParentOptions;
use fullbore_host::distance::pinned_to;
use fullbore_host::refusal::{Unsupported, Usage};
use fullbore_host::size;

/// The byte of constant data: printable, as in the article.
pub const CONSTANT: u8 = b'X';

/// Pins this process to a CPU, and ties it to the process that started it.
pub fn process(cpu: Option<usize>, parent: &ParentOptions) -> anyhow::Result<()> {
    parent.obey()?;
    if let Some(cpu) = cpu {
        let refused = || format!("CPU {cpu} does not exist, or this process may not use it");
        pinned_to(cpu, || ()).ok_or_else(|| Usage(refused()))?;
    }
    Ok(())
}

/// Allocates `len` bytes as the options say: backing, touched, locked, checked.
pub fn buffer(options: &Options, len: usize) -> anyhow::Result<Pages> {
    let mut pages = pages(options.huge_page, len)?;
    if !options.dont_touch_pages {
        pages.fill(CONSTANT);
    }
    if options.lock_memory {
        let refused = |error| Unsupported(format!("{error}: 'ulimit -l' shows the limit"));
        pages.lock().map_err(refused)?;
    }
    if options.check_huge_page {
        check_huge(&pages)?;
    }
    Ok(pages)
}

/// Maps `len` bytes on huge pages, or on base pages.
pub fn pages(huge: bool, len: usize) -> anyhow::Result<Pages> {
    unsupported_as_such(match huge {
        true => Pages::huge(len),
        false => Pages::new(len),
    })
}

/// Allocates `len` bytes, and touches them, on huge pages if the kernel provides them and they are not much larger
/// than buffers: with base pages of 64 KiB, one would take 512 MiB.
pub fn huge_pages(len: usize) -> anyhow::Result<Pages> {
    let is_too_large = fullbore_linux::huge_page_size() > Some(fullbore_linux::MOST_HUGE);
    let huge = (!is_too_large).then(|| Pages::huge(len));
    let mut pages = match huge {
        None | Some(Err(Error::Unsupported(_))) => Pages::new(len)?,
        Some(pages) => pages?,
    };
    pages.fill(1);
    Ok(pages)
}

/// Gives a pipe this capacity, and returns the one that it got.
///
/// # Errors
/// Says which limit forbids it.
pub fn resize(pipe: &PipeEnd<'_>, wanted: usize) -> Result<usize, Unsupported> {
    pipe.resize(wanted).map_err(|error| {
        let wanted_size = size::format(wanted as u64);
        let why = match pipe.grow(wanted).map(|growth| growth.limit) {
            Ok(Some(limit)) => limit.to_string(),
            _ => error.to_string(),
        };
        Unsupported(format!(
            "cannot give the pipe a capacity of {wanted_size}: {why}"
        ))
    })
}

/// Makes a pipe with this capacity, or with the default one.
///
/// # Errors
/// Fails if the process has too many fds; says which limit forbids the capacity.
pub fn pipe(capacity: Option<usize>) -> anyhow::Result<Pipe> {
    sized(Pipe::new()?, capacity)
}

/// Gives a pipe this capacity, if there is one to give.
///
/// # Errors
/// Says which limit forbids it.
pub fn sized(pipe: Pipe, capacity: Option<usize>) -> anyhow::Result<Pipe> {
    if let Some(capacity) = capacity {
        resize(&PipeEnd::new(pipe.writer.as_fd())?, capacity)?;
    }
    Ok(pipe)
}

/// Fails if the options ask for a check of huge pages and this machine provides none.
pub fn check_that_there_are_huge_pages(options: &Options) -> anyhow::Result<()> {
    if options.check_huge_page {
        buffer(options, page_size())?;
    }
    Ok(())
}

/// Fails unless all of this memory is on huge pages.
pub fn check_huge(pages: &Pages) -> anyhow::Result<()> {
    match backed_by(pages.as_ptr_range()) {
        backing if backing.is_huge() => Ok(()),
        BackedBy::Unknown(reason) => bail!(Unsupported(format!(
            "cannot determine whether pages are huge: {reason}"
        ))),
        backing => bail!(Unsupported(format!(
            "the kernel did not give huge pages (the buffer is on {backing}): see \
             /sys/kernel/mm/transparent_hugepage/enabled"
        ))),
    }
}

/// Turns the library's error for a missing feature into the one that ends with exit code 3.
pub fn unsupported_as_such<T>(result: Result<T, Error>) -> anyhow::Result<T> {
    result.map_err(|error| match error {
        Error::Unsupported(reason) => Unsupported(reason).into(),
        other => other.into(),
    })
}

/// Returns the error for a failed call: this machine does not support it, or it broke.
pub fn failed(call: &str, errno: Errno) -> anyhow::Error {
    match is_refusal(errno) {
        true => Unsupported(format!("this machine refuses {call}: {errno}")).into(),
        false => anyhow::Error::new(errno).context(call.to_owned()),
    }
}

/// Opens /dev/null for writing.
///
/// # Errors
/// Fails if it cannot be opened.
pub fn dev_null() -> anyhow::Result<File> {
    let null = File::options().write(true).open("/dev/null");
    null.context("open /dev/null")
}

/// Splices exactly so many bytes, which are in the pipe `source` already or which `source` is about to get.
///
/// # Errors
/// Fails as splice(2) does.
#[inline]
pub fn splice_all(
    calls: &mut Calls,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    len: usize,
    ready: Ready,
) -> Result<(), Errno> {
    let mut left = len;
    while left > 0 {
        left -= calls.splice(source, sink, left, SpliceFlags::empty(), ready)?;
    }
    Ok(())
}
