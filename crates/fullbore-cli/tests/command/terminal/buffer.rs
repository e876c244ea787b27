//! Tests of what `fullbore buffer` shows on a terminal.

use crate::common::terminal::Terminal;
use crate::common::*;

#[test]
fn the_line_and_the_summary_fit_into_every_width() {
    for columns in [40, 80, 200] {
        let Some(terminal) = Terminal::wide("buffer", columns) else {
            return;
        };
        // It goes on until the test has seen the line.
        terminal.writes(
            "source",
            "until test -e go; do head -c 1M /dev/zero; sleep 0.05; done",
        );
        terminal.types(&format!(
            "clear; sh source | {FULLBORE} buffer -m 64M > /dev/null; echo do''ne"
        ));
        let is_line = |line: &&str| line.starts_with("in ") && line.contains('%');
        let screen = terminal.shows_what("the line", |screen| {
            screen.lines().filter(is_line).count() == 1 && screen.trim().lines().count() <= 5
        });
        let line = screen.lines().find(is_line).unwrap();
        assert_eq!(
            line.matches("iB/s").count() + line.matches(" B/s").count(),
            2,
            "{screen}"
        );
        assert!(columns == 40 || line.contains("% full"), "{screen}");
        std::fs::write(terminal.path("go"), "").unwrap();
        let screen = terminal.shows("\ndone\n");
        assert!(!screen.lines().any(|line| is_line(&line)), "{screen}");
        // Between words: a terminal would break a line anywhere.
        let words: Vec<&str> = screen.split_whitespace().collect();
        let words = words.join(" ");
        for part in [
            "summary: ",
            "buffer: 64 MiB, at most ",
            "A larger buffer would not have helped: it was never full. done",
        ] {
            assert!(words.contains(part), "{screen}");
        }
    }
}
