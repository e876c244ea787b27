//! Tests of `--atomic`: an output is either as it was, or complete, whatever happens in between.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, mknodat, setxattr};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use seccompiler::{BpfProgram, SeccompCmpOp::MaskedEq};
use tempfile::TempDir;

use crate::common::refusing::{call, refusing, under};
use crate::common::users::ForEverybody;
use crate::common::*;

const ACL: &str = "system.posix_acl_access";

/// Each verb, with `IN` to be copied to `OUT`.
const VERBS: [&str; 4] = [
    "copy --atomic IN -o OUT",
    "meter --atomic -q IN -o OUT",
    "tee --atomic OUT < IN > /dev/null",
    "buffer --atomic -q -f -m 1M -i IN -o OUT",
];

fn new_content() -> &'static [u8] {
    numbers(200_000)
}

/// Makes a directory with `in`, and `out`, which has other bytes.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("in"), new_content()).unwrap();
    fs::write(directory.path().join("out"), "old\n").unwrap();
    directory
}

/// A file system that has no files without a name, simulated.
fn without_nameless_files() -> BpfProgram {
    // __O_TMPFILE of include/uapi/asm-generic/fcntl.h.
    let flag = 0o20_000_000;
    let condition = (2, MaskedEq(flag), flag);
    refusing(&[(call::OPENAT, &[condition])], Errno::OPNOTSUPP)
}

fn under_filter(directory: &Path, line: &str, filter: Option<&BpfProgram>) -> Output {
    finish(start(&mut filtered_bash(directory, line, filter)))
}

fn filtered_bash(directory: &Path, line: &str, filter: Option<&BpfProgram>) -> Command {
    let mut command = bash(directory, line);
    users::with_usual_signals(&mut command);
    if let Some(filter) = filter {
        under(filter.clone(), &mut command);
    }
    command
}

/// Returns a verb's line of shell with these names.
fn line(verb: &str, input: &str, output: &str) -> String {
    let words = verb.split(' ').map(|word| match word {
        "IN" => input,
        "OUT" => output,
        word => word,
    });
    let words: Vec<&str> = words.collect();
    format!("$FB {}", words.join(" "))
}

