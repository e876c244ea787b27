//! How the two ends of a pipe connect, without a byte in the stream and without a file.
//!
//! The producer listens on an abstract Unix socket whose name contains the pipe's inode and the user (unix(7)), and
//! disappears with the process. Any process may bind a name first, so a name proves nothing. The kernel identifies the
//! peer:
//!
//! - `SO_PEERCRED` has the user and the process at the other end of the socket;
//! - `/proc/PID/fd` has the descriptors of that process, and whether it reads or writes with them.
//!
//! The two ends connect only if the peer has the same user and holds the other end of the same pipe, and if no third
//! process that this user can inspect holds either end. No descriptor of the pipe is sent through the socket: in
//! flight, it would keep the pipe open.
//!
//! Only pipes from pipe(2) qualify: any process can open a FIFO at any time.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use fullbore_linux as linux;
use fullbore_linux::wait::{Ready, uninterrupted};

/// The version of everything that the two sides must agree on; a part of the name.
const VERSION: u32 = 4;

/// The number of connections that a producer examines. That takes time, and an honest consumer needs one, or a few if a
/// third process holds an end of the pipe for a moment, as between fork(2) and execve(2).
const MOST_TRIES: u32 = 16;

/// The interval between the first connection that a producer examines and the next; it doubles each time. So the
/// producer notices when the third process has exited, and rarely examines one that stays.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The permissions of `/proc/PID/fd/N` for a descriptor of the read end of a pipe, and of the write end
/// (`tid_fd_update_inode`, fs/proc/fd.c).
const READ_END: u32 = 0o400;
const WRITE_END: u32 = 0o200;

/// The socket that a consumer with support for rings connects to.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    tries: u32,
    /// When the next connection may be examined, after the first.
    next: Option<Instant>,
}

impl Listener {
    /// Listens for the consumer of `pipe`; `None` if that is impossible for any reason.
    pub(crate) fn new(pipe: BorrowedFd<'_>) -> Option<Self> {
        let name = name_for(pipe, rustix::process::geteuid().as_raw())?;
        let socket = socket()?;
        rustix::net::bind(&socket, &name).ok()?;
        rustix::net::listen(&socket, 4).ok()?;
        Some(Self {
            socket,
            tries: 0,
            next: None,
        })
    }

    /// Returns whether no more connections will be examined.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.tries >= MOST_TRIES
    }

    /// Returns whether a process has connected. accept(2) creates a socket and its file before it checks, which takes
    /// ten times as long as poll(2).
    fn is_asked(&self) -> bool {
        linux::is_ready(self.socket.as_fd(), Ready::ToRead).unwrap_or(true)
    }

    /// Allows the next connection to be examined at once.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        self.next = None;
    }

    /// Returns a connection to the consumer of `pipe`, if it has connected and no third process holds the pipe. Does
    /// not wait.
    pub(crate) fn accept(&mut self, pipe: BorrowedFd<'_>) -> Option<OwnedFd> {
        while !self.is_exhausted() && self.next.is_none_or(|next| Instant::now() >= next) {
            let text = link_text(pipe)?;
            let (link, peer) = self.next_reader(&text)?;
            self.next = Some(Instant::now() + FIRST_PAUSE * (1 << self.tries));
            self.tries += 1;
            if !any_other_holds(peer, &text) {
                return Some(link);
            }
        }
        None
    }

    /// Returns the next connection of a process of this user that reads from the pipe, with that process. Closes all
    /// other connections. Does not wait.
    fn next_reader(&self, text: &str) -> Option<(OwnedFd, u32)> {
        /// Bounds the time that processes which keep connecting can cost the producer.
        const MOST: usize = 8;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..MOST {
            if !self.is_asked() {
                return None;
            }
            let link = uninterrupted(|| rustix::net::accept_with(&self.socket, flags)).ok()?;
            let peer = process_of_same_user(&link);
            if let Some(peer) = peer.filter(|&peer| holds(peer, text, READ_END)) {
                return Some((linux::not_standard(link).ok()?, peer));
            }
        }
        None
    }

    /// Returns whether another process of this user that reads from the pipe has connected.
    pub(crate) fn has_second_reader(&self, pipe: BorrowedFd<'_>) -> bool {
        self.is_asked() && link_text(pipe).is_some_and(|text| self.next_reader(&text).is_some())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Connects to the producer of `pipe`, if it listens. Does not wait.
pub(crate) fn connect(pipe: BorrowedFd<'_>) -> Option<OwnedFd> {
    let link = connect_by(pipe, rustix::process::geteuid().as_raw())?;
    let peer = process_of_same_user(&link)?;
    holds(peer, &link_text(pipe)?, WRITE_END).then_some(link)
}

/// Connects to the process that listens for the consumer of `pipe` under this user's name.
pub(crate) fn connect_by(pipe: BorrowedFd<'_>, user: u32) -> Option<OwnedFd> {
    let name = name_for(pipe, user)?;
    let link = socket()?;
    rustix::net::connect(&link, &name).ok()?;
    Some(link)
}

/// The offer of a producer: the size of the ring in bytes, and its two files.
pub(crate) type Offer = (usize, [OwnedFd; 2]);

/// The first bytes of an offer.
const MAGIC: [u8; 8] = *b"fullbore";

/// Sends an offer. Does not wait.
pub(crate) fn offer(link: BorrowedFd<'_>, size: usize, files: &[OwnedFd; 2]) -> Result<(), Errno> {
    let mut message = [0; 16];
    message[..8].copy_from_slice(&MAGIC);
    message[8..].copy_from_slice(&(size as u64).to_ne_bytes());
    let files = [files[0].as_fd(), files[1].as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let slices = [IoSlice::new(&message)];
    match uninterrupted(|| rustix::net::sendmsg(link, &slices, &mut control, flags))? {
        n if n == message.len() => Ok(()),
        _ => Err(Errno::PROTO),
    }
}

/// Receives an offer. Does not wait.
///
/// # Errors
/// `EAGAIN` if there is none yet; `EPROTO` for anything but an offer, or if the producer has exited.
pub(crate) fn receive(link: BorrowedFd<'_>) -> Result<Offer, Errno> {
    let mut message = [0; 16];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = uninterrupted(|| {
        let mut slices = [IoSliceMut::new(&mut message)];
        rustix::net::recvmsg(link, &mut slices, &mut control, flags)
    })
    .map_err(|errno| match errno {
        Errno::AGAIN => Errno::AGAIN,
        _ => Errno::PROTO,
    })?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                files.push(linux::not_standard(fd).map_err(|_| Errno::PROTO)?);
            }
        }
    }
    let size = u64::from_ne_bytes(message[8..].try_into().map_err(|_| Errno::PROTO)?);
    match (<[OwnedFd; 2]>::try_from(files), usize::try_from(size)) {
        (Ok(files), Ok(size)) if received.bytes == 16 && message[..8] == MAGIC => Ok((size, files)),
        _ => Err(Errno::PROTO),
    }
}

