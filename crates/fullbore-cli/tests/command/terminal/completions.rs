//! Tests of completion in an interactive bash and zsh.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::common::terminal::Terminal;
use crate::common::*;

/// Starts a terminal in whose directory are `fullbore`, the script of this shell, and a file.
fn terminal(shell: &str, script: &str) -> Option<Terminal> {
    let what = format!("completion in {shell}");
    if output_of(Command::new(shell).arg("--version")).is_err() {
        skipped(&format!("{what}: there is no {shell} here"));
        return None;
    }
    let terminal = Terminal::start(&what)?;
    symlink(FULLBORE, terminal.path("fullbore")).unwrap();
    let printed = run(&format!("generate complete-{shell}"));
    assert_code(&printed, 0);
    fs::write(terminal.path(script), stdout(&printed)).unwrap();
    fs::write(terminal.path("some file"), "").unwrap();
    Some(terminal)
}

/// Types the start of a line and Tab, and waits until the screen shows what that leads to.
fn completes(terminal: &Terminal, prompt: &str) {
    let mut sleep = Command::new("sleep");
    let mut child = start(sleep.arg("1000"));
    let pid = child.id().to_string();
    // Other processes may have numbers with this start: then all of them are listed.
    let start_of_pid = format!("fullbore top --pipeline {}", &pid[..pid.len() - 1]);
    for (typed, shown) in [
        ("fullbore exp", "fullbore explain"),
        ("fullbore copy --by-r", "fullbore copy --by-reference"),
        (
            "fullbore explain vmsplice_read_h",
            "fullbore explain vmsplice_read_huge",
        ),
        ("fullbore write --way rec", "fullbore write --way recycle"),
        ("fullbore tee som", "fullbore tee some\\ file"),
        (
            "fullbore copy --output=som",
            "fullbore copy --output=some\\ file",
        ),
        (&start_of_pid, &pid),
    ] {
        terminal.shows_what("a prompt", |screen| screen.trim_end().ends_with(prompt));
        terminal.tmux(&["send-keys", "-l", typed]);
        terminal.presses("Tab");
        terminal.shows(shown);
        // Ctrl-C could come while the shell still completes, and end that instead of the line.
        terminal.presses("C-u");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn bash_completes_verbs_options_experiments_files_and_processes() {
    let Some(terminal) = terminal("bash", "fullbore.bash") else {
        return;
    };
    terminal.types("PATH=$PWD:$PATH; source fullbore.bash; bind 'set show-all-if-ambiguous on'");
    completes(&terminal, "ready>");
}

#[test]
fn zsh_completes_verbs_options_experiments_files_and_processes() {
    let Some(terminal) = terminal("zsh", "_fullbore") else {
        return;
    };
    terminal.types("export PATH=$PWD:$PATH; exec env PS1='zsh> ' zsh -f");
    terminal.shows_what("a prompt", |screen| screen.trim_end().ends_with("zsh>"));
    terminal
        .types("fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -d dump; PS1='compl> '");
    completes(&terminal, "compl>");
}
