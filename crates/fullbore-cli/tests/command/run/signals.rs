//! Tests of `fullbore run`: no process is left running, whichever of its processes gets whichever
//! signal, at any time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_stage_whose_first_thread_has_ended_is_ended_too() {
    let Some(command) = fullbore_tests::without_first_thread() else {
        return;
    };
    let mut run = fullbore("run --verbose --");
    run.arg(command.get_program())
        .args(command.get_args())
        .args(["|", "cat"]);
    let mut keeper = start(&mut run);
    let mut stderr = BufReader::new(keeper.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    // stage 1, process PID: …
    let pid = line
        .split_once("process ")
        .and_then(|(_, rest)| rest.split_once(':'));
    let pid: u32 = pid.expect(&line).0.parse().unwrap();
    fullbore_tests::wait_for_end_of_first_thread(pid);
    kill_process(Pid::from_child(&keeper), Signal::TERM).unwrap();
    let output = finish(keeper);
    assert_eq!(output.status.signal(), Some(Signal::TERM.as_raw()));
    assert!(!is_running(Pid::from_raw(pid as i32).unwrap()), "{pid}");
}

/// A running pipeline, in a process group together with an unrelated process.
struct Running {
    keeper: Child,
    neighbour: Child,
    marker: String,
}

/// The placeholder for the marker in a line. The marker is a sleeping time that no other process
/// uses.
const MARK: &str = "@MARK@";

impl Running {
    fn start(line: &str) -> Self {
        Self::start_by(&[], line)
    }

    /// Starts the line by a program that executes the command in its arguments.
    fn start_by(by: &[&str], line: &str) -> Self {
        let marker = format!(
            "{}.{:09}",
            100_000 + std::process::id(),
            fastrand::u32(..1 << 29)
        );
        let neighbour = spawn(Command::new("sleep").arg("1000").process_group(0)).unwrap();
        let mut command = match by {
            // The exit code has to show that a process was ended by a closed pipe.
            [] => fullbore("run --sigpipe-fails"),
            [program, words @ ..] => {
                let mut command = Command::new(program);
                command
                    .args(words)
                    .args([FULLBORE, "run"])
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped());
                users::with_usual_signals(&mut command);
                command
            }
        };
        command
            .arg(line.replace(MARK, &marker))
            .process_group(neighbour.id() as i32);
        Self {
            keeper: start(&mut command),
            neighbour,
            marker,
        }
    }

    /// Waits until this number of processes with the marker in their arguments run, not counting those of
    /// `run`: two, and, before any stage is started, the shell that checks a line (`sh -n -c LINE`).
    #[track_caller]
    fn wait_for_stages(&self, stages: usize) {
        wait_for("the stages", || {
            let left = self.left();
            let started = left
                .iter()
                .filter(|line| !line.contains(FULLBORE) && !line.contains(": sh -n "));
            (started.count() >= stages).then_some(())
        });
    }

    /// Returns the command lines of the processes of this pipeline that still exist.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let line = command_line(&entry.path()).unwrap_or_default();
            if line.contains(&self.marker) && Pid::from_raw(pid).is_some_and(is_running) {
                left.push(format!("{pid}: {line}"));
            }
        }
        left
    }

    fn keeper(&self) -> Pid {
        Pid::from_child(&self.keeper)
    }

    /// Returns the second process of `run`, once it exists.
    #[track_caller]
    fn runner(&self) -> Pid {
        wait_for("the runner", || {
            children(self.keeper.id())
                .into_iter()
                .find(|(_, words)| words[0] == FULLBORE)
                .map(|(pid, _)| pid)
        })
    }

    /// Waits for its end, and asserts that only the unrelated process is left.
    #[track_caller]
    fn end(mut self, what: &str) -> Output {
        let keeper = std::mem::replace(&mut self.keeper, spawn(&mut Command::new("true")).unwrap());
        let output = finish(keeper);
        wait_for(&format!("{what}: the end of {:?}", self.left()), || {
            self.left().is_empty().then_some(())
        });
        let unharmed = is_running(Pid::from_child(&self.neighbour));
        assert!(
            unharmed,
            "{what}: the neighbour in the process group is gone"
        );
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // None is left, unless the test has failed.
        for line in self.left() {
            let pid = line.split_once(':').and_then(|(pid, _)| pid.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                tell(pid, Signal::KILL);
            }
        }
        for child in [&mut self.keeper, &mut self.neighbour] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the command line of a process with this directory in /proc, read by one call: between two, the process
/// may execute another program, and the end of its command line would follow the beginning of the old one.
fn command_line(process: &Path) -> std::io::Result<String> {
    let mut line = [0; 16 * 1024];
    let len = File::open(process.join("cmdline"))?.read(&mut line)?;
    Ok(String::from_utf8_lossy(&line[..len]).replace('\0', " "))
}

fn tell(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

/// Tests how a pipeline of three sleeping processes ends when it gets a signal at some moment.
#[track_caller]
fn told(what: &str, signal: Signal, whom: impl Fn(&Running) -> Pid) -> Output {
    let line = match signal {
        // A shell that gets the signal while it starts a program waits for the program, as on a
        // terminal: the shell blocks signals at that moment, and the program does not exist yet and
        // cannot get the signal.
        Signal::INT | Signal::QUIT => "sleep @MARK@ | sleep @MARK@ | sleep @MARK@",
        _ => "sleep @MARK@ | { sleep @MARK@; } | (sleep @MARK@; sleep @MARK@)",
    };
    let running = Running::start(line);
    let moment = Duration::from_micros(fastrand::u64(..40_000));
    let pid = whom(&running);
    thread::sleep(moment);
    tell(pid, signal);
    running.end(&format!("{what} after {moment:?}"))
}

const ROUNDS: usize = 6;

#[test]
fn what_ends_the_process_that_was_called_ends_all() {
    for signal in [
        Signal::TERM,
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::KILL,
    ] {
        for _ in 0..ROUNDS {
            let output = told("the keeper is told", signal, Running::keeper);
            assert_eq!(
                output.status.signal(),
                Some(signal.as_raw()),
                "{}",
                said(&output)
            );
        }
    }
}

#[test]
fn what_ends_its_second_process_ends_all() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        for _ in 0..ROUNDS {
            let output = told("the runner is told", signal, Running::runner);
            assert_eq!(
                output.status.signal(),
                Some(signal.as_raw()),
                "{}",
                said(&output)
            );
        }
    }
    for signal in [Signal::KILL, Signal::ABORT, Signal::USR1, Signal::ALARM] {
        for _ in 0..ROUNDS {
            let output = told("the runner dies", signal, Running::runner);
            assert_code(&output, 128 + signal.as_raw());
            assert!(one_line(stderr(&output)).contains("ended a helper process"));
        }
    }
}

