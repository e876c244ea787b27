//! Tests of errors of close(2), which NFS, FUSE and file systems with quotas report only there.

use std::process::Stdio;

use super::*;

/// Every way in which a verb can write to a file.
const JOBS: &[Job] = &[
    ("copy IN -o OUT", Nothing, Nothing),
    ("copy IN", Nothing, ToFile),
    ("copy -o OUT", Pipe, Nothing),
    ("copy", Pipe, ToFile),
    ("tee OUT", ToFile, Pipe),
    ("tee OUT", Pipe, Pipe),
    ("tee", Pipe, ToFile),
    ("meter -q IN", Nothing, ToFile),
    ("meter -q", Pipe, ToFile),
];

/// Makes these calls on this file fail in every process.
fn failing<'a>(
    path: &'a std::path::Path,
    calls: &'a str,
    error: &'a str,
) -> impl FnOnce(Command) -> Command + 'a {
    move |command| {
        let path = path.to_str().unwrap();
        let (trace, inject) = (
            format!("trace={calls}"),
            format!("inject={calls}:error={error}"),
        );
        let options = [
            "-f",
            "-qqq",
            "-o",
            "/dev/null",
            "-P",
            path,
            "-e",
            &trace,
            "-e",
            &inject,
        ];
        behind("strace", &options, &command)
    }
}

#[test]
fn a_file_that_answers_epipe_has_lost_no_reader_whatever_is_printed_to_it() {
    if !has_strace() {
        return;
    }
    const WRITES: &str = "write,writev,pwrite64,pwritev,pwritev2,splice,copy_file_range,sendfile";
    let files = Files::new(bytes(300_001));
    let fullbore = std::path::PathBuf::from(FULLBORE);
    let called = |name: &str| {
        let link = files.out.with_file_name(name);
        std::os::unix::fs::symlink(FULLBORE, &link).unwrap();
        link
    };
    let (cat, tee) = (called("cat"), called("tee"));
    for (program, words) in [
        (&fullbore, "copy --hash sha256 -o /dev/null"),
        (&fullbore, "top --once"),
        (&fullbore, "top --once --json"),
        (&fullbore, "bench --list"),
        (&fullbore, "run --help"),
        (&cat, ""),
        (&cat, "-n"),
        (&tee, "--output-error=exit-nopipe"),
    ] {
        let mut command = Command::new(program);
        command.args(words.split_whitespace());
        let mut command = failing(&files.stdout, WRITES, "EPIPE")(command);
        command.stdin(File::open(&files.input).unwrap());
        command.stdout(File::create(&files.stdout).unwrap());
        // stderr is a pipe, which has a reader.
        let output = finish(start(&mut command));
        let what = format!("{} {words}: {}", program.display(), said(&output));
        assert_eq!(output.status.code(), Some(1), "{what}");
        assert!(stderr(&output).contains("Broken pipe"), "{what}");
    }
}

#[test]
fn an_output_that_cannot_be_closed_is_an_error() {
    if !has_strace() {
        return;
    }
    let files = Files::new(bytes(300_001));
    for &job in JOBS {
        for by in guarantees(job.0) {
            let (path, name) = match job.0.contains("OUT") {
                true => (&files.out, format!("'{}'", files.out.display())),
                false => (&files.stdout, "stdout".to_owned()),
            };
            let (output, outputs) = files.run(job, by, failing(path, "close", "EDQUOT"));
            assert_code(&output, 1);
            let verb = job.0.split(' ').next().unwrap();
            assert_eq!(
                one_line(stderr(&output)),
                format!("fullbore {verb}: close {name}: Disk quota exceeded"),
                "{job:?} {by}"
            );
            assert!(
                outputs.iter().all(|got| *got == files.bytes),
                "{job:?} {by}"
            );
        }
    }
}

#[test]
fn stdout_that_cannot_be_closed_is_an_error_of_every_name() {
    if !has_strace() {
        return;
    }
    let files = Files::new(bytes(300_001));
    for (name, code) in [("cat", 1), ("tee", 1), ("pv", 8), ("mbuffer", 1)] {
        let link = files.out.with_file_name(name);
        std::os::unix::fs::symlink(FULLBORE, &link).unwrap();
        let mut called = Command::new(&link);
        if name != "cat" && name != "tee" {
            called.arg("-q");
        }
        let mut called = failing(&files.stdout, "close", "EDQUOT")(called);
        called.stdin(File::open(&files.input).unwrap());
        called.stdout(File::create(&files.stdout).unwrap());
        let output = finish(start(&mut called));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{name}: {}",
            said(&output)
        );
        let text = stderr(&output);
        assert!(text.contains("Disk quota exceeded"), "{name}: {text}");
        assert_eq!(std::fs::read(&files.stdout).unwrap(), files.bytes, "{name}");
    }
}

