//! What goes wrong below the verbs that move bytes: file systems that misbehave, calls that are refused,
//! outputs that cannot be closed, little memory. Either every byte is right, or one clear error says
//! what went wrong and what came is the beginning of it; and nothing hangs.

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

/// Bytes that are different everywhere.
fn bytes(len: usize) -> Vec<u8> {
    let words = (0..len as u64)
        .step_by(8)
        .map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// What a verb reads from, beside the files that it is given by name, or writes to.
#[derive(Clone, Copy, Debug)]
enum Standard {
    Nothing,
    Pipe,
    File,
}
use Standard::{File as ToFile, Nothing, Pipe};

/// A verb with its words, where IN is the name of the file that it reads and OUT of one that it writes;
/// its stdin and its stdout.
type Job = (&'static str, Standard, Standard);

/// The files of a job: what it reads, and what it writes by name and as stdout.
struct Files {
    input: PathBuf,
    out: PathBuf,
    stdout: PathBuf,
    bytes: Vec<u8>,
    _directory: TempDir,
}

impl Files {
    /// A file of these bytes, and two empty ones.
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

    /// Runs a job with more `options`, as what `wrap` makes of it, and returns what came of it and what
    /// its outputs hold.
    fn run(
        &self,
        (words, stdin, stdout): Job,
        options: &str,
        wrap: impl FnOnce(Command) -> Command,
    ) -> (Output, Vec<Vec<u8>>) {
        let named = words
            .replace("IN", self.input.to_str().unwrap())
            .replace("OUT", self.out.to_str().unwrap());
        let mut command = wrap(fullbore(&format!("{named} {options}")));
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
                // The verb may have had enough.
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

/// Puts `program` with its `options` in front of a command.
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

/// Whether strace is there and may be used.
fn has_strace() -> bool {
    let ran = output_of(Command::new("strace").args(["-o", "/dev/null", "true"]));
    let has = ran.is_ok_and(|output| output.status.success());
    if !has {
        skipped("calls that fail: strace is not there or may not trace");
    }
    has
}

/// Both guarantees, as options.
const GUARANTEES: [&str; 2] = ["", "--by-reference"];

/// Every output holds all of `bytes`, and there was nothing to say.
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

/// No output holds anything but the beginning of `bytes`.
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

/// What was said, without what was printed.
fn said_short(output: &Output) -> String {
    format!(
        "{:?}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    )
}