#[test]
fn whoever_kills_by_name_does_not_kill_both() {
    let running = Running::start("sleep @MARK@ | sleep @MARK@");
    running.wait_for_stages(2);
    let of_that_name = [running.keeper(), running.runner()].map(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        name.unwrap().contains("fullbore").then_some(pid)
    });
    assert!(of_that_name.contains(&None), "{of_that_name:?}");
    for pid in of_that_name.into_iter().flatten() {
        tell(pid, Signal::KILL);
    }
    let output = running.end("killed by name");
    assert_eq!(output.status.signal(), Some(Signal::KILL.as_raw()));
}

/// Processes that are hard to end: in the background, in their own session, ignoring all signals that
/// can be ignored, stopped, and starting other processes all the time.
const OBSTINATE: &str = "(trap '' TERM HUP INT; sleep @MARK@; sleep @MARK@) | \
    { setsid sleep @MARK@ & (setsid setsid nohup sleep @MARK@ > /dev/null &) & sleep @MARK@; } | \
    sh -c 'kill -STOP $$; sleep @MARK@' | \
    sh -c 'while :; do (sleep @MARK@ &) ; sleep 0.01; done'";

#[test]
fn those_who_do_not_want_to_go_are_ended_too() {
    type Whom = fn(&Running) -> Pid;
    let cases: [(Signal, Whom); 5] = [
        (Signal::TERM, Running::keeper),
        (Signal::HUP, Running::keeper),
        (Signal::KILL, Running::keeper),
        (Signal::TERM, Running::runner),
        (Signal::KILL, Running::runner),
    ];
    for (signal, whom) in cases {
        let running = Running::start(OBSTINATE);
        running.wait_for_stages(12);
        tell(whom(&running), signal);
        running.end(&format!("signal {}", signal.as_raw()));
    }
}

