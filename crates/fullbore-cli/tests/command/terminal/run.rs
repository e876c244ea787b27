//! Tests of `fullbore run` on a terminal, under an interactive bash: Ctrl-C, Ctrl-Z, jobs, programs that
//! draw and programs that read.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::terminal::{READS, Terminal, WIDE_NAMES, assert_equally_wide, wide_line};
use crate::common::*;
use fullbore_host::text::columns as columns_of;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn ctrl_c_ends_a_pipeline_and_the_shell_knows() {
    let Some(terminal) = Terminal::start("Ctrl-C") else {
        return;
    };
    let before = terminal.says("stty -a");
    terminal.types("run 'sleep @MARK@ | sleep @MARK@'; echo code=$?");
    terminal.wait_for_sleepers(2);
    terminal.presses("C-c");
    // bash does not continue a list when a command was ended by SIGINT.
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
    terminal.types("ulimit -c 0; run 'sleep @MARK@ | sleep @MARK@'");
    terminal.wait_for_sleepers(2);
    terminal.presses("C-\\");
    terminal.wait_for_sleepers(0);
    assert_eq!(terminal.says("echo code=$?"), "code=131");
}

#[test]
fn ctrl_c_is_for_the_stages_to_handle() {
    let Some(terminal) = Terminal::start("Ctrl-C with a trap") else {
        return;
    };
    terminal.writes(
        "writer",
        "trap 'sleep 0.2; echo summary; exit 0' INT; \
         until test -e ready; do sleep 0.01; done; sleep @MARK@; :",
    );
    terminal.writes("reader", "trap '' INT; touch ready; cat");
    terminal.types("run 'sh writer | sh reader'; echo code=$?");
    terminal.wait_for_sleepers(1);
    terminal.presses("C-c");
    let screen = terminal.shows("\ncode=0");
    let (summary, code) = (screen.find("summary"), screen.find("code=0"));
    assert!(summary.is_some() && summary < code, "{screen}");
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
    terminal.types("run 'sleep @MARK@ | sleep @MARK@'");
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
    terminal.types("run 'sleep @MARK@ | sleep @MARK@'");
    all_are('S');
    terminal.presses("C-z");
    all_are('T');
    terminal.types("fg");
    all_are('S');
    terminal.presses("C-c");
    terminal.wait_for_sleepers(0);
}

#[test]
fn a_pipeline_that_ctrl_z_has_stopped_does_not_stall_meanwhile() {
    let Some(terminal) = Terminal::start("Ctrl-Z with --stalled") else {
        return;
    };
    terminal.writes("beats", "until test -e go; do echo; sleep 0.05; done");
    for _ in 0..2 {
        terminal.types("run --stalled 1.5 --whole 'sh beats | cat > out'");
        wait_for("the first bytes", || {
            let size = std::fs::metadata(terminal.path("out")).ok()?.len();
            (size > 0).then_some(())
        });
        terminal.presses("C-z");
        terminal.shows("Stopped");
        // Longer than it may stall.
        std::thread::sleep(Duration::from_secs(3));
        std::fs::write(terminal.path("go"), "").unwrap();
        terminal.types("fg; echo code=$?");
        terminal.shows("\ncode=0");
        terminal.types("rm go out; clear");
        wait_for("the next", || {
            (!Path::new(&terminal.path("out")).exists()).then_some(())
        });
    }
}

