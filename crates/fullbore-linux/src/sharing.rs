//! Whether vmsplice(2) shares pages on the running kernel, or copies them.

use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};

use crate::error::{self, Result};
use crate::wait::uninterrupted;

/// Returns whether a pipe that is given memory with vmsplice(2) refers to its pages. On a kernel where
/// this is `false`, the pipe gets a copy, as from write(2). Such a change of the kernel was proposed in
/// 2026; up to Linux 7.2 every kernel shares the pages.
///
/// It is found out once in a process: a byte is given to a pipe of our own and changed, and the pipe is
/// read.
///
/// # Errors
/// As vmsplice(2), which a sandbox may refuse; `EMFILE`, `ENFILE`. An error is not remembered.
pub fn vmsplice_shares() -> Result<bool> {
    static SHARES: OnceLock<bool> = OnceLock::new();
    // No lock is held during the trial: if this process forked then, the lock would never be released
    // in the child.
    if let Some(&shares) = SHARES.get() {
        return Ok(shares);
    }
    // A fork(2) by another thread during the trial makes the page copy-on-write, so that the change is
    // not seen in the pipe. It will not happen three times.
    let mut shares = false;
    for _ in 0..3 {
        shares = shares || the_pipe_changes_too()?;
    }
    Ok(*SHARES.get_or_init(|| shares))
}

/// Gives a byte to a pipe, changes it, and returns whether the byte in the pipe changes too.
fn the_pipe_changes_too() -> Result<bool> {
    let (reader, writer) = crate::own::new_pipe()?;
    let byte = AtomicU8::new(1);
    let given = uninterrupted(|| {
        // SAFETY: the byte outlives the pipe's reference to its page, because only this function has
        // the pipe, and it does not return before it has read the byte. The kernel reads memory that is
        // valid and initialized. The fd is the write end of a pipe.
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

/// Returns whether giving pages to a pipe can save a copy. If that cannot be found out, the first call
/// shows whether the kernel refuses it.
pub fn shares_pages() -> bool {
    vmsplice_shares().unwrap_or(true)
}
