//! Tests of memory that the two ends of a pipe share: only a program that asks for it shares any, and what goes
//! through it is in the report.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::common::*;
use serde_json::Value;

/// The bytes of one read without shared memory.
const READ: u64 = 256 << 10;

#[test]
fn the_report_of_run_counts_what_stages_that_ask_for_it_share() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    let bytes: u64 = 1 << 30;
    // Returns the bytes in the report, unless the two did not meet.
    let run_it = || {
        let line = format!(
            "run --json={} -- {FULLBORE} write --way ring --bytes-to-pipe {bytes} | \
             {FULLBORE} read --way ring --json",
            path.display()
        );
        let output = run(&line);
        if output.status.code() == Some(3) {
            return None;
        }
        assert_code(&output, 0);
        assert_eq!(endpoint(stdout(&output)).bytes, bytes);
        let found: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        found["pipes"][0]["bytes"].as_u64()
    };
    // A process that another test observes or starts may keep the two apart; and a run may be shorter than
    // the time between two looks.
    let counted = wait_for("shared memory", || {
        run_it().filter(|&counted| counted >= bytes)
    });
    assert!(counted < bytes + (8 << 20));
}

#[test]
fn the_environment_makes_nothing_share_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    let bytes: u64 = 64 << 20;
    let line = format!(
        "run --json={} -- {FULLBORE} write --way auto --bytes-to-pipe {bytes} | \
         {FULLBORE} read --way auto --json",
        path.display()
    );
    let output = finish(start(fullbore(&line).env("FULLBORE_RING", "1")));
    assert_code(&output, 0);
    assert!(endpoint(stdout(&output)).calls >= bytes / READ);
}

#[test]
fn two_ends_meet_where_every_memfd_has_to_be_sealed_against_execution() {
    if !is_root() {
        return skipped("vm.memfd_noexec: only root may mount /proc of a new PID namespace");
    }
    /// The sysctl belongs to the PID namespace. bash is the first process of it.
    fn in_namespace(line: &str) -> Output {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "bash", "-o", "pipefail"]);
        finish(start(
            command
                .args(["-c", line])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        ))
    }
    const REQUIRE: &str = "{ echo 2 > /proc/sys/vm/memfd_noexec; } 2> /dev/null";
    if !in_namespace("true").status.success() {
        return skipped("vm.memfd_noexec: no PID namespace can be made here");
    }
    if !in_namespace(REQUIRE).status.success() {
        return skipped("vm.memfd_noexec: there is no such limit here");
    }
    let bytes: u64 = 1 << 30;
    let write = format!("{FULLBORE} write --way ring --bytes-to-pipe {bytes}");
    let line = format!("{REQUIRE} && {write} | {FULLBORE} read --way ring --json");
    // The writer ends with 3 if the two have not met, because another test had just started a process.
    let output = wait_for("shared memory", || {
        Some(in_namespace(&line)).filter(|output| output.status.code() != Some(3))
    });
    assert_code(&output, 0);
    assert_eq!(endpoint(stdout(&output)).bytes, bytes);
}
