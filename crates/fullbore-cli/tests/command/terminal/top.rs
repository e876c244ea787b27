//! Tests of `fullbore top` on a terminal: what it draws, what the keys do, and how it leaves the
//! terminal.

use crate::common::terminal::{READS, Terminal, WIDE_NAMES, assert_equally_wide, wide_line};
use crate::common::*;
use fullbore_host::text::columns as columns_of;

/// The command line of a `top` that shows only the pipelines of this terminal.
const TOP: &str = "top --interval 200ms --pipeline $$";

/// Starts a pipeline whose reader sleeps between reads, and one that does not move, and waits for their
/// verdicts.
fn with_pipelines(what: &str, columns: usize) -> Option<Terminal> {
    let terminal = Terminal::wide(what, columns)?;
    terminal.types("set +m; export XDG_RUNTIME_DIR=$PWD");
    // A reader that sleeps on a timer is slow on a busy machine too.
    terminal.writes(
        "slow",
        "$| = 1; while (sysread STDIN, $x, 4096) { print 'x'; select undef, undef, undef, 0.02 }",
    );
    terminal.types("(yes | perl slow | cat >/dev/null) & (cat /dev/zero | sleep @MARK@) & clear");
    terminal.wait_for_sleepers(1);
    Some(terminal)
}

/// Ends the processes that the terminal has started.
fn leave(terminal: &Terminal) {
    terminal.types("kill -9 $(ps -o pid= -s $$ | grep -vw $$) 2>/dev/null");
}

#[track_caller]
fn line<'a>(screen: &'a str, text: &str) -> &'a str {
    screen
        .lines()
        .find(|line| line.contains(text))
        .unwrap_or_else(|| panic!("no {text:?} in:\n{screen}"))
}

#[test]
fn eighty_columns_show_what_matters() {
    let Some(terminal) = with_pipelines("a screen of 80 columns", 80) else {
        return;
    };
    terminal.types(TOP);
    let screen = terminal.shows_what("both verdicts", |screen| {
        ["┌ yes ", "└ perl ", "→ sleep"].iter().all(|name| {
            let mut lines = screen.lines();
            lines.any(|line| line.contains(name) && line.contains(" tim"))
        })
    });
    assert!(
        screen.starts_with("fullbore top  3 pipes, by rate"),
        "{screen}"
    );
    for name in [
        "writer → reader",
        "holds",
        "fill",
        "full",
        "rate",
        "waits",
        "slow",
    ] {
        line(&screen, name);
    }
    let first = line(&screen, "┌ yes ");
    assert!(
        first.contains("→ perl") && first.contains("KiB") && first.contains('%'),
        "{first}"
    );
    assert!(first.contains("/s") || first.contains("unknown"), "{first}");
    let last = line(&screen, "└ perl ");
    assert!(last.contains("writer tim"), "{last}");
    let still = line(&screen, "cat ");
    assert!(
        screen.contains("100%") && screen.contains('█'),
        "{screen}\n{still}"
    );
    assert!(line(&screen, "? help").contains("q leave"));
    assert!(
        screen.lines().all(|line| line.chars().count() <= 80),
        "{screen}"
    );
    // The chosen pipeline is highlighted, and colours are used only if they are wanted.
    let coloured = |terminal: &Terminal| {
        let drawn = terminal.tmux(&["capture-pane", "-p", "-e"]).stdout;
        let drawn = String::from_utf8_lossy(&drawn);
        // 39 is the terminal's default colour.
        drawn
            .split("\u{1b}[3")
            .skip(1)
            .any(|rest| !rest.starts_with("9m"))
    };
    assert!(coloured(&terminal));
    terminal.presses("q");
    terminal.shows("ready>");
    terminal.types(&format!("NO_COLOR=1 {TOP}"));
    terminal.shows("┌ yes ");
    assert!(!coloured(&terminal));
    terminal.presses("q");
    leave(&terminal);
}

#[test]
fn two_hundred_columns_use_the_room() {
    let Some(terminal) = with_pipelines("a screen of 200 columns", 200) else {
        return;
    };
    terminal.types(TOP);
    let screen = terminal.shows_what("both verdicts", |screen| {
        ["┌ yes ", "→ sleep"].iter().all(|name| {
            let mut lines = screen.lines();
            lines.any(|line| line.contains(name) && line.contains("reader timer"))
        })
    });
    for name in ["passed", "seen", "inode", "command"] {
        line(line(&screen, "writer → reader"), name);
    }
    assert!(
        line(&screen, "┌ yes ").contains("yes | perl slow"),
        "{screen}"
    );
    let longest = screen.lines().map(|line| line.chars().count()).max();
    assert!(longest > Some(150) && longest <= Some(200), "{screen}");
    terminal.presses("q");
    leave(&terminal);
}

