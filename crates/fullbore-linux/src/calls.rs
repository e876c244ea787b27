//! The calls that move bytes, with a [`Wait`] around each: read, write, splice, tee, vmsplice.
//!
//! Each call decides for itself whether it waits (`RWF_NOWAIT`, `SPLICE_F_NONBLOCK`). `O_NONBLOCK`
//! is never set, because that flag belongs to the file description and so to every process that
//! shares it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{IoSliceRaw, SpliceFlags};

use crate::errno::{self, is_pipe_or_socket, is_refusal};
use crate::own::not_standard;
use crate::pipe::PipeEnd;
use crate::relay::Relay;
use crate::sigpipe::without_sigpipe;
use crate::sizes::page_size;
use crate::wait::{Ready, Wait, Waiter, is_ready, uninterrupted};

/// Bytes that a pipe has room for if poll(2) says that it is ready (pipe(7), linux/limits.h).
const PIPE_BUF: usize = 4096;

/// Moves bytes over one fd, waits as its [`Wait`] says, and caches what the kernel supports on that fd.
///
/// Every method retries after `EINTR`, waits as its [`Wait`] says instead of returning `EAGAIN`, and may move fewer
/// bytes than requested, as the calls themselves do. `EAGAIN` is returned only if it must not wait
/// ([`Waiter::never`]), or if the timeout of a blocking socket has passed (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
///
/// The cache belongs to one fd, identified by its number. Another number resets it; after dup2(2) onto the number,
/// create new calls.
///
/// It sends into a socket with `MSG_NOSIGNAL`, so a closed peer causes `EPIPE` and no signal, as in std. splice(2) and
/// sendfile(2) into a socket have no such flag, nor has any call into a pipe: there, a process that does not ignore
/// SIGPIPE gets the signal. Rust programs ignore it by default.
#[derive(Debug, Clone)]
pub struct Calls {
    /// How they wait. After a call, its [`stopped`](Waiter::stopped) says whether the last error came from the kernel.
    pub waiter: Waiter,
    /// The number of the fd that `no_wait` belongs to.
    fd: RawFd,
    no_wait: NoWait,
    made: u64,
}

/// How to keep read(2) and write(2) on this fd from waiting.
#[derive(Debug, Clone)]
enum NoWait {
    /// Not determined yet.
    Unknown,
    /// Plain calls: a regular file or block device never waits for a peer. There, `RWF_NOWAIT` concerns the page cache,
    /// and returns `EAGAIN` although poll(2) reports that the file is ready.
    Needless,
    /// `RWF_NOWAIT` (preadv2(2)). Pipes support it since Linux 6.5, FIFOs do not (`FMODE_NOWAIT`).
    Flag { may_reopen: bool },
    /// `MSG_DONTWAIT` (recv(2), send(2)), on sockets.
    Message,
    /// A private open file description with `O_NONBLOCK`, on terminals and for reading from pipes: another writer would
    /// delay the end of the stream, but this process is a reader anyway.
    Own {
        fd: Arc<OwnedFd>,
        /// The device and inode of the file it was opened for, because the number of the fd may refer to another file
        /// later.
        of: (u64, u64),
    },
    /// Through a private pipe, for writing to pipes where the flag is refused. Pages that are read must not leave the
    /// queue before they are copied: their writer may use them again then.
    Relay(Relay),
    /// poll(2) before the call, if the flag is refused. A long write may still block.
    Look,
    /// As `Look`, for reading. A write is a plain call: drivers whose writes never wait need not support poll(2) for
    /// writing (`devkmsg_poll`, kernel/printk/printk.c).
    LookToRead,
}

impl Calls {
    /// Creates calls that wait as `wait` says. A regular file or block device never waits for a peer, so it always gets
    /// plain calls.
    pub fn new(wait: Wait) -> Self {
        Self::with(Waiter::new(wait))
    }

    /// Creates calls that wait with `waiter`, which may also refuse to wait, or be cancelled.
    pub fn with(waiter: Waiter) -> Self {
        Self {
            waiter,
            fd: -1,
            no_wait: NoWait::Unknown,
            made: 0,
        }
    }

    /// Makes the calls wait with `waiter` from now on.
    pub fn wait_as(&mut self, waiter: Waiter) {
        self.waiter = waiter;
        if matches!(self.no_wait, NoWait::Message) {
            self.waiter.count_timeouts_of_sockets();
        }
    }

