//! `Transfer`: from whatever fd to whatever other, under whatever option, the same bytes come out, and
//! both fds are left where they should be.

#![allow(unsafe_code)]

mod common;

use std::os::fd::{AsFd, OwnedFd};

use common::ends::{From, SINKS, SOURCES, Sink, Source, To, same_bytes, sleep_until_ready};
use common::*;
use fullbore::{Cancel, Ended, Guarantee, PipeEnd, Report, Side, Transfer, Wait};
use rustix::event::PollFlags;

const GUARANTEES: [Guarantee; 2] = [Guarantee::Snapshot, Guarantee::Reference];

/// Around every size at which something changes: pages, the copying start, chunks, pipes.
const SIZES: [usize; 19] = [
    0,
    1,
    4095,
    4096,
    4097,
    32 * 1024 - 1,
    32 * 1024 + 1,
    64 * 1024 - 1,
    64 * 1024,
    64 * 1024 + 1,
    512 * 1024 - 1,
    512 * 1024,
    512 * 1024 + 1,
    MIB - 1,
    MIB,
    MIB + 1,
    2 * MIB - 1,
    2 * MIB + 1,
    5 * MIB + 3,
];

/// Of those, enough to see that an option is kept.
const FEW_SIZES: [usize; 4] = [0, 1, 64 * 1024 + 1, MIB + 1];

/// How much goes through a terminal or a file of procfs, which take their time.
const SLOW: usize = 64 * 1024 + 1;

type Borrowed<'a> = Transfer<&'a OwnedFd, &'a OwnedFd>;

