//! Tests of `--sync`: what is reported as done is on the disk, and what cannot be stored is an error.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::*;

/// Makes a directory in memory, if there is such a file system: these tests write much, and wait for the disk often.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.unwrap()
}

/// Makes a directory with `a` and `big`, which is longer than what is written between two waits for the disk.
fn directory() -> TempDir {
    let directory = in_memory();
    fs::write(directory.path().join("a"), "hello\n").unwrap();
    fs::write(directory.path().join("out"), "old\n").unwrap();
    let line = "seq 9900000 > big";
    assert_quiet_success(&shell(directory.path(), line));
    assert!(fs::metadata(directory.path().join("big")).unwrap().len() > 72 << 20);
    directory
}

#[test]
fn every_byte_is_right_whatever_is_waited_for() {
    let dir = directory();
    for line in [
        "$FB copy --sync big -o out",
        "cat big | $FB copy --sync --progress -o out",
        "$FB copy --sync --atomic a big -o out && sed -i 1d out",
        "$FB copy --sync --append a big -o out && sed -i 1,2d out",
        "cat big | $FB copy --sync > out",
        "cat big | $FB meter --sync -q -o out",
        "$FB meter -Y -q big > out",
        "$FB meter -Y -q -l big -o out",
        "cat big | $FB tee --sync out | cmp - big",
        "cat big | $FB tee --sync --atomic out other | cmp - big && cmp other big",
        "$FB tee --sync < big > out",
        "$FB buffer -q --sync -f -i big -o out -m 8M",
        "$FB buffer -q -c -i big -o /dev/fd/5 5> out",
        "$FB buffer -q -c --atomic -f -i big -o out -m 8M",
        "$FB run --whole --sync -o out 'cat big | cat'",
    ] {
        fs::write(dir.path().join("out"), "old\n").unwrap();
        let output = shell(
            dir.path(),
            &format!("set -o pipefail; {line} && cmp big out"),
        );
        assert_quiet_success(&output);
    }
}

#[test]
fn a_meter_reports_in_the_end_what_is_on_the_disk() {
    let dir = directory();
    let line = "cat big | $FB meter --sync -n -b -i 0.01 -o out 2> numbers; tail -n 1 numbers; stat -c %s big";
    let output = shell(dir.path(), line);
    let (last, size) = stdout(&output).trim().split_once('\n').unwrap();
    assert_eq!(last, size);
}

#[test]
fn the_file_is_synced_before_it_gets_its_name_and_the_directory_after_that() {
    if !may_trace() {
        return;
    }
    let dir = directory();
    let sync = |call: &str| call.contains("sync(");
    for (line, has_window) in [
        ("copy --sync --atomic -o out < big", true),
        ("meter --sync --atomic -q -o out < big", true),
        ("tee --sync --atomic out < big > /dev/null", true),
        ("buffer --sync --atomic -q -f -o out < a", false),
        ("run --whole --sync -o out 'cat big'", false),
    ] {
        let calls = "fsync,fdatasync,renameat,renameat2,rename";
        let traced = format!("strace -f -o trace -e trace={calls} -e signal=none $FB {line}");
        assert_quiet_success(&shell(dir.path(), &traced));
        let trace = fs::read_to_string(dir.path().join("trace")).unwrap();
        let calls: Vec<&str> = trace.lines().filter(|line| line.contains('(')).collect();
        let renamed = calls
            .iter()
            .position(|call| call.contains("rename"))
            .unwrap();
        assert!(
            calls[..renamed].iter().any(|call| call.contains("fsync(")),
            "{trace}"
        );
        assert!(
            calls[renamed..].iter().any(|call| call.contains("fsync(")),
            "{trace}"
        );
        assert!(
            calls
                .iter()
                .all(|call| sync(call) || call.contains("rename")),
            "{trace}"
        );
        assert_eq!(
            calls.iter().any(|call| call.contains("fdatasync(")),
            has_window,
            "{trace}"
        );
    }
}

#[test]
fn a_buffer_hands_its_bytes_to_the_disk_while_it_writes_and_waits_at_the_end() {
    if !may_trace() {
        return;
    }
    let dir = directory();
    for atomic in ["", "--atomic"] {
        let line = format!(
            "strace -f -o trace -e trace=openat,fadvise64,fsync $FB buffer --sync {atomic} -q -f -R 100M -o out < big"
        );
        assert_quiet_success(&shell(dir.path(), &line));
        let trace = fs::read_to_string(dir.path().join("trace")).unwrap();
        let at = |call: &str| {
            trace
                .find(call)
                .unwrap_or_else(|| panic!("{call}: {trace}"))
        };
        assert!(at("POSIX_FADV_DONTNEED") < at("fsync("), "{trace}");
        // Each write would wait for the disk.
        assert!(!trace.contains("O_SYNC"), "{trace}");
    }
}

