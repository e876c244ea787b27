//! The calls that move bytes, between every pair of kinds: whichever fails, for the first, the second or a later time,
//! the transfer either moves everything, or fails and accounts for every byte.

use std::io::Write;

use fullbore_tokio::{Ended, Guarantee, Options};
use rustix::io::Errno;

use crate::case::{Case, Failing, Kind, Outcome};
use crate::common::calls::{cutting_short, failing_once, refusing};
use crate::common::ends::{From, To, content};
use crate::common::watch;
use crate::kinds::*;

const READ: &[libc::c_long] = &[libc::SYS_read];
const WRITE: &[libc::c_long] = &[libc::SYS_write, libc::SYS_sendto];
const SPLICE: &[libc::c_long] = &[libc::SYS_splice];
const ALL: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_sendto,
    libc::SYS_splice,
];

const KINDS: [Kind; 5] = [Kind::Tcp, Kind::Unix, Kind::Pipe, Kind::Child, Kind::File];

/// Runs these calls of each pair of kinds with each guarantee that makes them, and returns the outcomes; fewer if calls
/// cannot be made to fail.
fn outcomes(
    of: &[&'static [libc::c_long]],
    failing: Failing,
    errno: Errno,
) -> impl Iterator<Item = (Case, Outcome)> {
    let with = move |calls, guarantee| {
        KINDS.into_iter().flat_map(move |from| {
            KINDS.into_iter().map(move |to| Case {
                from,
                to,
                guarantee,
                calls,
                failing,
                errno,
            })
        })
    };
    let all = of.iter().flat_map(move |&calls| {
        let by_snapshot = (calls != SPLICE).then_some(Guarantee::Snapshot);
        let guarantees = by_snapshot.into_iter().chain([Guarantee::Reference]);
        guarantees.flat_map(move |guarantee| with(calls, guarantee))
    });
    all.map_while(|case| Some((case, case.run()?)))
}

#[test]
fn a_call_that_fails_ends_the_run_and_only_a_socket_that_failed_as_a_source_stays_failed() {
    let _watch = watch("failing calls");
    for nth in [1, 2, 3] {
        let failing = Failing::Nth(nth);
        for (case, outcome) in outcomes(&[READ, WRITE, SPLICE], failing, Errno::IO) {
            if outcome.failed_calls == 0 {
                outcome.succeeds_at_once();
            } else if outcome.source_failed() && case.from.is_socket() {
                assert!(outcome.report.is_none(), "{case:?}");
                assert_eq!(outcome.failures.len(), 2, "{case:?}");
            } else {
                outcome.succeeds();
                assert_eq!(outcome.failures.len(), 1, "{case:?}");
            }
            if nth == 1 && case.calls == READ && case.guarantee == Guarantee::Snapshot {
                assert!(outcome.source_failed(), "{case:?}");
            }
        }
    }
}

#[test]
fn a_transfer_that_failed_for_lack_of_memory_goes_on_in_the_next_run() {
    let _watch = watch("lack of memory");
    for errno in [Errno::NOMEM, Errno::NOBUFS] {
        let by_kind = outcomes(&[READ, WRITE, SPLICE], Failing::Every(2), errno);
        // A splice that moves nothing and the read after it would never both succeed if every second call failed.
        let all = outcomes(&[ALL], Failing::Every(3), errno);
        for (case, outcome) in by_kind.chain(all) {
            outcome.succeeds();
            assert_eq!(outcome.failures.len(), outcome.failed_calls, "{case:?}");
        }
    }
}

#[test]
fn an_interrupted_call_is_retried() {
    let _watch = watch("interrupted calls");
    let failing = Failing::Every(2);
    for (_, outcome) in outcomes(&[READ, WRITE, SPLICE, ALL], failing, Errno::INTR) {
        outcome.succeeds_at_once();
    }
}

/// For a socket or a pipe, the kernel sends another event after an `EAGAIN`, which cannot be simulated here.
#[test]
fn a_file_that_would_have_to_be_waited_for_is_an_error_and_no_wait() {
    let _watch = watch("a file that would block");
    for nth in [1, 2] {
        let failing = Failing::NthOfFiles(nth);
        for (case, outcome) in outcomes(&[READ, WRITE, SPLICE], failing, Errno::AGAIN) {
            outcome.succeeds();
            assert_eq!(outcome.failures.len(), outcome.failed_calls, "{case:?}");
        }
    }
}

#[test]
fn a_splice_that_is_refused_is_made_up_for_by_reading_and_writing() {
    let _watch = watch("refused calls");
    for errno in [Errno::INVAL, Errno::PERM, Errno::NOSYS] {
        for nth in [1, 2, 3] {
            for (case, outcome) in outcomes(&[SPLICE], Failing::Nth(nth), errno) {
                // A refusal that is not repeated was the pending error of a socket, if an end follows it.
                let at_end = outcome.failures.first().is_some_and(|failure| {
                    let report = &failure.report;
                    case.from.is_socket() && report.taken == crate::case::LEN as u64
                });
                if !at_end {
                    outcome.succeeds_at_once();
                }
            }
        }
    }
}

#[test]
fn where_every_splice_or_every_pipe_is_refused_everything_is_copied() {
    let _watch = watch("without splice");
    let refused: [(&'static [libc::c_long], Errno); 3] = [
        (SPLICE, Errno::NOSYS),
        (SPLICE, Errno::ACCESS),
        (&[libc::SYS_pipe2], Errno::MFILE),
    ];
    for (calls, errno) in refused {
        for from in KINDS {
            for to in KINDS {
                let case = Case {
                    from,
                    to,
                    guarantee: Guarantee::Reference,
                    calls,
                    failing: Failing::Always,
                    errno,
                };
                let Some(outcome) = case.run() else {
                    return;
                };
                outcome.succeeds_at_once();
                // Other tests may have left pipes in the pool.
                if calls == SPLICE {
                    assert_eq!(outcome.report.unwrap().spliced, 0, "{case:?}");
                }
            }
        }
    }
}

/// The kernel reports such an error once, and then an end. A sandbox may also return `EACCES`.
#[test]
fn a_pending_error_that_looks_like_a_refusal_is_a_failure_and_no_end() {
    let _watch = watch("an error that looks like a refusal");
    let run = || {
        let (near, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let (sink, reader) = std::os::unix::net::UnixStream::pair().unwrap();
        // Long enough that the next call is a splice.
        peer.write_all(&content()[..20_000]).unwrap();
        drop(peer);
        move || {
            let _reader = reader;
            runtime().block_on(async {
                let options = Options::new().guarantee(Guarantee::Reference);
                let mut transfer = options.copy(unix(near.into()), unix(sink.into()));
                (transfer.run().await, transfer.run().await)
            })
        }
    };
    let once = failing_once(SPLICE, 1, Errno::ACCESS, run());
    let Some((first, second)) = once else {
        return;
    };
    for failure in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(failure.error.raw_os_error(), Some(libc::EACCES));
        assert_eq!(failure.report.bytes, 20_000);
        assert_eq!(failure.report.ended, Ended::Failed);
    }
    let always = refusing(SPLICE, Errno::ACCESS, run()).unwrap();
    assert_eq!(always.0.unwrap().ended, Ended::AtEnd);
}

#[test]
fn calls_that_are_cut_short_deliver_the_stream() {
    let _watch = watch("short calls");
    for guarantee in [Guarantee::Snapshot, Guarantee::Reference] {
        let (source, sink) = (From::Unix.open(300_000).unwrap(), To::Pipe.open().unwrap());
        let ends = (source.fd.try_clone().unwrap(), sink.fd.try_clone().unwrap());
        let options = Options::new().guarantee(guarantee);
        let job = move || {
            let run = async { options.copy(unix(ends.0), sender(ends.1)).run().await };
            runtime().block_on(run)
        };
        let Some((report, cut)) = cutting_short(job) else {
            return;
        };
        assert_eq!((report.unwrap().bytes, cut > 1), (300_000, true));
        sink.close_and_compare(source.expected, "cut short");
        source.close();
    }
}
