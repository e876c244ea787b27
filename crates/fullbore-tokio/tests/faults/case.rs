//! A transfer between two kinds of ends, some of whose system calls fail.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use fullbore_tokio::{Ended, Failure, Guarantee, Options, Report, Sink, Source, TransferSide};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use tokio::process::{ChildStdin, ChildStdout};

use crate::common::calls::judging_by_arguments;
use crate::common::ends::{From, same_bytes, tcp_pair};
use crate::kinds::*;

/// The length of a transfer: several calls of any kind, and more than one read takes.
pub const LEN: usize = 300_003;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Tcp,
    Unix,
    Pipe,
    Child,
    File,
    /// A Unix socket in an `AsyncFd`, which more calls examine.
    Async,
}

impl Kind {
    pub fn is_socket(self) -> bool {
        matches!(self, Kind::Tcp | Kind::Unix | Kind::Async)
    }
}

/// Which calls fail.
#[derive(Debug, Clone, Copy)]
pub enum Failing {
    /// Only this one, from 1.
    Nth(usize),
    /// The first, and every nth one after it. With 2, each call fails before it is made.
    Every(usize),
    Always,
    /// As `Nth`, among the calls with a file among their descriptors.
    NthOfFiles(usize),
}

impl Failing {
    /// Returns whether this call fails, counted from 1.
    pub fn is_due(self, call: usize) -> bool {
        match self {
            Failing::Nth(nth) | Failing::NthOfFiles(nth) => call == nth,
            Failing::Every(n) => call % n == 1,
            Failing::Always => true,
        }
    }
}

/// The ends of a transfer, and the system calls that fail.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub from: Kind,
    pub to: Kind,
    pub guarantee: Guarantee,
    pub calls: &'static [libc::c_long],
    pub failing: Failing,
    pub errno: Errno,
}

/// The outcome of a transfer that was run until it succeeded, or failed although no call had failed.
pub struct Outcome {
    what: String,
    /// The failures, in order.
    pub failures: Vec<Failure<Report>>,
    /// The report of the run that succeeded.
    pub report: Option<Report>,
    under_way: Vec<u8>,
    arrived: Vec<u8>,
    left: Vec<u8>,
    expected: &'static [u8],
    /// How many calls have failed.
    pub failed_calls: usize,
}

type Ran = (Vec<Failure<Report>>, Option<Report>, Vec<u8>);

/// Whether calls may fail now, and how many have failed.
#[derive(Default)]
pub struct Faults {
    pub armed: AtomicBool,
    pub failed: AtomicUsize,
}

impl Faults {
    /// Runs a transfer until it succeeds, or fails although no call has, or every call would fail. Returns the failures,
    /// in order, and the report of the run that succeeded.
    pub async fn rerun<R: std::fmt::Debug>(
        &self,
        mut run: impl AsyncFnMut() -> Result<R, Failure<R>>,
    ) -> (Vec<Failure<R>>, Option<R>) {
        let mut failures = Vec::new();
        loop {
            let before = self.failed.load(Ordering::SeqCst);
            self.armed.store(true, Ordering::SeqCst);
            let ran = run().await;
            self.armed.store(false, Ordering::SeqCst);
            match ran {
                Ok(report) => return (failures, Some(report)),
                Err(failure) => failures.push(failure),
            }
            if self.failed.load(Ordering::SeqCst) == before {
                return (failures, None);
            }
            assert!(failures.len() < 10_000, "it fails for ever: {failures:?}");
        }
    }
}

async fn ran<S: Source, W: Sink>(faults: &Faults, guarantee: Guarantee, source: S, sink: W) -> Ran {
    let mut transfer = Options::new().guarantee(guarantee).copy(source, sink);
    let (failures, report) = faults.rerun(async || transfer.run().await).await;
    (failures, report, transfer.into_parts().unwrap().2)
}

async fn ran_to<S: Source>(
    faults: &Faults,
    guarantee: Guarantee,
    source: S,
    to: Kind,
    sink: OwnedFd,
) -> Ran {
    match to {
        Kind::Tcp => ran(faults, guarantee, source, tcp(sink)).await,
        Kind::Unix => ran(faults, guarantee, source, unix(sink)).await,
        Kind::Pipe => ran(faults, guarantee, source, sender(sink)).await,
        Kind::Child => ran(faults, guarantee, source, stdin_of_a_child(sink)).await,
        Kind::File => ran(faults, guarantee, source, file(sink)).await,
        Kind::Async => ran(faults, guarantee, source, registered(sink)).await,
    }
}

/// Wraps a pipe as the output of a child process, which a transfer cannot distinguish from it.
fn stdout_of_a_child(fd: OwnedFd) -> ChildStdout {
    ChildStdout::from_std(fd.into()).unwrap()
}

/// Wraps a pipe as the input of a child process.
fn stdin_of_a_child(fd: OwnedFd) -> ChildStdin {
    ChildStdin::from_std(fd.into()).unwrap()
}