#[test]
fn what_the_disk_cannot_store_is_an_error() {
    if !may_trace() {
        return;
    }
    let dir = directory();
    for (inject, verbs) in [
        // Of the file, and of the directory.
        (
            "fsync:error=EIO",
            &[
                "copy --sync",
                "meter --sync -q",
                "tee --sync",
                "buffer --sync -q",
            ][..],
        ),
        (
            "fsync:error=ENOSPC:when=2",
            &[
                "copy --sync",
                "meter --sync -q",
                "tee --sync",
                "buffer --sync -q",
            ],
        ),
        // While it is written.
        (
            "fdatasync:error=EIO",
            &["copy --sync", "meter --sync -q", "tee --sync"],
        ),
    ] {
        for verb in verbs {
            for atomic in ["", "--atomic"] {
                let name = verb.split(' ').next().unwrap();
                let output = match name {
                    "tee" => "out < big > /dev/null",
                    "buffer" => "-f -o out < big",
                    _ => "-o out < big",
                };
                let line = format!(
                    "echo old > out; strace -f -o /dev/null -e trace=fsync,fdatasync -e inject={inject} $FB {verb} {atomic} {output}"
                );
                let output = shell(dir.path(), &line);
                assert_code(&output, 1);
                let message = one_line(stderr(&output));
                assert!(
                    message.starts_with(&format!("fullbore {name}: sync ")),
                    "{line}: {message}"
                );
                assert!(message.contains("'out': "), "{line}: {message}");
                let is_old = fs::read(dir.path().join("out")).unwrap() == b"old\n";
                let has_no_name = !atomic.is_empty() && !inject.contains("when=2");
                assert_eq!(is_old, has_no_name, "{line}");
            }
        }
    }
}

#[test]
fn a_pipeline_whose_output_cannot_be_synced_has_failed() {
    if !may_trace() {
        return;
    }
    let dir = directory();
    // Of the file, and of the directory, in which it has its name already.
    for (inject, is_old) in [("error=EIO", true), ("error=ENOSPC:when=2", false)] {
        fs::write(dir.path().join("out"), "old\n").unwrap();
        let line = format!(
            "strace -f -o /dev/null -e trace=fsync -e inject=fsync:{inject} $FB run --whole --sync -o out 'cat big | cat'"
        );
        let output = shell(dir.path(), &line);
        assert_code(&output, 125);
        let message = one_line(stderr(&output));
        assert!(message.contains(": sync "), "{message}");
        let now = fs::read(dir.path().join("out")).unwrap();
        assert_eq!(now == b"old\n", is_old, "{inject}");
    }
}

pub fn may_trace() -> bool {
    let traced = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    let may = traced.is_ok_and(|output| output.status.success());
    if !may {
        skipped("calls that fail: strace is not there or may not trace");
    }
    may
}

#[test]
fn an_output_that_stores_nothing_is_refused_and_by_meter_accepted_as_by_pv() {
    let dir = directory();
    for line in [
        "$FB copy --sync a | cat; exit ${PIPESTATUS[0]}",
        "$FB copy --sync a > /dev/null",
        "$FB tee --sync < a | cat; exit ${PIPESTATUS[0]}",
    ] {
        let output = shell(dir.path(), line);
        assert_code(&output, 2);
        let message = one_line(stderr(&output));
        assert!(
            message.contains("--sync needs a file or a block device"),
            "{message}"
        );
        assert!(output.stdout.is_empty());
    }
    for line in [
        "$FB meter -q -Y a | cat",
        "$FB meter -q -Y -o /dev/stdout a | cat",
        "$FB tee --sync out < a | cat",
    ] {
        let output = shell(dir.path(), line);
        assert_quiet_success(&output);
        assert_eq!(stdout(&output), "hello\n");
    }
}

#[test]
fn after_a_power_cut_what_was_reported_as_done_is_there() {
    if !is_root() {
        return skipped("a power cut: only root may mount a file system");
    }
    // The disk is a file. A copy of it is what a computer finds after a power cut, if nothing was written to the
    // disk meanwhile: two copies in a row are equal then.
    let script = r#"
        truncate -s 256M disk && mkfs.ext4 -q -F disk && mkdir running after && mount -o loop disk running || exit 77
        cut() {
            cp disk one; cp disk two
            until cmp -s one two; do mv two one; cp disk two; done
            mount -o loop one after || exit 77
        }
        set -e -o pipefail
        numbers() { seq 8000000; }
        echo old > running/whole
        sync
        # A check that fails leaves nothing behind that has the test's pipes open.
        trap 'kill -KILL $meter 2> /dev/null || true' EXIT
        for options in "-o running/out" "-o running/out --atomic"; do
            # The disk has to know that the file is gone, and the reports have to be those of this round.
            rm -f running/out
            sync -f running
            : > reports
            # It would take minutes to fill the disk.
            seq 1000000000 2> /dev/null | $FB meter --sync -n -b -i 0.02 -L 4M $options 2> reports & meter=$!
            last=0
            for cuts in 1 2 3; do
                until [ "$(tail -n 1 reports)" -gt $last ] 2> /dev/null; do sleep 0.01; done
                kill -STOP $meter
                last=$(tail -n 1 reports)
                cut
                case $options in
                    *atomic) [ ! -e after/out ] ;;
                    *) [ $(stat -c %s after/out) -ge $last ]
                       cmp -n $last <(seq 1000000000 2> /dev/null) after/out ;;
                esac
                umount after
                kill -CONT $meter
            done
            kill $meter
            wait $meter || true
        done
        rm -f running/out
        numbers | $FB copy --sync --atomic -o running/whole
        cut
        numbers | cmp - after/whole
        umount after
        numbers | $FB tee --sync running/whole > /dev/null
        cut
        numbers | cmp - after/whole
        umount after
        numbers | $FB buffer -q --sync -o running/buffered
        cut
        numbers | cmp - after/buffered
        umount after
    "#;
    let dir = in_memory();
    let mut command = Command::new("unshare");
    command
        .args(["-m", "bash", "-c", script])
        .env("FB", FULLBORE)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(start(&mut command));
    match output.status.code() {
        Some(77) => skipped("a power cut: no loop device or no mkfs.ext4 here"),
        _ => assert_quiet_success(&output),
    }
}
