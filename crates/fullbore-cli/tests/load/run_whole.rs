//! Random pipelines with `--whole` of which a stage fails or is killed at a random moment: no stage behind it ever sees
//! an end. Every one of 2,000 pipelines has to succeed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::common::users::ForEverybody;
use crate::common::{
    FULLBORE, children, copy_program, finish, fullbore, holder_and_runner, is_root, is_running,
    kill_with_children, output_of, said, start, under_load, wait_for,
};

#[test]
fn under_load_no_stage_behind_a_failure_sees_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let mut random = fastrand::Rng::new();
    let mut failed = 0;
    for round in 0..under_load(2000) {
        let stages = random.usize(2..=6);
        let failing = random.usize(..stages);
        let bytes = random.usize(..400_000);
        let is_killed = random.bool();
        let scripts: Vec<String> = (0..stages)
            .map(|stage| match (stage, stage == failing && !is_killed) {
                (0, true) => format!("head -c {bytes} /dev/zero; exit 9"),
                (0, false) => format!("head -c {bytes} /dev/zero && sleep 0.01"),
                (_, true) => format!("head -c {}; exit 9", random.usize(..=bytes)),
                (_, false) => format!("cat && echo {stage} >> seen"),
            })
            .collect();
        // As words, so that no shell checks them first.
        let words = scripts
            .iter()
            .flat_map(|script| ["|", "sh", "-c", script])
            .skip(1);
        let mut command = ignoring_sigpipe(random.bool());
        command
            .args("run --whole --grace 1 --".split(' '))
            .args(words)
            .current_dir(directory.path())
            .stdout(Stdio::null());
        let child = start(&mut command);
        let mut victim = None;
        if is_killed {
            thread::sleep(Duration::from_micros(random.u64(..30_000)));
            let stages = holder_and_runner(child.id())
                .map(|(_, runner)| children(runner.as_raw_nonzero().get() as u32))
                .unwrap_or_default();
            // The stages are in the order in which they were started, if all are there.
            if let Some(&(pid, _)) = stages.get(failing) {
                victim = Some(pid);
                kill(pid, Signal::KILL);
            }
        }
        let output = finish(child);
        let text = fs::read_to_string(&seen).unwrap_or_default();
        let _ = fs::remove_file(&seen);
        let what = format!(
            "{round}: {scripts:?}, killed: {victim:?}: {text:?}, {}",
            said(&output)
        );
        // A stage before the failed one may have seen its end.
        match broken(&output.stderr) {
            Some(broken) => {
                failed += 1;
                // One that is killed may have seen its own end, and not have ended yet.
                let first_behind = broken + usize::from(victim.is_some());
                let mut seen = text.lines().map(|line| line.parse::<usize>().unwrap());
                assert!(seen.all(|stage| stage < first_behind), "{what}");
                assert!(!output.status.success(), "{what}");
            }
            None => assert!(
                output.status.success() && text.lines().count() == stages - 1,
                "{what}"
            ),
        }
    }
    assert!(failed > 0);
}

/// Returns the command for which its parent ignores SIGPIPE, if so.
fn ignoring_sigpipe(is_ignored: bool) -> Command {
    if !is_ignored {
        return fullbore("");
    }
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' PIPE; exec \"$@\"", "sh", FULLBORE])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The second stage reads less than the first one writes, or more; it succeeds, or fails.
#[test]
fn under_load_early_readers_are_accepted_and_no_other_failure_is() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let mut random = fastrand::Rng::new();
    for round in 0..under_load(400) {
        let bytes = random.u32(1..300_000);
        let endless = "trap '' PIPE; while echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; do :; done 2> /dev/null; exit 7";
        let (first, second, code) = match random.usize(..4) {
            0 => (endless.to_owned(), format!("head -c {bytes}"), 0),
            1 => (endless.to_owned(), format!("head -c {bytes} | cat"), 0),
            2 => (endless.to_owned(), format!("head -c {bytes}; exit 9"), 9),
            _ => (
                format!("head -c {bytes} /dev/zero; exit 7"),
                format!("head -c {}", bytes + 1),
                7,
            ),
        };
        let behind = random.usize(..4);
        let scripts = (0..behind).map(|stage| format!("cat && echo {stage} >> seen"));
        let words = [first.clone(), second.clone()]
            .into_iter()
            .chain(scripts)
            .flat_map(|script| ["|".to_owned(), "sh".to_owned(), "-c".to_owned(), script])
            .skip(1);
        let mut command = ignoring_sigpipe(random.bool());
        command
            .args("run --whole --grace 1 --accept 1=early --".split(' '))
            .args(words)
            .current_dir(directory.path())
            .stdout(Stdio::null());
        let output = finish(start(&mut command));
        let text = fs::read_to_string(&seen).unwrap_or_default();
        let _ = fs::remove_file(&seen);
        let expected = if code == 0 { behind } else { 0 };
        assert!(
            output.status.code() == Some(code) && text.lines().count() == expected,
            "{round}: {first} | {second}, {behind} behind: {text:?}, {}",
            said(&output)
        );
    }
}