#[test]
fn two_processes_report_once_that_stdout_cannot_be_closed() {
    if !has_strace() {
        return;
    }
    let files = Files::new(b"x\n".to_vec());
    // A shell does not close its stdout, and so reports nothing itself.
    for words in [
        ["run", "--quiet", "sh -c 'echo x'"],
        ["run", "--whole", "sh -c 'echo x'"],
        ["parallel", "--", "cat"],
    ] {
        let mut command = Command::new(FULLBORE);
        command.args(words);
        let mut command = failing(&files.stdout, "close", "EDQUOT")(command);
        command.stdin(File::open(&files.input).unwrap());
        command.stdout(File::create(&files.stdout).unwrap());
        let output = finish(start(command.stderr(Stdio::piped())));
        assert_code(&output, 1);
        let line = one_line(stderr(&output));
        assert_eq!(
            line,
            format!("fullbore {}: close stdout: Disk quota exceeded", words[0])
        );
        assert_eq!(
            std::fs::read(&files.stdout).unwrap(),
            files.bytes,
            "{words:?}"
        );
    }
}

#[test]
fn stdout_that_cannot_be_closed_is_an_error_of_every_verb_that_prints() {
    if !has_strace() {
        return;
    }
    let files = Files::new(Vec::new());
    for words in ["bench --list", "--version", "--help", "copy --help"] {
        let (output, outputs) = files.run(
            (words, Nothing, ToFile),
            "",
            failing(&files.stdout, "close", "EDQUOT"),
        );
        assert_code(&output, 1);
        let line = one_line(stderr(&output));
        assert!(
            line.ends_with(": close stdout: Disk quota exceeded"),
            "{line}"
        );
        assert!(!outputs[0].is_empty(), "{words}");
    }
}

#[test]
fn a_report_that_cannot_be_closed_is_an_error() {
    if !has_strace() {
        return;
    }
    let files = Files::new(Vec::new());
    let fifo = files.out.with_file_name("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    // The FIFO is open for reading and writing, so that neither side waits for the other.
    let _both = File::options().read(true).write(true).open(&fifo).unwrap();
    let words = format!(
        "bench --rounds 1 --seconds 0.5 write_read --svg {}",
        fifo.display()
    );
    let output = finish(start(&mut failing(&fifo, "close", "EDQUOT")(fullbore(
        &words,
    ))));
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("fifo': close: Disk quota exceeded"),
        "{}",
        said_short(&output)
    );
}

#[test]
fn text_that_stdout_does_not_take_is_an_error() {
    for words in [
        "--help",
        "--version",
        "copy --help",
        "bench --help",
        "help",
        "bench --list",
    ] {
        let output = finish(start(fullbore(words).stdout(full())));
        assert_code(&output, 1);
        let line = one_line(stderr(&output));
        assert!(line.contains("No space left on device"), "{words}: {line}");
        // A reader that has closed its end got the bytes that it wanted.
        assert_quiet_success(&finish(start(fullbore(words).stdout(nobody_reads()))));
    }
}

#[test]
fn a_verb_that_prints_fails_where_stdout_is_closed() {
    let me = std::process::id();
    for words in [
        "--help".to_owned(),
        "--version".to_owned(),
        "copy --help".to_owned(),
        "bench --list".to_owned(),
        "doctor".to_owned(),
        "top --once".to_owned(),
        "top --json -n 1".to_owned(),
        format!("tune --dry-run {me}"),
        "read".to_owned(),
    ] {
        let script = "exec \"$@\" >&-";
        let mut command = behind("sh", &["-c", script, "sh"], &fullbore(&words));
        let output = finish(start(&mut command));
        assert_code(&output, 1);
        let line = stderr(&output).lines().last().unwrap_or_default();
        assert!(
            line.ends_with("standard output is closed"),
            "{words}: {}",
            said(&output)
        );
    }
}
