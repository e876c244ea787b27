//! System calls that fail: whichever call, at the first, the second or a later one.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

use fullbore_tokio::{Ended, Failure, Guarantee, Options, Report, Sink, Source};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use crate::common::calls::{failing_once, refusing};
use crate::common::ends::{From, To, memfd, same_bytes, tcp_pair};
use crate::common::{MIB, watch};
use crate::kinds::*;

const LEN: usize = 5 * MIB + 3;

/// Ends of a transfer, and the calls of it.
struct Case {
    from: From,
    to: To,
    guarantee: Guarantee,
    calls: &'static [libc::c_long],
}

const SPLICE: &[libc::c_long] = &[libc::SYS_splice];
const SEND: &[libc::c_long] = &[libc::SYS_sendto];

#[rustfmt::skip]
const CASES: [Case; 8] = [
    Case { from: From::Unix, to: To::Tcp, guarantee: Guarantee::Reference, calls: SPLICE },
    Case { from: From::Tcp, to: To::Unix, guarantee: Guarantee::Reference, calls: SPLICE },
    Case { from: From::Pipe, to: To::Tcp, guarantee: Guarantee::Reference, calls: SPLICE },
    Case { from: From::Tcp, to: To::Pipe, guarantee: Guarantee::Reference, calls: SPLICE },
    Case { from: From::File, to: To::Unix, guarantee: Guarantee::Reference, calls: SPLICE },
    Case { from: From::Unix, to: To::Memfd, guarantee: Guarantee::Reference, calls: SPLICE },
    Case { from: From::Tcp, to: To::Tcp, guarantee: Guarantee::Snapshot, calls: SEND },
    Case { from: From::Pipe, to: To::Unix, guarantee: Guarantee::Snapshot, calls: SEND },
];

/// What came of a transfer.
struct Outcome {
    ran: Result<Report, Failure<Report>>,
    under_way: Vec<u8>,
    arrived: Vec<u8>,
    left: Vec<u8>,
    expected: &'static [u8],
}

type Ran = (Result<Report, Failure<Report>>, Vec<u8>);

async fn ran<S: Source, W: Sink>(options: Options, source: S, sink: W) -> Ran {
    let mut transfer = options.copy(source, sink);
    let ran = transfer.run().await;
    (ran, transfer.into_parts().unwrap().2)
}

async fn ran_to<S: Source>(options: Options, source: S, to: To, sink: OwnedFd) -> Ran {
    match to {
        To::Tcp => ran(options, source, tcp(sink)).await,
        To::Unix => ran(options, source, unix(sink)).await,
        To::Pipe => ran(options, source, sender(sink)).await,
        _ => ran(options, source, file(sink)).await,
    }
}

/// A sink, and all that arrives at it.
fn collected(to: To) -> (OwnedFd, JoinHandle<Vec<u8>>, Option<File>) {
    let (ours, theirs): (OwnedFd, OwnedFd) = match to {
        To::Tcp => {
            let (ours, theirs) = tcp_pair();
            (ours.into(), theirs.into())
        }
        To::Unix => {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            (ours.into(), theirs.into())
        }
        To::Pipe => {
            let pipe = fullbore::Pipe::new().unwrap();
            (pipe.writer, pipe.reader)
        }
        _ => {
            let file = memfd();
            let clone = file.try_clone().unwrap();
            return (clone.into(), thread::spawn(Vec::new), Some(file));
        }
    };
    let reading = thread::spawn(move || {
        let mut bytes = Vec::with_capacity(LEN);
        File::from(theirs).read_to_end(&mut bytes).unwrap();
        bytes
    });
    (ours, reading, None)
}

impl Case {
    fn name(&self) -> String {
        format!("{:?} to {:?}, {:?}", self.from, self.to, self.guarantee)
    }

    /// `None` where calls cannot be made to fail.
    fn run_under(
        &self,
        under: impl FnOnce(&mut (dyn FnMut() -> Ran + Send)) -> Option<Ran>,
    ) -> Option<Outcome> {
        let source = self.from.open(LEN).unwrap();
        let (sink, reading, file) = collected(self.to);
        let mut fds = Some((source.fd.try_clone().unwrap(), sink));
        let options = Options::new().guarantee(self.guarantee);
        let mut job = || {
            let (from, to) = fds.take().unwrap();
            runtime().block_on(async {
                match self.from {
                    From::Tcp => ran_to(options, tcp(from), self.to, to).await,
                    From::Unix => ran_to(options, unix(from), self.to, to).await,
                    From::Pipe => ran_to(options, receiver(from), self.to, to).await,
                    _ => ran_to(options, crate::kinds::file(from), self.to, to).await,
                }
            })
        };
        let (ran, under_way) = under(&mut job)?;
        fcntl_setfl(&source.fd, OFlags::empty()).unwrap();
        let mut left = Vec::new();
        File::from(source.fd.try_clone().unwrap())
            .read_to_end(&mut left)
            .unwrap();
        let expected = source.expected;
        source.close();
        let mut arrived = reading.join().unwrap();
        if let Some(mut file) = file {
            std::io::Seek::rewind(&mut file).unwrap();
            file.read_to_end(&mut arrived).unwrap();
        }
        Some(Outcome {
            ran,
            under_way,
            arrived,
            left,
            expected,
        })
    }
}