#[test]
fn a_stage_reads_what_is_typed() {
    let Some(terminal) = Terminal::start("typing into a pipeline") else {
        return;
    };
    terminal.types("run '{ echo begun >&2; cat; } | tr a-z A-Z'; echo code=$?");
    // Keys that are typed before the shell has left its own terminal mode are lost.
    terminal.shows("\nbegun");
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
    // The shell has left its own terminal mode when it prints this.
    terminal.shows("ready> fg\n/");
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
fn a_program_that_draws_has_the_terminal_for_itself() {
    if output_of(Command::new("less").arg("--version")).is_err() {
        return skipped("a pager in a pipeline: there is no less here");
    }
    for option in ["", "--live"] {
        let Some(terminal) = Terminal::start("a pager") else {
            return;
        };
        let before = terminal.says("stty -a");
        terminal.types(&format!(
            "clear; run {option} 'seq 100 | less'; echo code=$?"
        ));
        terminal.shows("\n23\n");
        terminal.presses("G");
        let screen = terminal.shows("\n100\n");
        assert!(!screen.contains("ready>"), "{screen}");
        terminal.presses("C-z");
        terminal.shows("Stopped");
        assert_eq!(terminal.says("stty -a"), before, "while it is stopped");
        terminal.types("fg");
        // It draws from the first row on, which contains the command on the shell's screen.
        terminal.shows("78\n79\n");
        terminal.shows("\n100\n");
        terminal.presses("q");
        terminal.shows("ready>");
        assert_eq!(terminal.says("stty -a"), before, "when it has ended");
    }
}

#[test]
fn a_program_that_takes_the_terminal_late_is_asked_to_draw_again() {
    let Some(terminal) = Terminal::start("a program that draws late") else {
        return;
    };
    terminal.writes(
        "draws",
        "until [ -e go ]; do sleep 0.05; done; trap 'echo drawn again' WINCH; stty -icanon < /dev/tty; \
         while :; do sleep 0.05; done",
    );
    terminal.types("run --live 'sleep @MARK@ | sh draws'");
    terminal.shows("----");
    std::fs::write(terminal.path("go"), "").unwrap();
    let screen = terminal.shows("drawn again");
    assert!(!screen.contains("----"), "{screen}");
    terminal.presses("C-c");
    terminal.shows("ready>");
}

#[test]
fn a_program_that_puts_the_terminal_back_before_it_stops_has_the_time_to() {
    wait_for("a program that gets a CPU in this time", is_put_back_first);
}

/// Returns `None` if the program did not put the terminal back within the second for which `run` waits, because it
/// got no CPU.
fn is_put_back_first() -> Option<()> {
    let Some(terminal) = Terminal::start("Ctrl-Z with a trap") else {
        return Some(());
    };
    terminal.writes(
        "writer",
        "trap 'sleep 0.1; echo put back >&2; kill -STOP $$; echo goes on >&2' TSTP; \
         sleep @MARK@ & wait",
    );
    terminal.types("run 'sh writer | cat'; echo code=$?");
    terminal.wait_for_sleepers(1);
    let began = Instant::now();
    terminal.presses("C-z");
    let screen = terminal.shows("Stopped");
    let (back, stopped) = (screen.find("put back"), screen.find("Stopped"));
    if back.is_none() || back > stopped {
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(1), "{took:?}: {screen}");
        return None;
    }
    terminal.types("fg");
    terminal.shows("goes on");
    Some(())
}

#[test]
fn a_stage_that_does_not_stop_does_not_keep_the_shell_waiting() {
    let Some(terminal) = Terminal::start("Ctrl-Z that is ignored") else {
        return;
    };
    terminal.types("run '(trap \"\" TSTP; sleep @MARK@) | sleep @MARK@'");
    terminal.wait_for_sleepers(2);
    terminal.presses("C-z");
    terminal.shows("Stopped");
    assert_eq!(terminal.says("echo code=$?"), "code=148");
    terminal.types("fg");
    terminal.shows("ready> fg\n/");
    terminal.presses("C-c");
    terminal.wait_for_sleepers(0);
}

#[test]
fn a_closed_terminal_leaves_nothing_behind() {
    let Some(terminal) = Terminal::start("a terminal that is closed") else {
        return;
    };
    terminal.types("run 'sleep @MARK@ | (setsid sleep @MARK@ & sleep @MARK@)'");
    terminal.wait_for_sleepers(3);
    terminal.tmux(&["kill-server"]);
    terminal.wait_for_sleepers(0);
}

/// A pipeline that runs until a file exists, and shows the live view in the meantime.
const LIVE: &str =
    "run --live 'yes | (until test -e go; do sleep 0.01; done; head -c 100M) | wc -c'";

#[test]
fn the_live_view_makes_room_for_the_shell_and_leaves_its_verdict() {
    let Some(terminal) = Terminal::start("the live view") else {
        return;
    };
    terminal.types(&format!("clear; {LIVE}; echo code=$?"));
    let screen = terminal.shows("bottleneck");
    assert!(screen.contains("1 yes"), "{screen}");
    terminal.presses("C-z");
    let screen = terminal.shows("\ncode=148");
    assert!(!screen.contains("bottleneck"), "{screen}");
    // In a smaller terminal the view has other rows.
    terminal.tmux(&["resize-window", "-x", "80", "-y", "20"]);
    terminal.types("clear; fg");
    terminal.shows("bottleneck");
    terminal.tmux(&["resize-window", "-x", "90", "-y", "30"]);
    terminal.types("");
    let rule = "-".repeat(89);
    terminal.shows_what("a view for 90 columns", |screen| {
        screen.contains(&rule) && screen.matches("bottleneck").count() == 1
    });
    terminal.types("");
    std::fs::write(terminal.path("go"), "").unwrap();
    terminal.shows("\n104857600\n");
    let screen = terminal.shows_what("the prompt", |now| now.trim_end().ends_with("ready>"));
    assert_eq!(screen.matches("bottleneck").count(), 1, "{screen}");
    assert!(!screen.contains(&rule), "{screen}");
}

