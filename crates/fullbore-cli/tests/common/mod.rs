//! Functions that the tests of the command share: they start it, connect two of its processes by a
//! pipe, and read its output. They never hang: a process that does not end in time is killed, and
//! the test fails.

// Each test program uses only some of these functions.
#![allow(dead_code)]

pub mod explain;
pub mod fuzzed;
pub mod load;
pub mod meter;
pub mod network;
pub mod parallel;
pub mod proxy;
pub mod refusing;
pub mod sshd;
pub mod terminal;
pub mod top;
pub mod users;
pub mod verdicts;

pub use fullbore_tests::skipped;
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LockResult, Once, OnceLock, RwLock, RwLockWriteGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_results::run::{EndpointReport, Outcome, Run};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

/// A time limit that is longer than any process of these tests takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(400);

/// The command that was built for these tests.
pub const FULLBORE: &str = env!("CARGO_BIN_EXE_fullbore");

/// Returns the bytes of so many numbers from 0 on, at most 400,000 of them, which are made once.
pub fn numbers(count: usize) -> &'static [u8] {
    static ALL: OnceLock<Vec<u8>> = OnceLock::new();
    let all = ALL.get_or_init(|| (0..400_000_u64).flat_map(u64::to_le_bytes).collect());
    &all[..count * size_of::<u64>()]
}

/// Returns `fullbore` with the options in `words`, with an empty stdin, with captured output, and with
/// the signal actions of a program that is started in a terminal.
pub fn fullbore(words: &str) -> Command {
    let mut command = Command::new(FULLBORE);
    command
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    users::with_usual_signals(&mut command);
    command
}

/// Returns whether the tests of the target `load` repeat about a quarter as often (`FULLBORE_TEST_LOAD=quick`),
/// which is what CI has time for.
pub fn is_quick() -> bool {
    std::env::var_os("FULLBORE_TEST_LOAD").is_some_and(|load| load == "quick")
}

/// Returns how many bytes to move in a test of `bytes` bytes under load: an eighth with little time.
pub fn under_load(bytes: u64) -> u64 {
    if is_quick() { bytes / 8 } else { bytes }
}

/// Tries something that depends on chance `tries` times; it has to succeed at least `at_least` times. The
/// count is always printed, and why attempts failed.
///
/// The two numbers follow from how often a right program succeeds, by the binomial distribution. With 19 of
/// 20, it comes to fewer than 16 of 20 once in 390 runs; with 9 of 10, to fewer than 14 of 20 once in 420. A
/// program that succeeds every other time comes to 16 once in 170 runs, and to 14 once in 17.
///
/// With `FULLBORE_TEST_LOAD=quick` there are a quarter of the tries, and one fewer has to succeed than that
/// share: 3 of 5 for 16 of 20, which with 19 of 20 is missed once in 860 runs, and 2 of 5 for 14 of 20, which
/// with 9 of 10 is missed once in 2,170. It finds what is broken, not what has become a little worse.
#[track_caller]
pub fn at_least(
    at_least: usize,
    tries: usize,
    what: &str,
    mut attempt: impl FnMut(usize) -> Result<(), String>,
) {
    let (at_least, tries) = match is_quick() {
        true => (at_least / 4 - 1, tries.div_ceil(4)),
        false => (at_least, tries),
    };
    let failed: Vec<String> = (0..tries).filter_map(|at| attempt(at).err()).collect();
    let right = tries - failed.len();
    let why = failed.iter().map(|why| format!("\n  {why}"));
    let said = format!(
        "{what}: {right} of {tries}, at least {at_least} expected{}",
        why.collect::<String>()
    );
    let _ = writeln!(std::io::stderr(), "{said}");
    assert!(right >= at_least, "{said}");
}

