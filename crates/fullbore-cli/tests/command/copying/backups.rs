//! The lines of docs/backups.md, by ssh with a real sshd: whatever fails, on whichever side, the old backup stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::sshd::Sshd;
use crate::common::*;

const PAGE: &str = include_str!("../../../../../docs/backups.md");

/// Returns the lines of the first block below this heading.
fn block(heading: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, rest) = rest.split_once("```text\n").unwrap();
    rest.split_once("\n```").unwrap().0
}

/// Returns these lines for the directory of the test. The dump is a program there, and gzip is everywhere.
fn lines(sshd: &Sshd, heading: &str) -> String {
    let own = sshd.directory.path().display().to_string();
    let text = block(heading).replace("/var/backups", &own);
    text.replace("| zstd", "| gzip")
}

/// Writes the program pg_dump, and the old backup.
fn dump(sshd: &Sshd, script: &str) {
    let path = |name: &str| sshd.directory.path().join(name);
    fs::write(path("numbers"), numbers(100_000)).unwrap();
    fs::write(path("db.sql.zst"), "old\n").unwrap();
    fs::write(path("pg_dump"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path("pg_dump"), PermissionsExt::from_mode(0o755)).unwrap();
    wait_for_starts();
}

/// Asserts that the backup is the new one, whole, or the old one.
#[track_caller]
fn assert_backup(sshd: &Sshd, is_new: bool, what: &str) {
    let backup = sshd.directory.path().join("db.sql.zst");
    if !is_new {
        assert_eq!(fs::read(&backup).unwrap(), b"old\n", "{what}");
        return;
    }
    let mut gzip = Command::new("gzip");
    let unpacked = output_of(gzip.arg("-dc").stdin(fs::File::open(&backup).unwrap()));
    assert!(unpacked.unwrap().stdout == numbers(100_000), "{what}");
}

const WORKS: &str = "exec cat numbers";
const FAILS: &str = "head -c 300000 numbers; exit 3";

#[test]
fn a_backup_by_ssh_is_whole_or_the_old_one_whatever_fails() {
    let Some(sshd) = Sshd::start("backups by ssh") else {
        return;
    };
    let line = lines(&sshd, "By ssh");
    dump(&sshd, WORKS);
    let output = finish(start(&mut sshd.with_ssh(&line)));
    assert_quiet_success(&output);
    assert_backup(&sshd, true, "success");
    dump(&sshd, FAILS);
    assert_code(&finish(start(&mut sshd.with_ssh(&line))), 3);
    assert_backup(&sshd, false, "the dump fails");
    dump(&sshd, WORKS);
    let elsewhere = line.replace("/db.sql.zst", "/no/such");
    assert_code(&finish(start(&mut sshd.with_ssh(&elsewhere))), 1);
    assert_backup(&sshd, false, "the other machine cannot store it");
    for victim in [
        "ssh",
        "the receiver",
        "the runner",
        "the server",
        "the dump",
    ] {
        // The dump ends only when it cannot write any more.
        dump(&sshd, "cat numbers; while sleep 0.1; do echo more; done");
        let child = start(&mut sshd.with_ssh(&line));
        let (receiver, others) = wait_for("all processes", || processes(&sshd, &child));
        let pid = match victim {
            "the receiver" => receiver,
            other => {
                others
                    .into_iter()
                    .find(|(name, _)| *name == other)
                    .unwrap()
                    .1
            }
        };
        kill_process(pid, Signal::KILL).unwrap();
        let output = finish(child);
        assert!(!output.status.success(), "{victim}: {}", said(&output));
        wait_for("the receiver has ended", || is_gone(receiver).then_some(()));
        assert_backup(&sshd, false, victim);
    }
}

fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
}

