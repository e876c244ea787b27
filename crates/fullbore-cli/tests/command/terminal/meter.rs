//! Tests of several `fullbore meter` in one pipeline on one terminal.

use crate::common::terminal::{Terminal, below_each_other};
use crate::common::*;

#[test]
fn several_meters_draw_below_each_other_at_every_width() {
    for columns in [40, 80, 200] {
        let Some(terminal) = Terminal::wide("several meters", columns) else {
            return;
        };
        // It goes on until the test has seen the lines.
        terminal.writes(
            "source",
            "until test -e go; do head -c 1M /dev/zero; sleep 0.05; done",
        );
        terminal.types(&format!(
            "sh source | {FULLBORE} meter -cN one -i 0.1 | {FULLBORE} meter -cN two -rb -i 0.1 | \
             {FULLBORE} meter -cN three -i 0.1 > /dev/null; echo do''ne"
        ));
        let is_drawn = |screen: &str| {
            below_each_other(screen, &["one:", "two:", "three:"])
                .is_some_and(|lines| lines.iter().all(|line| line.contains("iB/s]")))
        };
        let screen = terminal.shows_what("three lines", is_drawn);
        for name in ["one:", "two:", "three:"] {
            let count = screen
                .lines()
                .filter(|line| line.trim_start().starts_with(name))
                .count();
            assert_eq!(count, 1, "{screen}");
        }
        if columns == 80 {
            // What is drawn just while the width changes can be left behind: see the tests under load.
            terminal.tmux(&["resize-window", "-x", "50"]);
            terminal.shows_what("three lines in 50 columns", is_drawn);
            terminal.tmux(&["resize-window", "-x", "120"]);
            terminal.shows_what("three lines in 120 columns", is_drawn);
        }
        std::fs::write(terminal.path("go"), "").unwrap();
        let screen = terminal.shows("\ndone\n");
        // At 80 columns and less, what is said about the slow side can take two rows.
        let last = ["one:", "one:", "two:", "three:", "three:", "done"];
        assert!(
            columns < 200 || below_each_other(&screen, &last).is_some(),
            "{screen}"
        );
    }
}

#[test]
fn a_meter_that_is_killed_leaves_the_others_drawing() {
    let Some(terminal) = Terminal::start("a meter that is killed") else {
        return;
    };
    // Each passes on what the one before gives it; the first is the one that is killed.
    terminal.writes("source", "while head -c 1M /dev/zero; do sleep 0.05; done");
    terminal.types(&format!(
        "{FULLBORE} meter -cN one -i 0.1 -P {one} /dev/zero -L 1M > /dev/null & \
         sh source | {FULLBORE} meter -cN two -i 0.1 -P {two} | {FULLBORE} meter -cN three -i 0.1 > /dev/null",
        one = terminal.path("one"),
        two = terminal.path("two"),
    ));
    terminal.shows_what("two lines", |screen| {
        below_each_other(screen, &["two:", "three:"]).is_some()
    });
    let pid: i32 = wait_for("the PID", || {
        std::fs::read_to_string(terminal.path("two"))
            .ok()?
            .trim()
            .parse()
            .ok()
    });
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // The last one ends because its input does, and says so below.
    terminal.shows("three: ");
    assert_eq!(terminal.says("echo well"), "well");
    assert!(
        !terminal.screen().contains("one:"),
        "in the background: {}",
        terminal.screen()
    );
    terminal.says("kill %1");
}

#[test]
fn two_pipelines_of_one_script_draw_below_each_other_and_end_one_by_one() {
    let Some(terminal) = Terminal::start("two pipelines of one script") else {
        return;
    };
    for name in ["first", "second"] {
        terminal.writes(
            name,
            &format!("until test -e {name}-go; do head -c 1M /dev/zero; sleep 0.05; done"),
        );
    }
    // A script has one process group for all that it starts.
    terminal.writes(
        "script",
        &format!(
            "sh first | {FULLBORE} meter -cN one -i 0.1 | {FULLBORE} meter -cN two -i 0.1 > /dev/null &\n\
             sh second | {FULLBORE} meter -cN three -i 0.1 | cat > /dev/null &\n\
             wait %1; echo ended > first-ended; wait; echo done"
        ),
    );
    terminal.types("bash script");
    let names = |screen: &str| {
        ["one:", "two:", "three:"].map(|name| {
            let lines = screen.lines().map(str::trim_start);
            lines
                .filter(|line| line.starts_with(name) && line.contains("iB/s]"))
                .count()
        })
    };
    terminal.shows_what("three lines", |screen| names(screen) == [1; 3]);
    std::fs::write(terminal.path("first-go"), "").unwrap();
    wait_for("the end of the first pipeline", || {
        std::fs::metadata(terminal.path("first-ended")).ok()
    });
    let amount = || {
        let screen = terminal.screen();
        let line = screen.lines().find(|line| line.contains("three:"))?;
        Some(line.to_owned())
    };
    // The other one goes on, and its line is drawn where it was.
    let before = wait_for("the line of the second pipeline", amount);
    wait_for("a new line of the second pipeline", || {
        amount().filter(|line| *line != before)
    });
    terminal.shows_what("three lines still", |screen| names(screen) == [1; 3]);
    std::fs::write(terminal.path("second-go"), "").unwrap();
    let screen = terminal.shows("\ndone\n");
    assert_eq!(names(&screen), [1; 3], "{screen}");
}

