//! Tests of failures below the verbs that move bytes: file systems that misbehave, calls that are
//! refused, outputs that cannot be closed, little memory. Either every byte is right, or one clear error
//! says what went wrong and the output is a prefix of the bytes. No command hangs.

mod bad_sectors;
mod close;
mod fuse;
mod memory;
mod refusals;
mod server;
mod zeros;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

use crate::common::*;
use tempfile::TempDir;

/// Returns bytes without a repeating pattern.
fn bytes(len: usize) -> Vec<u8> {
    let words = (0..len as u64)
        .step_by(8)
        .map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// The stdin or stdout of a verb.
#[derive(Clone, Copy, Debug)]
enum Standard {
    Nothing,
    Pipe,
    File,
}
use Standard::{File as ToFile, Nothing, Pipe};

/// A verb with its arguments, where IN is the name of the file that it reads and OUT is the name of the
/// file that it writes; its stdin; and its stdout.
type Job = (&'static str, Standard, Standard);

/// The files of a job: the one that it reads, and those that it writes by name and as stdout.
struct Files {
    input: PathBuf,
    out: PathBuf,
    stdout: PathBuf,
    bytes: Vec<u8>,
    _directory: TempDir,
}

impl Files {
    /// Makes a file with these bytes, and two empty ones.
    fn new(bytes: Vec<u8>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("in"), &bytes).unwrap();
        for name in ["out", "stdout"] {
            std::fs::write(path(name), "").unwrap();
        }
        Self {
            input: path("in"),
            out: path("out"),
            stdout: path("stdout"),
            bytes,
            _directory: directory,
        }
    }

    /// Runs a job with additional `options`, as the command that `wrap` returns, and returns the result
    /// and the contents of its outputs.
    fn run(
        &self,
        (words, stdin, stdout): Job,
        options: &str,
        wrap: impl FnOnce(Command) -> Command,
    ) -> (Output, Vec<Vec<u8>>) {
        // Whole words are replaced, because the name of a temporary file may contain "OUT".
        let named = words.split(' ').map(|word| match word {
            "IN" => self.input.to_str().unwrap(),
            "OUT" => self.out.to_str().unwrap(),
            word => word,
        });
        let named: Vec<&str> = named.chain([options]).collect();
        let mut command = wrap(fullbore(&named.join(" ")));
        let mut feed = None;
        match stdin {
            Nothing => {}
            ToFile => {
                command.stdin(File::open(&self.input).unwrap());
            }
            Pipe => {
                let (source, sink) = pipe();
                command.stdin(source);
                feed = Some(sink);
            }
        }
        if let ToFile = stdout {
            command.stdout(File::create(&self.stdout).unwrap());
        }
        let child = start(&mut command);
        let output = thread::scope(|scope| {
            if let Some(mut sink) = feed {
                // The verb may have closed its stdin.
                scope.spawn(move || {
                    let _ = sink.write_all(&self.bytes);
                });
            }
            finish(child)
        });
        let mut outputs = Vec::new();
        if words.contains("OUT") {
            outputs.push(std::fs::read(&self.out).unwrap());
        }
        match stdout {
            Nothing => {}
            Pipe => outputs.push(output.stdout.clone()),
            ToFile => outputs.push(std::fs::read(&self.stdout).unwrap()),
        }
        (output, outputs)
    }
}

/// Returns a command that runs `program` with its `options` and the given command as its arguments.
fn behind(program: &str, options: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(program);
    outer
        .args(options)
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    outer
}

/// Returns whether strace is installed and may be used.
fn has_strace() -> bool {
    let ran = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    let has = ran.is_ok_and(|output| output.status.success());
    if !has {
        skipped("calls that fail: strace is not there or may not trace");
    }
    has
}

/// The guarantees that the verb of `words` has, as options.
fn guarantees(words: &str) -> &'static [&'static str] {
    match words.starts_with("tee") {
        true => &[""],
        false => &["", "--by-reference"],
    }
}

/// Asserts that every output contains all of `bytes`, and that there was no message.
#[track_caller]
fn assert_everything(what: &str, output: &Output, outputs: &[Vec<u8>], bytes: &[u8]) {
    assert_eq!(
        output.status.code(),
        Some(0),
        "{what}: {}",
        said_short(output)
    );
    assert!(output.stderr.is_empty(), "{what}: {}", said_short(output));
    for (nth, got) in outputs.iter().enumerate() {
        assert!(
            got == bytes,
            "{what}: output {nth} has {} bytes of {}, equal up to {}",
            got.len(),
            bytes.len(),
            got.iter().zip(bytes).take_while(|(a, b)| a == b).count(),
        );
    }
}

/// Asserts that every output is a prefix of `bytes`.
#[track_caller]
fn assert_beginnings(what: &str, outputs: &[Vec<u8>], bytes: &[u8]) {
    for (nth, got) in outputs.iter().enumerate() {
        assert!(
            bytes.starts_with(got),
            "{what}: output {nth}, of {} bytes, is wrong",
            got.len()
        );
    }
}

/// Returns the messages of a process, without its stdout.
fn said_short(output: &Output) -> String {
    format!(
        "{:?}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    )
}
