//! A `Tee` whose system calls fail: the first one, the second one, a later one, or all.

use crate::common::calls::{judging, refusing};
use crate::common::targets::{SinkKind, SourceKind, Target};
use crate::common::*;
use fullbore::tee::{Policy, TeeFailure, TeeReport};
use fullbore::{EndReason, Tee, TransferSide};
use rustix::io::Errno;

use std::os::fd::AsFd;

const LEN: usize = 2 * MIB + 70_001;

/// The calls that move bytes.
const CALLS: [(&str, &[libc::c_long]); 5] = [
    ("read", &[libc::SYS_read, libc::SYS_preadv2]),
    ("write", &[libc::SYS_write, libc::SYS_pwritev2]),
    ("vmsplice", &[libc::SYS_vmsplice]),
    ("tee", &[libc::SYS_tee]),
    ("splice", &[libc::SYS_splice]),
];

const SINKS: [&[SinkKind]; 3] = [
    &[SinkKind::Pipe, SinkKind::Pipe],
    &[SinkKind::Unix, SinkKind::Pipe, SinkKind::File],
    &[SinkKind::Append, SinkKind::Null, SinkKind::Pipe],
];

/// Runs a tee, and checks that each sink got the bytes that its report says, in order: all of them, unless it failed or
/// the tee did.
fn run(
    what: &str,
    source: SourceKind,
    sinks: &[SinkKind],
    under: impl FnOnce(
        &mut (dyn FnMut() -> Result<TeeReport, TeeFailure> + Send),
    ) -> Option<Result<TeeReport, TeeFailure>>,
) -> Option<Result<TeeReport, TeeFailure>> {
    let (fd, bytes) = source.open(LEN);
    let targets: Vec<Target> = sinks.iter().map(|&kind| Target::new(kind)).collect();
    let outcome = {
        let mut job = || {
            let mut tee = Tee::new(
                fd.as_fd(),
                targets.iter().map(|target| (target.as_fd(), Policy::DROP)),
            );
            tee.run()
        };
        under(&mut job)?
    };
    drop(fd);
    let (report, failure) = match &outcome {
        Ok(report) => (report, None),
        Err(failure) => (&*failure.report, Some(&failure.error)),
    };
    for (target, said) in targets.into_iter().zip(&report.sinks) {
        let kind = target.kind;
        let what = format!("{what}: {kind:?}: {said:?}, {failure:?}");
        if said.error.is_none() && failure.is_none() {
            assert_eq!(said.bytes, LEN as u64, "{what}");
        }
        if let Some(arrived) = target.arrived(said.bytes as usize) {
            assert_eq!(arrived.len() as u64, said.bytes, "{what}");
            assert!(arrived == bytes[..arrived.len()], "{what}: wrong bytes");
        }
    }
    Some(outcome)
}

#[test]
fn an_interrupted_or_blocking_call_is_retried() {
    let _watch = watch("an_interrupted_or_blocking_call_is_retried");
    for source in [SourceKind::Pipe, SourceKind::File, SourceKind::Unix] {
        for sinks in SINKS {
            for (name, calls) in CALLS {
                for errno in [Errno::INTR, Errno::AGAIN] {
                    // A call on a file never has to wait, so none returns EAGAIN.
                    let on_files = name == "read" && source == SourceKind::File
                        || name == "write" && sinks[0] == SinkKind::Append
                        || name == "write" && sinks.contains(&SinkKind::File);
                    if errno == Errno::AGAIN && on_files {
                        continue;
                    }
                    let what = format!("{source:?} {sinks:?} {name} {errno}");
                    let verdict = |nth| [1, 2, 5, 8, 9].contains(&nth).then_some(errno);
                    let under = |job: &mut (dyn FnMut() -> _ + Send)| judging(calls, verdict, job);
                    let Some(outcome) = run(&what, source, sinks, under) else {
                        return;
                    };
                    let report = outcome.unwrap_or_else(|e| panic!("{what}: {e}"));
                    let failed = report.sinks.iter().find(|sink| sink.error.is_some());
                    assert!(failed.is_none(), "{what}: {failed:?}");
                }
            }
        }
    }
}

#[test]
fn a_failing_call_costs_its_own_side_only_and_no_byte_is_lost_or_doubled() {
    let _watch = watch("a_failing_call_costs_its_own_side_only");
    for source in [SourceKind::Pipe, SourceKind::File] {
        for sinks in SINKS {
            for (name, calls) in CALLS {
                for errno in [Errno::IO, Errno::NOSYS, Errno::INVAL, Errno::CANCELED] {
                    for nth in [1, 2, 5] {
                        let what = format!("{source:?} {sinks:?} {name} {nth} {errno}");
                        let verdict = |now| (now == nth).then_some(errno);
                        let under =
                            |job: &mut (dyn FnMut() -> _ + Send)| judging(calls, verdict, job);
                        let Some(outcome) = run(&what, source, sinks, under) else {
                            return;
                        };
                        match outcome {
                            Ok(report) => {
                                assert_eq!(report.ended, EndReason::AtEnd, "{what}");
                                let failed = report.sinks.iter().filter(|s| s.error.is_some());
                                assert!(failed.count() <= 1, "{what}");
                            }
                            Err(failure) => match failure.error {
                                fullbore::Error::Moving {
                                    side: TransferSide::Source,
                                    ..
                                } => {}
                                error => panic!("{what}: {error}"),
                            },
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn where_a_call_is_refused_another_way_is_found() {
    let _watch = watch("where_a_call_is_refused_another_way_is_found");
    for source in SourceKind::ALL {
        if source == SourceKind::Proc {
            continue;
        }
        for sinks in SINKS {
            for (name, calls) in &CALLS[2..] {
                for errno in [Errno::NOSYS, Errno::PERM, Errno::INVAL] {
                    let what = format!("{source:?} {sinks:?} {name} {errno}");
                    let under = |job: &mut (dyn FnMut() -> _ + Send)| refusing(calls, errno, job);
                    let Some(outcome) = run(&what, source, sinks, under) else {
                        return;
                    };
                    let report = outcome.unwrap_or_else(|e| panic!("{what}: {e}"));
                    let failed = report.sinks.iter().find(|sink| sink.error.is_some());
                    assert!(failed.is_none(), "{what}: {failed:?}");
                }
            }
        }
    }
}

#[test]
fn a_sandbox_that_refuses_the_flagged_calls_leaves_the_plain_ones() {
    let _watch = watch("a_sandbox_that_refuses_the_flagged_calls_leaves_the_plain_ones");
    let calls = [libc::SYS_preadv2, libc::SYS_pwritev2];
    for source in [SourceKind::Pipe, SourceKind::File, SourceKind::Unix] {
        for sinks in SINKS {
            for errno in [Errno::PERM, Errno::ACCESS, Errno::NOSYS] {
                let what = format!("{source:?} {sinks:?} {errno}");
                let under = |job: &mut (dyn FnMut() -> _ + Send)| refusing(&calls, errno, job);
                let Some(outcome) = run(&what, source, sinks, under) else {
                    return;
                };
                let report = outcome.unwrap_or_else(|e| panic!("{what}: {e:#}"));
                let failed = report.sinks.iter().find(|sink| sink.error.is_some());
                assert!(failed.is_none(), "{what}: {failed:?}");
            }
        }
    }
}
