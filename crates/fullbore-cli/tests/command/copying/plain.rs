//! Tests of `FULLBORE_PLAIN=1`: the verbs that move bytes use read(2) and write(2) only.

use std::fs;
use std::path::Path;
use std::process::Output;

use rustix::io::Errno;
use seccompiler::BpfProgram;

use crate::common::refusing::{call, refusing, under};
use crate::common::*;

/// A kernel on which every other call that moves bytes fails, with an error that is no refusal.
fn without_fast_calls() -> BpfProgram {
    let calls = [
        call::COPY_FILE_RANGE,
        call::SENDFILE,
        call::SOCKETPAIR,
        call::SPLICE,
        call::TEE,
        call::VMSPLICE,
    ];
    refusing(&calls.map(|call| (call, &[][..])), Errno::IO)
}

fn in_sandbox(directory: &Path, line: &str, plain: &str) -> Output {
    let mut command = bash(directory, &format!("set -o pipefail; {line}"));
    command.env("FULLBORE_PLAIN", plain);
    finish(start(under(without_fast_calls(), &mut command)))
}

const LINES: [&str; 15] = [
    "$FB copy big | cmp - big",
    "$FB copy --by-reference big | cmp - big",
    "cat big | $FB copy | cmp - big",
    "cat big | $FB copy --by-reference | cmp - big",
    "$FB copy big -o out; cmp big out",
    "cat big | $FB copy -o out; cmp big out",
    "cat big | $FB copy --by-reference -o out; cmp big out",
    "$FB copy big > /dev/null",
    "$FB copy --seal big | $FB copy --unseal | cmp - big",
    "cat big | $FB tee out >(cat > /dev/null) | cmp - big; cmp big out",
    "cat big | $FB tee out | cmp - big; cmp big out",
    "$FB meter -q big | cmp - big",
    "$FB meter -q -l -S -s 100 big | cmp - <(head -n 100 big)",
    "cat big | $FB buffer -q -m 8M | cmp - big",
    "cat big | $FB buffer -q -m 8M -f -o out; cmp big out",
];

#[test]
fn where_it_is_set_every_verb_moves_bytes_without_any_other_call() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("big"),
        (0..2_000_000).map(|n| format!("{n}\n")).collect::<String>(),
    )
    .unwrap();
    let mut failed_otherwise = 0;
    for line in LINES {
        assert_quiet_success(&in_sandbox(dir.path(), line, "1"));
        failed_otherwise += usize::from(!in_sandbox(dir.path(), line, "0").status.success());
    }
    // The filter does what it is for: a copy between pipes or files uses other calls.
    assert!(failed_otherwise >= 4, "{failed_otherwise}");
}

#[test]
fn any_other_value_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "hello\n").unwrap();
    for verb in ["copy a", "tee < a", "meter -q a", "buffer -q -i a"] {
        let output = in_sandbox(dir.path(), &format!("$FB {verb}"), "yes");
        assert_code(&output, 2);
        assert!(one_line(stderr(&output)).contains("FULLBORE_PLAIN is \"yes\": expected 1"));
        assert!(output.stdout.is_empty());
        assert_code(
            &in_sandbox(dir.path(), &format!("FULLBORE_PLAIN= $FB {verb}"), ""),
            0,
        );
    }
}