#[test]
fn what_was_there_before_is_spared() {
    // The process that executes `run` has a child, which has one too.
    let marker = format!("1000.{:09}", fastrand::u32(..1 << 29));
    let script = format!("sh -c 'sleep {marker}; :' > /dev/null 2>&1 & exec \"$0\" \"$@\"");
    let is_there = |pid: &Pid| is_running(*pid);
    for signal in [Signal::KILL, Signal::ABORT] {
        let running = Running::start_by(&["sh", "-c", &script], "sleep @MARK@ | sleep @MARK@");
        let keeper = running.keeper.id();
        let before: Vec<Pid> = wait_for("the child and its child", || {
            let (child, _) = children(keeper)
                .into_iter()
                .find(|(_, words)| words.iter().any(|word| word.starts_with("sleep 1000.")))?;
            let (grandchild, _) = children(child.as_raw_nonzero().get() as u32).pop()?;
            Some(vec![grandchild, child])
        });
        // The stages are sleeping, and so is the child.
        running.wait_for_stages(2);
        tell(running.runner(), signal);
        let output = running.end("with other children");
        assert_code(&output, 128 + signal.as_raw());
        assert!(before.iter().all(is_there), "{}", said(&output));
        for pid in before {
            tell(pid, Signal::KILL);
        }
    }
}

#[test]
fn a_runner_that_is_stopped_acts_when_the_keeper_is_gone() {
    let running = Running::start("sleep @MARK@ | sleep @MARK@");
    running.wait_for_stages(2);
    tell(running.runner(), Signal::STOP);
    tell(running.keeper(), Signal::KILL);
    running.end("the keeper is killed while the runner is stopped");
}

#[test]
fn a_keeper_waits_no_longer_than_it_has_to_for_a_runner_that_is_stopped() {
    let running = Running::start("sleep @MARK@ | sleep @MARK@");
    running.wait_for_stages(2);
    tell(running.runner(), Signal::STOP);
    tell(running.keeper(), Signal::TERM);
    let output = running.end("a stopped runner");
    assert_eq!(
        output.status.signal(),
        Some(Signal::TERM.as_raw()),
        "{}",
        said(&output)
    );
}

#[test]
fn a_stage_that_is_killed_ends_the_others_by_its_pipes_alone() {
    for victim in ["^cat", "^sh .*2", "^sh .*3"] {
        let running = Running::start(
            "cat /dev/zero @MARK@ 2> /dev/null | sh -c 'cat; : @MARK@ 2' | sh -c 'cat > /dev/null; : @MARK@ 3'",
        );
        running.wait_for_stages(3);
        let found = wait_for("the victim", || {
            running.left().into_iter().find_map(|line| {
                let (pid, command) = line.split_once(": ")?;
                let is = match victim {
                    "^cat" => command.starts_with("cat"),
                    "^sh .*2" => command.starts_with("sh -c cat;"),
                    _ => command.starts_with("sh -c cat >"),
                };
                is.then(|| pid.parse::<i32>().unwrap())
            })
        });
        if victim != "^cat" {
            // If the shell were killed earlier, it might not have started its child yet, which has
            // to be killed with it.
            wait_for("the shell's cat", || {
                (!children(found as u32).is_empty()).then_some(())
            });
        }
        thread::sleep(Duration::from_millis(fastrand::u64(..20)));
        // The shell is killed with its child, because a killed shell leaves its cat running.
        let pid = Pid::from_raw(found).unwrap();
        for (child, _) in children(found as u32) {
            tell(child, Signal::KILL);
        }
        tell(pid, Signal::KILL);
        let output = running.end(victim);
        // The stages to the right of it have read an end of file, and the stages to the left have
        // been ended by a closed pipe.
        let code = output.status.code();
        assert!(
            matches!(code, Some(1 | 128..)),
            "{victim}: {}",
            said(&output)
        );
    }
}

#[test]
fn stages_are_told_and_can_clean_up() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::HUP, "HUP")] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let stage = |number: usize| {
            format!(
                "sh -c 'exec 9> {0}; trap \"echo {name} >&9; exit\" {name}; echo > {0}.ready; \
                 while :; do sleep 0.02; : @MARK@; done'",
                path(&number.to_string()).display()
            )
        };
        let running = Running::start(&format!("{} | {}", stage(1), stage(2)));
        for ready in ["1.ready", "2.ready"] {
            wait_for("a stage with a trap", || path(ready).exists().then_some(()));
        }
        let told = Instant::now();
        tell(running.keeper(), signal);
        let output = running.end(name);
        assert_eq!(
            output.status.signal(),
            Some(signal.as_raw()),
            "{}",
            said(&output)
        );
        // A stage that has had no CPU for as long as that is killed.
        if told.elapsed() >= Duration::from_secs(2) {
            continue;
        }
        for stage in ["1", "2"] {
            let said = std::fs::read_to_string(path(stage)).unwrap();
            assert_eq!(said.trim(), name, "stage {stage}");
        }
    }
}

