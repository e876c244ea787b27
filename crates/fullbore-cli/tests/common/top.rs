//! Pipelines that run beside `fullbore top`, and its overviews of them, scan after scan.

#![allow(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use fullbore_observe::census::Process;
use fullbore_observe::overview::{Overview, PipeState, Slow};
use rustix::process::{Pid, Signal, kill_process_group};

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

/// The overviews of a `top` that runs until this value is dropped, one for each scan.
pub struct Overviews {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl Overviews {
    pub fn new(words: &str) -> Self {
        let mut child = start(&mut fullbore(&format!("top --json {words}")));
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub fn next(&mut self) -> Overview {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "it has ended");
        json(&line)
    }

    /// Reads overviews until `found` returns something.
    #[track_caller]
    pub fn until<T>(&mut self, what: &str, found: impl Fn(&Overview) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let overview = self.next();
            if let Some(found) = found(&overview) {
                return found;
            }
            let is_late = began.elapsed() > PATIENCE;
            assert!(!is_late, "{what}: not seen: {overview:#?}");
        }
    }
}

impl Drop for Overviews {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether one of these processes has that name.
pub fn is_among(name: &str, processes: &[Process]) -> bool {
    processes.iter().any(|process| process.name == name)
}

/// Returns the pipe from one program to another.
pub fn pipe_between<'a>(
    overview: &'a Overview,
    writer: &str,
    reader: &str,
) -> Option<&'a PipeState> {
    let is_it =
        |pipe: &&PipeState| is_among(writer, &pipe.writers) && is_among(reader, &pipe.readers);
    overview.pipes.iter().find(is_it)
}

/// The writer of a pipe, its reader, and which of the two sides is slow.
pub type SlowSide<'a> = (&'a str, &'a str, Slow);

/// Observes each script until `top` names the slow side of each of its pipes.
pub fn the_slow_side_is_named(cases: &[(&str, &[SlowSide<'_>])]) {
    for (script, pipes) in cases {
        let line = Line::new(&format!("{script}; exit 3"));
        let mut overviews = Overviews::new(&format!("--interval 300ms --pipeline {}", line.pid()));
        overviews.until(script, |overview| {
            let is_seen = |&(writer, reader, slow): &SlowSide<'_>| {
                pipe_between(overview, writer, reader).is_some_and(|pipe| pipe.slow == slow)
            };
            pipes.iter().all(is_seen).then_some(())
        });
    }
}