/// Returns a sink, and the collector of the bytes that arrive at it.
fn collected(to: Kind) -> (OwnedFd, JoinHandle<Vec<u8>>, Option<File>) {
    let (ours, theirs): (OwnedFd, OwnedFd) = match to {
        Kind::Tcp => {
            let (ours, theirs) = tcp_pair();
            (ours.into(), theirs.into())
        }
        Kind::Unix | Kind::Async => {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            (ours.into(), theirs.into())
        }
        Kind::Pipe | Kind::Child => {
            let pipe = fullbore::Pipe::new().unwrap();
            (pipe.writer, pipe.reader)
        }
        Kind::File => {
            let file = tempfile::tempfile().unwrap();
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

/// Returns the target of a descriptor of this process in /proc.
pub fn named(fd: u64) -> String {
    let link = fs::read_link(format!("/proc/self/fd/{}", fd as i32));
    link.map_or(String::new(), |path| path.display().to_string())
}

impl Case {
    /// Returns `None` if calls cannot be made to fail.
    pub fn run(self) -> Option<Outcome> {
        let source = match self.from {
            Kind::Tcp => From::Tcp,
            Kind::Unix | Kind::Async => From::Unix,
            Kind::Pipe | Kind::Child => From::Pipe,
            Kind::File => From::File,
        };
        let source = source.open(LEN).unwrap();
        let (sink, reading, file_sink) = collected(self.to);
        let from = source.fd.try_clone().unwrap();
        let faults = Faults::default();
        let mut made = 0;
        let verdict = |arguments: [u64; 6]| {
            if !faults.armed.load(Ordering::SeqCst) {
                return None;
            }
            // The runtime wakes itself by an eventfd, and panics if that fails. Values read from /proc are cached for
            // all other tests.
            let name = named(arguments[0]);
            if name.contains("eventfd") || name.starts_with("/proc/") {
                return None;
            }
            if matches!(self.failing, Failing::NthOfFiles(_)) {
                let is_file = |name: &str| name.starts_with('/');
                let is_of_file = is_file(&name)
                    || self.calls == [libc::SYS_splice] && is_file(&named(arguments[2]));
                if !is_of_file {
                    return None;
                }
            }
            made += 1;
            let fails = self.failing.is_due(made);
            if fails {
                faults.failed.fetch_add(1, Ordering::SeqCst);
            }
            fails.then_some(self.errno)
        };
        let job = || {
            let (faults, guarantee) = (&faults, self.guarantee);
            runtime().block_on(async {
                match self.from {
                    Kind::Tcp => ran_to(faults, guarantee, tcp(from), self.to, sink).await,
                    Kind::Unix => ran_to(faults, guarantee, unix(from), self.to, sink).await,
                    Kind::Pipe => ran_to(faults, guarantee, receiver(from), self.to, sink).await,
                    Kind::Child => {
                        let from = stdout_of_a_child(from);
                        ran_to(faults, guarantee, from, self.to, sink).await
                    }
                    Kind::File => ran_to(faults, guarantee, file(from), self.to, sink).await,
                    Kind::Async => ran_to(faults, guarantee, registered(from), self.to, sink).await,
                }
            })
        };
        let (failures, report, under_way) = judging_by_arguments(self.calls, verdict, job)?;
        fcntl_setfl(&source.fd, OFlags::empty()).unwrap();
        let mut left = Vec::new();
        File::from(source.fd.try_clone().unwrap())
            .read_to_end(&mut left)
            .unwrap();
        let expected = source.expected;
        source.close();
        let mut arrived = reading.join().unwrap();
        if let Some(mut file) = file_sink {
            file.rewind().unwrap();
            file.read_to_end(&mut arrived).unwrap();
        }
        let outcome = Outcome {
            what: format!("{self:?}"),
            failures,
            report,
            under_way,
            arrived,
            left,
            expected,
            failed_calls: faults.failed.into_inner(),
        };
        outcome.check(self.errno);
        Some(outcome)
    }
}

impl Outcome {
    /// Checks that no byte is lost, that the reports account for every byte, that each error is the one of a failed
    /// call, and that success means that every byte has arrived.
    fn check(&self, errno: Errno) {
        let what = &self.what;
        for failure in &self.failures {
            let kind = Some(errno.raw_os_error());
            assert_eq!(failure.error.raw_os_error(), kind, "{what}: {failure:?}");
            assert_eq!(failure.report.ended, Ended::Failed, "{what}");
        }
        let last = self
            .report
            .as_ref()
            .or(self.failures.last().map(|last| &*last.report));
        let last = last.unwrap();
        assert_eq!(last.bytes, self.arrived.len() as u64, "{what}");
        let under_way = last.taken - last.bytes;
        assert_eq!(under_way, self.under_way.len() as u64, "{what}");
        let all = [&self.arrived[..], &self.under_way, &self.left].concat();
        same_bytes(&all, self.expected, what);
        if let Some(report) = &self.report {
            assert_eq!(report.ended, Ended::AtEnd, "{what}");
            assert_eq!(report.bytes, LEN as u64, "{what}");
        }
    }

    /// Returns whether the source has failed, according to the error.
    pub fn source_failed(&self) -> bool {
        self.failures.last().is_some_and(|failure| {
            let source = TransferSide::Source.to_string();
            failure.error.to_string().contains(&source)
        })
    }

    #[track_caller]
    pub fn succeeds(&self) {
        assert!(self.report.is_some(), "{}: {:?}", self.what, self.failures);
    }

    #[track_caller]
    pub fn succeeds_at_once(&self) {
        self.succeeds();
        assert!(
            self.failures.is_empty(),
            "{}: {:?}",
            self.what,
            self.failures
        );
    }
}
