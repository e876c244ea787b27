//! Functions that start `fullbore meter`, write its input, and read its output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use tempfile::TempDir;

use super::*;

/// A directory with some files whose bytes differ.
pub struct Files(pub TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Makes a new file, and returns its path and its contents.
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

/// Runs `fullbore meter` with `bytes` on its stdin.
pub fn fed(command: &mut Command, bytes: &[u8]) -> Output {
    let (source, mut sink) = pipe();
    let child = start(command.stdin(source));
    thread::scope(|scope| {
        scope.spawn(move || {
            // The command may have closed its stdin.
            let _ = sink.write_all(bytes);
        });
        finish(child)
    })
}

/// Returns a shell that runs `script`, where `$F` is the command.
pub fn sh(script: &str) -> Command {
    super::bash(".", script)
}

/// Returns the last line on stderr.
#[track_caller]
pub fn verdict(output: &Output) -> &str {
    stderr(output).lines().last().expect("something was said")
}
