//! Tests with little memory: control groups with a few MiB. 4 MiB are enough for cat.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use super::*;
use crate::copying::sync::may_trace;

/// A control group with a limit of a few MiB, which is removed when this value is dropped.
struct Small(PathBuf);

impl Small {
    fn new(bytes: u64) -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = |named: &str| {
            let line = groups.lines().find_map(|line| line.split_once(named))?;
            Some(line.1.trim_start_matches('/').to_owned())
        };
        // These are for versions 1 and 2. In version 2, a group that has processes cannot have child
        // groups, so a new one is created below the root.
        let places = [
            own(":memory:").map(|path| {
                (
                    PathBuf::from("/sys/fs/cgroup/memory").join(path),
                    "memory.limit_in_bytes",
                )
            }),
            own("0::").map(|_| (PathBuf::from("/sys/fs/cgroup"), "memory.max")),
        ];
        places.into_iter().flatten().find_map(|(parent, limit)| {
            let group = parent.join(format!("fullbore-test-{bytes}-{}", std::process::id()));
            std::fs::create_dir(&group).ok()?;
            let small = Self(group);
            std::fs::write(small.0.join(limit), bytes.to_string()).ok()?;
            let _ = std::fs::write(small.0.join("memory.swap.max"), "0");
            Some(small)
        })
    }

    /// Returns the command, started in this group.
    fn confine(&self, command: &Command) -> Command {
        let procs = self.0.join("cgroup.procs");
        let script = "echo 0 > \"$0\" && exec \"$@\"";
        behind("sh", &["-c", script, procs.to_str().unwrap()], command)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

const JOBS: &[Job] = &[
    ("copy IN", Nothing, Pipe),
    ("copy", Pipe, Pipe),
    ("copy IN -o OUT", Nothing, Nothing),
    ("copy", Pipe, ToFile),
    ("tee OUT", Pipe, Pipe),
    ("tee OUT", ToFile, Pipe),
    ("meter -q", Pipe, Pipe),
    ("meter -q IN", Nothing, Pipe),
];

#[test]
fn where_cat_survives_with_4_mib_so_do_copy_tee_and_meter() {
    let Some(small) = Small::new(4 << 20) else {
        return skipped("a control group with 4 MiB: none can be made here");
    };
    // Pages of the program itself would be charged to the group if they were read from the disk there.
    std::fs::read(FULLBORE).unwrap();
    let files = Files::new(bytes(48 << 20));
    let mut cat = Command::new("cat");
    let cat = small.confine(cat.arg(&files.input));
    let mut cat = cat;
    let survived = finish(start(&mut cat));
    if survived.stdout != files.bytes {
        return skipped(&format!(
            "4 MiB: cat does not survive either: {}",
            said_short(&survived)
        ));
    }
    for &job in JOBS {
        for by in guarantees(job.0) {
            let what = format!("{job:?} {by}");
            // Pages of a file that are not on the disk yet can fill the group, whichever program writes them, so a
            // run may end with SIGKILL while the disk is busy. A program that needs too much memory always does.
            let (output, outputs) = wait_for(&format!("{what}: an end without SIGKILL"), || {
                let ran = files.run(job, by, |command| small.confine(&command));
                (ran.0.status.signal() != Some(9)).then_some(ran)
            });
            assert_everything(&what, &output, &outputs, &files.bytes);
        }
    }
}

#[test]
fn parallel_takes_a_small_part_of_the_memory_of_its_control_group() {
    let Some(small) = Small::new(48 << 20) else {
        return skipped("a control group with 48 MiB: none can be made here");
    };
    std::fs::read(FULLBORE).unwrap();
    let files = Files::new(bytes(96 << 20));
    let mut command = Command::new("sh");
    // The first block waits, so that the outputs behind it are kept.
    let line = "cat \"$2\" | \"$1\" parallel -j 4 'sleep 0.2; cat'";
    command.args(["-c", line, "sh", FULLBORE]).arg(&files.input);
    let output = finish(start(&mut small.confine(&command)));
    assert_quiet_success(&output);
    assert!(output.stdout == files.bytes);
}

#[test]
fn a_buffer_that_its_control_group_cannot_hold_is_refused_before_the_first_byte() {
    let Some(small) = Small::new(16 << 20) else {
        return skipped("a control group with 16 MiB: none can be made here");
    };
    let files = Files::new(bytes(1 << 20));
    let out = files.input.with_file_name("new");
    let run = |memory: &str| {
        let mut command = Command::new(FULLBORE);
        command
            .args(["buffer", "-q", "-m", memory, "-i"])
            .arg(&files.input);
        finish(start(small.confine(&command).arg("-o").arg(&out)))
    };
    for memory in ["16M", "95%", "1G"] {
        let output = run(memory);
        assert_code(&output, 2);
        let said = one_line(stderr(&output));
        let words = match memory {
            "95%" => "at most 90%",
            _ => "does not fit into the 16 MiB that its cgroup allows",
        };
        assert!(said.contains(words), "{memory}: {said}");
        assert!(!out.exists(), "{memory}");
    }
    // A part of what the group allows, not of the machine.
    let output = run("10%");
    assert_code(&output, 0);
    assert_eq!(std::fs::read(&out).unwrap(), files.bytes);
}

#[test]
fn a_thread_that_cannot_be_started_is_one_line_and_code_1() {
    if !may_trace() {
        return;
    }
    let files = Files::new(bytes(100_000));
    // Each thread counts its own calls. Its first ones allocate its memory for malloc(3) and its signal stack; the first
    // ones of the process are those of the dynamic linker, whose failure is its own.
    for (calls, error) in [
        ("mmap", "ENOMEM"),
        ("mprotect", "ENOMEM"),
        ("clone,clone3", "EAGAIN"),
    ] {
        for number in 1..=4 {
            let inject = format!("-einject={calls}:error={error}:when={number}");
            let trace = [
                "-f",
                "-qq",
                "-o/dev/null",
                &inject,
                FULLBORE,
                "buffer",
                "-q",
            ];
            let mut command = Command::new("strace");
            command.args(trace).stdin(File::open(&files.input).unwrap());
            let output = finish(start(command.stdout(Stdio::piped()).stderr(Stdio::piped())));
            let said = said_short(&output);
            match output.status.code() {
                Some(0) => assert!(output.stdout == files.bytes, "{inject}"),
                Some(1) => {
                    let line = one_line(stderr(&output));
                    let expected = "fullbore buffer: start a thread: ";
                    assert!(line.starts_with(expected), "{inject}: {line}");
                }
                // What the dynamic linker says, or SIGSEGV where it says nothing.
                code => {
                    let of_linker = code.is_none() && output.status.signal() == Some(11);
                    let words = "loading shared libraries";
                    assert!(of_linker || said.contains(words), "{inject}: {said}");
                }
            }
        }
    }
}
