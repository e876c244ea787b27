//! Tests of `fullbore parallel` on a terminal: its progress, Ctrl-Z and Ctrl-C.

use crate::common::terminal::Terminal;
use crate::common::*;

#[test]
fn ctrl_z_stops_all_processes_and_ctrl_c_ends_them() {
    let Some(terminal) = Terminal::start("parallel") else {
        return;
    };
    let all_are = |wanted: char| {
        wait_for(&format!("all in state {wanted}"), || {
            let sleepers = terminal.sleepers();
            let states = sleepers
                .iter()
                .map(|pid| state(pid.as_raw_nonzero().get() as u32));
            let all = states.filter(|state| *state == Some(wanted)).count();
            (all == 3).then_some(())
        });
    };
    terminal.types(&format!(
        "(seq 3; exec sleep 1000) | {FULLBORE} parallel -j 3 --lines 1 --progress --size 12 'cat; exec sleep @MARK@'"
    ));
    all_are('S');
    terminal.shows(" 50%");
    terminal.presses("C-z");
    terminal.shows("Stopped");
    all_are('T');
    terminal.types("fg");
    all_are('S');
    terminal.presses("C-c");
    terminal.wait_for_sleepers(0);
    assert_eq!(terminal.says("echo code=$?"), "code=130");
}

#[test]
fn a_command_reads_what_is_typed() {
    let Some(terminal) = Terminal::start("parallel that reads") else {
        return;
    };
    // Before the line runs, the shell reads what is typed: Ctrl-D would be no end.
    terminal.types(&format!(
        "echo beg''un; {FULLBORE} parallel 'cat; echo e''nd'"
    ));
    terminal.shows("begun");
    terminal.types("typed");
    terminal.presses("C-d");
    terminal.shows("typed\ntyped\nend");
}