#[test]
fn names_in_wide_and_combining_characters_are_in_their_columns() {
    for columns in [80, 200] {
        let Some(terminal) = Terminal::wide("wide names", columns) else {
            return;
        };
        terminal.types("set +m; export XDG_RUNTIME_DIR=$PWD");
        for name in WIDE_NAMES {
            terminal.writes_program(name, READS);
        }
        terminal.writes("line", &format!("sleep @MARK@ | {}", wide_line()));
        terminal.types("sh line & clear");
        terminal.wait_for_sleepers(1);
        let record = terminal.records("record");
        terminal.types(TOP);
        let begin = [
            "┌ sleep ",
            "│ 日本語日本 ",
            "│ e\u{301}e\u{301}",
            "└ 😀😀😀abc ",
        ];
        let are_in = |text: &str| begin.iter().all(|begin| text.contains(begin));
        terminal.shows_what("all pipes", are_in);
        let drawn = wait_for("all that was drawn", || {
            let drawn = std::fs::read(&record).unwrap();
            let drawn = String::from_utf8_lossy(&drawn).into_owned();
            are_in(&drawn).then_some(drawn)
        });
        let lines: Vec<&str> = drawn.split("\u{1b}[2K").skip(1).collect();
        // The last one may not be whole yet.
        let (_, lines) = lines.split_last().unwrap();
        for line in lines {
            assert!(columns_of(line) <= columns, "{line:?}");
        }
        let rows = lines.iter().copied().filter(|line| line.contains('→'));
        let rows: Vec<&str> = rows.collect();
        assert!(rows.len() >= WIDE_NAMES.len(), "{rows:#?}");
        assert_equally_wide(&rows);
        terminal.presses("q");
        leave(&terminal);
    }
}

#[test]
fn keys_sort_filter_pause_help_and_grow() {
    let Some(terminal) = with_pipelines("keys", 80) else {
        return;
    };
    terminal.types(TOP);
    terminal.shows("┌ yes ");
    terminal.presses("?");
    let help = terminal.shows("double the capacity of the selected pipe");
    assert!(
        help.contains("sort by the next column") && help.contains("pause"),
        "{help}"
    );
    terminal.presses("Escape");
    terminal.shows("┌ yes ");
    terminal.presses("s");
    terminal.shows("by full");
    terminal.presses("r");
    terminal.shows("by full, reversed");
    terminal.presses("p");
    terminal.shows("paused");
    terminal.presses("p");
    terminal.shows_what("no pause", |screen| !screen.contains("paused"));
    terminal.presses("/");
    terminal.tmux(&["send-keys", "-l", "ZERO"]);
    terminal.presses("Enter");
    let screen = terminal.shows("with 'ZERO'");
    assert!(!screen.contains("yes "), "{screen}");
    assert!(line(&screen, "→ sleep").contains("64 KiB"), "{screen}");
    terminal.presses("+");
    let screen = terminal.shows("64 KiB → 128 KiB");
    line(&screen, "→ sleep");
    let screen = terminal.shows_what("the new size", |screen| {
        screen
            .lines()
            .any(|line| line.contains("→ sleep") && line.contains("128 KiB"))
    });
    drop(screen);
    terminal.presses("Escape");
    terminal.shows("┌ yes ");
    terminal.presses("C-c");
    terminal.shows("ready>");
    leave(&terminal);
}

#[test]
fn a_writer_that_counts_on_its_pipe_s_capacity_is_grown_only_after_a_question() {
    let Some(terminal) = Terminal::start("a question") else {
        return;
    };
    terminal.types("set +m; export XDG_RUNTIME_DIR=$PWD");
    let reader = format!("{FULLBORE} read --chunk 4K --pause 5ms");
    terminal.types(&format!(
        "({FULLBORE} write --write-with-vmsplice --bytes-to-pipe 1000G | {reader}) & clear"
    ));
    terminal.types(TOP);
    terminal.shows("128 KiB");
    terminal.presses("+");
    let screen = terminal.shows("enlarge it anyway?");
    assert!(
        screen.contains("refused") && screen.contains("In a larger pipe"),
        "{screen}"
    );
    terminal.presses("n");
    let screen = terminal.shows("not changed");
    assert!(line(&screen, "→ full").contains("128 KiB"), "{screen}");
    terminal.presses("+");
    terminal.shows("enlarge it anyway?");
    terminal.presses("y");
    terminal.shows("128 KiB → 256 KiB");
    terminal.presses("q");
    leave(&terminal);
}