    /// Sets the type of `fd`, if the caller knows it, which saves an fstat(2).
    pub fn know(&mut self, fd: BorrowedFd<'_>, file_type: FileType) {
        self.fd = fd.as_raw_fd();
        self.no_wait = match file_type {
            FileType::RegularFile | FileType::BlockDevice => NoWait::Needless,
            FileType::Socket => {
                self.waiter.count_timeouts_of_sockets();
                NoWait::Message
            }
            FileType::CharacterDevice => NoWait::Flag { may_reopen: true },
            _ => NoWait::Flag { may_reopen: false },
        };
    }

    /// Tells the waiter what a call has moved.
    fn noted(&mut self, answer: Result<usize, Errno>) -> Result<usize, Errno> {
        if let Ok(bytes) = answer {
            self.waiter.moved(bytes);
        }
        answer
    }

    /// Counts calls that were not made through this object.
    pub fn also_made(&mut self, calls: u64) {
        self.made += calls;
    }

    /// Returns the number of calls that moved bytes or found the end.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Calls read(2), and returns the number of bytes read; 0 is the end of the file.
    ///
    /// # Errors
    /// As read(2), without `EINTR` and `EAGAIN`.
    pub fn read(&mut self, fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize, Errno> {
        self.made += 1;
        let plain = self.is_plain(fd);
        let may_hang_up = self.may_be_a_terminal();
        let ready = (Ready::ToRead, !self.waiter.may_wait());
        let no_wait = &mut self.no_wait;
        let call = |fd: BorrowedFd<'_>, buf: &mut &mut [u8], how: How<'_>| match how {
            How::Flagged => {
                let slices = &mut [IoSliceMut::new(buf)];
                rustix::io::preadv2(fd, slices, u64::MAX, ReadWriteFlags::NOWAIT)
            }
            How::Message => rustix::net::recv(fd, &mut **buf, RecvFlags::DONTWAIT).map(|(n, _)| n),
            How::Plain | How::Looked | How::Relayed(_) => rustix::io::read(fd, &mut **buf),
        };
        let answer = to_the_end_of(fd, may_hang_up, || {
            self.waiter.until_ready(fd, Ready::ToRead, || match plain {
                true => rustix::io::read(fd, &mut *buf),
                false => without_waiting(no_wait, fd, ready, &mut *buf, call),
            })
        });
        self.noted(answer)
    }

    /// Calls read(2) once without waiting, whatever the [`Wait`], and returns the number of bytes read. Fails with
    /// `EAGAIN` if no bytes are available.
    ///
    /// # Errors
    /// As read(2), without `EINTR`; `ECANCELED` after a cancel, `ETIMEDOUT` after the deadline.
    pub fn try_read(&mut self, fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize, Errno> {
        let never = std::mem::replace(&mut self.waiter.never, true);
        let answer = self.read(fd, buf);
        self.waiter.never = never;
        answer
    }

    /// Calls write(2), and returns the number of bytes written.
    ///
    /// # Errors
    /// As write(2), without `EINTR` and `EAGAIN`.
    pub fn write(&mut self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize, Errno> {
        self.made += 1;
        self.look_at(fd);
        let wait = self.waiter.wait;
        if self.waiter.counts && wait == Wait::Block && buf.len() > PIPE_BUF && self.has_peer() {
            self.waiter.wait = Wait::Poll;
        }
        let answer = self.write_as_it_waits(fd, buf);
        self.waiter.wait = wait;
        self.noted(answer)
    }

    fn write_as_it_waits(&mut self, fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize, Errno> {
        if self.is_plain(fd) {
            let is_socket = matches!(self.no_wait, NoWait::Message);
            let answer = self.waiter.until_ready(fd, Ready::ToWrite, || {
                if !is_socket {
                    return rustix::io::write(fd, buf);
                }
                match rustix::net::send(fd, buf, SendFlags::NOSIGNAL) {
                    Err(errno) if is_no_message(errno) => {
                        let written = without_sigpipe(|| rustix::io::write(fd, buf));
                        refused_or_pending(errno, written)
                    }
                    answer => answer,
                }
            });
            if answer.is_ok_and(|n| n < buf.len()) {
                self.waiter.note_short(fd);
            }
            return answer;
        }
        let must_not = !self.waiter.may_wait();
        let (no_wait, ready) = (&mut self.no_wait, (Ready::ToWrite, must_not));
        let call = |fd: BorrowedFd<'_>, buf: &mut &[u8], how: How<'_>| match how {
            How::Flagged => {
                let slices = &[IoSlice::new(buf)];
                rustix::io::pwritev2(fd, slices, u64::MAX, ReadWriteFlags::NOWAIT)
            }
            How::Message => rustix::net::send(fd, buf, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            How::Plain => rustix::io::write(fd, buf),
            How::Relayed(relay) => relay.write(fd, buf, PIPE_BUF),
            How::Looked => {
                let fits = if must_not { PIPE_BUF } else { fits(fd) };
                rustix::io::write(fd, &buf[..buf.len().min(fits)])
            }
        };
        self.waiter.until_ready(fd, Ready::ToWrite, || {
            without_waiting(no_wait, fd, ready, buf, call)
        })
    }

    /// Calls splice(2) between the fd of these calls, which is a pipe, and another fd that never blocks, such as
    /// `/dev/null` or a private pipe with room. Returns the number of bytes moved. `ready` says which of the two to
    /// wait for.
    ///
    /// # Errors
    /// As splice(2), without `EINTR` and `EAGAIN`.
    pub fn splice(
        &mut self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        len: usize,
        flags: SpliceFlags,
        ready: Ready,
    ) -> Result<usize, Errno> {
        self.made += 1;
        let flags = self.splice_flags(flags);
        let waited_for = ready.side(source, sink);
        let splice = || rustix::pipe::splice(source, None, sink, None, len, flags);
        let answer = to_the_end_of(source, false, || {
            match flags.contains(SpliceFlags::NONBLOCK) {
                true => {
                    (self.waiter).by_poll(|waiter| waiter.until_ready(waited_for, ready, splice))
                }
                false => self.waiter.until_ready(waited_for, ready, splice),
            }
        });
        self.noted(answer)
    }

    /// Calls tee(2), which duplicates the bytes in the pipe `source` into the pipe `sink`, and
    /// returns the number of bytes duplicated. It never sleeps in the call: it sleeps in poll(2).
    ///
    /// # Errors
    /// As tee(2), without `EINTR` and `EAGAIN`.
    pub fn tee(
        &mut self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        len: usize,
        ready: Ready,
    ) -> Result<usize, Errno> {
        self.made += 1;
        let waited_for = ready.side(source, sink);
        let tee = || rustix::pipe::tee(source, sink, len, SpliceFlags::NONBLOCK);
        let answer = (self.waiter).by_poll(|waiter| waiter.until_ready(waited_for, ready, tee));
        self.noted(answer)
    }

    /// Calls vmsplice(2), which puts *references* to the pages of `bytes` into the pipe `sink`, and
    /// returns the number of bytes.
    ///
    /// # Safety
    /// The pipe, and everything that its reader splices the contents into, refers to these pages after the call. As
    /// long as it does, writing to the pages changes what a reader gets, and returning them to an allocator lets other
    /// code write to them. With [`SpliceFlags::GIFT`] the pages must be whole and never be written to again. `sink`
    /// must be the write end of a pipe: on a read end, the call writes into the memory instead.
    ///
    /// # Errors
    /// As vmsplice(2), without `EINTR` and `EAGAIN`.
    pub unsafe fn vmsplice(
        &mut self,
        sink: BorrowedFd<'_>,
        bytes: &[u8],
        flags: SpliceFlags,
    ) -> Result<usize, Errno> {
        self.made += 1;
        let rests = self.waiter.looks && self.waiter.wait == Wait::Block;
        let flags = match rests {
            true => flags | SpliceFlags::NONBLOCK,
            false => self.splice_flags(flags),
        };
        let call = || {
            let slice = IoSliceRaw::from_slice(bytes);
            // SAFETY: the caller guarantees the pages and the direction of the pipe.
            unsafe { rustix::pipe::vmsplice(sink, &[slice], flags) }
        };
        let answer = match rests {
            true => (self.waiter).by_poll(|waiter| waiter.until_ready(sink, Ready::ToWrite, call)),
            false => self.waiter.until_ready(sink, Ready::ToWrite, call),
        };
        self.noted(answer)
    }

    /// Returns whether to make the plain call: it may wait, or never waits on `fd`.
    fn is_plain(&mut self, fd: BorrowedFd<'_>) -> bool {
        if !self.waiter.is_nonblocking() {
            return true;
        }
        self.look_at(fd);
        matches!(self.no_wait, NoWait::Needless)
    }

    /// Returns whether the file is a pipe or socket, as far as is known.
    fn has_peer(&self) -> bool {
        matches!(
            self.no_wait,
            NoWait::Flag { may_reopen: false } | NoWait::Message | NoWait::Relay(_) | NoWait::Look
        )
    }

    /// Returns whether the file may be a terminal, as far as is known.
    fn may_be_a_terminal(&self) -> bool {
        let is_look = matches!(self.no_wait, NoWait::Look);
        is_look || !self.has_peer() && !matches!(self.no_wait, NoWait::Needless)
    }

    fn look_at(&mut self, fd: BorrowedFd<'_>) {
        let is_known = match &self.no_wait {
            NoWait::Unknown => false,
            NoWait::Own { of, .. } => identity(fd) == Some(*of),
            _ => true,
        };
        if is_known && self.fd == fd.as_raw_fd() {
            return;
        }
        let file_type = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        self.know(fd, file_type.unwrap_or(FileType::Unknown));
    }

    fn splice_flags(&self, flags: SpliceFlags) -> SpliceFlags {
        if self.waiter.is_nonblocking() {
            flags | SpliceFlags::NONBLOCK
        } else {
            flags
        }
    }
}

/// Returns whether this is a terminal that has hung up. It answers every read(2) with 0, and every other call with `EIO`
/// (`hung_up_tty_fops`, drivers/tty/tty_io.c): that is no end of what was typed, as it is none to a reader that sleeps at
/// that moment.
pub fn has_hung_up(fd: BorrowedFd<'_>) -> bool {
    rustix::termios::tcgetattr(fd).err() == Some(Errno::IO)
}

/// Makes a reading call, and repeats it once if the master of a pseudoterminal returns `EIO`, which means that no slave
/// is open: `n_tty_read` (drivers/tty/n_tty.c) looks for bytes before it checks that, so bytes that arrived in between
/// are still queued. Only the second `EIO` in a row is the end.
fn to_the_end_of(
    source: BorrowedFd<'_>,
    may_hang_up: bool,
    mut read: impl FnMut() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    match read() {
        Err(Errno::IO) if is_ptmx(source) => read(),
        Ok(0) if may_hang_up && has_hung_up(source) => Err(Errno::IO),
        answer => answer,
    }
}

/// The call that a [`NoWait`] makes.
enum How<'a> {
    Flagged,
    Message,
    /// The plain call on a description with `O_NONBLOCK`.
    Plain,
    /// The call of a [`Relay`].
    Relayed(&'a mut Relay),
    /// The plain call after poll(2); a long write may block.
    Looked,
}

/// Makes a call that does not wait. If the kernel refuses the flag on this fd, it makes plain calls from then on: on a
/// private open file description, or, if there is none, on this fd after poll(2); if it `must_not` sleep, writes
/// go through a private pipe if this is a pipe.
fn without_waiting<B>(
    no_wait: &mut NoWait,
    fd: BorrowedFd<'_>,
    (ready, must_not): (Ready, bool),
    mut buf: B,
    mut call: impl FnMut(BorrowedFd<'_>, &mut B, How<'_>) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    match no_wait {
        NoWait::Flag { may_reopen } => match call(fd, &mut buf, How::Flagged) {
            // A sandbox may also return EPERM or EACCES. If this was not a refusal of the flag, the plain call returns
            // the same error.
            Err(errno) if is_refusal(errno) || errno == Errno::SPIPE => {
                can_be(ready, fd)?;
                *no_wait = without_the_flag(*may_reopen, fd);
            }
            answer => return answer,
        },
        NoWait::Message => match call(fd, &mut buf, How::Message) {
            Err(errno) if is_no_message(errno) => {
                *no_wait = NoWait::Look;
                let looked = match is_ready(fd, ready)? {
                    true => without_sigpipe(|| call(fd, &mut buf, How::Looked)),
                    false => Err(Errno::AGAIN),
                };
                return refused_or_pending(errno, looked);
            }
            answer => return answer,
        },
        _ => {}
    }
    match no_wait {
        NoWait::Own { fd: own, .. } => call(own.as_fd(), &mut buf, How::Plain),
        NoWait::LookToRead if ready == Ready::ToWrite => call(fd, &mut buf, How::Plain),
        _ if !is_ready(fd, ready)? => Err(Errno::AGAIN),
        NoWait::Relay(relay) if must_not => call(fd, &mut buf, How::Relayed(relay)),
        _ => call(fd, &mut buf, How::Looked),
    }
}

/// Returns how to keep calls on `fd` from waiting where `RWF_NOWAIT` is refused.
fn without_the_flag(may_reopen: bool, fd: BorrowedFd<'_>) -> NoWait {
    let is_terminal = may_reopen && rustix::termios::isatty(fd);
    let is_pipe = PipeEnd::new(fd).is_ok();
    let reads = || rustix::fs::fcntl_getfl(fd).is_ok_and(|f| f & OFlags::RWMODE != OFlags::WRONLY);
    let reopens = is_terminal && !is_ptmx(fd) || is_pipe && reads();
    let own = reopens.then(|| reopened(fd).ok());
    match own.flatten().zip(identity(fd)) {
        Some((own, of)) => NoWait::Own {
            fd: Arc::new(own),
            of,
        },
        None if is_pipe && !reads() => NoWait::Relay(Relay::default()),
        // Among devices, only the poll(2) of terminals is reliable.
        None if is_terminal || is_pipe_or_socket(fd) => NoWait::Look,
        None => NoWait::LookToRead,
    }
}

/// Checks, without moving a byte, that `fd` can be read at all. Otherwise poll(2) might never report it as ready: the
/// write end of a pipe, an epoll fd, a listening socket.
///
/// # Errors
/// That of read(2), if it cannot be read.
pub fn can_be_read(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    can_be(Ready::ToRead, fd)?;
    match rustix::net::sockopt::socket_acceptconn(fd) {
        Ok(true) => Err(Errno::NOTCONN),
        _ => Ok(()),
    }
}

/// Checks, without moving a byte, that `fd` can be read or written at all. Otherwise poll(2) might never report it as
/// ready, for example an epoll fd, or a timerfd for writing.
///
/// # Errors
/// `EINVAL` if it cannot; `EBADF` if `fd` is not open for it.
fn can_be(ready: Ready, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // With no buffers, the kernel checks the fd and calls no driver (`vfs_readv`, fs/read_write.c).
    let checked = uninterrupted(|| match ready {
        Ready::ToRead => rustix::io::readv(fd, &mut []),
        Ready::ToWrite => rustix::io::writev(fd, &[]),
    });
    match checked {
        // A sandbox refuses the call, so it is not known.
        Ok(_) | Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Returns the `answer` of a plain call after recv(2) or send(2) had failed with an error that looks like a refusal. It
/// was the pending error of the socket if the stream has ended since: the kernel reports it once.
fn refused_or_pending(errno: Errno, answer: Result<usize, Errno>) -> Result<usize, Errno> {
    match answer {
        Ok(0) | Err(Errno::PIPE) if errno != Errno::NOTSOCK => Err(errno),
        answer => answer,
    }
}

/// Returns whether recv(2) or send(2) is refused, or this is not a socket, so that read(2) and write(2) are needed.
fn is_no_message(errno: Errno) -> bool {
    is_refusal(errno) || errno == Errno::NOTSOCK
}

/// Returns how many bytes a write(2) into this file, which poll(2) reports as ready, can move without sleeping: into a
/// pipe, as many as its slots hold that are free for sure, because its first and its last page may be partly used.
fn fits(fd: BorrowedFd<'_>) -> usize {
    let (Ok(capacity), Ok(queued)) = (
        rustix::pipe::fcntl_getpipe_size(fd),
        rustix::io::ioctl_fionread(fd),
    ) else {
        return usize::MAX;
    };
    let page = page_size();
    let used = match queued as usize {
        0 => 0,
        queued => queued.next_multiple_of(page) + page,
    };
    capacity.saturating_sub(used).max(PIPE_BUF)
}

fn identity(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    Some(errno::identity(&rustix::fs::fstat(fd).ok()?))
}

/// Returns whether a terminal is the master of a pseudoterminal, which cannot be reopened: opening its device,
/// `/dev/ptmx` (5, 2), creates a new pair each time (pts(4)).
fn is_ptmx(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(fd).map_or(true, |stat| stat.st_rdev == rustix::fs::makedev(5, 2))
}

/// Opens the same file again with `O_NONBLOCK`, which affects no other process.
fn reopened(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mode = rustix::fs::fcntl_getfl(fd)? & OFlags::RWMODE;
    // The process may no longer be allowed to open it, as after su(1) on a terminal.
    let opened = rustix::fs::open(
        format!("/proc/self/fd/{}", fd.as_raw_fd()),
        mode | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    not_standard(opened?)
}
