//! `fullbore run` on a terminal, under an interactive bash: Ctrl-C, Ctrl-Z, jobs, programs that draw and
//! programs that read.
//!
//! The terminal is tmux's: what is typed is sent to it, and what a person would see is captured.

mod common;

use std::process::{Command, Output};
use std::time::Duration;

use common::*;
use rustix::process::{Pid, Signal, kill_process};

/// A terminal with a shell in it.
struct Terminal {
    socket: String,
    /// A time to sleep that nobody else sleeps.
    marker: String,
    directory: tempfile::TempDir,
}

impl Terminal {
    /// None where there is no tmux, which is said.
    fn start(what: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
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
        let shell = "exec env -i PATH=\"$PATH\" HOME=/ TERM=screen PS1='ready> ' \
                     bash --norc --noprofile -i";
        let size = ["-x", "80", "-y", "24"];
        let started = terminal.tmux(&[&["new-session", "-d"], &size[..], &[shell]].concat());
        assert!(started.status.success(), "{}", said(&started));
        terminal.shows("ready>");
        terminal.types(&format!(
            "cd {}; alias run='{FULLBORE} run'",
            terminal.path("")
        ));
        Some(terminal)
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command
            .args(["-L", &self.socket, "-f", "/dev/null"])
            .args(words);
        command.output().unwrap()
    }

    /// Types a line, and Enter.
    fn types(&self, line: &str) {
        let line = line.replace("MARK", &self.marker);
        self.tmux(&["send-keys", "-l", &line]);
        self.presses("Enter");
    }