/// Calls `check` with files that have no name until they are complete, and with those that have one.
fn both_ways(check: impl Fn(Option<&BpfProgram>)) {
    check(None);
    check(Some(&without_nameless_files()));
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

/// Asserts that `out` has not been touched, and that there are no other names. A guard may be removing one.
#[track_caller]
fn assert_untouched(directory: &Path, what: &str) {
    wait_for(what, || (names(directory) == ["in", "out"]).then_some(()));
    assert_eq!(fs::read(directory.join("out")).unwrap(), b"old\n", "{what}");
}

#[test]
fn a_complete_output_takes_the_place_of_the_old_file_and_leaves_no_other_name() {
    both_ways(|filter| {
        for verb in VERBS {
            for target in ["out", "./new"] {
                let dir = directory();
                let path = dir.path().join(target);
                let before = fs::metadata(&path).map(|file| file.ino()).ok();
                let output = under_filter(dir.path(), &line(verb, "in", target), filter);
                assert_quiet_success(&output);
                assert!(fs::read(&path).unwrap() == new_content(), "{verb}");
                assert_ne!(Some(fs::metadata(&path).unwrap().ino()), before, "{verb}");
                let expected = if target == "out" { 2 } else { 3 };
                assert_eq!(names(dir.path()).len(), expected, "{verb}");
            }
        }
    });
}

#[test]
fn an_input_may_be_the_output() {
    both_ways(|filter| {
        for verb in VERBS {
            let dir = directory();
            let output = under_filter(dir.path(), &line(verb, "in", "in"), filter);
            assert_quiet_success(&output);
            let path = dir.path().join("in");
            assert!(fs::read(path).unwrap() == new_content(), "{verb}");
        }
        let dir = directory();
        let line = "$FB copy --atomic -o out out - out < out && sed s/old/older/ out | $FB tee --atomic out";
        let output = under_filter(dir.path(), line, filter);
        assert_quiet_success(&output);
        let out = fs::read_to_string(dir.path().join("out")).unwrap();
        assert_eq!(out, "older\n".repeat(3));
        assert_eq!(stdout(&output), out);
    });
}

#[test]
fn after_a_failure_the_old_file_is_as_it_was() {
    both_ways(|filter| {
        for (line, code, words) in [
            ("$FB copy --atomic in no -o out", 1, "open 'no'"),
            ("$FB copy --atomic in . -o out", 1, "read from '.'"),
            ("$FB copy --atomic -o out < .", 1, "stdin"),
            ("$FB meter --atomic -q in no -o out", 1, "open 'no'"),
            ("$FB buffer --atomic -q -f -o out < .", 1, "stdin"),
            ("$FB tee --atomic out < .", 1, "stdin"),
            // stdout has no reader any more, so the file would lack bytes. (Without a file, this is no error.)
            (
                "$FB tee --atomic out < in | true; exit ${PIPESTATUS[0]}",
                1,
                "write to stdout",
            ),
            (
                "$FB buffer --atomic -q -e -f -o out -o /dev/full < in",
                1,
                "'/dev/full'",
            ),
        ] {
            let dir = directory();
            let output = under_filter(dir.path(), line, filter);
            assert_code(&output, code);
            assert!(
                one_line(stderr(&output)).contains(words),
                "{line}: {}",
                said(&output)
            );
            assert_untouched(dir.path(), line);
        }
    });
}

#[test]
fn an_output_that_is_complete_does_not_wait_for_others_that_have_failed() {
    for line in [
        "$FB tee --atomic -p out < in | true; true",
        "$FB tee --atomic --output-error=warn out < in > /dev/full; true",
        "$FB buffer --atomic -q -f -o out -o - < in > /dev/full; true",
    ] {
        let dir = directory();
        let output = under_filter(dir.path(), line, None);
        assert_code(&output, 0);
        assert!(
            fs::read(dir.path().join("out")).unwrap() == new_content(),
            "{line}"
        );
    }
}

#[test]
fn on_a_full_disk_the_old_file_is_as_it_was() {
    if !is_root() {
        return skipped("a full disk: only root may mount a small file system");
    }
    both_ways(|filter| {
        for verb in VERBS {
            let dir = directory();
            fs::create_dir(dir.path().join("disk")).unwrap();
            // The old file is on the disk, and there is room for a part of the new one.
            let line = format!(
                "mount -t tmpfs -o size=1m none disk && mv out disk && {{ {}; code=$?; ls -A disk; cat disk/out; exit $code; }}",
                line(verb, "in", "disk/out")
            );
            let mut command = filtered_bash(dir.path(), &line, filter);
            let program = command.get_program().to_owned();
            let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let mut outer = Command::new("unshare");
            outer.arg("-m").arg(program).args(arguments);
            outer.env("FB", FULLBORE).current_dir(dir.path());
            outer
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            if let Some(filter) = filter {
                under(filter.clone(), &mut outer);
            }
            command = outer;
            let output = finish(start(&mut command));
            assert_code(&output, 1);
            assert!(
                stderr(&output).contains("No space left on device"),
                "{}",
                said(&output)
            );
            assert_eq!(stdout(&output), "out\nold\n", "{verb}");
        }
    });
}

#[test]
fn what_cannot_be_replaced_is_refused_before_a_byte_is_read() {
    let dir = directory();
    let path = |name: &str| dir.path().join(name);
    mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    fs::create_dir(path("folder")).unwrap();
    symlink("nowhere", path("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    for (target, words) in [
        ("fifo", "it is a FIFO"),
        ("socket", "it is a socket"),
        ("folder", "it is a directory"),
        ("folder/", "it is a directory"),
        ("new/", "Is a directory"),
        ("new/.", "No such file or directory"),
        ("new/..", "No such file or directory"),
        ("new/./", "No such file or directory"),
        ("dangling", "a symbolic link that leads nowhere"),
        ("/dev/null", "it is a device"),
        ("/dev/stdout", "an open descriptor"),
        ("/dev/fd/2", "an open descriptor"),
        ("no/where", "create a file in 'no'"),
        ("in/side", "Not a directory"),
    ] {
        for verb in [
            "copy --atomic -o OUT",
            "meter --atomic -q -o OUT",
            "tee --atomic OUT",
            "buffer --atomic -q -f -o OUT",
        ] {
            let line = format!("{{ {}; echo $? >&2; cat; }} < in", line(verb, "in", target));
            let output = under_filter(dir.path(), &line, None);
            let (message, code) = stderr(&output).split_once('\n').unwrap();
            // `copy -o` knows directories.
            let is_folder =
                verb.starts_with("copy") && (target == "folder" || target.ends_with('/'));
            let expected = if is_folder { "2\n" } else { "1\n" };
            assert_eq!(code, expected, "{}", said(&output));
            let words = if is_folder { "directory" } else { words };
            assert!(
                message.contains(words) && message.contains(target),
                "{target}: {message}"
            );
            assert!(output.stdout == new_content(), "{line}: a byte was read");
        }
    }
    let output = under_filter(dir.path(), "$FB buffer --atomic -q -o out < in", None);
    assert_code(&output, 1);
    assert!(one_line(stderr(&output)).contains("File exists (-f replaces it"));
}

#[test]
fn a_file_or_directory_that_may_not_be_written_to_is_not_replaced() {
    if !is_root() {
        return skipped("files of other users: only root can make them");
    }
    let program = ForEverybody::new();
    let dir = directory();
    let set = |name: &str, owner: u32, mode| {
        let path = dir.path().join(name);
        chown(&path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    };
    for (folder, file, words) in [
        // The directory: there can be no new file.
        ((0, 0o755), (1000, 0o644), "create a file in"),
        // The file, although rename(2) would replace it.
        ((1000, 0o755), (0, 0o644), "Permission denied"),
        // Everybody may write to the file, but nobody else can make one that belongs to its owner.
        (
            (0, 0o777),
            (0, 0o666),
            "its owner and its ACL: Operation not permitted",
        ),
    ] {
        set("", folder.0, folder.1);
        set("out", file.0, file.1);
        let out = dir.path().join("out").display().to_string();
        let output = finish(start(
            &mut program.command(1000, &format!("copy --atomic -o {out}")),
        ));
        assert_code(&output, 1);
        assert!(
            one_line(stderr(&output)).contains(words),
            "{}",
            said(&output)
        );
        assert_untouched(dir.path(), words);
    }
}

#[test]
fn a_mount_point_and_a_file_that_is_only_appended_to_are_refused() {
    if !is_root() {
        return skipped("a mount point: only root may mount a file");
    }
    let dir = directory();
    let line = "mount --bind in out && $FB copy --atomic /dev/null -o out";
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-c", line]).env("FB", FULLBORE);
    command
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(start(&mut command));
    assert_code(&output, 1);
    assert!(
        one_line(stderr(&output)).contains("it is a mount point"),
        "{}",
        said(&output)
    );
    let line = "chattr +a out || exit 77; $FB copy --atomic /dev/null -o out; code=$?; chattr -a out; exit $code";
    let output = under_filter(dir.path(), line, None);
    match output.status.code() {
        Some(77) => skipped("a file that can only be appended to: chattr cannot be used here"),
        _ => {
            assert_code(&output, 1);
            assert!(
                one_line(stderr(&output)).contains("it can only be appended to"),
                "{}",
                said(&output)
            );
        }
    }
    assert_untouched(dir.path(), line);
}

#[test]
fn what_a_symbolic_link_points_to_is_replaced_and_the_link_stays() {
    let dir = directory();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::rename(path("out"), path("folder/target")).unwrap();
    symlink("folder/target", path("middle")).unwrap();
    symlink("middle", path("out")).unwrap();
    assert_quiet_success(&under_filter(
        dir.path(),
        "$FB copy --atomic in -o out",
        None,
    ));
    assert!(fs::symlink_metadata(path("out")).unwrap().is_symlink());
    assert!(fs::read(path("folder/target")).unwrap() == new_content());
    assert_eq!(names(&path("folder")), ["target"]);
}

#[test]
fn mode_owner_and_acl_are_those_of_the_old_file() {
    both_ways(|filter| {
        let dir = directory();
        let out = dir.path().join("out");
        if is_root() {
            chown(&out, Some(1234), Some(5678)).unwrap();
        }
        fs::set_permissions(&out, Permissions::from_mode(0o4750)).unwrap();
        let before = fs::metadata(&out).unwrap();
        let replace = || {
            assert_quiet_success(&under_filter(
                dir.path(),
                "$FB copy --atomic in -o out",
                filter,
            ))
        };
        replace();
        let after = fs::metadata(&out).unwrap();
        assert_eq!(
            (after.mode(), after.uid(), after.gid()),
            (before.mode(), before.uid(), before.gid())
        );
        // Entries of acl(5) in the form of include/uapi/linux/posix_acl_xattr.h: tag, permissions, ID.
        let entry = |tag: u16, permissions: u16, id: u32| {
            [
                &tag.to_le_bytes()[..],
                &permissions.to_le_bytes(),
                &id.to_le_bytes(),
            ]
            .concat()
        };
        let none = u32::MAX;
        let acl = [
            2_u32.to_le_bytes().to_vec(),
            entry(1, 6, none),
            entry(2, 4, 4321),
            entry(4, 0, none),
            entry(16, 4, none),
            entry(32, 0, none),
        ]
        .concat();
        match setxattr(&out, ACL, &acl, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => return skipped("an ACL: this file system has none"),
            set => set.unwrap(),
        }
        let before = fs::metadata(&out).unwrap().mode();
        replace();
        let mut found = vec![0; 1000];
        let len = getxattr(&out, ACL, &mut found).unwrap();
        assert_eq!(found[..len], acl);
        assert_eq!(fs::metadata(&out).unwrap().mode(), before);
        // A directory with a default ACL gives it to new files, and only to them.
        setxattr(
            dir.path(),
            "system.posix_acl_default",
            &acl,
            XattrFlags::empty(),
        )
        .unwrap();
        fs::remove_file(&out).unwrap();
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        rustix::fs::removexattr(&plain, ACL).unwrap();
        let lines =
            "$FB copy --atomic in -o out && $FB copy --atomic in -o plain && $FB copy in -o usual";
        assert_quiet_success(&under_filter(dir.path(), lines, filter));
        let acl_of = |name: &str| {
            let mut found = vec![0; 1000];
            let len = getxattr(dir.path().join(name), ACL, &mut found);
            len.map(|len| found[..len].to_vec())
        };
        assert_eq!(acl_of("out"), acl_of("usual"));
        assert_eq!(acl_of("plain"), Err(Errno::NODATA));
    });
}

#[test]
fn a_new_file_has_the_mode_of_any_new_file() {
    both_ways(|filter| {
        let dir = directory();
        let line = "umask 027; $FB copy --atomic in -o new";
        assert_quiet_success(&under_filter(dir.path(), line, filter));
        let mode = fs::metadata(dir.path().join("new")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o640);
    });
}

/// Starts each verb such that it has read a part of its input and waits for more.
fn waiting(directory: &Path, verb: &str, filter: Option<&BpfProgram>) -> (Child, impl Write) {
    let (reader, mut writer) = pipe();
    let line = format!("exec {}", line(verb, "/dev/stdin", "out"));
    let mut command = filtered_bash(directory, &line.replace("< /dev/stdin", ""), filter);
    let child = start(command.stdin(reader));
    // More than a pipe holds: when it has been written, the verb has read.
    writer.write_all(&vec![1; 3 << 20]).unwrap();
    (child, writer)
}

#[test]
fn a_signal_in_the_middle_leaves_the_old_file_and_no_other_name() {
    both_ways(|filter| {
        for verb in VERBS {
            for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
                let dir = directory();
                let (child, writer) = waiting(dir.path(), verb, filter);
                kill_process(Pid::from_child(&child), signal).unwrap();
                let output = finish(child);
                assert!(!output.status.success(), "{verb}: {}", said(&output));
                drop(writer);
                assert_untouched(dir.path(), verb);
            }
        }
    });
}

#[test]
fn a_signal_between_any_two_calls_leaves_the_old_file_or_the_new_one_and_no_other_name() {
    let traced = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    if !traced.is_ok_and(|output| output.status.success()) {
        return skipped("calls that fail: strace is not there or may not trace");
    }
    both_ways(|filter| {
        for verb in VERBS {
            for call in [
                "fchmod",
                "linkat",
                "renameat,renameat2,rename",
                "unlinkat",
                "close",
            ] {
                let dir = directory();
                let traced = line(verb, "in", "out").replace(
                    "$FB",
                    &format!(
                        "strace -f -o /dev/null -e trace={call} -e inject={call}:signal=TERM $FB"
                    ),
                );
                // SIGTERM before the call, at the first one of each kind.
                let output = under_filter(dir.path(), &traced, filter);
                let what = format!("{verb}, {call}: {}", said(&output));
                wait_for(&what, || (names(dir.path()) == ["in", "out"]).then_some(()));
                let out = fs::read(dir.path().join("out")).unwrap();
                let is_new = out == new_content();
                assert!(is_new || out == b"old\n", "{what}");
                // The exit code says which of the two it is.
                assert_eq!(is_new, output.status.success(), "{what}");
            }
        }
    });
}

/// A signal of a process that is not traced, while the call waits: SIGTERM comes to all threads.
#[test]
fn a_signal_while_the_file_is_put_in_place_comes_too_late() {
    let traced = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    if !traced.is_ok_and(|output| output.status.success()) {
        return skipped("calls that fail: strace is not there or may not trace");
    }
    let verbs = VERBS
        .into_iter()
        .chain(["run -q --whole -o OUT 'cat IN | cat'"]);
    for (verb, call) in verbs.flat_map(|verb| [(verb, "linkat"), (verb, "renameat")]) {
        let dir = directory();
        let ended = line(verb, "in", "out").replace(
            "$FB",
            &format!("strace -f -o trace -e trace={call} -e inject={call}:delay_enter=300000 $FB"),
        );
        // The shell of the line is the parent of strace, and strace that of the verb.
        let kill = format!(
            "({ended}; echo $? > code) & until grep -q {call} trace 2> /dev/null || [ -e code ]; do sleep 0.01; done; \
             pid=$(head -n 1 trace | cut -d ' ' -f 1); kill -TERM $pid; wait; cat code"
        );
        let output = under_filter(dir.path(), &kill, None);
        let what = format!("{verb}, {call}: {}", said(&output));
        let is_new = fs::read(dir.path().join("out")).unwrap() == new_content();
        let code = fs::read_to_string(dir.path().join("code")).unwrap();
        assert_eq!(is_new, code == "0\n", "{what}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for line in [
        "$FB copy --atomic in",
        "$FB copy --atomic --append in -o out",
        "$FB meter --atomic in",
        "$FB meter --atomic --watch 1",
        "$FB tee --atomic < in",
        "$FB tee --atomic -a out < in",
        "$FB buffer --atomic < in",
        "$FB buffer --atomic --append -o out < in",
    ] {
        let dir = directory();
        let output = under_filter(dir.path(), line, None);
        assert_code(&output, 2);
        one_line(stderr(&output));
        assert_untouched(dir.path(), line);
    }
}