/// Runs `fullbore` with the options in `words`, with an empty directory mounted over this one; returns `None`
/// if that is not permitted.
pub fn run_without(directory: &str, words: &str) -> Option<Output> {
    let covered = format!("mount -t tmpfs none {directory}");
    let unshare = |line: &str| {
        let mut command = Command::new("unshare");
        let root = if is_root() { "-m" } else { "-rm" };
        command.args([root, "sh", "-c", line, FULLBORE]);
        command
            .args(words.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    if !output_of(&mut unshare(&covered)).is_ok_and(|o| o.status.success()) {
        skipped(&format!("{directory} cannot be taken away here"));
        return None;
    }
    let line = format!("{covered} && exec \"$0\" \"$@\"");
    Some(finish(start(&mut unshare(&line))))
}

/// Runs `bench` with the options in `words`, and again if an experiment got no CPU while it was measured: each time
/// with twice the `--seconds` of the time before, so that how busy the machine is only decides how long it takes.
pub fn until_measured(words: &str, run: impl Fn(&str) -> Output) -> Output {
    let mut words = words.to_owned();
    for _ in 0..10 {
        let output = run(&words);
        if !String::from_utf8_lossy(&output.stdout).contains("no bytes arrived during") {
            return output;
        }
        words = with_twice_the_seconds(&words);
    }
    run(&words)
}

/// Doubles the value of the option `--seconds`, if it is there.
pub fn with_twice_the_seconds(words: &str) -> String {
    let Some((before, rest)) = words.split_once("--seconds ") else {
        return words.to_owned();
    };
    let end = rest.find(' ').unwrap_or(rest.len());
    let seconds: f64 = rest[..end].parse().expect("a number of seconds");
    format!("{before}--seconds {}{}", 2.0 * seconds, &rest[end..])
}

/// Runs `fullbore` with the options in `words`.
pub fn run(words: &str) -> Output {
    until_measured(words, |words| finish(start(&mut fullbore(words))))
}

/// The lock of all functions that start a process here.
static STARTING: RwLock<()> = RwLock::new(());

/// Waits until all processes that other tests are starting have executed their program: between fork(2) and
/// execve(2), a process has all pipes of these tests open, and would be seen as another reader and writer of
/// them.
pub fn wait_for_starts() {
    drop(STARTING.write());
}

thread_local! {
    /// Whether this thread holds [`Alone`].
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// While this value lives, only this thread starts processes. A pipe that was made meanwhile is never open in
/// a process that another test started: what execve(2) closes is released only when the new program begins,
/// which nobody can see from outside.
pub struct Alone {
    _starting: LockResult<RwLockWriteGuard<'static, ()>>,
}

impl Alone {
    /// Waits until no other thread is starting a process.
    pub fn wait() -> Self {
        let _starting = STARTING.write();
        IS_ALONE.set(true);
        Self { _starting }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        IS_ALONE.set(false);
    }
}

/// Starts a process as [`Command::spawn`] does. All processes of these tests are started here, because of
/// [`wait_for_starts`].
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        // A pipe that the tests themselves inherited would be one more pipe of all that they start.
        users::inherit_nothing().expect("close_range");
        users::keep_no_freed_memory();
    });
    let _starting = (!IS_ALONE.get()).then(|| STARTING.read());
    let child = command.spawn()?;
    // The parent of vfork(2) continues before the child has closed what it does not inherit. The child gets
    // its new name after that (`begin_new_exec`, fs/exec.c), and its command line last (`create_elf_tables`,
    // fs/binfmt_elf.c). A process that has ended has none.
    let of = |process: &str, file: &str| fs::read(format!("/proc/{process}/{file}")).ok();
    let (own, started) = (of("thread-self", "comm"), child.id().to_string());
    let has_no_command = || {
        of(&started, "cmdline").is_some_and(|line| line.is_empty())
            && of(&started, "stat").is_some_and(|stat| !stat.windows(4).any(|part| part == b") Z "))
    };
    // A test may start its own program, which has that name already if there is only one thread.
    let began = Instant::now();
    while own.is_some()
        && (has_no_command() && began.elapsed() < PATIENCE
            || of(&started, "comm") == own && began.elapsed() < Duration::from_secs(1))
    {
        thread::yield_now();
    }
    Ok(child)
}

/// Copies a program that is executed next: a process that another test is starting has the copy open for writing
/// until it executes its own program, and the copy cannot be executed before ("Text file busy").
pub fn copy_program(from: &str, to: &Path) {
    fs::copy(from, to).unwrap();
    wait_for_starts();
}

/// Runs a process to its end, and returns what it printed, as [`Command::output`] does.
pub fn output_of(command: &mut Command) -> io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(command)?.wait_with_output()
}

/// Starts a process, and closes the file descriptors that it was given.
pub fn start(command: &mut Command) -> Child {
    let child = loop {
        match spawn(command) {
            // The program was just written, and a process that another test has just started has it
            // open for writing until it executes its own program.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            child => break child.expect("the command starts"),
        }
    };
    // A `Command` keeps the files that it passes on; with an end of a pipe open here, the other
    // side would not see it closed.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    child
}

