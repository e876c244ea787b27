//! The calls that examine and prepare both ends, create private pipes, and close a sending side: whichever fails, the
//! bytes are copied, or the run fails before a byte is moved and the next one succeeds.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use fullbore_tokio::{Duplex, Ended, Guarantee, Options};
use rustix::io::Errno;

use crate::case::{Case, Failing, Kind, LEN};
use crate::common::calls::{failing_once, refusing};
use crate::common::ends::{content, same_bytes, tcp_pair};
use crate::common::watch;
use crate::kinds::*;

const KINDS: [Kind; 6] = [
    Kind::Tcp,
    Kind::Unix,
    Kind::Pipe,
    Kind::Child,
    Kind::File,
    Kind::Async,
];

/// Calls that may be made before bytes are moved, and an error of each. A transfer does not fail with a call that only
/// makes it faster.
#[rustfmt::skip]
const SETUP: [(&[libc::c_long], Errno, bool); 5] = [
    (&[libc::SYS_pipe2], Errno::MFILE, false),
    (&[libc::SYS_fcntl], Errno::MFILE, true),
    (&[libc::SYS_epoll_ctl], Errno::NOSPC, true),
    (&[libc::SYS_getsockopt], Errno::NOBUFS, true),
    (&[libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx], Errno::IO, true),
];

#[test]
fn a_call_that_prepares_a_transfer_may_fail_and_the_next_run_moves_everything() {
    let _watch = watch("failing preparations");
    for (calls, errno, may_fail) in SETUP {
        for failing in [1, 2, 3, 4].map(Failing::Nth) {
            for from in KINDS {
                for to in KINDS {
                    let case = Case {
                        from,
                        to,
                        guarantee: Guarantee::Reference,
                        calls,
                        failing,
                        errno,
                    };
                    let Some(outcome) = case.run() else {
                        return;
                    };
                    outcome.succeeds();
                    if !may_fail || outcome.failed_calls == 0 {
                        outcome.succeeds_at_once();
                    }
                    for failure in outcome.failures {
                        assert_eq!(failure.report.taken, 0, "{case:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn two_ends_that_cannot_be_told_apart_are_an_error_of_fstat() {
    let calls = [libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx];
    let (one, other) = (
        fullbore::Pipe::new().unwrap(),
        fullbore::Pipe::new().unwrap(),
    );
    let runtime = runtime();
    let (mut source, mut sink) = {
        let _context = runtime.enter();
        (receiver(one.reader), sender(other.writer))
    };
    let error = refusing(&calls, Errno::IO, || {
        let copied = runtime.block_on(fullbore_tokio::copy(&mut source, &mut sink));
        copied.unwrap_err().error
    });
    if let Some(error) = error {
        assert!(error.to_string().contains("fstat"), "{error}");
    }
}

/// Wraps a descriptor in an end.
type Make<End> = fn(OwnedFd) -> End;

/// Moves bytes in both directions; the nth shutdown(2) fails.
fn half_closed<A: Duplex, B: Duplex>(
    nth: usize,
    (a, near): (OwnedFd, OwnedFd),
    (b, far): (OwnedFd, OwnedFd),
    ends: (Make<A>, Make<B>),
) -> Option<()> {
    let talk = |peer: OwnedFd| {
        // For reading and writing, any type of socket works.
        let mut peer = std::os::unix::net::UnixStream::from(peer);
        let mut sends = peer.try_clone().unwrap();
        thread::spawn(move || {
            let sending = thread::spawn(move || {
                sends.write_all(&content()[..LEN]).unwrap();
                sends.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            peer.read_to_end(&mut got).unwrap();
            sending.join().unwrap();
            got
        })
    };
    let peers = [talk(near), talk(far)];
    failing_once(&[libc::SYS_shutdown], nth, Errno::IO, || {
        runtime().block_on(async {
            let mut transfer = Options::new().copy_bidirectional(ends.0(a), ends.1(b));
            let failure = transfer.run().await.unwrap_err();
            assert!(failure.error.to_string().contains("shutdown"), "{failure}");
            assert_eq!(failure.error.raw_os_error(), Some(libc::EIO));
            // The other direction may not have delivered everything, so it continues.
            let both = transfer.run().await.unwrap();
            for report in [both.a_to_b, both.b_to_a] {
                assert_eq!((report.bytes, report.ended), (LEN as u64, Ended::AtEnd));
            }
        });
    })?;
    for peer in peers {
        same_bytes(&peer.join().unwrap(), &content()[..LEN], "both ways");
    }
    Some(())
}

#[test]
fn a_sending_side_that_cannot_be_closed_is_a_failure_and_is_closed_by_the_next_run() {
    let _watch = watch("failing shutdowns");
    let tcp_ends = || {
        let (ours, theirs) = tcp_pair();
        (ours.into(), theirs.into())
    };
    let unix_ends = || {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        (ours.into(), theirs.into())
    };
    for nth in [1, 2] {
        let ran = half_closed(nth, tcp_ends(), tcp_ends(), (tcp, tcp))
            .and_then(|()| half_closed(nth, tcp_ends(), unix_ends(), (tcp, unix)))
            .and_then(|()| half_closed(nth, unix_ends(), unix_ends(), (unix, registered)));
        if ran.is_none() {
            return;
        }
    }
}

#[test]
fn an_end_found_in_a_failed_run_is_passed_on_by_the_next() {
    let _watch = watch("an end that is told later");
    let [(a, mut near), (b, far)] =
        [(); 2].map(|()| std::os::unix::net::UnixStream::pair().unwrap());
    near.write_all(b"question").unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    let runtime = runtime();
    let ends = {
        let _context = runtime.enter();
        (unix(a.into()), unix(b.into()))
    };
    let mut transfer = Options::new()
        .deadline(Instant::now() + Duration::from_secs(300))
        .copy_bidirectional(ends.0, ends.1);
    let failure = failing_once(&[libc::SYS_read], 1, Errno::NOMEM, || {
        runtime.block_on(transfer.run()).unwrap_err()
    });
    let Some(failure) = failure else {
        return;
    };
    let ended = (failure.report.a_to_b.ended, failure.report.b_to_a.ended);
    assert_eq!(ended, (Ended::Failed, Ended::AtEnd));
    // This peer closes its half only after it has seen the end of the other.
    let waiting = thread::spawn(move || near.read_to_end(&mut Vec::new()).unwrap());
    let both = runtime.block_on(transfer.run()).unwrap();
    assert_eq!((both.a_to_b.bytes, both.a_to_b.ended), (8, Ended::AtEnd));
    assert_eq!(waiting.join().unwrap(), 0);
}