/// Returns how many lines on the screen are those of the meter with this name.
fn drawn(screen: &str, name: &str) -> usize {
    let lines = screen.lines().map(str::trim_start);
    lines
        .filter(|line| line.starts_with(name) && line.contains("iB/s]"))
        .count()
}

#[test]
fn a_meter_that_is_told_another_height_draws_as_many_lines() {
    let Some(terminal) = Terminal::start("another height") else {
        return;
    };
    terminal.writes(
        "source",
        "until test -e go; do head -c 1M /dev/zero; sleep 0.05; done",
    );
    terminal.types(&format!(
        "sh source | {FULLBORE} meter -cN one -i 0.1 -P first | {FULLBORE} meter -cN two -i 0.1 -P second > \
         /dev/null; echo do''ne"
    ));
    let counts = |screen: &str| {
        ["one:", "two:"].map(|name| {
            let lines = screen.lines().map(str::trim_start);
            lines.filter(|line| line.starts_with(name)).count()
        })
    };
    terminal.shows_what("two lines", |screen| counts(screen) == [1, 1]);
    // One of them draws the lines of both.
    for file in ["first", "second"] {
        let pid = std::fs::read_to_string(terminal.path(file)).unwrap();
        let told = finish(start(&mut fullbore(&format!("meter -H 2 -R {pid}"))));
        assert_quiet_success(&told);
    }
    terminal.shows_what("one line", |screen| {
        counts(screen).iter().sum::<usize>() == 1
    });
    std::fs::write(terminal.path("go"), "").unwrap();
    terminal.shows("\ndone\n");
}

#[test]
fn an_error_of_one_of_several_meters_stays_above_their_lines() {
    let Some(terminal) = Terminal::start("an error of one of several meters") else {
        return;
    };
    terminal.writes(
        "source",
        "until test -e go; do head -c 1M /dev/zero; sleep 0.05; done",
    );
    // A script has one process group for all that it starts.
    terminal.writes(
        "script",
        &format!(
            "sh source | {FULLBORE} meter -cN one -i 0.1 missing - > /dev/null &\n\
             until test -e full; do sleep 0.05; done\n\
             echo x | {FULLBORE} meter -cN two -i 0.1 > /dev/full\n\
             echo ended > ended\nwait\necho done"
        ),
    );
    terminal.types("bash script");
    let errors = [
        "fullbore meter: open 'missing': No such file or directory",
        "fullbore meter: write to stdout: No space left on device",
    ];
    // The first error is said before anything is drawn.
    terminal.shows_what("an error and a line", |screen| {
        below_each_other(screen, &[errors[0], "one:"]).is_some()
    });
    std::fs::write(terminal.path("full"), "").unwrap();
    wait_for("the end of the second meter", || {
        std::fs::metadata(terminal.path("ended")).ok()
    });
    let line = || {
        let screen = terminal.screen();
        let line = screen.lines().find(|line| line.contains("one:"))?;
        Some(line.to_owned())
    };
    let before = wait_for("the line of the first meter", line);
    wait_for("a new line of the first meter", || {
        line().filter(|line| *line != before)
    });
    std::fs::write(terminal.path("go"), "").unwrap();
    let screen = terminal.shows("\ndone\n");
    assert!(
        below_each_other(&screen, &[errors[0], errors[1], "one:"]).is_some(),
        "{screen}"
    );
    assert_eq!(drawn(&screen, "one:"), 1, "{screen}");
}
