//! The contract for the processes of experiments. The laboratory starts them from an executable, the
//! `fullbore` command or any other, which must accept these command lines:
//!
//! | command line | what it does |
//! |---|---|
//! | `write OPTIONS --json=/dev/stderr --cpu=N TIED` | writes to stdout (`endpoint::writer`), and reports on stderr |
//! | `read OPTIONS --json --cpu=N TIED` | reads from stdin (`endpoint::reader`), and reports on stdout |
//! | `middleman HABIT [FILE…] [TIED]` | passes stdin on to stdout (`middleman`) |
//! | `part NAME JSON [--cpu=N] [TIED]` | does the task in the JSON, as the part of this name (`part::Part`) |
//! | `copy`, `tee`, `meter`, `buffer`, `run` | as the verbs of the command: only the groups `move`, `between`, `buffer` and `pipelines` use them |
//!
//! TIED is `--die-with-parent=PID`: the process ends when its starter, the process PID, ends, and
//! also if that had ended before the options were read (`parent::ParentOptions`).
//!
//! A process whose work this machine refuses ends with the exit code
//! [`UNSUPPORTED`](fullbore_host::refusal::UNSUPPORTED), and with the reason as the last line on stderr.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use serde_json::Value;

use crate::process::Process;
use crate::task::Task;

/// Returns what a process does for an experiment, by the command line with which this process's own
/// executable was started: `writer`, `reader`, the role in the task of a part, or the name of the part or of
/// the verb. `None` if it was not started in one of these ways.
pub fn role(words: &[String]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["/proc/self/exe", verb, rest @ ..] = words.as_slice() else {
        return None;
    };
    Some(match (*verb, rest) {
        ("write", _) => "writer".to_owned(),
        ("read", _) => "reader".to_owned(),
        ("part", [.., part, task]) => role_in(task).unwrap_or_else(|| (*part).to_owned()),
        (verb, _) => verb.to_owned(),
    })
}

/// Returns the `role` in the task of a part, if there is one.
fn role_in(task: &str) -> Option<String> {
    let task: Value = serde_json::from_str(task).ok()?;
    Some(task.get("role")?.as_str()?.to_lowercase())
}

/// The executable of the `fullbore` command.
#[derive(Debug, Clone)]
pub struct Program(PathBuf);

impl Program {
    /// Refers to the executable at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a command that starts it, without any arguments yet.
    pub fn command(&self) -> Command {
        Command::new(&self.0)
    }

    /// Returns a command for a verb whose process ends with this process.
    pub fn verb(&self, verb: &str) -> Command {
        let mut command = self.command();
        let tied = format!("--die-with-parent={}", std::process::id());
        command.args([verb, &tied]);
        command
    }

    /// Starts `fullbore write` with these options, on one CPU. It reports as JSON on stderr.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn write(&self, options: &str, cpu: usize, stdout: impl Into<Stdio>) -> Result<Process> {
        let options = format!("{options} --json=/dev/stderr --cpu={cpu}");
        self.endpoint("write", &options, Stdio::null(), stdout)
    }

    /// Starts `fullbore read` with these options, on one CPU. It reports as JSON on stdout.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn read(&self, options: &str, cpu: usize, stdin: impl Into<Stdio>) -> Result<Process> {
        let options = format!("{options} --json --cpu={cpu}");
        self.endpoint("read", &options, stdin, Stdio::piped())
    }

    fn endpoint(
        &self,
        verb: &str,
        options: &str,
        stdin: impl Into<Stdio>,
        stdout: impl Into<Stdio>,
    ) -> Result<Process> {
        let mut command = self.verb(verb);
        command.args(options.split_whitespace());
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        Process::start(command)
    }

    /// Starts a process that does this task, on one CPU or on any, with these as its stdin and stdout.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub fn start<T: Task>(
        &self,
        task: &T,
        cpu: Option<usize>,
        stdin: impl Into<Stdio>,
        stdout: impl Into<Stdio>,
    ) -> Result<Process> {
        let mut command = self.verb("part");
        command.args(cpu.map(|cpu| format!("--cpu={cpu}")));
        command.args([T::NAME, &serde_json::to_string(task)?]);
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        Process::start(command)
    }

    /// Returns a command for a process that does this task, on any CPU, and that is not killed with this
    /// process: it has something to clean up, and ends when its stdin does.
    ///
    /// # Errors
    /// Fails if the task cannot be written as JSON.
    pub fn part_that_cleans_up<T: Task>(&self, task: &T) -> Result<Command> {
        let mut command = self.command();
        command.args(["part", T::NAME, &serde_json::to_string(task)?]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_role_of_a_process_is_what_it_does() {
        let role = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
            super::role(&words)
        };
        let exe = "/proc/self/exe";
        assert_eq!(role(&[exe, "write", "--json"]).unwrap(), "writer");
        assert_eq!(role(&[exe, "read", "--json"]).unwrap(), "reader");
        assert_eq!(role(&[exe, "copy", "-"]).unwrap(), "copy");
        let part = |name, task| role(&[exe, "part", "--cpu=1", name, task]).unwrap();
        assert_eq!(part("send", r#"{"message":1}"#), "send");
        assert_eq!(part("wakeup", r#"{"role":"Waker"}"#), "waker");
        assert_eq!(part("unixcopy", r#"{"role":"Client"}"#), "client");
        assert_eq!(role(&["cat", "-"]), None);
        assert_eq!(role(&["write", "someone"]), None);
    }
}
