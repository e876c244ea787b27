//! Tests with sandboxes that refuse one call: each call that moves bytes or examines files, for
//! each verb that moves bytes or measures how they are moved.

use fullbore_results::explain::Explanation;
use rustix::io::Errno;
use seccompiler::SeccompCmpOp::{Eq, Ne};

use super::*;
use crate::common::refusing::*;

const F_GETPIPE_SZ: u64 = 1032;
const AT_EMPTY_PATH: u64 = 0x1000;

/// The calls, each with the arguments for which it is refused.
const CALLS: &[(&str, i64, Conditions<'_>)] = &[
    ("splice", call::SPLICE, &[]),
    ("tee", call::TEE, &[]),
    ("vmsplice", call::VMSPLICE, &[]),
    ("sendfile", call::SENDFILE, &[]),
    ("copy_file_range", call::COPY_FILE_RANGE, &[]),
    ("preadv2", call::PREADV2, &[]),
    ("pwritev2", call::PWRITEV2, &[]),
    ("F_SETPIPE_SZ", call::FCNTL, &[(1, Eq, F_SETPIPE_SZ)]),
    ("F_GETPIPE_SZ", call::FCNTL, &[(1, Eq, F_GETPIPE_SZ)]),
    ("madvise", call::MADVISE, &[]),
    ("eventfd2", call::EVENTFD2, &[]),
    ("ppoll", call::PPOLL, &[]),
    ("statx", call::STATX, &[]),
    // The fstat(2) of the C library uses this call too, and no program starts without it.
    ("newfstatat", call::NEWFSTATAT, &[(3, Ne, AT_EMPTY_PATH)]),
    ("fstat", call::FSTAT, &[]),
    ("ioctl", call::IOCTL, &[]),
];

const JOBS: &[Job] = &[
    ("copy", Pipe, Pipe),
    ("copy", Pipe, ToFile),
    ("copy IN", Nothing, Pipe),
    ("copy IN -o OUT", Nothing, Nothing),
    ("tee OUT", Pipe, Pipe),
    ("tee OUT", ToFile, Pipe),
    ("meter -q", Pipe, Pipe),
    ("meter -q IN", Nothing, ToFile),
];

/// The errors with which sandboxes and old kernels refuse a call.
const ERRNOS: &[Errno] = &[Errno::PERM, Errno::NOSYS];

/// Calls `with` for each filter under which the command can start.
fn each_refusal(errnos: &[Errno], mut with: impl FnMut(&str, seccompiler::BpfProgram)) {
    for &(name, number, conditions) in CALLS {
        for &errno in errnos {
            let filter = refusing(&[(number, conditions)], errno);
            let mut starts = fullbore("--version");
            if !finish(start(under(filter.clone(), &mut starts)))
                .status
                .success()
            {
                skipped(&format!("without {name} no program starts here"));
                continue;
            }
            with(&format!("{name}: {errno}"), filter);
        }
    }
}

#[test]
fn where_a_call_is_refused_every_byte_is_right_or_one_error_says_why_not() {
    let files = Files::new(bytes(1_000_003));
    each_refusal(ERRNOS, |refusal, filter| {
        for &job in JOBS {
            for by in guarantees(job.0) {
                let (output, outputs) = files.run(job, by, |mut command| {
                    under(filter.clone(), &mut command);
                    command
                });
                let what = format!("{refusal}, {job:?} {by}");
                match output.status.code() {
                    Some(0) => assert_everything(&what, &output, &outputs, &files.bytes),
                    Some(1 | 3) => {
                        // There is one line for each file that cannot be used.
                        let lines = stderr(&output).lines().count();
                        let most = if job.0.starts_with("tee") { 2 } else { 1 };
                        assert!(
                            (1..=most).contains(&lines),
                            "{what}: {}",
                            said_short(&output)
                        );
                        assert_beginnings(&what, &outputs, &files.bytes);
                    }
                    _ => panic!("{what}: {}", said_short(&output)),
                }
            }
        }
    });
}

#[test]
fn where_a_call_is_refused_endpoints_move_what_they_say() {
    const BYTES: u64 = 3_000_001;
    each_refusal(ERRNOS, |refusal, filter| {
        for options in [
            "",
            "--write-with-vmsplice --buf-size 128K",
            "--way fresh",
            "--way recycle",
        ] {
            let (source, sink) = pipe();
            let both = format!("--verify --bytes-to-pipe {BYTES}");
            let mut reader = fullbore(&format!("read --json {both}"));
            let reading = start(under(filter.clone(), reader.stdin(source)));
            let mut writer = fullbore(&format!("write {options} {both}"));
            let writing = start(under(filter.clone(), writer.stdout(sink)));
            let (writer, reader) = (finish(writing), finish(reading));
            for output in [&writer, &reader] {
                let text = stderr(output);
                let what = format!("{refusal}, {options}: {}", said(output));
                match output.status.code() {
                    Some(0) => assert!(text.is_empty(), "{what}"),
                    Some(1 | 3) => assert_eq!(text.lines().count(), 1, "{what}"),
                    _ => panic!("{what}"),
                }
            }
            if reader.status.success() {
                let report = endpoint(stdout(&reader));
                assert_eq!(report.verified, Some(true), "{refusal}, {options}");
                if writer.status.success() {
                    assert_eq!(report.moved, BYTES, "{refusal}, {options}");
                }
            }
        }
    });
}

/// The options of `bench` and `explain`: runs that are as short as possible, in ways that need
/// different calls.
const MEASURED: &[&str] = &[
    "bench --json --rounds 1 --seconds 0.01 write_read vmsplice_splice",
    "explain --json --rounds 1 --seconds 0.05 write_read",
];

#[test]
fn where_a_call_is_refused_every_measurement_has_a_figure_or_a_reason() {
    each_refusal(&ERRNOS[..1], |refusal, filter| {
        for words in MEASURED {
            let output = run_under(&filter, words);
            let what = format!("{refusal}, {words}: {}", said(&output));
            assert!(!stderr(&output).contains("panicked"), "{what}");
            assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{what}");
            if output.stdout.is_empty() {
                assert!(!output.status.success(), "{what}");
                assert_eq!(stderr(&output).lines().count(), 1, "{what}");
            } else if words.starts_with("explain") {
                assert!(output.status.success(), "{what}");
                let _: Explanation = json(stdout(&output));
            } else {
                assert_figures_or_reasons(&what, &output);
            }
        }
    });
}

#[track_caller]
fn assert_figures_or_reasons(what: &str, output: &Output) {
    let run = bench_json(output);
    assert_eq!(run.experiments.len(), 2, "{what}");
    for experiment in &run.experiments {
        let reasons = experiment.skipped.iter().chain(&experiment.failed);
        let reasons = reasons.filter(|reason| !reason.is_empty()).count();
        let figures = usize::from(has_figure(experiment));
        assert_eq!(figures + reasons, 1, "{what}");
    }
    let has_failed = run.experiments.iter().any(|e| e.failed.is_some());
    assert_eq!(output.status.code(), Some(i32::from(has_failed)), "{what}");
}
