//! `run --whole` beside what it does not control: processes of another user, which may not be signalled; processes that a
//! stage has left behind or has pipes of its own with; few file descriptors; no /proc; PIDs that mean others.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use fullbore_tests::skipped;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use seccompiler::SeccompCmpOp::MaskedEq;

use crate::common::refusing::{call, refusing, under};
use crate::common::users::{ForEverybody, with_usual_signals};
use crate::common::{
    FULLBORE, assert_code, assert_quiet_success, children, copy_program, finish, fullbore,
    holder_and_runner, is_root, is_running, kill_with_children, output_of, run_without, said,
    start, state, stderr, stdout, wait_for,
};

/// What stages run, as files, so that no line needs more than one kind of quotes.
const SCRIPTS: [(&str, &str); 14] = [
    // Sees the end of its input: that must not happen.
    (
        "root",
        "echo $$ > new; mv new ready; cat > up; echo $1 >> seen",
    ),
    ("still", "echo $$ > new; mv new ready; exec sleep 1000"),
    ("cat", "cat; echo $1 >> seen"),
    ("fail", "until test -e ready; do sleep 0.01; done; exit 3"),
    (
        // What it writes until then keeps the pipeline from stalling.
        "wait",
        "until test -e ready; do echo; sleep 0.01; done; exec sleep 1000",
    ),
    (
        "above",
        "./become --reuid=0 --regid=0 --clear-groups sh root 1; echo 1 >> seen",
    ),
    ("leave", "sh -c 'exit 5' & exit 0"),
    ("late", "sh -c 'sleep 0.3; exit 5' & exit 0"),
    // The child may be signalled.
    (
        "over",
        "echo $$ > new; mv new ready
         setpriv --reuid=65534 --regid=65534 --clear-groups cat > up; echo $1 >> seen",
    ),
    (
        "deaf",
        "trap '' TERM; env --default-signal=TERM cat > up; echo $1 >> seen",
    ),
    // In perl.
    (
        "blocks",
        r#"use POSIX; my $term = POSIX::SigSet->new(SIGTERM); sigprocmask(SIG_BLOCK, $term);
           unless ($p = fork) { sigprocmask(SIG_UNBLOCK, $term); exec "cat > up" }
           waitpid $p, 0; system "echo 1 >> seen""#,
    ),
    // As a shell, which blocks all signals while it starts a program.
    (
        "starts",
        r#"use POSIX; my $term = POSIX::SigSet->new(SIGTERM); sigprocmask(SIG_BLOCK, $term);
           unless (fork) { sigprocmask(SIG_UNBLOCK, $term); open my $ready, ">ready"; exec "cat > up" }
           my $pending = POSIX::SigSet->new;
           do { select undef, undef, undef, 0.01; sigpending $pending } until $pending->ismember(SIGTERM);
           sigprocmask(SIG_UNBLOCK, $term)"#,
    ),
    // Its child starts another one after both were asked to end.
    (
        "starts_late",
        r#"use POSIX; my $term = POSIX::SigSet->new(SIGTERM); sigprocmask(SIG_BLOCK, $term);
           sub until_there { select undef, undef, undef, 0.01 until -e $_[0] }
           unless (fork) { sigprocmask(SIG_UNBLOCK, $term); open my $ready, ">ready"; until_there "asked"; system "cat > up" }
           my $pending = POSIX::SigSet->new;
           do { select undef, undef, undef, 0.01; sigpending $pending } until $pending->ismember(SIGTERM);
           open my $asked, ">asked"; until_there "up";
           sigprocmask(SIG_UNBLOCK, $term)"#,
    ),
    // As an interactive bash.
    (
        "jobs",
        r#"use POSIX; $SIG{TERM} = "IGNORE";
           unless ($p = fork) { $SIG{TERM} = "DEFAULT"; exec "cat > up" }
           waitpid $p, WUNTRACED; system "echo 1 >> seen""#,
    ),
];

/// A directory that every user may write to, with the scripts.
struct Open {
    everybody: ForEverybody,
}

impl Open {
    fn new() -> Self {
        let everybody = ForEverybody::new();
        let open = Self { everybody };
        fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).unwrap();
        for (name, script) in SCRIPTS {
            let path = open.path().join(name);
            fs::write(&path, script).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        open
    }