/// Waits for a process, which has to end by itself, and for the end of what it prints.
#[track_caller]
pub fn finish(child: Child) -> Output {
    let pid = Pid::from_child(&child);
    let (done, ended) = mpsc::channel();
    thread::spawn(move || done.send(child.wait_with_output()));
    let output = ended.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        // The process is waited for after its output has ended, so its id is not reused.
        let _ = kill_process(pid, Signal::KILL);
        match ended.recv_timeout(Duration::from_secs(60)) {
            Ok(output) => panic!("no end: {:?}", output.as_ref().map(said)),
            Err(_) => panic!("no end, and another process has its stdout or stderr"),
        }
    });
    output.expect("the command is waited for")
}

/// Runs `fullbore write … | fullbore read …`.
pub fn pipeline(write: &str, read: &str) -> (Output, Output) {
    let (reader, writer) = pipe();
    let (reading, writing) = start_pipeline(write, writer, read, reader);
    (finish(writing), finish(reading))
}

/// Starts both endpoints, the reader on `source` and the writer on `sink`.
pub fn start_pipeline(
    write: &str,
    sink: PipeWriter,
    read: &str,
    source: PipeReader,
) -> (Child, Child) {
    let reading = start(fullbore(&format!("read {read}")).stdin(source));
    let writing = start(fullbore(&format!("write {write}")).stdout(sink));
    (reading, writing)
}

/// Returns a pipe whose ends are not inherited by accident.
pub fn pipe() -> (PipeReader, PipeWriter) {
    std::io::pipe().expect("a pipe")
}

/// Describes the result of a process, for the message of a failed test.
pub fn said(output: &Output) -> String {
    format!(
        "code {:?}, signal {:?}\nstdout: {}\nstderr: {}",
        output.status.code(),
        output.status.signal(),
        String::from_utf8_lossy(&output.stdout[..output.stdout.len().min(4000)]),
        String::from_utf8_lossy(&output.stderr),
    )
}

/// Asserts that the process ended with `code`.
#[track_caller]
pub fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
}

/// Asserts that the process succeeded and printed nothing on stderr.
#[track_caller]
pub fn assert_quiet_success(output: &Output) {
    assert_code(output, 0);
    assert!(output.stderr.is_empty(), "{}", said(output));
}

/// Returns the stdout of a process.
pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("stdout is text")
}

/// Returns the stderr of a process.
pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("stderr is text")
}

/// Asserts that `text` is one complete line, and returns it.
#[track_caller]
pub fn one_line(text: &str) -> &str {
    let line = text.strip_suffix('\n').unwrap_or_default();
    assert!(
        !line.is_empty() && !line.contains('\n'),
        "not one line: {text:?}"
    );
    line
}

/// Parses `text` as the JSON of a value.
#[track_caller]
pub fn json<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

/// Returns the run that `fullbore bench --json …` printed, whatever its exit code.
#[track_caller]
pub fn bench_json(output: &Output) -> Run {
    Run::from_json(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// Returns the experiment with that name.
#[track_caller]
pub fn experiment<'a>(run: &'a Run, name: &str) -> &'a Outcome {
    run.experiments
        .iter()
        .find(|experiment| experiment.name == name)
        .unwrap_or_else(|| panic!("no experiment {name}"))
}

/// Returns whether an experiment has a figure.
pub fn has_figure(experiment: &Outcome) -> bool {
    let figure = experiment.figure.as_ref();
    figure.is_some_and(|figure| figure.median > 0.0)
}

/// Returns the figure of an experiment.
#[track_caller]
pub fn median(experiment: &Outcome) -> f64 {
    let figure = experiment.figure.as_ref();
    figure
        .unwrap_or_else(|| panic!("no figure: {experiment:#?}"))
        .median
}

/// Returns the report of an experiment's writer.
#[track_caller]
pub fn writer(experiment: &Outcome) -> &EndpointReport {
    let writer = experiment.writer.as_ref();
    writer.unwrap_or_else(|| panic!("no writer: {experiment:#?}"))
}

/// Returns the report of an experiment's reader.
#[track_caller]
pub fn reader(experiment: &Outcome) -> &EndpointReport {
    let reader = experiment.reader.as_ref();
    reader.unwrap_or_else(|| panic!("no reader: {experiment:#?}"))
}

