//! What this process inherited: the descriptors, and what can no longer be found out when main() runs: which of
//! stdin, stdout and stderr were closed, and which signals were ignored.
//!
//! Before main(), Rust's runtime opens /dev/null in the place of each closed one of the three, as is done here, and
//! ignores SIGPIPE (`init` in std/src/sys/pal/unix/mod.rs). So a function checks before that: the dynamic
//! linker calls the functions of the section `.init_array` (ELF gABI, 'Initialization and Termination
//! Functions'); std gets its arguments in the same way. It takes the attribute below, which is all that the
//! crate ctor would add. The function makes ten system calls and allocates nothing.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Stdout};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::error_text::shown;
use anyhow::Context;
use fullbore_host::named::descriptor_of;
use fullbore_host::refusal::Usage;
use fullbore_host::text::error_text;
use nix::libc;
use rustix::fs::{Mode, OFlags, fcntl_getfl, open as open_at};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::stdio;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP};

/// A bit for each of the first three fds that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// A bit for each signal of [`CHECKED`] that was ignored.
static IGNORED: AtomicU32 = AtomicU32::new(0);

/// The signals that are checked.
const CHECKED: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGTSTP, SIGCHLD];

// SAFETY: the section holds pointers to functions of this signature, which ld.so calls one after another
// before main(). glibc passes three arguments, which the C calling convention allows a function to ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note_inherited;

extern "C" fn note_inherited() {
    let mut closed = 0;
    for (number, fd) in standard().into_iter().enumerate() {
        if fcntl_getfd(fd) == Err(Errno::BADF) {
            closed |= 1 << number;
            // Where there is no /dev/null, as in a bare chroot(2), the runtime would abort.
            let null = open_at("/dev/null", OFlags::RDWR, Mode::empty());
            let any = null.or_else(|_| open_at("/", OFlags::RDONLY, Mode::empty()));
            let _ = any.map(OwnedFd::into_raw_fd);
        }
    }
    let mut ignored = 0;
    for signal in CHECKED {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: without a new action, sigaction(2) only fills in the old one; all zeroes are a valid value
        // of the type.
        let action = unsafe {
            libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        if action.sa_sigaction == libc::SIG_IGN {
            ignored |= 1 << signal;
        }
    }
    CLOSED.store(closed, Ordering::Relaxed);
    IGNORED.store(ignored, Ordering::Relaxed);
}

fn standard() -> [BorrowedFd<'static>; 3] {
    [stdio::stdin(), stdio::stdout(), stdio::stderr()]
}

fn was_closed(number: usize) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << number) != 0
}

/// Returns a duplicate of the descriptor that `path` names, such as `/dev/stderr` or `/dev/fd/3`, or `None` if it
/// names a file. `mode` is what it has to be open for: `RDONLY` or `WRONLY`.
///
/// # Errors
/// `EBADF` if this process has not inherited such a descriptor; text if it is not open for this.
pub fn descriptor(path: &Path, mode: OFlags) -> Option<io::Result<File>> {
    descriptor_of(path).map(|number| duplicate(number, mode))
}

/// Returns a duplicate of a descriptor that is open for reading.
///
/// # Errors
/// [`Usage`] if this process has not inherited such a descriptor.
pub fn reader(number: u16) -> Result<File, Usage> {
    checked(number, OFlags::RDONLY)
}

fn checked(number: u16, mode: OFlags) -> Result<File, Usage> {
    let file = duplicate(number.into(), mode);
    file.map_err(|error| Usage(format!("descriptor {number}: {}", error_text(&error))))
}

/// Takes a descriptor that is open for writing: nothing else may use it.
///
/// # Errors
/// As [`reader`].
pub fn take_writer(number: u16) -> Result<OwnedFd, Usage> {
    checked(number, OFlags::WRONLY)?;
    // SAFETY: it is open, and is no descriptor that this process has opened itself, for which `duplicate` fails.
    Ok(unsafe { OwnedFd::from_raw_fd(number.into()) })
}

/// Opens a file for reading as a program in C does. A name of one of the first three descriptors, such as `/dev/stdin`,
/// names no file if that descriptor was closed; Rust's runtime has opened /dev/null there.
///
/// # Errors
/// Those of open(2).
pub fn open(path: &Path) -> io::Result<File> {
    let number = descriptor_of(path).and_then(|number| usize::try_from(number).ok());
    match number {
        Some(number @ 0..3) if was_closed(number) => Err(Errno::NOENT.into()),
        _ => File::open(path),
    }
}

/// Creates a file, or returns a duplicate of the descriptor that `path` names.
///
/// # Errors
/// If the file cannot be created.
pub fn create(path: &Path) -> anyhow::Result<File> {
    let file = descriptor(path, OFlags::WRONLY).unwrap_or_else(|| File::create(path));
    file.with_context(|| format!("create '{}'", shown(path)))
}

fn duplicate(number: RawFd, mode: OFlags) -> io::Result<File> {
    // SAFETY: the number is not -1, and is only given to system calls, which fail if no descriptor has it.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let is_standard = usize::try_from(number).is_ok_and(|number| number < 3);
    // What was inherited has no FD_CLOEXEC; what this process has opened itself has it.
    let is_own = fcntl_getfd(fd)?.contains(FdFlags::CLOEXEC);
    if is_own || is_standard && was_closed(number as usize) {
        return Err(Errno::BADF.into());
    }
    let has = fcntl_getfl(fd)? & OFlags::RWMODE;
    match has == mode || has == OFlags::RDWR {
        true => Ok(fd.try_clone_to_owned()?.into()),
        false => Err(io::Error::other(match mode {
            OFlags::WRONLY => "the descriptor is not open for writing",
            _ => "the descriptor is not open for reading",
        })),
    }
}

/// Whether stdin was closed.
pub fn stdin_was_closed() -> bool {
    was_closed(0)
}

/// Returns stdout, for the output of a verb.
///
/// # Errors
/// If stdout was closed: Rust's runtime has opened /dev/null in its place, which would accept every byte.
pub fn stdout() -> io::Result<Stdout> {
    match was_closed(1) {
        true => Err(io::Error::other("standard output is closed")),
        false => Ok(io::stdout()),
    }
}

/// Whether one of the signals of [`CHECKED`] was ignored. An ignored signal stays ignored in a shell and in what
/// it starts (signal(7); nohup, `&` in a script, a service of systemd).
pub fn was_ignored(signal: i32) -> bool {
    IGNORED.load(Ordering::Relaxed) & (1 << signal) != 0
}

/// Makes it possible to wait for children where the parent of this process ignored SIGCHLD (wait(2), NOTES):
/// installing a handler ends that, though the handler does nothing.
///
/// # Errors
/// Those of sigaction(2).
pub fn let_children_be_waited_for() -> io::Result<()> {
    if was_ignored(SIGCHLD) {
        signal_hook::flag::register(SIGCHLD, Arc::default())?;
    }
    Ok(())
}

/// Makes the programs that this process starts inherit a closed stdin, stdout or stderr where this process
/// did.
pub fn close_for_children() {
    for (number, fd) in standard().into_iter().enumerate() {
        if was_closed(number) {
            // The runtime opened /dev/null here, so the flag can be set.
            let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
        }
    }
}