    fn path(&self) -> &Path {
        self.everybody.path().parent().unwrap()
    }

    /// Makes setpriv(1) with the set-user-ID bit, which is what sudo is. Returns whether that works here.
    fn has_become(&self) -> bool {
        let found = output_of(Command::new("sh").args(["-c", "command -v setpriv"])).unwrap();
        if !is_root() || !found.status.success() {
            return false;
        }
        let path = self.path().join("become");
        copy_program(stdout(&found).trim(), &path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        let mut tried = Command::new(path);
        tried.args(["--reuid=0", "--regid=0", "--clear-groups", "true"]);
        output_of(tried.uid(65_534).gid(65_534)).is_ok_and(|output| output.status.success())
    }

    fn run(&self, options: &str, line: &str) -> Output {
        let mut command = fullbore(&format!("run --whole {options}"));
        finish(start(command.arg(line).current_dir(self.path())))
    }

    /// Asserts that no stage has seen an end.
    #[track_caller]
    fn assert_nothing_seen(&self, what: &str) {
        let seen = fs::read_to_string(self.path().join("seen"));
        assert!(seen.is_err(), "{what}: {seen:?}");
    }
}

/// A stage that an ordinary user may not signal.
fn root(script: &str) -> String {
    format!("./become --reuid=0 --regid=0 --clear-groups sh {script} 1")
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get() as u32
}

/// What ends a pipeline: nothing but its own failure, or a signal to the first, the second or the third process of `run`,
/// or to its process group.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    Failure,
    /// Without `--whole`.
    Stall,
    Signal(Signal, &'static [usize]),
    Group(Signal),
}

#[test]
fn a_stage_that_may_not_be_signalled_sees_no_end_whatever_ends_the_pipeline() {
    let open = Open::new();
    if !open.has_become() {
        return skipped("programs that run as root for others: only root can make them");
    }
    let (behind, above) = (root("root"), "sh above".to_owned());
    let places = [
        ("first", format!("{} | IN", root("still"))),
        ("middle", format!("IN | {behind} | sh cat 2")),
        ("last", format!("IN | {behind}")),
        ("behind another", format!("IN | cat | {behind}")),
        ("a grandchild", format!("IN | {above}")),
        ("above another", format!("IN | {}", root("over"))),
    ];
    let usual = [
        By::Failure,
        By::Stall,
        By::Signal(Signal::TERM, &[0]),
        By::Signal(Signal::KILL, &[0, 2]),
    ];
    let others = [
        By::Signal(Signal::INT, &[0]),
        By::Signal(Signal::HUP, &[0]),
        By::Signal(Signal::KILL, &[0]),
        By::Signal(Signal::KILL, &[2]),
        By::Signal(Signal::KILL, &[0, 1]),
        By::Signal(Signal::KILL, &[1, 2]),
        By::Group(Signal::KILL),
        By::Group(Signal::TERM),
    ];
    for (name, line) in &places {
        let more = others.iter().filter(|_| *name == "last");
        for &by in usual.iter().chain(more) {
            ends_without_an_end(&open, name, line, by);
        }
    }
}

/// Runs a pipeline with a stage that may not be signalled, ends it, and asserts that this stage goes on and sees no end,
/// and that the process which prevents that ends after it.
#[track_caller]
fn ends_without_an_end(open: &Open, name: &str, line: &str, by: By) {
    let what = format!("{name}, {by:?}");
    let ready = open.path().join("ready");
    let _ = fs::remove_file(&ready);
    let input = ["sh wait", "sh fail"][usize::from(by == By::Failure)];
    let options = ["--whole", "--stalled 1"][usize::from(by == By::Stall)];
    let options = format!("run {options} --grace 0.1");
    let mut command = open.everybody.command(65_534, &options);
    command.arg(line.replace("IN", input)).process_group(0);
    let child = start(&mut command);
    let keeper = Pid::from_child(&child);
    let pid = wait_for("the stage", || {
        fs::read_to_string(&ready).ok()?.trim().parse::<u32>().ok()
    });
    let known = holder_and_runner(number(keeper));
    match by {
        By::Failure | By::Stall => {}
        By::Signal(signal, whom) => {
            let (holder, runner) = known.expect("the pipeline runs");
            let all = [keeper, holder, runner];
            whom.iter()
                .for_each(|&at| kill_process(all[at], signal).unwrap());
        }
        By::Group(signal) => kill_process_group(keeper, signal).unwrap(),
    }
    // What the stage itself does not print is complete, because it has another stdout; its stderr is closed with it.
    let output = finish_but_not_its_stages(child);
    let what = format!("{what}: {}", said(&output));
    let root = Pid::from_raw(pid as i32).unwrap();
    if matches!(by, By::Failure | By::Stall) {
        let code = if by == By::Stall { 122 } else { 3 };
        assert_eq!(output.status.code(), Some(code), "{what}");
        let text = stderr(&output);
        assert!(text.contains(&format!("'sudo kill {pid}")), "{what}");
        assert!(name != "last" || !text.contains("ended before"), "{what}");
        // Of this stage, only the shell could be ended.
        let said = text.contains("the first process of stage 2 was ended before");
        let is_said = by == By::Failure && name == "a grandchild";
        assert!(said || !is_said, "{what}");
    }
    // A signal for the process group comes from root here, and reaches all. If the first process is killed, the group can
    // lose its last tie to the session while stages are stopped; the kernel then sends SIGHUP to all (setpgid(2)).
    let may_have_ended = match by {
        By::Failure | By::Stall => false,
        By::Signal(signal, whom) => signal == Signal::KILL && whom.contains(&0),
        By::Group(_) => true,
    };
    assert!(may_have_ended || is_running(root), "{what}");
    if is_running(root) {
        open.assert_nothing_seen(&what);
        kill_with_children(root);
    }
    wait_for("the end of the stage", || (!is_running(root)).then_some(()));
    if let Some((holder, _)) = known {
        wait_for("the end of the holder", || {
            (!is_running(holder)).then_some(())
        });
    }
    open.assert_nothing_seen(&what);
}

/// Waits for `run`, and returns what it has printed so far: a stage that goes on has its stdout and stderr open.
fn finish_but_not_its_stages(mut child: Child) -> Output {
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let status = wait_for("the end of run", || child.try_wait().unwrap());
    let read = |end: &mut dyn Read| {
        let mut bytes = Vec::new();
        let _ = end.read_to_end(&mut bytes);
        bytes
    };
    rustix::io::ioctl_fionbio(&stdout, true).unwrap();
    rustix::io::ioctl_fionbio(&stderr, true).unwrap();
    Output {
        status,
        stdout: read(&mut stdout),
        stderr: read(&mut stderr),
    }
}

#[test]
fn a_process_that_a_stage_has_left_behind_and_that_fails_is_a_failure() {
    let open = Open::new();
    let big = vec![b'x'; 500_000];
    fs::write(open.path().join("big"), big).unwrap();
    for (line, code) in [
        ("sh leave | sh cat 1", 5),
        ("cat big | sh leave | sh cat 2", 5),
        ("cat big | tee >(cat > /dev/null; exit 3) | sh cat 2", 3),
    ] {
        let output = open.run("--shell bash -o out", line);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            said(&output)
        );
        assert!(stderr(&output).contains("left behind"), "{}", said(&output));
        assert!(!open.path().join("out").exists(), "{line}");
        open.assert_nothing_seen(line);
    }
    let line = "cat big | tee >(cat > copy) >(wc -c > /dev/null; yes | head -n 1 > up) | wc -c";
    let output = open.run("--shell bash -o out", line);
    assert_quiet_success(&output);
    assert_eq!(
        fs::read_to_string(open.path().join("out")).unwrap().trim(),
        "500000"
    );
    assert_eq!(
        fs::metadata(open.path().join("copy")).unwrap().size(),
        500_000
    );
}