/// Returns the report that `fullbore write --json` or `fullbore read --json` printed.
#[track_caller]
pub fn endpoint(text: &str) -> EndpointReport {
    serde_json::from_str(one_line(text)).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

/// Returns whether this machine gives transparent huge pages to processes that ask for them.
pub fn has_huge_pages() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|setting| !setting.contains("[never]"))
}

/// Returns whether this process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits until `found` returns something, or fails the test.
#[track_caller]
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "{what}: not seen");
        // Each check takes CPU time from the processes that are waited for.
        let (least, most) = (Duration::from_millis(2), Duration::from_millis(50));
        thread::sleep((waited / 8).clamp(least, most));
    }
}

/// Returns the running children of `parent`, with their command lines.
pub fn children(parent: u32) -> Vec<(Pid, Vec<String>)> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let pid: i32 = path.file_name()?.to_str()?.parse().ok()?;
            (parent_of(&path)? == parent).then_some(())?;
            Some((Pid::from_raw(pid)?, command_line(&path)?))
        })
        .collect()
}

/// Kills a process, and then its children. It is stopped first, because it may be about to start one.
pub fn kill_with_children(parent: Pid) {
    let number = parent.as_raw_nonzero().get() as u32;
    wait_for("the stop", || {
        let _ = kill_process(parent, Signal::STOP);
        (!matches!(state(number), Some('R' | 'S' | 'D'))).then_some(())
    });
    let below = children(number);
    if is_running(parent) {
        for pid in [parent]
            .into_iter()
            .chain(below.iter().map(|&(pid, _)| pid))
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns the process of `run --whole` between the first one and the one that starts the stages, and the latter.
pub fn holder_and_runner(keeper: u32) -> Option<(Pid, Pid)> {
    let (holder, _) = children(keeper).pop()?;
    let (runner, _) = children(holder.as_raw_nonzero().get() as u32).pop()?;
    Some((holder, runner))
}

/// Returns the state of a process, such as `S`, `T` or `Z` (proc_pid_stat(5)); `None` if there is no such process.
pub fn state(pid: u32) -> Option<char> {
    stat(&PathBuf::from(format!("/proc/{pid}")))?.chars().next()
}

fn parent_of(process: &Path) -> Option<u32> {
    stat(process)?.split(' ').nth(1)?.parse().ok()
}

/// Returns /proc/PID/stat from its third field on, after a name that may contain spaces and parentheses.
fn stat(process: &Path) -> Option<String> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

fn command_line(process: &Path) -> Option<Vec<String>> {
    let words = std::fs::read(process.join("cmdline")).ok()?;
    let words: Vec<String> = words
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    // A zombie has no command line.
    (words.len() > 1).then_some(words)
}

/// Asserts that these processes end long before they would by themselves, and kills those that do
/// not.
pub fn assert_nobody_is_left(started: &[Pid]) {
    let deadline = Instant::now() + PATIENCE;
    let left = || -> Vec<Pid> {
        let running = started.iter().copied().filter(|pid| is_running(*pid));
        running.collect()
    };
    while !left().is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    let left = left();
    for pid in &left {
        let _ = kill_process(*pid, Signal::KILL);
    }
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Returns whether the process exists and is not a zombie.
pub fn is_running(pid: Pid) -> bool {
    fullbore_process::live_thread(pid.as_raw_nonzero().get().unsigned_abs()).is_some()
}

/// Returns the write end of a pipe without a reader.
pub fn nobody_reads() -> PipeWriter {
    let _alone = Alone::wait();
    let (reader, writer) = pipe();
    drop(reader);
    writer
}

/// Opens a file that is always full.
pub fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// Returns bash with a line, in this directory, where `$F` and `$FB` are the command.
pub fn bash(directory: impl AsRef<Path>, line: &str) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", line])
        .envs([("F", FULLBORE), ("FB", FULLBORE)]);
    command.current_dir(directory).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a line as [`bash`] does, to its end.
pub fn shell(directory: impl AsRef<Path>, line: &str) -> Output {
    finish(start(&mut bash(directory, line)))
}

/// Runs a line as [`shell`] does, with pipefail.
pub fn pipefail(directory: impl AsRef<Path>, line: &str) -> Output {
    shell(directory, &format!("set -o pipefail; {line}"))
}
