//! `parallel` on random inputs, with random options and workers, some of which are killed; and with calls that fail.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use super::*;

/// Starts `fullbore parallel` with these options and a line, on these bytes in a pipe.
pub fn begin(options: &str, line: &str, input: &[u8]) -> (Child, thread::JoinHandle<()>) {
    let (source, mut sink) = pipe();
    let mut command = fullbore(&format!("parallel {options}"));
    let child = start(command.arg(line).stdin(source));
    let input = input.to_vec();
    // The verb may not read all of it.
    let feed = thread::spawn(move || drop(sink.write_all(&input)));
    (child, feed)
}

pub fn parallel(options: &str, line: &str, input: &[u8]) -> Output {
    let (child, feed) = begin(options, line, input);
    let output = finish(child);
    feed.join().unwrap();
    output
}

/// Returns what the command alone prints.
pub fn alone(line: &str, input: &[u8]) -> Vec<u8> {
    let (source, mut sink) = pipe();
    let mut command = Command::new("sh");
    let child = start(
        command
            .args(["-c", line])
            .stdin(source)
            .stdout(Stdio::piped()),
    );
    thread::scope(|scope| {
        scope.spawn(move || drop(sink.write_all(input)));
        finish(child).stdout
    })
}

/// Returns this many numbered lines.
pub fn numbered(count: usize) -> Vec<u8> {
    let lines = (0..count).map(|number| format!("line {number}\n"));
    lines.collect::<String>().into_bytes()
}

/// Returns random lines: empty ones, long ones, with NUL and CR.
pub fn lines(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.usize(0..3_000) {
        let long = if random.u8(..) == 0 { 30_000 } else { 80 };
        let of = b"abcdefg 0123456789\0\r\t";
        bytes.extend((0..random.usize(0..long)).map(|_| *random.choice(of).unwrap()));
        bytes.push(b'\n');
    }
    bytes
}

/// Returns random lines, or records with quoted line ends, perhaps without an end at the end; or nothing, or one huge line.
fn input(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    match random.u8(0..8) {
        0 => {}
        1 => bytes = vec![b'x'; random.usize(1..300_000)],
        2 => bytes = b"\n".to_vec(),
        3 => {
            for number in 0..random.usize(0..3_000) {
                bytes.extend(format!("{number},\"a\nb\"\"{number}\r\n\",c\r\n").bytes());
            }
        }
        _ => bytes = lines(random),
    }
    if random.bool() {
        bytes.pop();
    }
    bytes
}

/// Filters of lines: fast, slow and silent ones, some that write more than they read, and some that close their input.
const FILTERS: [&str; 11] = [
    "cat",
    "grep -a b || true",
    "sed s/a/bb/g",
    "sed 's/.*/& & & & &/'",
    "tr a-f A-F",
    "cut -c 2-5",
    "awk '{ print NF, $1 }'",
    "cat; sleep 0.01",
    "sleep 0.0$(($$ % 3)); cat",
    "cat > /dev/null",
    "exec <&-; true",
];

/// Runs `parallel` on random inputs, with random options and workers. Some of them are killed: then the output is the
/// start of the right one, one line says why, and the exit code is not 0.
pub fn random_runs(seed: u64, rounds: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds {
        let input = input(&mut random);
        let filter = random.choice(FILTERS).unwrap();
        let lines = input.iter().filter(|&&byte| byte == b'\n').count();
        let least = (input.len() / 100).max(1);
        let block = least.max(random.usize(1..60_000));
        let mut options = format!("-j {}", random.usize(1..=32));
        options += &match random.bool() {
            true => format!(" --lines {}", random.usize(1..500).max(lines / 100)),
            false => format!(" --block {block} --memory {}", block * 4 + 1_000_000),
        };
        let (csv, keep) = (random.u8(0..4) == 0, random.u8(0..4) == 0);
        options += if csv { " --csv" } else { "" };
        options += if keep { " --keep-going" } else { "" };
        let signal = random
            .choice(["KILL", "TERM", "SEGV", "INT", "HUP"])
            .unwrap();
        let (part, time) = (random.u8(1..20), random.u8(1..9));
        let (line, may_fail) = match random.u8(0..8) {
            0 => (
                format!("(sleep 0.0{time}; kill -{signal} $$) & {filter}"),
                true,
            ),
            1 => (
                format!("test $(($$ % {part})) = 0 && kill -{signal} $$; {filter}"),
                true,
            ),
            2 => (
                format!("{filter}; test $(($$ % {part})) = 0 && kill -{signal} $$; true"),
                true,
            ),
            _ => (filter.to_owned(), false),
        };
        let output = parallel(&options, &line, &input);
        let expected = alone(filter, &input);
        let what = format!(
            "seed {seed}, round {round}: {options} '{line}' on {} bytes, {}, {} of {} bytes came: {}",
            input.len(),
            output.status,
            output.stdout.len(),
            expected.len(),
            stderr(&output)
        );
        let own = stderr(&output).matches("fullbore parallel: ").count();
        match output.status.success() {
            true => assert!(output.stdout == expected && own == 0, "{what}"),
            false => {
                assert!(may_fail && own == 1, "{what}");
                assert!(keep || expected.starts_with(&output.stdout), "{what}");
            }
        }
    }
}

