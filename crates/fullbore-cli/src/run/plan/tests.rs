//! Tests of the plan of a pipeline.

use super::*;

/// Returns the words with which each stage is started.
fn started(line: &str) -> Vec<Vec<String>> {
    let plan = Plan::of_line(line.as_ref(), "sh".as_ref()).unwrap();
    let words = |stage: &Command| {
        let words = stage
            .words
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        words.collect()
    };
    plan.stages.iter().map(words).collect()
}

#[test]
fn a_program_with_plain_words_needs_no_shell() {
    assert_eq!(
        started(
            "cat a.txt -- ./b  /c |sort\t--key=1,2 -o x:y%z | sh -c 'exit 3' ''\"it's\"a \"\"\n"
        ),
        [
            &["cat", "a.txt", "--", "./b", "/c"][..],
            &["sort", "--key=1,2", "-o", "x:y%z"],
            &["sh", "-c", "exit 3", "it'sa", ""],
        ]
    );
}

#[test]
fn one_command_starts_its_program_for_each_block_and_no_shell_beside_it() {
    for (line, expected) in [
        ("cat", &["cat"][..]),
        (
            " grep -E '(4|5)04 [0-9]+5'\n",
            &["grep", "-E", "(4|5)04 [0-9]+5"],
        ),
        ("cat; cat", &["sh", "-c", "cat; cat"]),
        ("cat 2>&1 # all", &["sh", "-c", "exec cat 2>&1 # all"]),
        ("! cat", &["sh", "-c", "! cat"]),
        ("exit 3", &["sh", "-c", "exit 3"]),
        ("cat | cat", &["sh", "-c", "cat | cat"]),
    ] {
        let command = Plan::one_of_line(line.as_ref()).unwrap();
        assert_eq!(command.words, expected, "{line}");
        assert!(command.program.as_bytes().starts_with(b"/"), "{line}");
    }
}

#[test]
fn a_shell_is_known_by_its_name() {
    for (shell, expected) in [
        ("sh", Some(Dialect::Posix)),
        ("/usr/bin/ksh93", Some(Dialect::Posix)),
        ("/opt/zsh-5.9", Some(Dialect::Posix)),
        ("/bin/bash", Some(Dialect::Bash)),
        ("/usr/bin/fish", None),
        ("tcsh", None),
        ("", None),
    ] {
        assert_eq!(dialect(shell.as_ref()), expected, "{shell}");
    }
}

#[test]
fn what_a_shell_could_understand_differently_is_left_to_it() {
    for stage in [
        "cat a*",
        "cat ~",
        "cat {a,b}",
        "cat $a",
        "cat a#b",
        "cat =a",
        "cat a^b",
        "cat !a",
        "cat > a",
        "cat 2>&1",
        "cat \\\na",
        "cat a\r",
        "cat \"$a\"",
        "cat \"a\\\\b\"",
        "cat 'a'$'b'",
        "cat '\u{e9}'",
    ] {
        assert_eq!(
            started(&format!("true | {stage}"))[1],
            ["sh", "-c", &format!("exec {stage}")],
            "it is in the shell's place"
        );
    }
    for stage in [
        "A=b cat",
        "echo a",
        "true",
        "no-such-program a",
        "{ cat; }",
        "'cat' a",
        "\\cat a",
    ] {
        let expected = ["sh", "-c", stage];
        assert_eq!(
            started(&format!("true | {stage}"))[1],
            expected,
            "it may be the shell's"
        );
    }
}