#[test]
fn one_that_belongs_to_another_user_and_fails_is_one_too() {
    let open = Open::new();
    if !open.has_become() {
        return skipped("programs that run as root for others: only root can make them");
    }
    let line = format!("{} | sh cat 1", root("late"));
    let mut command = open.everybody.command(65_534, "run --whole");
    assert_code(&finish(start(command.arg(&line))), 5);
    open.assert_nothing_seen(&line);
}

#[test]
fn others_that_read_from_the_pipeline_see_its_end() {
    let open = Open::new();
    if !open.has_become() {
        return skipped("programs that run as root for others: only root can make them");
    }
    let run = "./fullbore run --whole --grace 0.1";
    let end = "(cat > up; touch outer)";
    for script in [
        format!("{run} 'sh wait | sh above' | {end}"),
        format!(
            "mkfifo out; {end} < out & {run} 'sh wait | tee out | {}'; :",
            root("root")
        ),
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(open.path());
        command
            .uid(65_534)
            .gid(65_534)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut shell = start(with_usual_signals(&mut command));
        let ready = open.path().join("ready");
        let pid = wait_for("the stage", || {
            fs::read_to_string(&ready).ok()?.trim().parse::<i32>().ok()
        });
        let keeper = children(shell.id())
            .into_iter()
            .find(|(_, words)| words[0].ends_with("fullbore"));
        let (keeper, _) = keeper.expect("run");
        let (_, runner) = holder_and_runner(number(keeper)).expect("the pipeline runs");
        let above = children(number(runner));
        let above = above.iter().find(|(_, words)| words[1] == "above");
        kill_process(keeper, Signal::KILL).unwrap();
        kill_process(runner, Signal::KILL).unwrap();
        if let Some(&(above, _)) = above {
            // It would go on after the process below it.
            wait_for("the shell to be ended", || {
                (!is_running(above)).then_some(())
            });
        }
        kill_with_children(Pid::from_raw(pid).unwrap());
        wait_for("the end", || {
            fs::remove_file(open.path().join("outer")).ok()
        });
        shell.wait().unwrap();
        open.assert_nothing_seen(&script);
        fs::remove_file(&ready).unwrap();
    }
}

