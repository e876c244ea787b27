//! Whether vmsplice(2) shares pages on the running kernel, or copies them.

use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};

use crate::error::{self, Result};
use crate::pipe::Pipe;
use crate::wait::uninterrupted;

/// Returns whether a pipe refers to the pages that vmsplice(2) gives it. If `false`, the kernel copies, as in write(2).
/// Such a change was proposed in 2026; up to Linux 7.2 every kernel shares the pages.
///
/// It is determined once per process: a byte is given to a private pipe and changed, and the pipe is read.
///
/// # Errors
/// As vmsplice(2), which a sandbox may refuse; `EMFILE`, `ENFILE`. Errors are not cached.
pub fn vmsplice_shares() -> Result<bool> {
    static SHARES: OnceLock<bool> = OnceLock::new();
    // No lock is held during the trial: if this process forked meanwhile, the lock would never be released in the
    // child.
    if let Some(&shares) = SHARES.get() {
        return Ok(shares);
    }
    // A fork(2) by another thread during the trial makes the page copy-on-write, so the pipe does not see the change.
    // Three attempts make that unlikely.
    let mut shares = false;
    for _ in 0..3 {
        shares = shares || the_pipe_changes_too()?;
    }
    Ok(*SHARES.get_or_init(|| shares))
}

/// Gives a byte to a pipe, changes it, and returns whether the byte in the pipe has changed too.
fn the_pipe_changes_too() -> Result<bool> {
    let Pipe { reader, writer } = Pipe::new()?;
    let byte = AtomicU8::new(1);
    let given = uninterrupted(|| {
        // SAFETY: the byte outlives the pipe's reference to its page, because only this function has the pipe, and it
        // reads the byte before it returns. The kernel reads valid, initialized memory. The fd is the write end of a
        // pipe.
        unsafe {
            let slice = IoSliceRaw::from_slice(std::slice::from_raw_parts(byte.as_ptr(), 1));
            vmsplice(writer.as_fd(), &[slice], SpliceFlags::NONBLOCK)
        }
    })
    .map_err(error::system("vmsplice"))?;
    if given == 0 {
        return Err(error::system("vmsplice")(Errno::IO));
    }
    byte.store(2, Ordering::SeqCst);
    let mut found = [0];
    uninterrupted(|| rustix::io::read(&reader, &mut found)).map_err(error::system("read"))?;
    Ok(found[0] == 2)
}

/// Returns whether giving pages to a pipe can save a copy. If that cannot be determined, it returns `true`, and the
/// first vmsplice(2) shows whether it is refused.
pub fn shares_pages() -> bool {
    vmsplice_shares().unwrap_or(true)
}
