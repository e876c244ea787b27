//! Tests of `fullbore run --place` and `fullbore tune --place`: the stages run on the CPUs that were named or
//! found, never on others, and nothing keeps fewer CPUs than it had.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::users::with_usual_signals;
use crate::common::*;
use fullbore_host::machine::{format_cpu_list, parse_cpu_list};
use fullbore_observe::Findings;
use fullbore_observe::place::candidates::Untried;
use fullbore_observe::place::placement::Kind;
use fullbore_observe::place::report::{Placed, PlacedPipeline};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A user id that no other program here uses.
const SOMEBODY: u32 = 54_323;

/// A stage that prints its CPUs after a second.
const SHOW: &str = "sh -c 'sleep 1; grep Cpus_allowed_list /proc/self/status'";

/// A stage that prints its CPUs as soon as it has only one.
const SHOW_ONE: &str = "sh -c 'tries=0; while grep -q \"Cpus_allowed_list:.*[-,]\" /proc/self/status && \
                        test $tries -lt 600; do sleep 0.1; tries=$((tries + 1)); done; \
                        grep Cpus_allowed_list /proc/self/status'";

/// Returns the CPUs that a process may use; those of this process for `None`.
fn cpus(pid: Option<u32>) -> Option<Vec<usize>> {
    let pid = pid.and_then(|pid| Pid::from_raw(pid as i32));
    let set = sched_getaffinity(pid).ok()?;
    Some(
        (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
    )
}

/// Returns the CPUs of this process; `None` if there is nothing to choose from.
fn several() -> Option<Vec<usize>> {
    let all = cpus(None).unwrap();
    if all.len() < 2 {
        skipped("there is only one CPU");
        return None;
    }
    Some(all)
}

/// Makes a command run on one CPU.
fn only_on(command: &mut Command, cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &only)?)) };
}

fn run_line(options: &str, line: &str) -> Output {
    let mut command = fullbore(&format!("run {options}"));
    finish(start(command.arg(line)))
}

/// Returns the CPUs that a stage has printed.
#[track_caller]
fn shown(output: &Output) -> Vec<usize> {
    assert_code(output, 0);
    let list = stdout(output).split_whitespace().last().unwrap();
    parse_cpu_list(list).unwrap()
}

fn placement(options: &str, line: &str) -> Placed {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    let mut command = fullbore(&format!("run {options} --json"));
    let output = finish(start(command.arg(&file).arg(line)));
    assert_code(&output, 0);
    let findings: Findings = json(&fs::read_to_string(file).unwrap());
    findings.placement.unwrap()
}

#[test]
fn stages_run_on_the_cpus_that_were_named() {
    let Some(all) = several() else {
        return;
    };
    let (first, last) = (all[0], all[all.len() - 1]);
    for (place, show, expected) in [
        (format!("{last}/{first}"), SHOW_ONE, vec![last]),
        (format!("/{first}"), SHOW, all.clone()),
        ("none".to_owned(), SHOW, all.clone()),
    ] {
        let output = run_line(&format!("--place {place}"), &format!("{show} | cat"));
        assert_eq!(shown(&output), expected, "{place}");
    }
    for place in ["together", "spread"] {
        let line = format!("{SHOW_ONE} | cat");
        let output = run_line(&format!("--place {place}"), &line);
        assert_eq!(shown(&output).len(), 1, "{place}");
    }
    let found = placement(&format!("--place {last}/{first}"), "echo | cat");
    assert_eq!(found.placement.kind, Kind::Chosen);
    assert_eq!(found.placement.stages[0], Some(vec![last]));
    let found = placement("--place together", "echo | cat | cat");
    assert_eq!(found.placement.kind, Kind::Together);
    assert_eq!(found.placement.stages[0], found.placement.stages[2]);
}