#[test]
fn stages_that_handle_an_interrupt_decide_what_comes_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let stage = |number: usize, code: i32| {
        let path = directory.path().join(number.to_string());
        format!(
            "sh -c 'trap \"exit {code}\" INT; echo > {}; while :; do sleep 0.02; : @MARK@; done'",
            path.display()
        )
    };
    for (first, second, expected) in [(0, 0, 0), (0, 4, 4), (3, 0, 3)] {
        for number in ["1", "2"] {
            let _ = std::fs::remove_file(directory.path().join(number));
        }
        let running = Running::start(&format!("{} | {}", stage(1, first), stage(2, second)));
        for number in ["1", "2"] {
            let path = directory.path().join(number);
            wait_for("a stage with a trap", || path.exists().then_some(()));
        }
        tell(running.keeper(), Signal::INT);
        assert_code(&running.end("INT"), expected);
    }
}

#[test]
fn what_was_ignored_before_stays_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let line = format!(
        "{{ echo > {}; sleep 0.4; echo done; }} | cat",
        ready.display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP INT; exec \"$@\"", "sh", FULLBORE, "run"])
        .arg(line)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let running = start(&mut command);
    wait_for("the first stage", || ready.exists().then_some(()));
    for signal in [Signal::HUP, Signal::INT] {
        tell(Pid::from_child(&running), signal);
    }
    let output = finish(running);
    assert_quiet_success(&output);
    assert_eq!(stdout(&output), "done\n");
}

/// Processes that become daemons, or ignore signals, in each of the usual ways.
const DAEMONS: &str = "{ (setsid sleep @MARK@ > /dev/null 2>&1 &); (trap '' TERM; sleep @MARK@ & sleep @MARK@); } | \
    { setsid -f sh -c '(sleep @MARK@ &); sleep @MARK@' > /dev/null 2>&1; sleep @MARK@ & sleep @MARK@; }";

#[test]
fn what_has_a_process_group_of_its_own_is_waited_for() {
    // SIGRTMIN, for which there is no name.
    for options in ["", "--whole "] {
        let mut command = fullbore(&format!("run {options}-- setsid sh"));
        let output = finish(start(command.args(["-c", "kill -34 $$", "|", "cat"])));
        assert_eq!(output.status.code(), Some(128 + 34), "{}", said(&output));
    }
    // The holder does not wait for what has ended.
    let mut command = fullbore("run --whole --grace 1000 -- setsid sleep 1000 | sleep 1000");
    let mut running = start(&mut command);
    let (holder, runner) = wait_for("the stages", || {
        let known = holder_and_runner(running.id())?;
        (children(known.1.as_raw_nonzero().get() as u32).len() == 2).then_some(known)
    });
    running.kill().unwrap();
    kill_process(runner, Signal::KILL).unwrap();
    running.wait().unwrap();
    wait_for("the end of the holder", || {
        (!is_running(holder)).then_some(())
    });
}

#[test]
fn what_becomes_a_daemon_is_ended_at_any_moment() {
    for signal in [Signal::TERM, Signal::KILL] {
        for _ in 0..ROUNDS / 2 {
            for whom in [Running::keeper, Running::runner] {
                let running = Running::start(DAEMONS);
                let moment = Duration::from_micros(fastrand::u64(..60_000));
                let pid = whom(&running);
                thread::sleep(moment);
                tell(pid, signal);
                running.end(&format!("signal {} after {moment:?}", signal.as_raw()));
            }
        }
    }
}

#[test]
fn a_background_job_goes_with_what_ends_the_command() {
    for signal in [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP] {
        // Background processes of a shell ignore SIGINT.
        let running = Running::start("sleep @MARK@ > /dev/null & sleep 0.01 | true");
        wait_for("the end of the stages", || {
            let left = running.left();
            let of_sleep = left.iter().filter(|line| line.contains(": sleep"));
            (left.len() == 3 && of_sleep.count() == 1).then_some(())
        });
        // If the end of the stages has not been recorded yet, the first signal goes to the stages.
        wait_for("the end of the job", || {
            tell(running.keeper(), signal);
            running.left().is_empty().then_some(())
        });
        let output = running.end("a background job");
        let ended_by = output.status.signal();
        assert_eq!(ended_by, Some(signal.as_raw()), "{}", said(&output));
    }
}

/// Returns whether this user may create namespaces.
fn may_unshare() -> bool {
    let tried = output_of(Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]));
    let may = tried.is_ok_and(|tried| tried.status.success());
    if !may {
        skipped("a /proc that is missing or another's: this user may not unshare namespaces");
    }
    may
}

const WITHOUT_PROC: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "umount -l /proc && exec \"$0\" \"$@\"",
];

/// Two stages of one process each.
const STAGES: &str = "exec sleep @MARK@ | exec sleep @MARK@";