/// What stages run: all but the first note it if they see an end of their input. What goes on after its child has ended
/// does not write to the next stage, because a broken pipe is no end.
const SCRIPTS: [(&str, &str); 4] = [
    ("cat", "cat && echo $1 >> seen"),
    ("list", "(cat > /dev/null; true); echo $1 >> seen"),
    (
        "tee",
        "tee >(cat > /dev/null; echo $1 >> seen) > /dev/null && echo $1 >> seen",
    ),
    ("root", "echo $$ >> roots; cat > /dev/null; echo $1 >> seen"),
];

/// The first stage never succeeds, and `run` is ended at a random moment, or fails, or the pipeline stalls. If this test runs as root, some
/// stages belong to another user than the others, so that `run` may not signal them.
#[test]
fn under_load_no_stage_sees_an_end_whatever_ends_run() {
    let everybody = ForEverybody::new();
    let directory = everybody.path().parent().unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    for (name, script) in SCRIPTS {
        fs::write(directory.join(name), script).unwrap();
    }
    let user = rustix::process::geteuid().as_raw();
    let user = if user == 0 { 65_534 } else { user };
    let programs = [
        "sh cat",
        "sh list",
        "bash tee",
        "./become --reuid=0 --regid=0 --clear-groups sh root",
    ];
    let programs = &programs[..if may_become_root(directory) { 4 } else { 3 }];
    let mut random = fastrand::Rng::new();
    for round in 0..under_load(600) {
        let stalls = random.usize(..8) == 0;
        let first = match random.bool() && !stalls {
            true => format!("(head -c {} /dev/zero; exit 9)", random.u32(..300_000)),
            false => "(echo x; exec sleep 1000)".to_owned(),
        };
        let stages = (1..random.usize(2..6)).map(|number| {
            let program = programs[random.usize(..programs.len())];
            format!(" | {program} {number}")
        });
        let line = first + &stages.collect::<String>();
        let options = ["--whole", "--stalled 0.3"][usize::from(stalls)];
        let mut command = everybody.command(user, &format!("run -q {options} --grace 0.05"));
        command.arg(&line).process_group(0);
        let mut child = start(&mut command);
        drop((child.stdout.take(), child.stderr.take()));
        thread::sleep(Duration::from_micros(random.u64(..60_000)));
        let keeper = Pid::from_child(&child);
        let known = match stalls {
            true => Some(wait_for("the holder", || holder_and_runner(child.id()))),
            false => holder_and_runner(child.id()),
        };
        let (whom, signal) = (
            if stalls { 5 } else { random.usize(..5) },
            [Signal::KILL, Signal::TERM][random.usize(..2)],
        );
        match (whom, known) {
            (5, _) => {}
            (0, Some((_, runner))) => kill(runner, Signal::KILL),
            (1, Some((_, runner))) => {
                kill(keeper, Signal::KILL);
                kill(runner, Signal::KILL);
            }
            (2, _) => drop(kill_process_group(keeper, signal)),
            (3, Some((holder, runner))) => {
                kill(holder, Signal::KILL);
                thread::sleep(Duration::from_micros(random.u64(..5000)));
                kill(runner, signal);
            }
            _ => kill(keeper, signal),
        }
        child.wait().unwrap();
        let what = format!("{round}: {line}, {whom}, {signal:?}");
        let nothing_seen = || {
            let seen = fs::read_to_string(directory.join("seen"));
            assert!(seen.is_err(), "{what}: {seen:?}");
        };
        nothing_seen();
        // Those that `run` may not end, the parent first. They may have been started just now.
        wait_for("the end of the holder", || {
            end_roots(directory);
            let has_ended = |(holder, _)| !is_running(holder);
            known.is_none_or(has_ended).then_some(())
        });
        let _ = fs::remove_file(directory.join("roots"));
        nothing_seen();
    }
}

/// Kills the stages that belong to root.
fn end_roots(directory: &Path) {
    let roots = fs::read_to_string(directory.join("roots")).unwrap_or_default();
    let pids = roots.lines().filter_map(|pid| pid.parse::<i32>().ok());
    pids.filter_map(Pid::from_raw).for_each(kill_with_children);
}

/// Makes setpriv(1) with the set-user-ID bit, which is what sudo is. Returns whether that works here.
fn may_become_root(directory: &Path) -> bool {
    let found = output_of(Command::new("sh").args(["-c", "command -v setpriv"])).unwrap();
    if !is_root() || !found.status.success() {
        return false;
    }
    let path = directory.join("become");
    copy_program(String::from_utf8_lossy(&found.stdout).trim(), &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut tried = Command::new(path);
    tried.args(["--reuid=0", "--regid=0", "--clear-groups", "true"]);
    output_of(tried.uid(65_534).gid(65_534)).is_ok_and(|output| output.status.success())
}

fn kill(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

/// Returns the first stage, from 0, that is said to have failed.
fn broken(stderr: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(stderr);
    text.lines()
        .filter_map(|line| {
            line.strip_prefix("fullbore run: stage ")?
                .split(',')
                .next()?
                .parse::<usize>()
                .ok()
        })
        .map(|number| number - 1)
        .min()
}
