//! `run --whole`: no stage sees an end of its input that a failure has caused. The witness is a stage that writes a
//! line at its end.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::unix::process::CommandExt;
use tempfile::TempDir;

use crate::common::{
    assert_code, assert_quiet_success, children, finish, fullbore, holder_and_runner, is_running,
    said, start, stderr, stdout, wait_for,
};

/// The file to which a stage writes its number when it has seen the end of its input.
const SEEN: &str = "seen";

/// No stage has seen an end.
const NONE: [usize; 0] = [];

/// A directory in which pipelines run.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, options: &str, line: &str) -> Output {
        let mut command = fullbore(&format!("run --whole {options}"));
        finish(start(command.arg(line).current_dir(self.path())))
    }

    /// Returns the numbers of the stages that have seen an end since the last call.
    fn seen(&self) -> Vec<usize> {
        let path = self.path().join(SEEN);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        let mut numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Returns a stage that passes its input on, and notes when it has seen the end.
fn witness(number: usize) -> String {
    format!("sh -c 'cat && echo {number} >> {SEEN}'")
}

/// Returns a pipeline in which the stage `failing`, from 0, is `fault`, with `IN` in it replaced by the way in which
/// this stage gets its bytes.
fn pipeline(stages: usize, failing: usize, fault: &str) -> String {
    let all: Vec<String> = (0..stages)
        .map(|number| match number {
            number if number == failing => {
                let from = ["cat", "head -c 300000 /dev/zero"][usize::from(number == 0)];
                format!("sh -c '{}'", fault.replace("IN", from))
            }
            0 => "head -c 300000 /dev/zero".to_owned(),
            number => witness(number),
        })
        .collect();
    all.join(" | ")
}

#[test]
fn no_stage_behind_a_failure_sees_an_end() {
    let place = Place::new();
    for stages in [2, 3, 6] {
        for failing in 0..stages {
            for (fault, code) in [
                ("exit 3", 3),
                ("IN | head -c 1000; exit 3", 3),
                ("IN; exit 3", 3),
                ("IN; kill -9 $$", 137),
                ("IN; exec >&-; sleep 0.02; exit 3", 3),
                ("exec >&-; cat <&0 > /dev/null; exit 3", 3),
            ] {
                let line = pipeline(stages, failing, fault);
                let output = place.run("", &line);
                let seen = place.seen();
                let what = format!("{line}: {seen:?}, {}", said(&output));
                assert!(seen.iter().all(|&number| number < failing), "{what}");
                assert_eq!(output.status.code(), Some(code), "{what}");
                assert!(
                    stderr(&output).contains(&format!("stage {}, sh -c", failing + 1)),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn every_stage_sees_the_end_if_all_succeed() {
    let place = Place::new();
    for stages in [1, 2, 5] {
        let line = pipeline(stages, stages, "");
        let output = place.run("", &line);
        assert_quiet_success(&output);
        assert_eq!(output.stdout.len(), 300_000);
        assert_eq!(place.seen(), (1..stages).collect::<Vec<_>>());
    }
}

#[test]
fn a_stage_that_sigpipe_ended_because_the_next_had_read_enough_has_not_failed() {
    let place = Place::new();
    let line = format!("yes | head -n 2 | {}", witness(2));
    let output = place.run("", &line);
    assert_quiet_success(&output);
    assert_eq!(stdout(&output), "y\ny\n");
    assert_eq!(place.seen(), [2]);
    let output = place.run(
        "--sigpipe-fails",
        &format!("yes | head -n 2 > /dev/null | {}", witness(2)),
    );
    assert_eq!(output.status.code(), Some(141), "{}", said(&output));
}

#[test]
fn sigpipe_of_another_pipe_is_a_failure() {
    let place = Place::new();
    // The first stage dies of a pipe of its own, and the second still reads.
    let line = format!("sh -c 'kill -PIPE $$' | {}", witness(1));
    let output = place.run("", &line);
    assert_code(&output, 141);
    assert_eq!(place.seen(), NONE);
}

#[test]
fn the_end_comes_when_the_stage_has_exited_and_not_before() {
    let place = Place::new();
    // The second stage would see its end as soon as the first has closed its output.
    let line = format!(
        "sh -c 'exec >&-; sleep 0.3; test ! -e {SEEN}' | {}",
        witness(1)
    );
    assert_quiet_success(&place.run("", &line));
    assert_eq!(place.seen(), [1]);
    // A child that a stage leaves behind has the pipe open.
    let line = format!(
        "sh -c '(sleep 0.3; test -e {SEEN} || echo x) & exit 0' | {}",
        witness(1)
    );
    let output = place.run("", &line);
    assert_eq!(stdout(&output), "x\n", "{}", said(&output));
    assert_eq!(place.seen(), [1]);
}

#[test]
fn a_stage_that_is_stopped_is_waited_for_and_sees_no_end_that_a_failure_has_caused() {
    let place = Place::new();
    // Stopped before it fails, and before it succeeds: a child of the stage continues it.
    let continued =
        "until grep -q \"^State:.T\" /proc/$$/status; do sleep 0.01; done; kill -CONT $$";
    for (code, seen) in [(3, &[][..]), (0, &[1])] {
        let line = format!(
            "sh -c '({continued}) & kill -STOP $$; exit {code}' | {}",
            witness(1)
        );
        assert_code(&place.run("", &line), code);
        assert_eq!(place.seen(), seen);
    }
    // Stopped while the stage before it fails.
    let line = format!("sh -c 'exit 3' | sh -c 'kill -STOP $$; cat && echo 1 >> {SEEN}'",);
    let output = place.run("--grace 0.2", &line);
    assert_code(&output, 3);
    assert_eq!(place.seen(), NONE);
}

#[test]
fn a_stage_that_ignores_the_signal_is_killed_after_the_grace_period() {
    let place = Place::new();
    let stubborn = format!("sh -c 'trap \"\" TERM; cat && echo 1 >> {SEEN}'");
    let output = place.run(
        "--grace 0.2",
        &format!("false | {stubborn} | {}", witness(2)),
    );
    assert_code(&output, 1);
    assert_eq!(place.seen(), NONE);
    // What a stage has left in the background is ended too. (A shell gives it /dev/null as its stdin.)
    let output = place.run(
        "--grace 0.2",
        &format!("sh -c 'sleep 0.1; exit 4' | (exec 3<&0; {stubborn} <&3 & exit 0)"),
    );
    assert_code(&output, 4);
    assert_eq!(place.seen(), NONE);
}

#[test]
fn the_output_file_is_replaced_only_if_all_stages_have_succeeded() {
    let place = Place::new();
    let file = place.path().join("out");
    let kept = || {
        let names = fs::read_dir(place.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    assert_quiet_success(&place.run("-o out", "seq 3 | tr 1 x"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "x\n2\n3\n");
    for (line, code) in [
        ("sh -c 'echo a; exit 3' | cat", 3),
        ("echo a | sh -c 'cat; exit 4'", 4),
        ("echo a | sh -c 'cat; kill -9 $$'", 137),
        ("echo a | no-such-program", 127),
    ] {
        let output = place.run("-o out", line);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            said(&output)
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "x\n2\n3\n", "{line}");
    }
    // What is left in the background writes too.
    assert_quiet_success(&place.run(
        "-o out",
        "cat out | sh -c 'cat; (sleep 0.2; echo late) & exit 0'",
    ));
    assert_eq!(fs::read_to_string(&file).unwrap(), "x\n2\n3\nlate\n");
    assert_eq!(kept(), ["out"]);
    let output = place.run("-o /dev/full", "echo a | cat");
    assert_code(&output, 125);
    assert!(stderr(&output).contains("/dev/full"), "{}", said(&output));
    // It implies --whole.
    let mut command = fullbore("run -o out");
    let line = "sh -c 'echo a; exit 3' | cat";
    assert_code(
        &finish(start(command.arg(line).current_dir(place.path()))),
        3,
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "x\n2\n3\nlate\n");
}

#[test]
fn groups_loops_and_run_itself_can_be_stages() {
    let place = Place::new();
    for (line, code) in [
        ("(echo a; false) | ".to_owned(), 1),
        ("{ echo a; exit 5; } | ".to_owned(), 5),
        ("for i in 1 2; do echo $i; exit 6; done | ".to_owned(), 6),
        (
            format!(
                "{} run --whole 'echo a | sh -c \"cat; exit 7\" | cat' | ",
                crate::common::FULLBORE
            ),
            7,
        ),
    ] {
        let output = place.run("", &format!("{line}{}", witness(1)));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            said(&output)
        );
        assert_eq!(place.seen(), NONE, "{line}");
    }
    let output = place.run("", &format!("(echo a; true) | {}", witness(1)));
    assert_quiet_success(&output);
    assert_eq!(place.seen(), [1]);
}

#[test]
fn a_line_that_cannot_be_split_and_contradictions_are_refused() {
    let place = Place::new();
    for line in ["a | b; c", "a && b | c", "a | b &", "cat <<E | b\nx\nE\n"] {
        let output = place.run("", line);
        assert_code(&output, 2);
        assert!(
            stderr(&output).contains("--whole needs one pipeline"),
            "{}",
            said(&output)
        );
    }
    assert_code(&place.run("--no-pipefail", "a | b"), 2);
    assert_code(&place.run("--grace -1", "a | b"), 2);
    let many = vec!["true"; 255].join(" | ");
    let output = place.run("", &many);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("254"), "{}", said(&output));
}

#[test]
fn no_stage_sees_an_end_when_run_itself_is_ended() {
    let place = Place::new();
    let line = format!("sleep 1000 | {} | {}", witness(1), witness(2));
    // The first process, the one that holds the pipes, and the one that has started the stages.
    for (whom, signal, in_group) in [
        (&[0][..], Signal::KILL, false),
        (&[2], Signal::KILL, false),
        (&[0, 1], Signal::KILL, false),
        (&[0, 2], Signal::KILL, false),
        (&[1, 2], Signal::KILL, false),
        (&[0], Signal::TERM, false),
        (&[2], Signal::TERM, false),
        (&[0], Signal::HUP, true),
        (&[0], Signal::INT, true),
        (&[0], Signal::KILL, true),
    ] {
        let mut command = fullbore("run --whole --grace 0.3");
        command
            .arg(&line)
            .current_dir(place.path())
            .process_group(0);
        let child = start(&mut command);
        let id = child.id();
        let (holder, runner) = wait_for("the runner", || holder_and_runner(id));
        let stages: Vec<Pid> = wait_for("the stages", || {
            let found = children(runner.as_raw_nonzero().get() as u32);
            let named = |name: &str| {
                found
                    .iter()
                    .any(|(_, words)| words.iter().any(|w| w.contains(name)))
            };
            (found.len() == 3 && named("sleep") && named("echo 1") && named("echo 2"))
                .then(|| found.iter().map(|&(pid, _)| pid).collect())
        });
        for &number in whom {
            let pid = [Pid::from_child(&child), holder, runner][number];
            match in_group {
                true => kill_process_group(pid, signal).unwrap(),
                false => kill_process(pid, signal).unwrap(),
            }
        }
        finish(child);
        wait_for("the end of the stages", || {
            (!stages.iter().any(|&stage| is_running(stage))).then_some(())
        });
        // What has seen an end writes it at once; this only gives a defect more chances to be seen.
        thread::sleep(Duration::from_millis(20));
        assert_eq!(
            place.seen(),
            NONE,
            "{signal:?} to {whom:?}, to the group: {in_group}"
        );
        wait_for("the end of the holder", || {
            (!is_running(holder)).then_some(())
        });
    }
}

#[test]
fn a_last_stage_on_another_machine_is_warned_about_unless_the_stream_is_sealed() {
    let directory = tempfile::tempdir().unwrap();
    // Stands for all of them: they only pass on what they read.
    let clients = ["ssh", "docker", "kubectl", "nc", "socat"];
    for client in clients {
        std::os::unix::fs::symlink("/bin/cat", directory.path().join(client)).unwrap();
    }
    let path = format!(
        "{}:{}",
        directory.path().display(),
        std::env::var("PATH").unwrap()
    );
    let warned = |options: &str, line: &str| {
        let mut command = fullbore(&format!("run --whole {options}"));
        let output = finish(start(command.arg(line).env("PATH", &path)));
        assert_code(&output, 0);
        stderr(&output)
            .lines()
            .filter(|line| line.contains("ordinary end"))
            .count()
    };
    for client in clients {
        assert_eq!(warned("", &format!("echo a | {client}")), 1, "{client}");
        assert_eq!(
            warned("", &format!("echo a | LC_ALL=C {client} \"-\"")),
            1,
            "{client}"
        );
        assert_eq!(
            warned("--quiet", &format!("echo a | {client}")),
            0,
            "{client}"
        );
        assert_eq!(
            warned("", &format!("{client} /etc/hostname | cat")),
            0,
            "{client}"
        );
        let sealed = format!(
            "echo a | {} copy --seal | {client}",
            crate::common::FULLBORE
        );
        assert_eq!(warned("", &sealed), 0, "{client}");
    }
    let direct = format!("{}/ssh", directory.path().display());
    for stage in [&*direct, "timeout -k 5 10 ssh", "(exec nice -n 1 ssh)"] {
        assert_eq!(warned("", &format!("echo a | {stage}")), 1, "{stage}");
    }
    let output = finish(start(
        fullbore("run --whole -- echo a | nc").env("PATH", &path),
    ));
    assert!(
        stderr(&output).contains("what nc passes its input to"),
        "{}",
        said(&output)
    );
    assert_eq!(warned("", "echo ssh | cat"), 0);
}
