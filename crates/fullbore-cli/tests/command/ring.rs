//! Tests of memory that the two ends of a pipe share: shell lines mean the same whether it is allowed or not,
//! and what goes through it is in the report.

use std::fs;
use std::process::{Command, Output};

use crate::common::*;
use serde_json::Value;

/// The bytes of one read without shared memory.
const READ: u64 = 256 << 10;

/// Runs a line of bash with sharing allowed or not, and `$F` as the command.
fn bash(line: &str, allowed: bool) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", line]).env("F", FULLBORE);
    match allowed {
        true => command.env("FULLBORE_RING", "1"),
        false => command.env_remove("FULLBORE_RING"),
    };
    output_of(&mut command).unwrap()
}

fn has_bash() -> bool {
    let found = output_of(Command::new("bash").args(["-c", ":"])).is_ok();
    if !found {
        skipped("there is no bash");
    }
    found
}

/// Lines whose output does not depend on time.
const LINES: &[&str] = &[
    // A reader that ends early, one that does not know, and one that reads a byte at a time.
    "$F write --way auto | head -c 10 | wc -c",
    "$F write --way auto --bytes-to-pipe 30M | wc -c",
    "$F write --way auto --bytes-to-pipe 20K | while IFS= read -r -n 1000 part; do echo ${#part}; done",
    "$F write --way auto --bytes-to-pipe 100M | $F read --way auto --bytes-to-pipe 1M | wc -l",
    "$F write --way auto | true",
    // A writer that does not know.
    "head -c 30M /dev/zero | $F read --way auto --json | grep -o '\"bytes\":[0-9]*'",
    // Both know.
    "$F write --way auto --verify --bytes-to-pipe 30M | $F read --way auto --verify | wc -l",
    "$F write --way auto --verify --bytes-to-pipe 30M | sh -c 'exec $F read --way auto --verify' | wc -l",
    "$F write --way auto --verify --bytes-to-pipe 30M | $F copy | $F read --way auto --verify | wc -l",
    "$F write --way auto --verify --bytes-to-pipe 30M | timeout 100 $F read --way auto --verify | wc -l",
    // Several of them, in turn and at once.
    "{ $F write --way auto --bytes-to-pipe 10M; $F write --way auto --bytes-to-pipe 10M; } \
     | $F read --way auto --json | grep -o '\"bytes\":[0-9]*'",
    "{ $F write --way auto --bytes-to-pipe 10M & $F write --way auto --bytes-to-pipe 10M; wait; } \
     | $F read --way auto --json | grep -o '\"bytes\":[0-9]*'",
    "seq 8 | xargs -P 4 -I_ sh -c '$F write --way auto --verify --bytes-to-pipe 9M \
     | $F read --way auto --verify | wc -l'",
    "$F write --way auto --bytes-to-pipe 1M | xargs -P 4 -n 1 -s 2000000 echo | wc -c",
    "mkfifo $D/fifo; $F write --way auto --bytes-to-pipe 9M > $D/fifo & $F read --way auto < $D/fifo | wc -l",
];

#[test]
fn a_line_prints_and_ends_the_same_whether_sharing_is_allowed_or_not() {
    if !has_bash() {
        return;
    }
    for line in LINES {
        let [allowed, not] = [true, false].map(|allowed| {
            let folder = tempfile::tempdir().unwrap();
            let set = format!("D='{}'\n", folder.path().display());
            bash(&format!("{set}{line}; echo ${{PIPESTATUS[@]}}"), allowed)
        });
        assert_eq!(said(&allowed), said(&not), "{line}");
        assert!(!allowed.stdout.is_empty(), "{line}");
    }
}

#[test]
fn the_next_reader_in_a_subshell_gets_what_the_first_one_left() {
    if !has_bash() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (whole, rest) = (path("whole"), path("rest"));
    let total = 8 << 20;
    let write = format!("$F write --way auto --verify --bytes-to-pipe {total}");
    assert_code(&bash(&format!("{write} | cat > {whole}"), false), 0);
    let whole = fs::read(whole).unwrap();
    assert_eq!(whole.len(), total);
    for allowed in [true, false] {
        let read = "$F read --way auto --bytes-to-pipe 1M > /dev/null";
        let output = bash(&format!("{write} | ({read}; cat > {rest})"), allowed);
        assert_code(&output, 0);
        let rest = fs::read(&rest).unwrap();
        // What the first reader had in its buffer is lost, as with any program.
        assert!(rest.len() <= total - (1 << 20) && rest.len() as u64 >= 7 * (1 << 20) - READ);
        assert!(whole.ends_with(&rest));
    }
}

#[test]
fn the_stages_of_run_share_memory_if_they_are_allowed_to_and_the_report_counts_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    let bytes: u64 = 1 << 30;
    // Returns the calls of the reader, and the bytes in the report.
    let run_it = |options: &str| {
        let line = format!(
            "run {options} --json {} -- {FULLBORE} write --way auto --bytes-to-pipe {bytes} | \
             {FULLBORE} read --way auto --json",
            path.display()
        );
        let output = run(&line);
        assert_code(&output, 0);
        let report = endpoint(stdout(&output));
        assert_eq!(report.bytes, bytes);
        let found: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        (report.calls, found["pipes"][0]["bytes"].as_u64())
    };
    let (calls, _) = run_it("");
    assert!(calls >= bytes / READ, "they shared memory unasked");
    // A process that another test observes or starts may keep the two apart; and a run may be shorter than
    // the time between two looks.
    let ring = wait_for("shared memory", || {
        let (calls, counted) = run_it("--ring");
        let shared = calls < bytes / READ;
        (shared && counted.is_some_and(|counted| counted >= bytes)).then_some(counted)
    });
    assert!(ring.is_some_and(|counted| counted < bytes + (8 << 20)));
}
