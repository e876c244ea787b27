//! The ways of one system call: copy_file_range(2), splice(2), sendfile(2).

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::plan::{Kind, Way};
use super::{Ends, Options, State, Step, Stepped, Stop, has_flag};
use crate::error::Side;
use crate::linux::{self, is_ready};
use crate::wait::{Ready, Waiter, uninterrupted};

/// Bytes of one copy_file_range(2): much, and yet progress shows and a transfer can be stopped.
pub(super) const RANGE: usize = 64 << 20;

/// Bytes of one sendfile(2).
const SENDFILE: usize = 4 << 20;

/// Whether an errno of this way says that it cannot be done here, rather than that it failed.
pub(crate) fn is_refused(way: Way, errno: Errno) -> bool {
    linux::is_refusal(errno)
        || match way {
            // Another file system, a sink that appends, a file that is swapped to or run.
            Way::CopyFileRange => {
                matches!(
                    errno,
                    Errno::XDEV | Errno::BADF | Errno::TXTBSY | Errno::OVERFLOW
                )
            }
            // An offset on what has none: reading says it better.
            _ => errno == Errno::SPIPE,
        }
}

impl State {
    pub(super) fn copy_file_range(&mut self, ends: &Ends<'_>, options: &Options) -> Stepped {
        let len = self.most(options, RANGE);
        let (mut from, mut to) = (self.source_offset, self.sink_offset);
        self.calls += 1;
        let n = uninterrupted(|| {
            rustix::fs::copy_file_range(ends.source, from.as_mut(), ends.sink, to.as_mut(), len)
        })
        .map_err(|errno| Stop::At(side_of_files(ends, from, errno), "copy_file_range", errno))?;
        self.moved_directly(n)
    }

    pub(super) fn splice(&mut self, ends: &Ends<'_>, options: &Options) -> Stepped {
        if ends.source_kind == Kind::Regular && self.left_in_file(ends) == 0 {
            // The kernel would wait for room in the pipe before it said so (splice_file_to_pipe).
            return Ok(Step::Perhaps);
        }
        let most = self.most(options, ends.sink_kind.splice_at_once());
        let (from, to) = (self.source_offset, self.sink_offset);
        self.calls += 1;
        let n = splice(&mut self.waiter, ends, from, to, most)?;
        if n == 0 && !ends.source_kind.is_storage() {
            return Ok(Step::End);
        }
        self.moved_directly(n)
    }

    pub(super) fn sendfile(&mut self, ends: &Ends<'_>, options: &Options) -> Stepped {
        let most = self.most(options, SENDFILE);
        let from = self.source_offset;
        self.calls += 1;
        let n = self
            .waiter
            .until_ready(ends.sink, Ready::ToWrite, || {
                let mut from = from;
                rustix::fs::sendfile(ends.sink, ends.source, from.as_mut(), most)
            })
            .map_err(|errno| match errno {
                Errno::AGAIN => Stop::At(Side::Sink, "sendfile", errno),
                _ => Stop::At(side_of_files(ends, from, errno), "sendfile", errno),
            })?;
        self.moved_directly(n)
    }

    /// Bytes from where the source is read to where it ended when the transfer began.
    fn left_in_file(&mut self, ends: &Ends<'_>) -> u64 {
        let taken = self.taken;
        let end = *self.taken_at_end.get_or_insert_with(|| {
            let at = self
                .source_offset
                .or_else(|| rustix::fs::tell(ends.source).ok());
            taken + self.source_size.saturating_sub(at.unwrap_or(0))
        });
        end.saturating_sub(taken)
    }

    fn moved_directly(&mut self, n: usize) -> Stepped {
        self.took(n);
        Ok(match n {
            0 => Step::Perhaps,
            n => Step::Moved(n),
        })
    }
}

/// Makes a splice(2) that waits for whichever side is not ready.
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
    // tcp_splice_read (net/ipv4/tcp.c) and others look at O_NONBLOCK of the fd alone.
    let looks = asks && !ends.source_kind.splices_without_waiting();
    waiter
        .until_one_ready(
            || match not_ready(ends) {
                Side::Source => (ends.source, Ready::ToRead),
                Side::Sink => (ends.sink, Ready::ToWrite),
            },
            || {
                if looks && !is_ready(ends.source, Ready::ToRead)? {
                    return Err(Errno::AGAIN);
                }
                let (mut from, mut to) = (from, to);
                rustix::pipe::splice(
                    ends.source,
                    from.as_mut(),
                    ends.sink,
                    to.as_mut(),
                    most,
                    flags,
                )
            },
        )
        .map_err(|errno| Stop::At(side_of_splice(ends, errno), "splice", errno))
}

/// The side that is not ready.
fn not_ready(ends: &Ends<'_>) -> Side {
    match is_ready(ends.source, Ready::ToRead) {
        Ok(true) => Side::Sink,
        _ => Side::Source,
    }
}

/// Which side an error of splice(2) means: a pipe has no errors of its own but that nobody reads it.
fn side_of_splice(ends: &Ends<'_>, errno: Errno) -> Side {
    match errno {
        Errno::AGAIN => not_ready(ends),
        Errno::PIPE => Side::Sink,
        Errno::BADF if !is_open_for(ends.sink, OFlags::WRONLY) => Side::Sink,
        Errno::BADF => Side::Source,
        _ if ends.source_kind == Kind::Pipe && ends.sink_kind != Kind::Pipe => Side::Sink,
        _ => Side::Source,
    }
}

fn is_open_for(fd: BorrowedFd<'_>, mode: OFlags) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| {
        let has = flags & OFlags::RWMODE;
        has == mode || has == OFlags::RDWR
    })
}

/// Which side an error means where the kernel moved bytes out of a file by itself: if the source can
/// be read, it is the sink.
fn side_of_files(ends: &Ends<'_>, from: Option<u64>, errno: Errno) -> Side {
    match errno {
        Errno::PIPE | Errno::NOSPC | Errno::FBIG | Errno::DQUOT | Errno::ROFS => Side::Sink,
        _ => {
            let at = from.unwrap_or_else(|| rustix::fs::tell(ends.source).unwrap_or(0));
            match uninterrupted(|| rustix::io::pread(ends.source, &mut [0; 1][..], at)) {
                Ok(_) => Side::Sink,
                Err(_) => Side::Source,
            }
        }
    }
}

/// Whether a sink appends.
pub(crate) fn appends(fd: BorrowedFd<'_>) -> bool {
    has_flag(fd, OFlags::APPEND)
}