#[test]
fn what_reads_from_a_stage_behind_a_failure_sees_no_end() {
    let open = Open::new();
    for trap in ["", "trap \"\" TERM; ", "trap : TERM; cat > up; "] {
        for _ in 0..5 {
            let line = format!(
                "(head -c 200000 /dev/zero; exit 3) | tee >({trap}exec sh cat 1 > up) > /dev/null"
            );
            let output = open.run("--quiet --shell bash --grace 0.05", &line);
            assert_code(&output, 3);
            open.assert_nothing_seen(&line);
        }
    }
    // A stage before the failure reads from one behind it.
    let mkfifo = Command::new("mkfifo")
        .arg(open.path().join("fifo"))
        .status();
    assert!(mkfifo.unwrap().success());
    let line = "(cat fifo > up; echo 1 >> seen) | (until test -e go; do sleep 0.01; done; exit 3) | \
                (exec > fifo; touch go; exec sleep 1000)";
    assert_code(&open.run("--grace 0.1", line), 3);
    open.assert_nothing_seen(line);
}

#[test]
fn a_process_that_sigterm_does_not_end_does_not_go_on_after_its_child() {
    let open = Open::new();
    let mut unshare = Command::new("unshare");
    let can = output_of(unshare.args(["-p", "-f", "true"]));
    let can = can.is_ok_and(|output| output.status.success());
    let lines = [
        "sh deaf 1",
        "sh -c 'sh deaf 1; echo 2 >> seen'",
        "perl blocks",
        "perl jobs",
        "unshare -p -f sh -c 'cat > up; echo 1 >> seen'",
    ];
    for line in &lines[..if can { 5 } else { 4 }] {
        let line = format!("(echo x; sleep 0.3; exit 3) | {line}");
        assert_code(&open.run("--grace 0.3", &line), 3);
        open.assert_nothing_seen(&line);
    }
    if !can {
        skipped("no PID namespace may be made");
    }
}

#[test]
fn what_a_process_was_starting_when_it_was_asked_to_end_is_asked_too() {
    for script in ["starts", "starts_late"] {
        let open = Open::new();
        let line = format!("(until test -e ready; do sleep 0.01; done; exit 3) | perl {script}");
        assert_code(&open.run("--grace 600", &line), 3);
        open.assert_nothing_seen(&line);
    }
}

