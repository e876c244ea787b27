//! Tests of what is written to a terminal, byte for byte: one in the background, one without a size, one that obeys no
//! escape sequences, and names in wide characters. script(1) of util-linux makes the terminal.

use crate::common::*;

/// Runs a line by bash in a terminal, and returns what it has written there; `None` if there is no script(1).
fn written(line: &str, term: &str) -> Option<String> {
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &format!("bash -c {}", quoted(line)), "/dev/null"]);
    command.env("TERM", term).env("SHELL", "/bin/sh");
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped());
    match spawn(&mut command) {
        Ok(script) => Some(stdout(&finish(script)).to_owned()),
        Err(_) => {
            skipped("there is no script(1) here");
            None
        }
    }
}

fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', r"'\''"))
}

/// Returns the columns of the longest line.
fn widest(text: &str) -> usize {
    let lines = text.split(['\r', '\n']);
    lines.map(fullbore_host::text::columns).max().unwrap_or(0)
}

#[test]
fn a_job_in_the_background_is_not_stopped_by_its_lines() {
    for verb in [
        "meter > /dev/null",
        "meter -f -i 0.1 > /dev/null",
        "meter -pterb > /dev/null",
        "buffer > /dev/null",
        "copy --report > /dev/null",
        "copy --progress > /dev/null",
        "run --report 'cat | cat > /dev/null'",
        "run --live 'cat | cat > /dev/null'",
    ] {
        let line = format!(
            "stty tostop; set -m; {{ echo x; sleep 0.3; }} | {FULLBORE} {verb} & wait $!; echo code $?"
        );
        let Some(text) = written(&line, "xterm") else {
            return;
        };
        assert!(text.contains("code 0"), "{verb}: {text:?}");
    }
}

#[test]
fn a_terminal_without_a_size_is_drawn_on_as_an_old_one() {
    let line = format!("stty rows 0 cols 0; sleep 0.7 | {FULLBORE} meter -i 0.1 > /dev/null");
    let Some(text) = written(&line, "xterm") else {
        return;
    };
    assert!(text.contains("<=>"), "{text:?}");
    assert!(!text.contains('A'), "the cursor never goes up: {text:?}");
    assert!(widest(&text) <= 80, "{text:?}");
}

#[test]
fn a_small_terminal_that_answers_no_question_is_asked_none() {
    // script(1) answers no request for the place of the cursor, ESC[6n.
    for (seconds, verb, code, drawn) in [
        (4, "top", 124, "fullbore top"),
        (60, "run --live 'sleep 2.5 | cat'", 0, "2 cat "),
    ] {
        let ends = format!("timeout --foreground -s INT -k 30 {seconds}");
        let line = format!("stty rows 12 cols 40; {ends} {FULLBORE} {verb}; echo code $?");
        let Some(text) = written(&line, "xterm") else {
            return;
        };
        assert!(text.contains(drawn), "{verb}: {text:?}");
        assert!(text.contains(&format!("code {code}")), "{verb}: {text:?}");
        assert!(!text.contains("\x1b[6n"), "{verb}: {text:?}");
    }
}

#[test]
fn a_bar_up_to_a_size_fills_the_terminal_from_the_start() {
    let line = format!(
        "stty rows 24 cols 60; (sleep 0.5; head -c 50 /dev/zero) | {FULLBORE} meter -p -S -s 100 -i 0.1 > /dev/null"
    );
    let Some(text) = written(&line, "xterm") else {
        return;
    };
    // What is left of the row is cleared.
    let drawn: Vec<&str> = text.split("\x1b[J").map(|line| line.trim()).collect();
    let (last, lines) = drawn.split_last().unwrap();
    assert!(
        last.is_empty() && lines.last().unwrap().ends_with("50%"),
        "{text:?}"
    );
    assert!(lines.iter().all(|line| line.len() == 57), "{text:?}");
}

#[test]
fn a_terminal_that_obeys_no_sequences_gets_none() {
    for verb in [
        "meter -i 0.1",
        "meter -i 0.1 -F '%{sgr:red}%b%{sgr:reset}'",
        "meter -c -i 0.1",
        "buffer",
        "copy --progress",
    ] {
        let line = format!("stty rows 24 cols 80; sleep 0.7 | {FULLBORE} {verb} > /dev/null");
        for term in ["dumb", ""] {
            let Some(text) = written(&line, term) else {
                return;
            };
            assert!(!text.contains('\x1b'), "{verb}: {text:?}");
            assert!(widest(&text) <= 80, "{verb}: {text:?}");
        }
    }
    let line = format!("{FULLBORE} top");
    let text = written(&line, "dumb").unwrap();
    assert!(
        !text.contains('\x1b') && text.contains("--once"),
        "{text:?}"
    );
}

#[test]
fn names_in_wide_and_combining_characters_fit() {
    let combining = "e\u{301}".repeat(30);
    let wide = "日本語".repeat(6);
    for name in [&combining, &wide] {
        for verb in ["meter -i 0.1", "meter -i 0.1 -F '%N %b %p'"] {
            let line = format!(
                "stty rows 24 cols 40; sleep 0.5 | LC_ALL=C.UTF-8 {FULLBORE} {verb} -N {name} > /dev/null"
            );
            let Some(text) = written(&line, "xterm") else {
                return;
            };
            assert!(widest(&text) < 40, "{} columns: {text:?}", widest(&text));
        }
    }
}
