//! Tests of what `fullbore copy` does on a terminal.

use crate::common::FULLBORE;
use crate::common::terminal::Terminal;

#[test]
fn two_files_are_not_printed_on_a_terminal_where_cp_would_copy() {
    let Some(terminal) = Terminal::wide("copy", 200) else {
        return;
    };
    for (name, text) in [("a", "the first\n"), ("b", "the second\n")] {
        std::fs::write(terminal.path(name), text).unwrap();
    }
    terminal.types(&format!("clear; {FULLBORE} copy a b; echo co''de $?"));
    let screen = terminal.shows("code 2");
    let words: Vec<&str> = screen.split_whitespace().collect();
    let words = words.join(" ");
    let said = "fullbore copy: stdout is a terminal, and several files would be printed on it, as by cat: \
                'fullbore copy FILE -o COPY' copies a file, and -o /dev/stdout prints them";
    assert!(words.contains(said), "{screen}");
    assert!(!screen.contains("the first"), "{screen}");
    for line in ["copy a", "copy a b -o /dev/stdout", "copy a b | cat"] {
        terminal.types(&format!("clear; {FULLBORE} {line}; echo co''de $?"));
        let screen = terminal.shows("code 0");
        assert!(screen.contains("the first"), "{screen}");
    }
}