/// Lets each of these calls fail, in every process: the output is right, or one line says what failed, and the output is
/// the start of the right one. Nothing is left running: strace ends after all that it follows. The calls of the workers
/// and of the dynamic linker fail too. close(2) is none of them: it always closes, and strace would not.
pub fn calls_that_fail(times: &[u32]) {
    if output_of(Command::new("strace").arg("-V")).is_err() {
        skipped("strace is not installed");
        return;
    }
    let input = numbered(20_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &input).unwrap();
    for (calls, errors) in [
        ("read,preadv2", "EINTR EIO ENOMEM"),
        ("write,writev,pwritev2", "EINTR EIO ENOMEM ENOSPC"),
        ("preadv2,pwritev2", "EAGAIN EOPNOTSUPP"),
        ("ppoll,poll", "EINTR EAGAIN ENOMEM"),
        ("clock_nanosleep", "EINTR"),
        ("wait4,waitid", "EINTR"),
        ("signalfd4,socketpair", "EMFILE ENOMEM"),
        ("fcntl", "EPERM EMFILE ENOMEM"),
        ("ioctl", "EIO ENOMEM"),
        ("prctl", "EINVAL"),
        ("pipe2", "EMFILE ENFILE ENOMEM"),
        ("mmap,madvise,munmap", "ENOMEM"),
        ("clone3,clone,vfork,fork", "EAGAIN ENOMEM"),
        ("execve", "ENOMEM EACCES EAGAIN"),
        ("dup2,dup3,dup", "EMFILE"),
        ("pidfd_open,pidfd_send_signal", "EMFILE ENOSYS"),
        ("openat", "EMFILE EINTR"),
        ("fstat,newfstatat,statx", "EIO"),
    ] {
        for (error, nth) in errors
            .split(' ')
            .flat_map(|error| times.iter().map(move |nth| (error, nth)))
        {
            let mut command = Command::new("strace");
            let (trace, inject) = (
                format!("trace={calls}"),
                format!("inject={calls}:error={error}:when={nth}"),
            );
            command.args(["-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &inject]);
            command.args([
                FULLBORE, "parallel", "-j", "3", "--block", "32K", "--", "cat",
            ]);
            let pipes = command
                .stdin(File::open(file.path()).unwrap())
                .stdout(Stdio::piped());
            let output = finish(start(pipes.stderr(Stdio::piped())));
            let what = format!("{calls} {error} {nth}: {}", said(&output));
            let text = stderr(&output);
            // The first calls of execve(2), of the dynamic linker and of Rust's runtime are not ours.
            let is_ours = !(text.contains("error while loading shared libraries")
                || text.contains("cannot allocate TLS data structures")
                || text.contains("fatal runtime error: initialization")
                || text.contains("strace: ")
                || output.status.signal() == Some(Signal::SEGV.as_raw()));
            if output.status.success() {
                assert!(output.stdout == input, "{what}");
            } else if is_ours {
                assert!(input.starts_with(&output.stdout), "{what}");
                // strace counts the calls of each process: those of both that watch each other can fail.
                let own = text.matches("fullbore parallel: ").count();
                assert!(
                    (1..=2).contains(&own) && !text.contains("panicked"),
                    "{what}"
                );
            }
        }
    }
}