#[test]
fn names_in_wide_and_combining_characters_are_in_their_columns_of_the_live_view() {
    for columns in [50, 100] {
        let Some(terminal) = Terminal::wide("wide names in the live view", columns) else {
            return;
        };
        for name in WIDE_NAMES {
            terminal.writes_program(name, READS);
        }
        let line = format!("sleep @MARK@ | {}", wide_line());
        terminal.writes("live", &format!("exec {FULLBORE} run --live '{line}'"));
        let record = terminal.records("record");
        terminal.types("clear; sh live");
        let last = format!("5 ./{}", WIDE_NAMES[3]);
        // A drawing is complete once another one has begun.
        let rule = "-".repeat(columns - 1);
        let drawings = wait_for("two drawings", || {
            let drawn = std::fs::read(&record).unwrap();
            let drawn = String::from_utf8_lossy(&drawn).into_owned();
            let (complete, _) = drawn.rsplit_once(&rule)?;
            let (_, complete) = complete.split_once(&rule)?;
            complete.contains(&last).then(|| complete.to_owned())
        });
        for drawing in drawings.split(&rule) {
            let lines = drawing.split("\u{1b}[K").skip(1);
            let lines = lines.filter_map(|line| line.split('\u{1b}').next());
            let lines: Vec<&str> = lines.collect();
            for line in &lines {
                assert!(columns_of(line) < columns, "{line:?}");
            }
            let of_pipes = lines.iter().position(|line| line.starts_with("pipe "));
            let of_stages = &lines[..of_pipes.unwrap_or(lines.len())];
            if columns == 100 {
                assert_eq!(of_stages.len(), 2 + WIDE_NAMES.len(), "{lines:#?}");
                assert_equally_wide(of_stages);
            }
        }
        terminal.presses("C-c");
        terminal.wait_for_sleepers(0);
    }
}

#[test]
fn no_output_is_lost_behind_the_live_view() {
    let Some(terminal) = Terminal::start("output beside the live view") else {
        return;
    };
    // The pipeline writes to stdout and stderr in turn, more than a screen, and the last line has
    // no newline.
    let line = "i=0; while test $i -lt 60; do i=$((i + 1)); echo out $i; i=$((i + 1)); echo err $i >&2; \
                sleep 0.05; done; printf last";
    terminal.writes("lines", line);
    terminal.types("clear; run --live 'sh lines | cat'; echo code=$?");
    terminal.shows("bottleneck");
    terminal.shows("\ncode=0");
    let all = terminal.tmux(&["capture-pane", "-p", "-S", "-"]);
    let all = String::from_utf8_lossy(&all.stdout).into_owned();
    let told: Vec<&str> = all
        .lines()
        .filter(|line| {
            ["out ", "err ", "last", "stage "]
                .iter()
                .any(|start| line.starts_with(start))
        })
        .collect();
    let expected: Vec<String> = (1..=60)
        .map(|i| format!("{} {i}", if i % 2 == 1 { "out" } else { "err" }))
        .collect();
    for line in &expected {
        assert_eq!(
            told.iter().filter(|told| *told == line).count(),
            1,
            "{line}: {all}"
        );
    }
    assert!(
        told.len() == 62 && told[60] == "last" && told[61].starts_with("stage "),
        "{all}"
    );
}

#[test]
fn the_terminal_is_whole_again_when_the_one_who_draws_is_killed() {
    let Some(terminal) = Terminal::start("killed while it draws") else {
        return;
    };
    terminal.types(&format!("clear; {LIVE}; echo code=$?"));
    terminal.shows("bottleneck");
    kill_process(terminal.runner(), Signal::KILL).unwrap();
    terminal.shows("\ncode=137");
    terminal.types("clear; seq 50");
    let screen = terminal.shows("\n50\n");
    assert_eq!(screen.lines().count(), 24, "{screen}");
}

#[test]
fn the_progress_is_that_of_the_whole_pipeline() {
    let Some(terminal) = Terminal::start("the progress of a pipeline") else {
        return;
    };
    terminal.types("head -c 1000000 /dev/zero > million");
    // Half of the file has been read and has come out of the last pipe.
    terminal
        .types("run --progress '(head -c 500000; sleep @MARK@) < million | cat | cat > /dev/null'");
    terminal.shows(" 50% ETA");
    terminal.presses("C-c");
    terminal.wait_for_sleepers(0);
    // What lies unread in a pipe has not come out.
    terminal.types("run --progress '(head -c 40000; sleep @MARK@) < million | (head -c 20000 > /dev/null; sleep @MARK@)'");
    terminal.shows("  2% ETA");
    terminal.presses("C-c");
    terminal.wait_for_sleepers(0);
    terminal.types(
        "run --progress --size 1000000 '(head -c 250000 million; sleep @MARK@) | cat > /dev/null'",
    );
    terminal.shows(" 25% ETA");
    terminal.presses("C-c");
    terminal.wait_for_sleepers(0);
    terminal.types(
        "run --progress 'sh -c \"head -c 250000 /dev/zero; sleep @MARK@\" | cat > /dev/null'",
    );
    terminal.shows("size unknown");
    terminal.presses("C-c");
    terminal.wait_for_sleepers(0);
}