#[test]
fn of_two_failures_seen_together_that_of_the_reader_was_first() {
    let open = Open::new();
    let go = "until test -e go; do sleep 0.01; done";
    let line = format!(
        "(echo $$ > new1; mv new1 one; {go}; trap \"\" PIPE; while echo x; do :; done 2> /dev/null; exit 4) | \
         (echo $$ > new2; mv new2 two; {go}; exit 5)"
    );
    let mut command = fullbore("run --whole");
    let child = start(command.arg(line).current_dir(open.path()));
    let stages = ["one", "two"].map(|name| {
        wait_for("the stages", || {
            let pid = fs::read_to_string(open.path().join(name)).ok()?;
            pid.trim().parse::<i32>().ok().and_then(Pid::from_raw)
        })
    });
    let (_, runner) = holder_and_runner(child.id()).expect("the pipeline runs");
    kill_process(runner, Signal::STOP).unwrap();
    wait_for("the runner to stop", || {
        (state(number(runner)) == Some('T')).then_some(())
    });
    fs::write(open.path().join("go"), "").unwrap();
    let have_ended = || stages.iter().all(|&pid| state(number(pid)) == Some('Z'));
    wait_for("the stages to end", || have_ended().then_some(()));
    kill_process(runner, Signal::CONT).unwrap();
    let output = finish(child);
    assert_code(&output, 5);
    let first = stderr(&output);
    assert!(
        first.starts_with("fullbore run: stage 2,"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_failure_ends_the_stages_before_it_that_write_nothing() {
    let open = Open::new();
    for line in [
        "sh -c 'echo x; exec sleep 1000' | sh -c 'exit 3'",
        "sh -c 'trap \"\" TERM; while :; do sleep 1; done' | cat | sh -c 'exit 3' | sh cat 3",
    ] {
        let output = open.run("--grace 0.1", line);
        assert_code(&output, 3);
        assert_eq!(stderr(&output).lines().count(), 1, "{}", said(&output));
        open.assert_nothing_seen(line);
    }
}

#[test]
fn with_few_descriptors_a_pipeline_works_or_is_refused_before_it_starts() {
    let open = Open::new();
    let few = |limit: u32, line: &str| {
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {limit}; exec {FULLBORE} run --whole '{line}'");
        command.args(["-c", &script]).current_dir(open.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(start(with_usual_signals(&mut command)))
    };
    for limit in 6..20 {
        let output = few(limit, "touch begun | seq 3 | cat | cat | cat | wc -l");
        let begun = fs::remove_file(open.path().join("begun")).is_ok();
        match output.status.code() {
            Some(0) => assert_eq!(stdout(&output), "3\n", "{limit}: {}", said(&output)),
            Some(125 | 1 | 3) => {
                assert!(!begun, "{limit}: {}", said(&output));
                assert_eq!(
                    stderr(&output).lines().count(),
                    1,
                    "{limit}: {}",
                    said(&output)
                );
            }
            _ => panic!("{limit}: {}", said(&output)),
        }
        assert!(
            limit < 12 || output.status.success(),
            "{limit}: {}",
            said(&output)
        );
        let output = few(limit, "(seq 3; exec >&-; exit 3) | cat | sh cat 2");
        assert!(!output.status.success(), "{limit}: {}", said(&output));
        open.assert_nothing_seen("few descriptors");
    }
    if !is_root() {
        return skipped("processes of another user: only root can make them");
    }
    let stages = ["cat"; 11].join(" | ");
    // dash knows no descriptor above 9.
    let mut command = Command::new("bash");
    let fds: String = (3..23).map(|fd| format!("exec {fd}</dev/null; ")).collect();
    let script = format!("{fds} ulimit -n 40; exec ./fullbore run --whole 'seq 3 | {stages}'");
    command.args(["-c", &script]).current_dir(open.path());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.uid(65_533).gid(65_533);
    let output = finish(start(with_usual_signals(&mut command)));
    assert_quiet_success(&output);
}

#[test]
fn a_call_that_fails_shows_no_stage_an_end() {
    let traced = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    if !traced.is_ok_and(|output| output.status.success()) {
        return skipped("calls that fail: strace is not there or may not trace");
    }
    let open = Open::new();
    for (call, error, most) in [
        ("recvmsg", "EMFILE", 9),
        ("sendmsg", "ETOOMANYREFS", 6),
        ("socketpair", "EMFILE", 4),
        ("clone", "EAGAIN", 3),
        ("pidfd_open", "EMFILE", 3),
        ("poll,ppoll", "EINTR", 3),
        ("prctl", "EINVAL", 4),
    ] {
        for when in 1..=most {
            for (line, is_right) in [
                ("seq 3 | cat | sh cat 2", true),
                (
                    "sh -c 'seq 3; exec >&-; sleep 0.01; exit 3' | cat | sh cat 2",
                    false,
                ),
            ] {
                let mut command = Command::new("strace");
                let inject = format!("inject={call}:error={error}:when={when}");
                command.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject, FULLBORE]);
                command.args(["run", "--whole", "--grace", "0.1", line]);
                command
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped());
                let output = finish(start(command.current_dir(open.path())));
                let what = format!("{inject}, {line}: {}", said(&output));
                if output.status.success() {
                    assert!(is_right && stdout(&output) == "1\n2\n3\n", "{what}");
                    fs::remove_file(open.path().join("seen")).unwrap();
                } else if !is_right {
                    open.assert_nothing_seen(&what);
                }
                let _ = fs::remove_file(open.path().join("seen"));
            }
        }
    }
}

#[test]
fn a_call_that_is_always_refused_is_named_and_leaves_no_holder() {
    let traced = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    if !traced.is_ok_and(|output| output.status.success()) {
        return skipped("calls that fail: strace is not there or may not trace");
    }
    for (call, task) in [
        ("sendmsg", "keep the write end of a pipe open by sendmsg(2)"),
        (
            "recvmsg",
            "look at the write ends of the pipes by recvmsg(2)",
        ),
        ("setsid", "start the process that keeps the pipes open"),
    ] {
        let mut command = Command::new("strace");
        let inject = format!("inject={call}:error=EPERM");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject, FULLBORE]);
        command.args(["run", "--whole", "seq 3 | cat | cat"]);
        // strace waits for all processes, and so for a holder.
        let output = finish(start(command.stdout(Stdio::piped()).stderr(Stdio::piped())));
        assert_code(&output, 125);
        let said = format!("fullbore run: {task}: Operation not permitted\n");
        assert_eq!(stderr(&output), said);
    }
}