#[test]
fn the_terminal_is_left_as_it_was_whatever_ends_it() {
    let Some(terminal) = with_pipelines("leaving", 80) else {
        return;
    };
    let settings = terminal.says("stty -a");
    terminal.types("clear; echo a line before");
    terminal.shows("a line before");
    let is_back = |how: &str| {
        terminal.shows_what(how, |screen| {
            screen.contains("a line before") && !screen.contains("writer → reader")
        });
        assert_eq!(terminal.says("stty -a"), settings, "{how}");
        let cursor = terminal.tmux(&["display-message", "-p", "#{cursor_flag} #{alternate_on}"]);
        assert_eq!(
            stdout(&cursor).trim(),
            "1 0",
            "{how}: the cursor shows, on the first screen"
        );
    };
    let kill = |signal: &str| {
        let pid = format!("$(pgrep -x fullbore -s {})", terminal.session());
        let mut shell = std::process::Command::new("sh");
        let _ = output_of(shell.args(["-c", &format!("kill -{signal} {pid}")]));
    };
    for key in ["q", "C-c"] {
        terminal.types(TOP);
        terminal.shows("writer → reader");
        terminal.presses(key);
        is_back(key);
    }
    // Half of a key, or what is none, does not keep it waiting for the rest.
    for (signal, bytes) in [
        ("TERM", ""),
        ("INT", "1b 5b"),
        ("HUP", "ff"),
        ("QUIT", "c3"),
    ] {
        terminal.types(TOP);
        terminal.shows("writer → reader");
        for byte in bytes.split_whitespace() {
            terminal.tmux(&["send-keys", "-H", byte]);
        }
        kill(signal);
        is_back(signal);
    }
    // The first one has nearly left the screen.
    terminal.types("clear; echo a line before");
    terminal.shows_what("a line before", |screen| {
        screen.trim_start().starts_with("a line before")
    });
    terminal.types(&format!("set -m; {TOP}"));
    terminal.shows("writer → reader");
    terminal.presses("C-z");
    terminal.shows("Stopped");
    is_back("Ctrl-Z");
    terminal.types("fg");
    terminal.shows("┌ yes ");
    // It reacts to keys again.
    terminal.presses("?");
    terminal.shows("double the capacity");
    terminal.presses("q");
    terminal.shows("┌ yes ");
    terminal.presses("q");
    is_back("q after fg");
    leave(&terminal);
}

#[test]
fn a_terminal_that_changes_its_size_is_drawn_anew() {
    let Some(terminal) = with_pipelines("another size", 120) else {
        return;
    };
    terminal.types(TOP);
    terminal.shows("┌ yes ");
    for (columns, rows) in [("60", "10"), ("20", "4"), ("80", "24")] {
        terminal.tmux(&["resize-window", "-x", columns, "-y", rows]);
        let most: usize = columns.parse().unwrap();
        terminal.shows_what("a fitting screen", |screen| {
            screen.starts_with("fullbore top")
                && screen.lines().all(|line| line.chars().count() <= most)
        });
    }
    terminal.shows("reader tim");
    terminal.presses("q");
    leave(&terminal);
}

#[test]
fn it_ends_with_its_terminal_though_hangups_are_ignored() {
    let Some(terminal) = with_pipelines("a terminal that goes", 80) else {
        return;
    };
    let session = terminal.session();
    terminal.types(&format!("trap '' HUP; {TOP}"));
    terminal.shows("┌ yes ");
    let there = || {
        let mut pgrep = std::process::Command::new("pgrep");
        let found = output_of(pgrep.args(["-x", "fullbore", "-s", &session]));
        !found.unwrap().stdout.is_empty()
    };
    assert!(there());
    terminal.tmux(&["kill-server"]);
    wait_for("its end", || (!there()).then_some(()));
}