/// Returns the receiver, and the other processes on the way, once all are there.
fn processes(sshd: &Sshd, shell: &Child) -> Option<(Pid, Vec<(&'static str, Pid)>)> {
    let below = |pid: u32| -> Vec<(Pid, String)> {
        let mut all = Vec::new();
        let mut todo = vec![pid];
        while let Some(pid) = todo.pop() {
            for (child, _) in children(pid) {
                let number = child.as_raw_nonzero().get() as u32;
                let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
                all.push((child, name.trim().to_owned()));
                todo.push(number);
            }
        }
        all
    };
    let (ours, theirs) = (below(shell.id()), below(sshd.id()));
    let of = |all: &[(Pid, String)], wanted: &str| {
        all.iter()
            .find(|(_, name)| name == wanted)
            .map(|(pid, _)| *pid)
    };
    // It has begun to read.
    let receiver = of(&theirs, "fullbore")?;
    // The one that serves this connection, below others.
    let server = theirs
        .iter()
        .rev()
        .find(|(_, name)| name.starts_with("sshd"))?
        .0;
    let others = vec![
        ("ssh", of(&ours, "ssh")?),
        ("the runner", of(&ours, "pipeline")?),
        ("the server", server),
        ("the dump", of(&ours, "pg_dump")?),
    ];
    Some((receiver, others))
}

#[test]
fn the_lines_for_a_file_and_for_tcp_keep_the_old_backup_after_a_failure() {
    let Some(sshd) = Sshd::start("backups into a file and by TCP") else {
        return;
    };
    let tcp = lines(&sshd, "By TCP");
    let on = |host: &str| {
        tcp.lines()
            .find_map(|line| line.strip_prefix(host))
            .unwrap()
    };
    for (script, code) in [(WORKS, 0), (FAILS, 3)] {
        dump(&sshd, script);
        let output = finish(start(&mut sshd.with_ssh(&lines(&sshd, "Into a file"))));
        assert_code(&output, code);
        assert_backup(&sshd, code == 0, "a file");
        dump(&sshd, script);
        let port = network::free_port();
        let mut receiving = sshd.with_ssh(&on("backup$ ").replace("8000", &port.to_string()));
        let receiving = start(&mut receiving);
        // The shell may have become the buffer, or has started it.
        wait_for("it listens", || {
            let all = children(receiving.id()).into_iter();
            let mut all = all.map(|(pid, _)| pid.as_raw_nonzero().get() as u32);
            let is_it = |by| network::is_listened_at(port, by);
            (is_it(receiving.id()) || all.any(is_it)).then_some(())
        });
        let sending = on("host$ ").replace("backup:8000", &format!("127.0.0.1:{port}"));
        assert_code(&finish(start(&mut sshd.with_ssh(&sending))), code);
        if code != 0 {
            // The sender may have been ended before it had connected.
            let _ = std::net::TcpStream::connect(("127.0.0.1", port));
        }
        assert_code(&finish(receiving), i32::from(code != 0));
        assert_backup(&sshd, code == 0, "TCP");
    }
}

#[test]
fn the_lines_for_cron_and_systemd_are_understood() {
    // Five fields and a command without '%'.
    let cron = block("From cron");
    let entry = cron.lines().find(|line| !line.contains('=')).unwrap();
    let mut fields = entry.split_whitespace().take(5);
    let is_field = |field: &str| field.bytes().all(|byte| b"0123456789*/,-".contains(&byte));
    assert!(fields.all(is_field) && !entry.contains('%'), "{entry}");
    if output_of(Command::new("systemd-analyze").arg("--version")).is_err() {
        return skipped("units of systemd: systemd-analyze is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    let units = block("From a systemd timer");
    for unit in units.split("# /etc/systemd/system/").skip(1) {
        let (name, text) = unit.split_once('\n').unwrap();
        // The script of the page is not there.
        let text = text.replace("/usr/local/sbin/db-backup", "/bin/true");
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        verify.arg(path);
    }
    let output = output_of(&mut verify).unwrap();
    let about_these = |line: &&str| line.contains("db-backup");
    let said: Vec<&str> = stderr(&output).lines().filter(about_these).collect();
    assert!(said.is_empty(), "{said:?}");
}
