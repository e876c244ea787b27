//! The ways with one system call: copy_file_range(2), splice(2), sendfile(2).

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::plan;
use super::step::{Ends, Stepped, has_flag, stepped};
use crate::kind::Kind;
use crate::splice::{SLOW, room_in, splice};
use crate::way::Way;
use fullbore_linux::outcome::{self, Outcome};
use fullbore_linux::place::{self, Place};
use fullbore_linux::{
    self as linux, Pages, Ready, TransferSide, Waiter, uninterrupted, without_sigpipe,
};

/// Bytes of one copy_file_range(2): many, but few enough to show progress, and to stop between two calls.
pub(super) const RANGE: usize = 64 << 20;

/// Bytes of one sendfile(2): many, but no more than a pipe holds, because the call may sleep with a part of them sent.
pub(super) const SENDFILE: usize = 1 << 20;

/// Makes one call that moves at most `most` bytes from the source to the sink, and waits for the side that is not ready.
pub(super) fn move_once(
    method: Way,
    waiter: &mut Waiter,
    ends: &Ends<'_>,
    (from, to): (Option<u64>, Option<u64>),
    most: usize,
) -> Stepped {
    let kinds = (ends.source_kind.end(), ends.sink_kind.end());
    let result = match method {
        Way::CopyFileRange => {
            let (mut next, mut to) = (from, to);
            let (source, sink) = (ends.source, ends.sink);
            uninterrupted(|| {
                rustix::fs::copy_file_range(source, next.as_mut(), sink, to.as_mut(), most)
            })
        }
        Way::Sendfile => {
            let sent = sendfile(waiter, ends, from, most);
            match waiter.stopped() {
                Some(stopped) if sent.is_err() => return Err(stopped.into()),
                _ => sent,
            }
        }
        _ => {
            let (from, to) = ((ends.source, kinds.0, from), (ends.sink, kinds.1, to));
            // What splice(2) refuses here is a sink with O_APPEND (`do_splice`, fs/splice.c).
            let side = || match rustix::fs::fcntl_getfl(ends.sink) {
                Ok(flags) if flags & OFlags::RWMODE != OFlags::RDONLY => TransferSide::Source,
                _ => TransferSide::Sink,
            };
            return stepped(
                "splice",
                splice(waiter, from, to, most)?,
                Errno::INVAL,
                side,
            );
        }
    };
    let (call, operation) = plan::call(method);
    let outcome = match outcome::of(call, kinds, result, None) {
        Outcome::RefusedOrPending(errno) => {
            let again = sendfile(waiter, ends, from, most);
            outcome::of_repeated(kinds.0, errno, again)
        }
        known => known,
    };
    let errno = result.err().unwrap_or(Errno::OPNOTSUPP);
    stepped(operation, outcome, errno, || side_of_files(ends, from))
}

/// Calls sendfile(2), and waits for the sink. It sleeps in a pipe of its own, and holds nothing that others need.
fn sendfile(
    waiter: &mut Waiter,
    ends: &Ends<'_>,
    from: Option<u64>,
    most: usize,
) -> Result<usize, Errno> {
    // A longer call would sleep with a part of its bytes sent.
    let began = Instant::now();
    let most = match ends.sink_kind {
        Kind::UnixStream | Kind::Tcp if waiter.counts && waiter.slow => {
            most.min(room_in(ends.sink))
        }
        _ => most,
    };
    let sent = waiter.until_ready(ends.sink, Ready::ToWrite, || {
        let mut from = from;
        without_sigpipe(|| rustix::fs::sendfile(ends.sink, ends.source, from.as_mut(), most))
    });
    waiter.slow = began.elapsed() >= SLOW;
    if let Ok(n @ 1..) = sent {
        waiter.moved(n);
        let next = || from.map_or_else(|| position(ends.source), |from| from + n as u64);
        let may_be_cut = n < most && waiter.is_cut_short_by_signals(ends.sink);
        // A short count at the end of a file is not a signal.
        if may_be_cut && read_one(ends.source, next()) != Ok(0) {
            waiter.note_signal();
        }
    }
    sent
}

/// Claims the next bytes of a source that is a regular file, at most `most`, and returns whether there may be some. It
/// claims none past the end: while others claim some, they could not be given back.
pub(super) fn claim(place: &mut Place, ends: &Ends<'_>, most: usize) -> bool {
    if ends.source_kind != Kind::Regular || place.at().is_some() {
        return true;
    }
    let file = ends.source;
    // A file of /proc has no size, and with O_DIRECT only whole blocks are read.
    let most = match place::left_in(file, None) {
        Ok(0) if position(file) > 0 => return false,
        Ok(left @ 1..) if !has_flag(file, OFlags::DIRECT) => most.min(left),
        _ => most,
    };
    // A file without a position cannot be shared by it.
    let _ = place.claim(file, most);
    true
}

/// Returns the side that failed in copy_file_range(2) or sendfile(2): the sink if the source can be read.
fn side_of_files(ends: &Ends<'_>, from: Option<u64>) -> TransferSide {
    match read_one(ends.source, from.unwrap_or_else(|| position(ends.source))) {
        Ok(_) => TransferSide::Sink,
        Err(_) => TransferSide::Source,
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
