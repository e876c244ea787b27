//! Implements the side that sends: the same object repeatedly, in one of four ways.
//!
//! The object never changes, so it does not matter how long the kernel refers to it: sending it by
//! reference is right whatever the other side does with it. The `unsafe` code is vmsplice(2).

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Write, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fullbore::Wait;
use fullbore_linux::{Calls, Pages, Ready, unacknowledged};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::pipe::SpliceFlags;
use serde::{Deserialize, Serialize};

use super::flag::MSG_NTCOPY;
use super::hot::HotSet;
use crate::catalogue::transports::stream::Moved;
use crate::cpu_time::CpuTime;
use crate::endpoint::prepare::{self, failed};
use crate::task::{self, Timing};
use fullbore_bytes::pattern;
use fullbore_results::run::Sizes;

/// The size of the pipe through which the object's pages are moved into the socket: what an ordinary
/// user may have (fs/pipe.c, pipe_max_size). The pipe is emptied before it is filled again, so a
/// larger one means fewer calls.
const OWN_PIPE: usize = 1 << 20;

/// How an object is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    Normal,
    NtCopy,
    ZeroCopy,
    SendFile,
}

impl Mode {
    #[cfg(test)]
    pub const ALL: [Mode; 4] = [Mode::Normal, Mode::NtCopy, Mode::ZeroCopy, Mode::SendFile];

    /// Returns the C program's name for the mode; it does not support the flag.
    pub fn of_peer(self) -> Option<&'static str> {
        match self {
            Mode::Normal => Some("normal"),
            Mode::NtCopy => None,
            Mode::ZeroCopy => Some("zero_copy"),
            Mode::SendFile => Some("sendfile"),
        }
    }
}

/// What the sender measured: the bytes that were sent and their time, and how many times as long a walk over the hot
/// working set takes after a send.
pub type Sent = (Moved, f64);

/// Sends for a time or a number of objects, and measures; then sends and walks in turn.
///
/// # Errors
/// Fails if this machine does not support the mode, or the receiver has closed the socket.
pub fn measure(mode: Mode, sizes: &Sizes, timing: Timing) -> Result<()> {
    let socket = stdout();
    let socket = socket.as_fd();
    let mut object = Object::new(mode, sizes.object)?;
    let mut send = || match object.send(socket)? {
        true => Ok(()),
        false => bail!("the receiver has closed the socket"),
    };
    // The receiver checks every byte of the first object.
    send()?;
    let sent = send_and_walk(&mut send, || wait_until_received(socket), sizes, timing)?;
    task::say(&sent)
}

/// Warms up, and sends for a time or a number of objects; then sends and walks in turn. Calls `settle` before the
/// clock starts and before it is read. Returns what was moved, and how many times as long a walk takes after a send.
///
/// # Errors
/// Fails if a send fails.
pub fn send_and_walk(
    mut send: impl FnMut() -> Result<()>,
    settle: impl Fn(),
    sizes: &Sizes,
    timing: Timing,
) -> Result<Sent> {
    let time = Duration::from_secs_f64(timing.seconds);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs_f64(timing.warm_up_seconds) {
        send()?;
    }
    settle();
    let (began, before) = (Instant::now(), CpuTime::of_this_process());
    let mut sent = 0;
    while match sizes.count {
        Some(count) => sent < count,
        None => sent == 0 || began.elapsed() < time,
    } {
        send()?;
        sent += 1;
    }
    settle();
    let moved = Moved::since(began, before, sent * sizes.object as u64);
    let hot = HotSet::new(sizes.hot);
    let undisturbed = hot.walk_undisturbed(time)?;
    Ok((moved, hot.walk_after(time, send)? / undisturbed))
}

/// Sends until the receiver has closed the socket.
///
/// # Errors
/// Fails if this machine does not support the mode.
pub fn serve(mode: Mode, sizes: &Sizes) -> Result<()> {
    let socket = stdout();
    let mut object = Object::new(mode, sizes.object)?;
    let (began, before) = (Instant::now(), CpuTime::of_this_process());
    let mut bytes = 0;
    while object.send(socket.as_fd())? {
        bytes += sizes.object as u64;
    }
    task::say(&Moved::since(began, before, bytes))
}

/// Waits until the other side has read everything from the socket, so that a measurement begins and
/// ends with an empty one.
fn wait_until_received(socket: BorrowedFd<'_>) {
    // If the socket does not report its queue, everything is assumed to be received.
    while unacknowledged(socket).is_ok_and(|queued| queued > 0) {
        thread::yield_now();
    }
}