impl Outcome {
    /// Nothing is lost, and the report knows where everything is.
    fn check(&self, what: &str) {
        let report = match &self.ran {
            Ok(report) => report,
            Err(failure) => &failure.report,
        };
        assert_eq!(report.bytes, self.arrived.len() as u64, "{what}");
        let under_way = report.taken - report.bytes;
        assert_eq!(under_way, self.under_way.len() as u64, "{what}");
        let all = [&self.arrived[..], &self.under_way, &self.left].concat();
        same_bytes(&all, self.expected, what);
    }
}

#[test]
fn a_call_that_fails_ends_the_transfer_and_loses_nothing() {
    let _watch = watch("failing calls");
    for case in CASES {
        for nth in [1, 2, 3, 6] {
            let what = format!("{}, call {nth}", case.name());
            let run = |job: &mut (dyn FnMut() -> Ran + Send)| {
                failing_once(case.calls, nth, Errno::IO, job)
            };
            let Some(outcome) = case.run_under(run) else {
                return;
            };
            outcome.check(&what);
            // On a busy machine, so many calls are not always made.
            match &outcome.ran {
                Ok(report) => assert_eq!(report.ended, Ended::AtEnd, "{what}"),
                Err(failure) => {
                    assert_eq!(failure.error.raw_os_error(), Some(libc::EIO), "{what}");
                    assert_eq!(failure.report.ended, Ended::Failed, "{what}");
                }
            }
            if nth == 1 && case.from == From::File {
                assert!(outcome.ran.is_err(), "{what}");
            }
        }
    }
}

#[test]
fn a_call_that_is_interrupted_is_made_again() {
    let _watch = watch("interrupted calls");
    for case in CASES {
        for nth in [1, 2, 5] {
            let what = format!("{}, call {nth}", case.name());
            let run = |job: &mut (dyn FnMut() -> Ran + Send)| {
                failing_once(case.calls, nth, Errno::INTR, job)
            };
            let Some(outcome) = case.run_under(run) else {
                return;
            };
            outcome.check(&what);
            assert_eq!(outcome.ran.unwrap().ended, Ended::AtEnd, "{what}");
        }
    }
}

#[test]
fn a_splice_that_is_refused_once_is_made_up_for_by_reading_and_writing() {
    let _watch = watch("refused calls");
    for case in CASES.into_iter().filter(|case| case.calls == SPLICE) {
        for errno in [Errno::INVAL, Errno::PERM] {
            for nth in [1, 2, 3, 4] {
                let what = format!("{}, {errno:?} of call {nth}", case.name());
                let run = |job: &mut (dyn FnMut() -> Ran + Send)| {
                    failing_once(case.calls, nth, errno, job)
                };
                let Some(outcome) = case.run_under(run) else {
                    return;
                };
                outcome.check(&what);
                assert_eq!(outcome.ran.unwrap().ended, Ended::AtEnd, "{what}");
            }
        }
    }
}

#[test]
fn without_splice_or_without_pipes_everything_is_copied() {
    let _watch = watch("without splice");
    let refused: [(&[libc::c_long], Errno); 3] = [
        (SPLICE, Errno::NOSYS),
        (&[libc::SYS_pipe2], Errno::MFILE),
        (SPLICE, Errno::PERM),
    ];
    for case in CASES.into_iter().filter(|case| case.calls == SPLICE) {
        for (calls, errno) in refused {
            let what = format!("{}, {errno:?}", case.name());
            let run = |job: &mut (dyn FnMut() -> Ran + Send)| refusing(calls, errno, job);
            let Some(outcome) = case.run_under(run) else {
                return;
            };
            outcome.check(&what);
            let report = outcome.ran.unwrap();
            assert_eq!(report.ended, Ended::AtEnd, "{what}");
            // Other tests may have left pipes in the pool.
            if calls == SPLICE {
                assert_eq!(report.spliced, 0, "{what}");
            }
        }
    }
}