/// Wakes the other side, if it sleeps until there is something to receive. Returns whether it has exited.
pub(crate) fn wake(link: BorrowedFd<'_>) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    // If the socket is full, the other side has something to receive.
    let sent = uninterrupted(|| rustix::net::send(link, &[1], flags));
    !matches!(sent, Ok(_) | Err(Errno::AGAIN))
}

/// Returns whether the other side has closed the socket, even if it can still be received from. The kernel may close
/// the socket shortly after the process has ended, if another process is reading its descriptors in /proc, so this
/// waits for a moment.
pub(crate) fn is_gone(link: BorrowedFd<'_>) -> bool {
    const MOMENT: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 2_000_000,
    };
    let mut fds = [PollFd::from_borrowed_fd(link, PollFlags::empty())];
    uninterrupted(|| poll(&mut fds, Some(&MOMENT))).map_or(true, |gone| gone > 0)
}

/// Receives the bytes that the other side has sent to wake this one. Returns whether it has exited.
pub(crate) fn has_exited(link: BorrowedFd<'_>) -> bool {
    let mut bytes = [0; 64];
    let received = uninterrupted(|| rustix::net::recv(link, &mut bytes, RecvFlags::DONTWAIT));
    !matches!(received, Ok((1.., _)) | Err(Errno::AGAIN))
}

fn socket() -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    linux::not_standard(socket.ok()?).ok()
}

fn name_for(pipe: BorrowedFd<'_>, user: u32) -> Option<SocketAddrUnix> {
    let text = link_text(pipe)?;
    let name = format!("fullbore/ring/{VERSION}/{user}/{text}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()
}

/// Returns the target of `/proc/self/fd/N` for a pipe from pipe(2), `pipe:[INODE]`, which no other file has; `None` for
/// anything else, or without /proc.
fn link_text(pipe: BorrowedFd<'_>) -> Option<String> {
    let link = fs::read_link(format!("/proc/self/fd/{}", pipe.as_raw_fd())).ok()?;
    let text = link.to_str()?;
    text.starts_with("pipe:[").then(|| text.to_owned())
}

/// Returns the process at the other end of a socket, if it has the same user.
fn process_of_same_user(link: &OwnedFd) -> Option<u32> {
    let peer = fullbore_process::peer_of(link).ok()?;
    // The PID is 0 if the process is outside this PID namespace.
    let is_visible = peer.process != 0;
    let is_same_user = peer.user == rustix::process::geteuid().as_raw();
    (is_visible && is_same_user).then_some(peer.process)
}

/// Returns whether `process` holds this end of the pipe.
fn holds(process: u32, text: &str, end: u32) -> bool {
    any_descriptor(process, |descriptor| {
        is_of_pipe(descriptor, text)
            && fs::symlink_metadata(descriptor).is_ok_and(|m| m.mode() & end != 0)
    })
}

/// Returns whether any process but this one and `peer` holds an end of the pipe, among those that this process may
/// inspect; `true` if /proc cannot be read.
fn any_other_holds(peer: u32, text: &str) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return true;
    };
    processes.flatten().any(|process| {
        let name = process.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        number.is_some_and(|number| {
            number != peer
                && number != std::process::id()
                && any_descriptor(number, |descriptor| {
                    is_of_pipe(descriptor, text) && is_an_end(descriptor)
                })
        })
    })
}

fn any_descriptor(process: u32, is_it: impl Fn(&Path) -> bool) -> bool {
    let descriptors = fs::read_dir(fullbore_process::proc_directory(process).join("fd"));
    let descriptors = descriptors.into_iter().flatten().flatten();
    descriptors
        .map(|entry| entry.path())
        .any(|path| is_it(&path))
}

/// Returns whether the descriptor reads or writes. One with `O_PATH`, which processes that only observe the pipe have,
/// does neither.
fn is_an_end(descriptor: &Path) -> bool {
    let ends = READ_END | WRITE_END;
    fs::symlink_metadata(descriptor).map_or(true, |link| link.mode() & ends != 0)
}

/// Reads the target of the link, which never waits.
fn is_of_pipe(descriptor: &Path, text: &str) -> bool {
    fs::read_link(descriptor).is_ok_and(|link| link.as_os_str() == text)
}
