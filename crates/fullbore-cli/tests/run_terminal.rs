//! `fullbore run` on a terminal, under an interactive bash: Ctrl-C, Ctrl-Z, jobs, programs that draw and
//! programs that read.

mod common;

use std::time::Duration;

use common::terminal::Terminal;
use common::*;
use rustix::process::Pid;

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
