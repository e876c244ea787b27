//! Pipelines that run beside `fullbore top`, and its output about them, scan after scan.

#![allow(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::*;

/// A shell with a pipeline, which is killed at the end of the test.
pub struct Line(pub Child);

impl Line {
    pub fn new(script: &str) -> Self {
        Self::start(Command::new("sh").args(["-c", script]))
    }

    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self::with(command)
    }

    /// Starts it with the stdin and stdout that the command has.
    pub fn with(command: &mut Command) -> Self {
        command.stderr(Stdio::null()).process_group(0);
        let line = Self(start(command));
        wait_for_starts();
        line
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// The scans of a `top` that runs until this value is dropped.
pub struct Looks {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl Looks {
    pub fn new(words: &str) -> Self {
        let mut child = start(&mut fullbore(&format!("top --json {words}")));
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "it has ended");
        json(&line)
    }

    /// Reads scans until `found` returns something.
    #[track_caller]
    pub fn until<T>(&mut self, what: &str, found: impl Fn(&Value) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let look = self.next();
            if let Some(found) = found(&look) {
                return found;
            }
            let is_late = began.elapsed() > Duration::from_secs(60);
            assert!(!is_late, "{what}: not seen: {look:#}");
        }
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn rows(look: &Value) -> &[Value] {
    look["pipes"].as_array().expect("pipes")
}

/// Returns the pipe from one program to another.
pub fn row<'a>(look: &'a Value, writer: &str, reader: &str) -> Option<&'a Value> {
    rows(look).iter().find(|row| {
        let has = |side: &str, name: &str| {
            let all = row[side].as_array().unwrap();
            all.iter().any(|who| who["name"] == name)
        };
        has("writers", writer) && has("readers", reader)
    })
}

/// The writer of a pipe, its reader, and which of the two sides is slow.
pub type SlowSide<'a> = (&'a str, &'a str, &'a str);

/// Observes each script until `top` names the slow side of each of its pipes.
pub fn the_slow_side_is_named(cases: &[(&str, &[SlowSide<'_>])]) {
    for (script, pipes) in cases {
        let line = Line::new(&format!("{script}; exit 3"));
        let mut looks = Looks::new(&format!("--interval 300ms --pid {}", line.pid()));
        looks.until(script, |look| {
            let is_seen = |&(writer, reader, slow): &(&str, &str, &str)| {
                row(look, writer, reader).is_some_and(|row| row["slow"] == slow)
            };
            pipes.iter().all(is_seen).then_some(())
        });
    }
}