/// The object, and what its mode requires.
struct Object {
    len: usize,
    way: Box<Way>,
}

/// Sends at most the bytes from one position of the object to another; an error is that of a call.
type Way = dyn FnMut(usize, usize, BorrowedFd<'_>) -> Result<usize, (&'static str, Errno)>;

impl Object {
    fn new(mode: Mode, len: usize) -> Result<Self> {
        let way: Box<Way> = match mode {
            Mode::Normal | Mode::NtCopy => {
                let bytes = pages(len)?;
                let flags = match mode {
                    Mode::NtCopy => MSG_NTCOPY,
                    _ => SendFlags::empty(),
                };
                Box::new(move |from, to, socket| {
                    send(socket, &bytes[from..to], flags).map_err(|errno| ("send(2)", errno))
                })
            }
            Mode::ZeroCopy => {
                let (own, growth) = fullbore_linux::pipe::with_capacity(OWN_PIPE)?;
                let (bytes, mut calls) = (pages(len)?, Calls::new(Wait::Block));
                Box::new(move |from, to, socket| {
                    let piece = &bytes[from..to.min(from + growth.after)];
                    let (writer, reader) = (own.writer.as_fd(), own.reader.as_fd());
                    // SAFETY: the pages are a mapping of our own that nothing writes to, here or elsewhere,
                    // from now on; unmapped, they live on for whatever refers to them. The pipe is our own.
                    let n = unsafe { calls.vmsplice(writer, piece, SpliceFlags::empty()) };
                    let n = n.map_err(|errno| ("vmsplice(2)", errno))?;
                    prepare::splice_all(&mut calls, reader, socket, n, Ready::ToWrite)
                        .map_err(|errno| ("splice(2)", errno))?;
                    Ok(n)
                })
            }
            Mode::SendFile => {
                let file = file(len)?;
                Box::new(move |from, to, socket| {
                    let sent = sendfile(socket, &file, Some(&mut (from as u64)), to - from);
                    sent.map_err(|errno| ("sendfile(2)", errno))
                })
            }
        };
        Ok(Self { len, way })
    }

    /// Sends the whole object; returns false if the receiver has closed the socket.
    fn send(&mut self, socket: BorrowedFd<'_>) -> Result<bool> {
        let mut sent = 0;
        while sent < self.len {
            match (self.way)(sent, self.len, socket) {
                Ok(n) => sent += n,
                Err((_, Errno::INTR)) => {}
                Err((_, Errno::PIPE | Errno::CONNRESET)) => return Ok(false),
                Err((call, errno)) => return Err(failed(call, errno)),
            }
        }
        Ok(true)
    }
}

/// Allocates memory that holds the object, on huge pages if the kernel provides them.
pub fn pages(len: usize) -> Result<Pages> {
    let mut pages = prepare::huge_pages(len)?;
    pattern::fill(&mut pages, 0);
    Ok(pages)
}

/// Creates a file in memory that holds the object.
fn file(len: usize) -> Result<File> {
    let file = memfd_create("fullbore-object", MemfdFlags::CLOEXEC);
    let mut file = File::from(file.map_err(|errno| failed("memfd_create(2)", errno))?);
    let written = file.write_all(&pages(len)?);
    written.context("write a file in memory").map(|()| file)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn every_mode_sends_every_byte_of_objects_of_any_length() {
        for mode in Mode::ALL {
            for len in [1, 4095, 65537, (1 << 20) + 1, 3 << 20] {
                let (near, mut far) = UnixStream::pair().unwrap();
                let sending = thread::spawn(move || {
                    let mut object = Object::new(mode, len).unwrap();
                    (0..3).all(|_| object.send(near.as_fd()).unwrap())
                });
                let mut received = Vec::new();
                far.read_to_end(&mut received).unwrap();
                assert!(sending.join().unwrap());
                assert_eq!(received.len(), 3 * len, "{mode:?}");
                assert_eq!(
                    pattern::first_wrong_of_period(&received, 0, Some(len)),
                    None,
                    "{mode:?} {len}"
                );
            }
        }
    }

    #[test]
    fn who_has_nobody_to_send_to_is_told() {
        for mode in Mode::ALL {
            let (near, far) = UnixStream::pair().unwrap();
            drop(far);
            let mut object = Object::new(mode, 1 << 20).unwrap();
            assert!(!object.send(near.as_fd()).unwrap(), "{mode:?}");
        }
    }
}
