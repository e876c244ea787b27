//! The ways with one system call: copy_file_range(2), splice(2), sendfile(2).

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::plan::{Kind, Method};
use super::step::{Ends, Stop, has_flag};
use fullbore_linux::error::TransferSide;
use fullbore_linux::pages::Pages;
use fullbore_linux::wait::{Ready, Waiter, uninterrupted};
use fullbore_linux::{self as linux, is_ready, without_sigpipe};

/// Bytes of one copy_file_range(2): many, but few enough to show progress, and to stop between two calls.
pub(super) const RANGE: usize = 64 << 20;

/// Bytes of one sendfile(2).
pub(super) const SENDFILE: usize = 4 << 20;

/// Returns whether an errno means that this method is not supported for these fds, rather than that it failed.
pub(crate) fn is_refused(method: Method, errno: Errno) -> bool {
    linux::is_refusal(errno)
        || match method {
            // The fds are on two file systems, the sink is in append mode, or the file is a swap file or is being
            // executed.
            Method::CopyFileRange => {
                matches!(
                    errno,
                    Errno::XDEV | Errno::BADF | Errno::TXTBSY | Errno::OVERFLOW
                )
            }
            // An offset was given for a file that is not seekable: read(2) reports this better.
            _ => errno == Errno::SPIPE,
        }
}

/// Calls copy_file_range(2).
pub(super) fn copy_file_range(
    ends: &Ends<'_>,
    from: Option<u64>,
    to: Option<u64>,
    most: usize,
) -> Result<usize, Stop> {
    let (mut next, mut to) = (from, to);
    uninterrupted(|| {
        rustix::fs::copy_file_range(ends.source, next.as_mut(), ends.sink, to.as_mut(), most)
    })
    .map_err(|errno| Stop::At(side_of_files(ends, from, errno), "copy_file_range", errno))
}

/// Calls sendfile(2), and waits for the sink.
pub(super) fn sendfile(
    waiter: &mut Waiter,
    ends: &Ends<'_>,
    from: Option<u64>,
    most: usize,
) -> Result<usize, Stop> {
    let sent = waiter.until_ready(ends.sink, Ready::ToWrite, || {
        let mut from = from;
        without_sigpipe(|| rustix::fs::sendfile(ends.sink, ends.source, from.as_mut(), most))
    });
    if let Ok(n @ 1..) = sent {
        let next = || from.map_or_else(|| position(ends.source), |from| from + n as u64);
        let may_be_cut = n < most && waiter.is_cut_short_by_signals(ends.sink);
        // A short count at the end of a file is not a signal.
        if may_be_cut && read_one(ends.source, next()) != Ok(0) {
            waiter.note_signal();
        }
    }
    sent.map_err(|errno| {
        let side = match errno {
            Errno::AGAIN => TransferSide::Sink,
            _ => side_of_files(ends, from, errno),
        };
        Stop::of_call(waiter.stopped(), side, "sendfile", errno)
    })
}

/// Calls splice(2), and waits for the side that is not ready.
pub(crate) fn splice(
    waiter: &mut Waiter,
    ends: &Ends<'_>,
    from: Option<u64>,
    to: Option<u64>,
    most: usize,
) -> Result<usize, Stop> {
    let asks = waiter.is_nonblocking();
    let flags = if asks {
        SpliceFlags::NONBLOCK
    } else {
        SpliceFlags::empty()
    };
    // tcp_splice_read (net/ipv4/tcp.c) and others check only O_NONBLOCK of the description.
    let looks = asks && !ends.source_kind.splices_without_waiting();
    let spliced = waiter.until_one_ready(
        || match not_ready(ends) {
            TransferSide::Source => (ends.source, Ready::ToRead),
            TransferSide::Sink => (ends.sink, Ready::ToWrite),
        },
        || {
            if looks && !is_ready(ends.source, Ready::ToRead)? {
                return Err(Errno::AGAIN);
            }
            let (mut from, mut to) = (from, to);
            let (offset, at) = (from.as_mut(), to.as_mut());
            let call = || rustix::pipe::splice(ends.source, offset, ends.sink, at, most, flags);
            match ends.sink_kind.is_stream_socket() {
                true => without_sigpipe(call),
                false => call(),
            }
        },
    );
    // Into a pipe or a file, splice(2) does not wait any more once it has moved a byte.
    if !ends.sink_kind.splices_without_waiting() && spliced.is_ok_and(|n| (1..most).contains(&n)) {
        waiter.note_short(ends.sink);
    }
    spliced.map_err(|errno| match waiter.stopped() {
        Some(stopped) => Stop::EndReason(stopped),
        None => Stop::At(side_of_splice(ends, errno), "splice", errno),
    })
}

/// Returns the side that is not ready.
fn not_ready(ends: &Ends<'_>) -> TransferSide {
    match is_ready(ends.source, Ready::ToRead) {
        Ok(true) => TransferSide::Sink,
        _ => TransferSide::Source,
    }
}

/// Returns the side that an error of splice(2) belongs to. The only error of a pipe is EPIPE.
fn side_of_splice(ends: &Ends<'_>, errno: Errno) -> TransferSide {
    match errno {
        Errno::AGAIN => not_ready(ends),
        Errno::PIPE => TransferSide::Sink,
        Errno::BADF if !is_open_for(ends.sink, OFlags::WRONLY) => TransferSide::Sink,
        Errno::BADF => TransferSide::Source,
        _ if ends.source_kind == Kind::Pipe && ends.sink_kind != Kind::Pipe => TransferSide::Sink,
        _ => TransferSide::Source,
    }
}

fn is_open_for(fd: BorrowedFd<'_>, mode: OFlags) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| {
        let has = flags & OFlags::RWMODE;
        has == mode || has == OFlags::RDWR
    })
}

/// Returns the side that an error of copy_file_range(2) or sendfile(2) belongs to: the sink if the source can be read.
fn side_of_files(ends: &Ends<'_>, from: Option<u64>, errno: Errno) -> TransferSide {
    match errno {
        Errno::PIPE | Errno::NOSPC | Errno::FBIG | Errno::DQUOT | Errno::ROFS => TransferSide::Sink,
        _ => {
            let at = from.unwrap_or_else(|| position(ends.source));
            match read_one(ends.source, at) {
                Ok(_) => TransferSide::Sink,
                Err(_) => TransferSide::Source,
            }
        }
    }
}

fn position(file: BorrowedFd<'_>) -> u64 {
    rustix::fs::tell(file).unwrap_or(0)
}

/// Reads at least one byte at this offset of a file, and returns how many; 0 at its end.
fn read_one(file: BorrowedFd<'_>, at: u64) -> Result<usize, Errno> {
    let read = |bytes: &mut [u8], at| uninterrupted(|| rustix::io::pread(file, &mut *bytes, at));
    match read(&mut [0; 1], at) {
        // With O_DIRECT, offset, length and memory have to be aligned to whole blocks (open(2)).
        Err(Errno::INVAL) if has_flag(file, OFlags::DIRECT) => {
            let page = linux::page_size();
            let before = at as usize % page;
            let mut block = Pages::new(page).map_err(|_| Errno::NOMEM)?;
            let n = read(&mut block, at - before as u64)?;
            Ok(n.saturating_sub(before))
        }
        answer => answer,
    }
}

/// Returns whether a sink was opened with O_APPEND.
pub(crate) fn appends(fd: BorrowedFd<'_>) -> bool {
    has_flag(fd, OFlags::APPEND)
}