#[test]
fn without_proc_the_first_process_of_each_stage_is_ended() {
    if !may_unshare() {
        return;
    }
    for (signal, whom) in [
        (Signal::TERM, Running::keeper as fn(&Running) -> Pid),
        (Signal::HUP, Running::keeper),
        (Signal::KILL, Running::keeper),
        (Signal::TERM, Running::runner),
        (Signal::KILL, Running::runner),
    ] {
        let running = Running::start_by(&WITHOUT_PROC, STAGES);
        running.wait_for_stages(2);
        // It sleeps when it has told the keeper the PIDs of the stages.
        let runner = running.runner().as_raw_pid() as u32;
        wait_for("a runner that sleeps", || {
            state(runner).filter(|state| *state == 'S')
        });
        tell(whom(&running), signal);
        let output = running.end(&format!("signal {}, no /proc", signal.as_raw()));
        assert!(
            stderr(&output).contains("/proc is missing"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn with_the_proc_of_another_pid_namespace_the_first_process_of_each_stage_is_ended() {
    if !may_unshare() {
        return;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        // The shell is the first process of the namespace, and its end would kill all others.
        let script = "\"$0\" \"$@\"; sleep 1000; :";
        let by = ["unshare", "--pid", "--fork", "sh", "-c", script];
        let running = Running::start_by(&by, STAGES);
        let keeper = wait_for("the keeper", || {
            let shell = children(running.keeper.id()).first()?.0;
            let found = children(shell.as_raw_nonzero().get() as u32);
            found
                .into_iter()
                .find(|(_, words)| words[0] == FULLBORE)
                .map(|(pid, _)| pid)
        });
        // The processes are unshare, the shell, the two of `run`, and two stages.
        wait_for("the stages", || (running.left().len() >= 6).then_some(()));
        tell(keeper, signal);
        // At that point only unshare and the shell have the marker among their arguments.
        wait_for(&format!("the end of {:?}", running.left()), || {
            (running.left().len() == 2).then_some(())
        });
        let shell = children(running.keeper.id())[0].0;
        tell(shell, Signal::KILL);
        running.end("another PID namespace");
    }
}

#[test]
fn the_first_process_of_a_pid_namespace_ends_with_128_and_the_signal() {
    if !may_unshare() {
        return;
    }
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let number = signal.as_raw();
        let line = format!("sh -c 'kill -{number} 1; exec sleep 1000' | cat");
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", FULLBORE, "run", "--quiet", &line]);
        users::with_usual_signals(&mut command);
        let output = output_of(&mut command).unwrap();
        assert_code(&output, 128 + number);
    }
}

#[test]
fn without_proc_there_is_no_report_and_a_line_that_says_so() {
    if !may_unshare() {
        return;
    }
    for option in ["--report", "--json=/dev/null"] {
        let mut command = Command::new(WITHOUT_PROC[0]);
        command
            .args(&WITHOUT_PROC[1..])
            .args([FULLBORE, "run", option, "echo started | cat"]);
        let output = output_of(&mut command).unwrap();
        assert_code(&output, 125);
        assert!(
            output.stdout.is_empty() && one_line(stderr(&output)).contains("no report"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn programs_ignore_what_was_ignored_before_and_nothing_else() {
    let ignored = |trap: &str| {
        let line = format!("{trap} exec {FULLBORE} run 'grep SigIgn /proc/self/status | cat'");
        let mut command = Command::new("sh");
        command
            .args(["-c", &line])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let output = finish(start(users::with_usual_signals(&mut command)));
        let mask = stdout(&output)
            .split_whitespace()
            .last()
            .map(|mask| u64::from_str_radix(mask, 16));
        mask.unwrap().unwrap()
    };
    let (int, quit) = (
        1 << (Signal::INT.as_raw() - 1),
        1 << (Signal::QUIT.as_raw() - 1),
    );
    assert_eq!(ignored("") & (int | quit), 0);
    assert_eq!(ignored("trap '' INT QUIT;") & (int | quit), int | quit);
}

#[test]
fn many_who_lost_their_parents_are_no_burden() {
    // Each of them becomes a child of the runner, and must not stay a zombie.
    let line = "i=0; while [ $i -lt 300 ]; do (true &); i=$((i + 1)); done; \
                tries=0; until n=$(ps -o stat= --ppid $PPID | grep -c Z); [ $n -lt 100 ] || [ $tries -ge 300 ]; \
                do tries=$((tries + 1)); sleep 0.1; done; echo $n";
    let output = finish(start(fullbore("run").arg(format!("{{ {line}; }} | cat"))));
    let zombies: usize = stdout(&output).trim().parse().unwrap();
    assert!(zombies < 100, "{zombies} zombies");
}