    /// Presses a key: `C-c`, `Enter`.
    fn presses(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until the screen shows that.
    #[track_caller]
    fn shows(&self, text: &str) -> String {
        self.shows_what(&format!("{text:?}"), |screen| screen.contains(text))
    }

    #[track_caller]
    fn shows_what(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        for _ in 0..3000 {
            last = self.screen();
            if is(&last) {
                return last;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what} is not on the screen:\n{last}");
    }

    /// Runs a line that says something without reading, and gives what it said.
    #[track_caller]
    fn says(&self, line: &str) -> String {
        let file = self.path("said");
        let _ = std::fs::remove_file(&file);
        self.types(&format!(
            "{{ {line}; }} > {file}.new 2>&1; mv {file}.new {file}"
        ));
        wait_for(line, || std::fs::read_to_string(&file).ok())
            .trim()
            .to_owned()
    }

    /// The processes that sleep for this terminal.
    fn sleepers(&self) -> Vec<Pid> {
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

    #[track_caller]
    fn wait_for_sleepers(&self, number: usize) {
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

#[test]
fn ctrl_c_ends_a_pipeline_and_the_shell_knows() {
    let Some(terminal) = Terminal::start("Ctrl-C") else {
        return;
    };
    let before = terminal.says("stty -a");
    terminal.types("run 'sleep MARK | sleep MARK'; echo code=$?");
    terminal.wait_for_sleepers(2);
    terminal.presses("C-c");
    // bash does not go on with a list when a command has died of SIGINT.
    terminal.shows("^C");
    terminal.wait_for_sleepers(0);
    assert_eq!(terminal.says("echo code=$?"), "code=130");
    assert!(
        !terminal.screen().contains("code=0"),
        "{}",
        terminal.screen()
    );
    assert_eq!(
        terminal.says("stty -a"),
        before,
        "the terminal is as it was"
    );
}

#[test]
fn ctrl_c_is_for_the_stages_to_handle() {
    let Some(terminal) = Terminal::start("Ctrl-C with a trap") else {
        return;
    };
    terminal.types(
        "run \"sh -c 'trap \\\"sleep 0.2; echo summary; exit 0\\\" INT; sleep MARK & wait' | \
         (trap '' INT; cat)\"; echo code=$?",
    );
    terminal.wait_for_sleepers(1);
    terminal.presses("C-c");
    let screen = terminal.shows("code=0");
    let (summary, code) = (screen.find("\nsummary"), screen.find("\ncode=0"));
    assert!(summary.is_some() && summary < code, "{screen}");
}

#[test]
fn ctrl_backslash_ends_it_too() {
    let Some(terminal) = Terminal::start("Ctrl-\\") else {
        return;
    };
    terminal.types("ulimit -c 0; run 'sleep MARK | sleep MARK'");
    terminal.wait_for_sleepers(2);
    terminal.presses("C-\\");
    terminal.wait_for_sleepers(0);
    assert_eq!(terminal.says("echo code=$?"), "code=131");
}

#[test]
fn ctrl_z_stops_all_of_it_and_fg_and_bg_go_on() {
    let Some(terminal) = Terminal::start("Ctrl-Z") else {
        return;
    };
    let state = |pid: Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.ok()
            .and_then(|stat| stat.rsplit_once(") ")?.1.chars().next())
    };
    let all_are = |wanted: char| {
        wait_for(&format!("all in state {wanted}"), || {
            let sleepers = terminal.sleepers();
            (sleepers.len() == 2 && sleepers.iter().all(|&pid| state(pid) == Some(wanted)))
                .then_some(())
        });
    };
    terminal.types("run 'sleep MARK | sleep MARK'");
    all_are('S');
    terminal.presses("C-z");
    let screen = terminal.shows("Stopped");
    assert!(screen.contains("[1]+"), "{screen}");
    all_are('T');
    terminal.types("fg");
    all_are('S');
    terminal.presses("C-z");
    all_are('T');
    terminal.types("bg");
    all_are('S');
    terminal.shows_what("a job that runs", |_| {
        terminal.says("jobs").contains("Running")
    });
    terminal.types("kill %1; wait %1; echo code=$?");
    terminal.shows("code=143");
    terminal.wait_for_sleepers(0);
    terminal.types("run 'sleep MARK | sleep MARK'");
    all_are('S');
    terminal.presses("C-z");
    all_are('T');
    terminal.types("fg");
    all_are('S');
    terminal.presses("C-c");
    terminal.wait_for_sleepers(0);
}

#[test]
fn a_stage_reads_what_is_typed() {
    let Some(terminal) = Terminal::start("typing into a pipeline") else {
        return;
    };
    terminal.types("run 'cat | tr a-z A-Z'; echo code=$?");
    terminal.types("hello");
    terminal.shows("HELLO");
    terminal.types("again");
    terminal.shows("AGAIN");
    terminal.presses("C-d");
    terminal.shows("code=0");
}

#[test]
fn a_job_in_the_background_that_reads_the_terminal_stops() {
    let Some(terminal) = Terminal::start("reading in the background") else {
        return;
    };
    terminal.types("run 'cat | tr a-z A-Z' &");
    terminal.shows_what("a job that is stopped", |_| {
        terminal.says("jobs").contains("Stopped")
    });
    terminal.types("fg");
    terminal.types("typed");
    terminal.shows("TYPED");
    terminal.presses("C-c");
    assert_eq!(terminal.says("echo code=$?"), "code=130");
}

#[test]
fn a_program_that_draws_has_the_terminal_for_itself() {
    if Command::new("less").arg("--version").output().is_err() {
        return skipped("a pager in a pipeline: there is no less here");
    }
    let Some(terminal) = Terminal::start("a pager") else {
        return;
    };
    let before = terminal.says("stty -a");
    terminal.types("clear; run 'seq 100 | less'; echo code=$?");
    terminal.shows("\n23\n");
    terminal.presses("G");
    let screen = terminal.shows("\n100\n");
    assert!(!screen.contains("ready>"), "{screen}");
    terminal.presses("C-z");
    terminal.shows("Stopped");
    terminal.types("fg");
    terminal.shows("\n100\n");
    terminal.presses("q");
    terminal.shows("ready>");
    assert_eq!(
        terminal.says("stty -a"),
        before,
        "the terminal is as it was"
    );
}

#[test]
fn stages_find_the_terminal_and_its_size() {
    let Some(terminal) = Terminal::start("the size of the terminal") else {
        return;
    };
    assert_eq!(terminal.says("run 'true | stty size < /dev/tty'"), "24 80");
    assert!(terminal.says("run 'tty | cat'").starts_with("/dev/pts/"));
}

#[test]
fn a_closed_terminal_leaves_nothing_behind() {
    let Some(terminal) = Terminal::start("a terminal that is closed") else {
        return;
    };
    terminal.types("run 'sleep MARK | (setsid sleep MARK & sleep MARK)'");
    terminal.wait_for_sleepers(3);
    terminal.tmux(&["kill-server"]);
    terminal.wait_for_sleepers(0);
}

#[test]
fn the_live_view_makes_room_for_the_shell_and_leaves_its_verdict() {
    let Some(terminal) = Terminal::start("the live view") else {
        return;
    };
    terminal.types("clear; run --live 'yes | (sleep 3; head -c 100M) | wc -c'; echo code=$?");
    let screen = terminal.shows("bottleneck");
    assert!(screen.contains("1 yes"), "{screen}");
    terminal.presses("C-z");
    let screen = terminal.shows("Stopped");
    assert!(!screen.contains("bottleneck"), "{screen}");
    terminal.types("fg");
    let screen = terminal.shows("code=141");
    assert!(
        screen.contains("104857600") && screen.contains("bottleneck"),
        "{screen}"
    );
    assert_eq!(screen.matches("bottleneck").count(), 1, "{screen}");
}
