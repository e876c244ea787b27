//! A terminal of tmux with an interactive bash in it. Tests send keys to it, and capture the text that a
//! user would see.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use fullbore_host::text::columns;
use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// A terminal with a shell in it.
pub struct Terminal {
    socket: String,
    /// A sleeping time that no other process uses.
    marker: String,
    directory: tempfile::TempDir,
}

impl Terminal {
    /// Starts a terminal; returns `None` and prints a message if tmux is not installed.
    pub fn start(what: &str) -> Option<Self> {
        Self::wide(what, 80)
    }

    /// Starts a terminal with this number of columns.
    pub fn wide(what: &str, columns: usize) -> Option<Self> {
        if output_of(Command::new("tmux").arg("-V")).is_err() {
            skipped(&format!("{what}: there is no tmux here"));
            return None;
        }
        let unique = format!(
            "{}.{:09}",
            100_000 + std::process::id(),
            fastrand::u32(..1 << 29)
        );
        let terminal = Self {
            socket: format!("fullbore-{unique}"),
            marker: unique,
            directory: tempfile::tempdir().unwrap(),
        };
        let shell = "exec env -i PATH=\"$PATH\" HOME=/ TERM=screen LANG=C.UTF-8 PS1='ready> ' \
                     bash --norc --noprofile -i";
        let columns = columns.to_string();
        let size = ["-x", &columns, "-y", "24"];
        let started = terminal.tmux(&[&["new-session", "-d"], &size[..], &[shell]].concat());
        assert!(started.status.success(), "{}", said(&started));
        terminal.shows("ready>");
        terminal.types(&format!(
            "cd {}; alias run='{FULLBORE} run' top='{FULLBORE} top'",
            terminal.path("")
        ));
        Some(terminal)
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    pub fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command
            .args(["-u", "-L", &self.socket, "-f", "/dev/null"])
            .args(words);
        output_of(&mut command).unwrap()
    }

    /// Writes a script.
    pub fn writes(&self, name: &str, script: &str) {
        let script = script.replace("@MARK@", &self.marker);
        std::fs::write(self.path(name), script).unwrap();
    }

    /// Writes a program for sh under a name that it then has as a process.
    pub fn writes_program(&self, name: &str, script: &str) {
        self.writes(name, &format!("#!/bin/sh\n{script}\n"));
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(self.path(name), mode).unwrap();
        wait_for_starts();
    }

    /// Writes all that is written to the terminal from now on to this file too, and returns its path.
    pub fn records(&self, name: &str) -> String {
        let path = self.path(name);
        let piped = self.tmux(&["pipe-pane", &format!("cat > {path}")]);
        assert!(piped.status.success(), "{}", said(&piped));
        wait_for("a record", || std::fs::metadata(&path).ok());
        path
    }

    /// Types a line and Enter.
    pub fn types(&self, line: &str) {
        let line = line.replace("@MARK@", &self.marker);
        self.tmux(&["send-keys", "-l", &line]);
        self.presses("Enter");
    }

    /// Presses a key: `C-c`, `Enter`.
    pub fn presses(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until the screen shows this text.
    #[track_caller]
    pub fn shows(&self, text: &str) -> String {
        self.shows_what(&format!("{text:?}"), |screen| screen.contains(text))
    }

    #[track_caller]
    pub fn shows_what(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is(&screen) {
                return screen;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{what} is not on the screen:\n{screen}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a line that prints something without reading, and returns its output. Keys that are typed
    /// while the shell takes back the terminal can be lost, so the line is typed at a prompt.
    #[track_caller]
    pub fn says(&self, line: &str) -> String {
        self.shows_what("a prompt", |screen| screen.trim_end().ends_with("ready>"));
        let file = self.path("said");
        let _ = std::fs::remove_file(&file);
        self.types(&format!(
            "{{ {line}; }} > {file}.new 2>&1; mv {file}.new {file}"
        ));
        wait_for(line, || std::fs::read_to_string(&file).ok())
            .trim()
            .to_owned()
    }

    /// Returns the session of the processes in this terminal, except those that have created their
    /// own.
    pub fn session(&self) -> String {
        let pane = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        stdout(&pane).trim().to_owned()
    }

    /// Returns the sleeping processes of this terminal.
    pub fn sleepers(&self) -> Vec<Pid> {
        let wanted = format!("sleep\0{}\0", self.marker);
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| {
                let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
                let line = std::fs::read(entry.path().join("cmdline")).ok()?;
                (line == wanted.as_bytes() && is_running(pid)).then_some(pid)
            })
            .collect()
    }

    /// Returns the second process of `run` in this terminal.
    pub fn runner(&self) -> Pid {
        let is_fullbore = |pid: &str| {
            std::fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|exe| exe == Path::new(FULLBORE))
        };
        let is_here = |pid: i32| {
            let process = format!("/proc/{pid}");
            std::fs::read_link(format!("{process}/cwd")).is_ok_and(|at| at == self.directory.path())
                && std::fs::read_to_string(format!("{process}/stat")).is_ok_and(|stat| {
                    let parent = stat
                        .rsplit_once(") ")
                        .and_then(|(_, rest)| rest.split(' ').nth(1));
                    parent
                        .is_some_and(|parent| is_fullbore(parent) && is_fullbore(&pid.to_string()))
                })
        };
        wait_for("the runner", || {
            std::fs::read_dir("/proc")
                .unwrap()
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .find(|&pid| is_here(pid))
                .and_then(Pid::from_raw)
        })
    }

    #[track_caller]
    pub fn wait_for_sleepers(&self, number: usize) {
        wait_for("the sleepers", || {
            (self.sleepers().len() == number).then_some(())
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        for pid in self.sleepers() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns the lines of the screen that begin with these names, in this order and below each other.
pub fn below_each_other<'a>(screen: &'a str, names: &[&str]) -> Option<Vec<&'a str>> {
    let lines: Vec<&str> = screen.lines().collect();
    lines.windows(names.len()).find_map(|part| {
        let all = part
            .iter()
            .zip(names)
            .all(|(line, name)| line.trim_start().starts_with(name));
        all.then(|| part.to_vec())
    })
}

/// Names of 15 bytes and more, of which a process keeps 15: in characters that occupy two columns or none. The last one is
/// cut within a character.
pub const WIDE_NAMES: [&str; 4] = [
    "日本語日本",
    "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}",
    "😀😀😀abc",
    "a日本語日本語",
];

/// What a program under one of these names does: it reads for as long as its pipe is open.
pub const READS: &str = "while read line; do :; done";

/// Returns a pipeline of programs under these names, for sh.
pub fn wide_line() -> String {
    WIDE_NAMES.map(|name| format!("./{name}")).join(" | ")
}

/// Asserts that these lines occupy the same number of columns, as those of a table without blanks at its right do.
#[track_caller]
pub fn assert_equally_wide(lines: &[&str]) {
    let widths: Vec<usize> = lines.iter().map(|line| columns(line)).collect();
    assert!(
        widths.windows(2).all(|two| two[0] == two[1]),
        "{widths:?}: {lines:#?}"
    );
}