#[test]
fn cpus_that_are_not_there_or_not_allowed_are_refused() {
    for (place, words) in [
        ("900/", "no CPU 900"),
        ("///", "for 4 stages, but the pipeline has 2"),
        ("here", "expected auto, together, spread, none"),
    ] {
        let output = run_line(&format!("--place {place}"), "echo | cat");
        assert_code(&output, 2);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let Some(all) = several() else {
        return;
    };
    let mut command = fullbore(&format!("run --place {}/", all[1]));
    only_on(command.arg("echo | cat"), all[0]);
    let output = finish(start(&mut command));
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("may not use CPU"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn nothing_gets_cpus_that_the_user_has_taken_away() {
    let Some(all) = several() else {
        return;
    };
    for place in ["auto", "together", "spread"] {
        let mut command = fullbore(&format!("run --place {place}"));
        only_on(command.arg(format!("{SHOW} | cat")), all[1]);
        let output = finish(start(&mut command));
        assert_eq!(shown(&output), [all[1]], "{place}");
        // What a stage has chosen for itself is left alone. No call changes CPUs only if they are as they were, so
        // a choice at the very moment at which `run` places the stage may be lost, and this one is made again.
        let line = format!(
            "sh -c 'for i in 1 2 3 4 5; do taskset -cp {} $$ > /dev/null; sleep 0.2; done; \
             grep Cpus_allowed_list /proc/self/status' | cat",
            all[1]
        );
        let output = run_line(&format!("--place {place}"), &line);
        assert_eq!(shown(&output), [all[1]], "{place}");
    }
}

#[test]
fn what_is_left_in_the_background_gets_its_cpus_back() {
    let Some(all) = several() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cpus");
    // The background process reads a FIFO that is written to when the stages have ended.
    let line = format!(
        "sh -c '(exec > {0} 2>&1; grep Cpus_allowed_list /proc/self/status; sleep 2; n=0; until \
         grep \"Cpus_allowed_list:.*[-,]\" /proc/self/status || [ $n -ge 600 ]; do sleep 0.1; n=$((n + 1)); done) \
         & sleep 1' | cat",
        file.display()
    );
    let output = run_line("--quiet --place together", &line);
    assert_code(&output, 0);
    let text = fs::read_to_string(file).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.ends_with(&format_cpu_list(&all)), "{text}");
}

#[test]
fn a_short_pipeline_is_left_alone_and_a_long_one_is_reported() {
    let found = placement("--place auto", "echo | cat");
    assert_eq!(found.placement.kind, Kind::None);
    assert_eq!(found.untried, Some(Untried::TooShort));
    let line = "sh -c 'timeout 2 cat /dev/zero; :' | wc -c";
    let found = placement("--save-cpu", line);
    assert!(
        !found.trials.is_empty() || found.untried.is_some(),
        "{found:#?}"
    );
    assert!(found.words.starts_with("placement: "));
    let output = run_line("--save-cpu --report", line);
    assert!(
        stderr(&output).contains("placement: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn nothing_stays_placed_whichever_process_of_run_or_stage_is_killed() {
    let Some(all) = several() else {
        return;
    };
    for (killed, line) in [
        ("runner", "sleep 1000.7701 | sleep 1000.7702"),
        ("keeper", "sleep 1000.7701 | sleep 1000.7702"),
        ("stage", "sleep 1000.7701 | sleep 2"),
    ] {
        let mut command = fullbore("run --place together");
        let keeper = start(command.arg(line));
        let runner = wait_for("the runner", || {
            let all = children(keeper.id()).into_iter();
            all.map(|(pid, _)| pid).next()
        });
        let stage = wait_for("a stage on one CPU", || {
            let mut stages = children(runner.as_raw_nonzero().get() as u32).into_iter();
            let (pid, _) =
                stages.find(|(_, words)| words.iter().any(|word| word == "1000.7701"))?;
            let number = pid.as_raw_nonzero().get() as u32;
            (cpus(Some(number))?.len() == 1).then_some(pid)
        });
        let victim = match killed {
            "runner" => runner,
            "keeper" => Pid::from_child(&keeper),
            _ => stage,
        };
        kill_process(victim, Signal::KILL).unwrap();
        finish(keeper);
        wait_for("the end of the stage", || {
            (!is_running(stage)).then_some(())
        });
    }
    assert_eq!(cpus(None), Some(all));
}

/// A pipeline `cat /dev/zero | cat`, which is killed at the end of the test, and a directory for the record.
struct Running {
    stages: Vec<Child>,
    place: tempfile::TempDir,
}

impl Running {
    fn start(mut each: impl FnMut(&mut Command)) -> Self {
        let (reader, writer) = pipe();
        let mut first = Command::new("cat");
        first.arg("/dev/zero").stdin(Stdio::null()).stdout(writer);
        let mut second = Command::new("cat");
        second.stdin(reader).stdout(Stdio::null());
        let stages = [first, second].map(|mut command| {
            each(&mut command);
            start(command.stderr(Stdio::null()))
        });
        Self {
            stages: stages.into(),
            place: tempfile::tempdir().unwrap(),
        }
    }

    fn pids(&self) -> [u32; 2] {
        [0, 1].map(|stage| self.stages[stage].id())
    }

    fn command(&self, words: &str) -> Command {
        let words = format!("tune --place --pipeline {} {words}", self.pids()[0]);
        let mut command = fullbore(&words);
        command.env("XDG_RUNTIME_DIR", self.place.path());
        command
    }

    fn tune(&self, words: &str) -> Output {
        wait_for_starts();
        finish(start(&mut self.command(words)))
    }

    fn has_all(&self, all: &[usize]) -> bool {
        let mut pids = self.pids().into_iter();
        pids.all(|pid| cpus(Some(pid)).as_deref() == Some(all))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.stages {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_running_pipeline_is_placed_and_gets_its_cpus_back() {
    let all = cpus(None).unwrap();
    let running = Running::start(|_| {});
    let output = running.tune("--json");
    assert_code(&output, 0);
    let report: PlacedPipeline = json(stdout(&output));
    let placed = report.placement.as_ref().unwrap();
    let is_placed = placed.placement.kind != Kind::None;
    for (at, pid) in running.pids().into_iter().enumerate() {
        let expected = placed.placement.stages[at].as_ref().unwrap_or(&all);
        assert_eq!(cpus(Some(pid)).as_ref(), Some(expected), "{report:#?}");
    }
    let output = running.tune("--revert");
    assert_code(&output, 0);
    let expected = match is_placed {
        true => "2 processes got their CPUs back",
        false => "it was never placed",
    };
    assert!(stdout(&output).contains(expected), "{}", stdout(&output));
    assert!(running.has_all(&all));
}

#[test]
fn a_killed_tune_leaves_nothing_placed() {
    let Some(all) = several() else {
        return;
    };
    let running = Running::start(|_| {});
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let mut tune = start(&mut running.command(""));
        let pid = Pid::from_child(&tune);
        let has_ended = wait_for("a trial", || match tune.try_wait().unwrap() {
            Some(_) => Some(true),
            None => (!running.has_all(&all)).then_some(false),
        });
        // It is stopped first: its guard either waits then, or was told that the placement is to stay.
        let _ = kill_process(pid, Signal::STOP);
        let is_guarded = !has_ended && {
            wait_for("a stop", || {
                state(tune.id()).filter(|&state| state == 'T' || state == 'Z')
            });
            let guard = children(tune.id());
            guard
                .iter()
                .any(|(guard, _)| state(guard.as_raw_pid() as u32) == Some('S'))
        };
        if is_guarded {
            let _ = kill_process(pid, signal);
        }
        let _ = kill_process(pid, Signal::CONT);
        finish(tune);
        if is_guarded {
            wait_for("a pipeline with all CPUs", || {
                running.has_all(&all).then_some(())
            });
        } else {
            assert_code(&running.tune("--revert"), 0);
        }
    }
}

#[test]
fn processes_of_another_user_are_refused() {
    if !is_root() {
        return skipped("only root can start processes as another user");
    }
    let all = cpus(None).unwrap();
    let running = Running::start(|command| {
        with_usual_signals(command.uid(SOMEBODY).gid(SOMEBODY));
    });
    let output = running.tune("");
    assert_code(&output, 3);
    assert!(
        stderr(&output).contains("belongs to another user"),
        "{}",
        stderr(&output)
    );
    assert!(running.has_all(&all));
    assert!(
        !Path::new(running.place.path())
            .join("fullbore/placed.json")
            .exists()
    );
}
