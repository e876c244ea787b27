//! What this process was given by the one that started it, and what can no longer be seen once main()
//! runs: which of stdin, stdout and stderr were closed, and whether SIGPIPE was ignored.
//!
//! Before main(), Rust's runtime opens /dev/null in the place of each closed one, and ignores SIGPIPE
//! (`init` in std/src/sys/pal/unix/mod.rs). So a function looks before that: the dynamic linker calls
//! what stands in the section `.init_array` (ELF gABI, 'Initialization and Termination Functions'),
//! and std itself gets its arguments this way. That takes the attribute below, which is all that the
//! crate ctor would bring too. The function makes four system calls and allocates nothing.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::libc;
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::stdio::{stderr, stdin, stdout};

/// A bit for each closed one of the first three, and [`SIGPIPE_IGNORED`].
static SEEN: AtomicU8 = AtomicU8::new(0);

const SIGPIPE_IGNORED: u8 = 1 << 3;

// SAFETY: the section holds pointers to functions of this signature, which ld.so calls one after the
// other before main(); glibc gives them three arguments, which the C calling convention lets them ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

extern "C" fn look() {
    let mut seen = 0;
    for (number, fd) in standard().into_iter().enumerate() {
        if fcntl_getfd(fd) == Err(Errno::BADF) {
            seen |= 1 << number;
        }
    }
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action it only fills in the old one (sigaction(2)), and zeroes are one too.
    let action = unsafe {
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    if action.sa_sigaction == libc::SIG_IGN {
        seen |= SIGPIPE_IGNORED;
    }
    SEEN.store(seen, Ordering::Relaxed);
}

fn standard() -> [BorrowedFd<'static>; 3] {
    [stdin(), stdout(), stderr()]
}

/// Whether stdin was closed.
pub fn stdin_is_closed() -> bool {
    SEEN.load(Ordering::Relaxed) & 1 != 0
}

/// Whether stdout was closed.
pub fn stdout_is_closed() -> bool {
    SEEN.load(Ordering::Relaxed) & (1 << 1) != 0
}

/// Whether SIGPIPE was ignored: so it stays then, in a shell's children too (signal(7)).
pub fn sigpipe_is_ignored() -> bool {
    SEEN.load(Ordering::Relaxed) & SIGPIPE_IGNORED != 0
}

/// Has what was closed be closed again in the programs that this process starts.
pub fn close_for_children() {
    for (number, fd) in standard().into_iter().enumerate() {
        if SEEN.load(Ordering::Relaxed) & (1 << number) != 0 {
            // It is open, on /dev/null, and a flag can always be set.
            let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
        }
    }
}
