//! A verb whose source is idle holds up nobody who freezes the file system of its output.

use std::process::{Command, Stdio};

use crate::common::*;

/// The verbs that write into a file: with splice(2) by reference, or in another way.
const VERBS: [&str; 11] = [
    "copy",
    "copy -o m/out",
    "copy --atomic -o m/out",
    "copy --sync -o m/out",
    "copy -a -o m/out",
    "copy --by-reference",
    "meter -q",
    "meter -q -o m/out",
    "tee m/out",
    "buffer -q",
    "buffer -q -o m/out",
];

#[test]
fn an_idle_source_holds_up_neither_fsfreeze_nor_a_snapshot() {
    if !is_root() {
        return skipped("freezing: only root may mount a file system");
    }
    let script = r#"
        truncate -s 64M disk && mkfs.ext4 -q -F disk && mkdir m && mount -o loop disk m || exit 77
        mkfifo idle
        for verb in VERBS; do
            exec 3<>idle
            $FB $verb < idle > m/stdout 3>&- & pid=$!
            head -c 200000 /dev/zero >&3
            until grep -q '^State:.S' /proc/$pid/status && [ "$(cat m/stdout m/out m/.[!.]* 2> /dev/null | wc -c)" -ge 200000 ]; do
                case $verb in *--atomic*) grep -q '^State:.S' /proc/$pid/status && break ;; esac
                sleep 0.01
            done
            fsfreeze -f m 3>&- & freezing=$!
            for i in $(seq 300); do kill -0 $freezing 2> /dev/null || break; sleep 0.1; done
            kill -0 $freezing 2> /dev/null && echo "$verb: fsfreeze waits for the source"
            exec 3>&-
            wait $freezing && fsfreeze -u m || exit 1
            wait $pid || exit 1
            rm -f m/out m/stdout
        done
        umount m
    "#;
    let verbs = VERBS.map(|verb| format!("'{verb}'")).join(" ");
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["-m", "bash", "-c", &script.replace("VERBS", &verbs)])
        .env("FB", FULLBORE)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(start(&mut command));
    match output.status.code() {
        Some(77) => skipped("freezing: no loop device or no mkfs.ext4 here"),
        _ => {
            assert_quiet_success(&output);
            assert_eq!(stdout(&output), "");
        }
    }
}