#[test]
fn a_holder_that_is_killed_before_it_has_said_anything_shows_no_stage_an_end() {
    let traced = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    if !traced.is_ok_and(|output| output.status.success()) {
        return skipped("calls that fail: strace is not there or may not trace");
    }
    let open = Open::new();
    let mut command = Command::new("strace");
    // The keeper waits for what the holder writes.
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=sendto,write"]);
    command.args([
        "-e",
        "inject=sendto,write:delay_enter=2000000:when=1",
        FULLBORE,
    ]);
    command.args([
        "run",
        "--whole",
        "--grace",
        "0.1",
        "sleep 1000 | sh cat 1 | sh cat 2",
    ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = start(command.current_dir(open.path()));
    let (holder, runner) = wait_for("the stages", || {
        let (keeper, _) = children(child.id()).pop()?;
        let known = holder_and_runner(number(keeper))?;
        (children(number(known.1)).len() == 3).then_some(known)
    });
    kill_process(holder, Signal::KILL).unwrap();
    kill_process(runner, Signal::KILL).unwrap();
    // It is another one if the holder was killed too late.
    assert!(!finish(child).status.success());
    open.assert_nothing_seen("the holder was killed at once");
}

#[test]
fn without_proc_a_failure_ends_the_stages_and_a_success_replaces_the_file() {
    let open = Open::new();
    let Some(output) = run_without("/proc", "run --whole --grace 0.1 -- false | cat") else {
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let out = open.path().join("out");
    let words = format!("run -q --whole -o {} -- seq 3 | cat", out.display());
    assert_quiet_success(&run_without("/proc", &words).unwrap());
    assert_eq!(fs::read_to_string(&out).unwrap(), "1\n2\n3\n");
}

#[test]
fn the_guard_of_the_output_is_no_process_that_was_left_behind() {
    let open = Open::new();
    // __O_TMPFILE (include/uapi/asm-generic/fcntl.h).
    let flag = 0o20_000_000;
    let filter = refusing(
        &[(call::OPENAT, &[(2, MaskedEq(flag), flag)])],
        Errno::OPNOTSUPP,
    );
    for (line, code) in [
        ("seq 3 | cat", 0),
        ("seq 4 | (cat; sh leave)", 5),
        ("false | cat", 1),
    ] {
        let mut command = fullbore("run --whole --grace 0.1 -o out");
        command.arg(line).current_dir(open.path());
        let output = finish(start(under(filter.clone(), &mut command)));
        assert_code(&output, code);
        assert_eq!(
            stderr(&output).lines().count(),
            usize::from(code != 0),
            "{}",
            said(&output)
        );
        assert_eq!(
            fs::read_to_string(open.path().join("out")).unwrap(),
            "1\n2\n3\n"
        );
    }
    let names = fs::read_dir(open.path()).unwrap().flatten();
    let hidden = names.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

/// Runs a script in a PID namespace of its own, whose next PIDs it may choose. `None` if that is not possible.
fn in_a_namespace(open: &Open, options: &[&str], script: &str) -> Option<Output> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["-p", "-f", "--kill-child"])
            .args(options)
            .args(["sh", "-c", script]);
        command.env("FB", FULLBORE).current_dir(open.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    let can = output_of(&mut unshare("echo 500 > /proc/sys/kernel/ns_last_pid"));
    if !can.is_ok_and(|output| output.status.success()) {
        skipped("no PID namespace whose next PID may be chosen");
        return None;
    }
    Some(finish(start(&mut unshare(script))))
}

#[test]
fn a_shell_is_ended_before_its_child_also_if_that_has_the_lower_pid() {
    let open = Open::new();
    let stage = "echo 500 > /proc/sys/kernel/ns_last_pid; cat > up; echo 1 >> seen";
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do echo 20000 > /proc/sys/kernel/ns_last_pid; \
         $FB run -q --whole '(seq 1000; sleep 0.05; exit 3) | ({stage})'; echo $?; done"
    );
    let Some(output) = in_a_namespace(&open, &["--mount-proc"], &script) else {
        return;
    };
    assert_eq!(stdout(&output), "3\n".repeat(10), "{}", said(&output));
    open.assert_nothing_seen("PIDs that descend");
}

#[test]
fn in_a_foreign_proc_no_other_process_is_signalled() {
    let open = Open::new();
    // A process here whose PID a stage gets there, with a child whose PID a bystander gets there.
    let mut outside = start(
        Command::new("sh")
            .args(["-c", "sleep 1000 & wait"])
            .stdin(Stdio::null()),
    );
    let child = wait_for("the child", || {
        children(outside.id()).pop().map(|(pid, _)| pid)
    });
    let (pid, below) = (outside.id(), number(child));
    let script = format!(
        "echo {} > /proc/sys/kernel/ns_last_pid; sleep 1000 & by=$!; for off in 2 3 4 5 6 7; do \
         echo $(({pid} - off)) > /proc/sys/kernel/ns_last_pid; $FB run -q --whole --grace 0 'false | cat'; \
         echo $?; done; kill -0 $by && echo lives; kill $by",
        below - 1
    );
    let output = in_a_namespace(&open, &[], &script);
    let _ = kill_process(child, Signal::KILL);
    outside.kill().unwrap();
    outside.wait().unwrap();
    if let Some(output) = output {
        assert_eq!(
            stdout(&output),
            format!("{}lives\n", "1\n".repeat(6)),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn a_stopped_pipeline_stops_run_and_goes_on() {
    let open = Open::new();
    let mut command = fullbore("run --whole");
    command
        .arg("sh still | cat")
        .current_dir(open.path())
        .process_group(0);
    let child = start(&mut command);
    let keeper = Pid::from_child(&child);
    wait_for("the stage", || fs::metadata(open.path().join("ready")).ok());
    kill_process_group(keeper, Signal::STOP).unwrap();
    wait_for("the stop", || {
        (state(number(keeper)) == Some('T')).then_some(())
    });
    kill_process_group(keeper, Signal::CONT).unwrap();
    kill_process(keeper, Signal::TERM).unwrap();
    let output = finish(child);
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(Signal::TERM.as_raw()),
        "{}",
        said(&output)
    );
}