/// Moves `len` bytes from one kind to another; `run` sets options and runs it to its end.
#[track_caller]
fn moved(
    from: From,
    to: To,
    len: usize,
    what: &str,
    run: impl FnOnce(Borrowed<'_>, &Source, &Sink) -> Report,
) {
    let slow = from == From::Terminal || to == To::Terminal || from == From::Proc;
    if slow && len > SLOW {
        return;
    }
    let (Some(source), Some(sink)) = (from.open(len), to.open()) else {
        return;
    };
    let what = format!("{from:?} → {to:?}, {len} bytes, {what}");
    let capacity = capacity(&source.fd);
    let mut transfer = Transfer::new(&source.fd, &sink.fd);
    if source.endless {
        transfer = transfer.limit(source.expected.len() as u64);
    }
    let report = run(transfer, &source, &sink);
    let len = source.expected.len() as u64;
    let ended = if source.endless {
        Ended::AtLimit
    } else {
        Ended::AtEnd
    };
    assert_eq!(report.ended, ended, "{what}");
    assert_eq!((report.bytes, report.taken), (len, len), "{what}");
    let by_ways: u64 = report.ways.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(by_ways, len, "{what}: {:?}", report.ways);
    assert_eq!(self::capacity(&source.fd), capacity, "source pipe: {what}");
    if let Ok(position) = rustix::fs::tell(&source.fd)
        && from != From::Zero
    {
        assert_eq!(position, len, "position of the source: {what}");
    }
    sink.close_and_compare(&source.expected, &what);
    source.close();
}

fn capacity(fd: &OwnedFd) -> Option<usize> {
    Some(PipeEnd::new(fd.as_fd()).ok()?.capacity().unwrap())
}

fn every_pair(mut each: impl FnMut(From, To, Guarantee)) {
    for from in SOURCES {
        for to in SINKS {
            for guarantee in GUARANTEES {
                each(from, to, guarantee);
            }
        }
    }
}

/// Runs until it no longer would have to wait, and sleeps in between as its caller sees fit.
fn driven(mut transfer: Borrowed<'_>, source: &Source, sink: &Sink) -> Report {
    loop {
        let report = transfer.run().unwrap();
        match report.ended {
            Ended::WouldWait(Side::Source) => sleep_until_ready(source.fd.as_fd(), PollFlags::IN),
            Ended::WouldWait(Side::Sink) => sleep_until_ready(sink.fd.as_fd(), PollFlags::OUT),
            _ => return report,
        }
    }
}

#[test]
fn every_kind_moves_to_every_kind_as_a_snapshot() {
    let _watch = watch("every_kind_moves_to_every_kind_as_a_snapshot");
    every_pair(|from, to, guarantee| {
        for len in SIZES
            .into_iter()
            .filter(|_| guarantee == Guarantee::Snapshot)
        {
            moved(from, to, len, "snapshot", |mut t, _, _| t.run().unwrap());
        }
    });
}

#[test]
fn every_kind_moves_to_every_kind_by_reference() {
    let _watch = watch("every_kind_moves_to_every_kind_by_reference");
    every_pair(|from, to, guarantee| {
        for len in SIZES
            .into_iter()
            .filter(|_| guarantee == Guarantee::Reference)
        {
            moved(from, to, len, "reference", |t, _, _| {
                t.guarantee(guarantee).run().unwrap()
            });
        }
    });
}

#[test]
fn o_nonblock_that_another_program_set_does_not_show() {
    let _watch = watch("o_nonblock_that_another_program_set_does_not_show");
    every_pair(|from, to, guarantee| {
        for len in FEW_SIZES {
            for (at_source, at_sink) in [(true, false), (false, true), (true, true)] {
                let what = format!("{guarantee:?}, O_NONBLOCK on {at_source}, {at_sink}");
                moved(from, to, len, &what, |t, source, sink| {
                    if at_source {
                        set_nonblocking(&source.fd);
                    }
                    if at_sink {
                        set_nonblocking(&sink.fd);
                    }
                    t.guarantee(guarantee).run().unwrap()
                });
            }
        }
    });
}

#[test]
fn whatever_the_wait_and_with_a_cancel_the_same_bytes_come_out() {
    let _watch = watch("whatever_the_wait_and_with_a_cancel_the_same_bytes_come_out");
    let cancel = Cancel::new().unwrap();
    every_pair(|from, to, guarantee| {
        for len in FEW_SIZES {
            for wait in [Wait::Poll, Wait::Adaptive] {
                moved(
                    from,
                    to,
                    len,
                    &format!("{guarantee:?}, {wait:?}"),
                    |t, _, _| t.guarantee(guarantee).wait(wait).run().unwrap(),
                );
            }
            moved(
                from,
                to,
                len,
                &format!("{guarantee:?}, cancel"),
                |t, _, _| t.guarantee(guarantee).cancel(&cancel).run().unwrap(),
            );
        }
        let len = MIB + 1;
        moved(from, to, len, &format!("{guarantee:?}, spin"), |t, _, _| {
            t.guarantee(guarantee).wait(Wait::Spin).run().unwrap()
        });
    });
}

#[test]
fn a_caller_that_never_waits_gets_every_byte_once() {
    let _watch = watch("a_caller_that_never_waits_gets_every_byte_once");
    every_pair(|from, to, guarantee| {
        for len in FEW_SIZES {
            for nonblocking_fds in [false, true] {
                let what = format!("{guarantee:?}, never waiting, fds {nonblocking_fds}");
                moved(from, to, len, &what, |t, source, sink| {
                    if nonblocking_fds {
                        set_nonblocking(&source.fd);
                        set_nonblocking(&sink.fd);
                    }
                    driven(t.guarantee(guarantee).nonblocking(), source, sink)
                });
            }
        }
    });
}

#[test]
fn bytes_in_sight_are_the_bytes_moved() {
    let _watch = watch("bytes_in_sight_are_the_bytes_moved");
    every_pair(|from, to, guarantee| {
        for len in FEW_SIZES {
            moved(from, to, len, "in sight", |t, source, _| {
                let mut shown = Vec::new();
                let report = t
                    .guarantee(guarantee)
                    .in_sight()
                    .run_with(|progress| {
                        assert_eq!(progress.step, progress.seen.len() as u64);
                        shown.extend_from_slice(progress.seen);
                        assert_eq!(progress.bytes, shown.len() as u64);
                        std::ops::ControlFlow::Continue(())
                    })
                    .unwrap();
                same_bytes(&shown, &source.expected, "in sight");
                report
            });
        }
    });
}

#[test]
fn small_chunks_do_not_show() {
    let _watch = watch("small_chunks_do_not_show");
    every_pair(|from, to, guarantee| {
        for (len, chunk) in [(10_000, 7), (200_000, 4096), (MIB + 1, 70_001)] {
            moved(
                from,
                to,
                len,
                &format!("{guarantee:?}, chunk {chunk}"),
                |t, _, _| t.guarantee(guarantee).chunk(chunk).run().unwrap(),
            );
        }
    });
}
