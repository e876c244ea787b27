//! Starting `fullbore meter`, what it is fed, and what it said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use tempfile::TempDir;

use super::*;

/// A folder with some files whose bytes differ.
pub struct Files(pub TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A new file, and what is in it.
    pub fn file(&self, name: &str, size: usize) -> (PathBuf, Vec<u8>) {
        let mut bytes = vec![0; size];
        fastrand::Rng::with_seed(size as u64).fill(&mut bytes);
        let path = self.0.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        (path, bytes)
    }
}

pub fn meter(words: &str, files: &[&Path]) -> Command {
    let mut command = fullbore(&format!("meter {words}"));
    command.args(files);
    command
}

/// What `fullbore meter` does with `bytes` on its stdin.
pub fn fed(command: &mut Command, bytes: &[u8]) -> Output {
    let (source, mut sink) = pipe();
    let child = start(command.stdin(source));
    thread::scope(|scope| {
        scope.spawn(move || {
            // It may have had enough.
            let _ = sink.write_all(bytes);
        });
        finish(child)
    })
}

/// A shell that runs `script`, where `$F` is the command.
pub fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .env("F", FULLBORE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The last line on stderr.
#[track_caller]
pub fn verdict(output: &Output) -> &str {
    stderr(output).lines().last().expect("something was said")
}
