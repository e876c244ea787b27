//! Prepares both endpoints: pins them to a CPU and allocates their memory.

use std::fs::File;

use anyhow::{Context, bail};
use fullbore::Error;
use fullbore_linux::{BackedBy, Backing, Pages, is_refusal, page_size};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::options::Options;
use crate::parent::ParentOptions;
use fullbore_host::refusal::{Unsupported, Usage};

/// The byte of constant data: printable, as in the article.
pub const CONSTANT: u8 = b'X';

/// Pins this process to a CPU, and ties it to the process that started it.
pub fn process(cpu: Option<usize>, parent: &ParentOptions) -> anyhow::Result<()> {
    parent.obey()?;
    if let Some(cpu) = cpu {
        if cpu >= CpuSet::MAX_CPU {
            bail!(Usage(format!("there is no CPU {cpu}")));
        }
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(|_| {
            Usage(format!(
                "CPU {cpu} does not exist, or this process may not use it"
            ))
        })?;
    }
    Ok(())
}

/// Allocates `len` bytes as the options say: backing, touched, locked, checked.
pub fn buffer(options: &Options, len: usize) -> anyhow::Result<Pages> {
    let backing = if options.huge_page {
        Backing::Huge
    } else {
        Backing::Base
    };
    let mut pages = unsupported_as_such(Pages::options().backing(backing).map(len))?;
    if !options.dont_touch_pages {
        pages.fill(CONSTANT);
    }
    if options.lock_memory {
        pages
            .lock()
            .map_err(|e| Unsupported(format!("{e}: 'ulimit -l' shows the limit")))?;
    }
    if options.check_huge_page {
        check_huge(&pages)?;
    }
    Ok(pages)
}

/// Allocates `len` bytes, and touches them, on huge pages if the kernel provides them and they are not much larger
/// than buffers: with base pages of 64 KiB, one would take 512 MiB.
pub fn huge_pages(len: usize) -> anyhow::Result<Pages> {
    let is_too_large = fullbore_linux::huge_page_size() > Some(fullbore_linux::MOST_HUGE);
    let huge = (!is_too_large).then(|| Pages::options().backing(Backing::Huge).map(len));
    let mut pages = match huge {
        None | Some(Err(Error::Unsupported(_))) => Pages::new(len)?,
        Some(pages) => pages?,
    };
    pages.fill(1);
    Ok(pages)
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
    match pages.backed_by() {
        backing if backing.is_huge() => Ok(()),
        BackedBy::Unknown { reason } => bail!(Unsupported(format!(
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
