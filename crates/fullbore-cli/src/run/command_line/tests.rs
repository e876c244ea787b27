//! Tests of the lines that are cut, and of those that are left to the shell.

use super::*;

fn stages(line: &str) -> Vec<String> {
    stages_of(line, Dialect::Posix)
}

fn stages_of(line: &str, dialect: Dialect) -> Vec<String> {
    match cut(line.as_ref(), dialect) {
        CommandLine::Pipeline { stages, .. } => stages
            .into_iter()
            .map(|stage| stage.text.into_string().unwrap())
            .collect(),
        other => panic!("{line:?} is {other:?}"),
    }
}

#[test]
fn a_pipeline_is_cut_at_its_top_level_pipes_and_nowhere_else() {
    for (line, expected) in [
        ("a|b", &["a", "b"][..]),
        (
            "a 'x | y' | b \"| $z\" | c \\|",
            &["a 'x | y' ", "b \"| $z\" ", "c \\|"],
        ),
        (
            "{ a | b; } | ( c | d ) > f",
            &["{ a | b; } ", "( c | d ) > f"],
        ),
        ("a > f 2>&1 | b < g", &["a > f 2>&1 ", "b < g"]),
        (">f | <g", &[">f ", "<g"]),
        (
            "a $(b | c) | d `e | f` ${g#|}",
            &["a $(b | c) ", "d `e | f` ${g#|}"],
        ),
        (
            "while read x; do echo $x | c; done | d",
            &["while read x; do echo $x | c; done ", "d"],
        ),
        ("for x do a | b; done | c", &["for x do a | b; done ", "c"]),
        ("if a | b; then c; fi | d", &["if a | b; then c; fi ", "d"]),
        (
            "for x in a b; do if c; then d | e; else ! f || g; fi & done > h | i",
            &[
                "for x in a b; do if c; then d | e; else ! f || g; fi & done > h ",
                "i",
            ],
        ),
        ("a && b", &[][..]),
    ] {
        match expected {
            [] => assert!(matches!(
                cut(line.as_ref(), Dialect::Posix),
                CommandLine::Other { .. }
            )),
            expected => assert_eq!(stages(line), expected, "{line}"),
        }
    }
}

#[test]
fn what_only_looks_unclear_is_cut() {
    for (line, expected) in [
        (
            "a 99999999999999999999 | b",
            ["a 99999999999999999999 ", "b"],
        ),
        ("a 2>f | b", ["a 2>f ", "b"]),
        (
            r#"a "${x}'b'${y:-c}" | d ${x:-'}'}"#,
            [r#"a "${x}'b'${y:-c}" "#, "d ${x:-'}'}"],
        ),
        (r"a 'b$' | c '$d'\''e'", [r"a 'b$' ", r"c '$d'\''e'"]),
        ("a time | x=1 time b", ["a time ", "x=1 time b"]),
    ] {
        assert_eq!(stages(line), expected, "{line}");
    }
    assert_eq!(
        stages_of(r"a $'it\'s | b' | c", Dialect::Bash),
        [r"a $'it\'s | b' ", "c"]
    );
}

#[test]
fn a_carriage_return_is_part_of_a_word() {
    assert_eq!(stages("a | \rb\r"), ["a ", "\rb\r"]);
    let CommandLine::Pipeline { stages, .. } = cut("a | \r\n".as_ref(), Dialect::Posix) else {
        panic!("it is a pipeline");
    };
    assert_eq!(stages[1].shown, "\r");
}

#[test]
fn comments_newlines_and_a_semicolon_stay_where_they_do_no_harm() {
    assert_eq!(
        stages("a |\n\n # x | y\n b # | z"),
        ["a ", "# x | y\n b # | z"]
    );
    assert_eq!(stages("# first\n a | b ;\n"), ["# first\n a ", "b ;\n"]);
    assert_eq!(stages("a \\\n | b"), ["a \\\n ", "b"]);
}

#[test]
fn blanks_that_a_backslash_holds_are_kept() {
    assert_eq!(stages("a \\ | b"), ["a \\ ", "b"]);
}

#[test]
fn stderr_goes_into_the_pipe_where_it_is_asked_for() {
    assert_eq!(stages("a > f |& b|&c"), ["a > f 2>&1 ", "b 2>&1", "c"]);
    assert_eq!(stages_of("a |& b", Dialect::Bash), ["a 2>&1 ", "b"]);
}

#[test]
fn what_runs_in_the_background_reads_from_the_pipe() {
    assert_eq!(
        stages("{ a & } | { b & c; }; # d"),
        ["{ a & } ", "{ b & c; } <&0; # d"]
    );
    assert_eq!(
        stages("a | ( b & ) > f |& c\n"),
        ["a ", "( b & ) > f <&0 2>&1 ", "c\n"]
    );
    assert_eq!(stages("a | b 2>&1 | { c; }"), ["a ", "b 2>&1 ", "{ c; }"]);
}

#[test]
fn a_simple_command_can_take_the_place_of_its_shell() {
    let line =
        "a 'b c' | \\\n d < e > f |& # g\n./h | A=b i | j\"k\" | $l | >m n | { o; } | p\\\nq\n";
    let CommandLine::Pipeline { stages, .. } = cut(line.as_ref(), Dialect::Posix) else {
        panic!("it is a pipeline");
    };
    let programs: Vec<_> = stages
        .iter()
        .map(|stage| {
            let (name, text) = stage.program.as_ref()?;
            Some((name.to_str().unwrap(), text.to_str().unwrap()))
        })
        .collect();
    assert_eq!(
        programs,
        [
            Some(("a", "exec a 'b c' ")),
            Some(("d", "\\\n exec d < e > f 2>&1 ")),
            Some(("./h", "# g\nexec ./h ")),
            None,
            None,
            None,
            None,
            None,
            None,
        ]
    );
}

#[test]
fn a_negation_stands_before_all_stages() {
    let line = cut("! a | b".as_ref(), Dialect::Posix);
    assert!(matches!(line, CommandLine::Pipeline { negated: true, .. }));
    assert_eq!(stages("\n # no\n ! a | b"), ["a ", "b"]);
    assert_eq!(stages("! a | b"), ["a ", "b"]);
    assert_eq!(
        cut("! ! a | b".as_ref(), Dialect::Posix),
        CommandLine::Unclear
    );
}

#[test]
fn what_is_no_single_pipeline_is_left_whole() {
    for line in [
        "a | b; c",
        "a && b | c",
        "a | b; c &",
        "a | b\nc",
        "a & b | c",
        "a | b || c",
    ] {
        let expected = CommandLine::Other {
            has_pipes: true,
            stage: None,
            negated: false,
        };
        assert_eq!(cut(line.as_ref(), Dialect::Posix), expected, "{line}");
    }
    for line in ["a | b &", "! a | b&\n", "a 2>f | b & # c\n"] {
        assert_eq!(
            cut(line.as_ref(), Dialect::Posix),
            CommandLine::Background,
            "{line}"
        );
    }
    for line in ["{ a | b; }", "! a | { b | c; } || d", "for x in a | b"] {
        assert!(
            !matches!(
                cut(line.as_ref(), Dialect::Posix),
                CommandLine::Pipeline { .. }
            ),
            "{line}"
        );
    }
    for line in ["", "a", "! a", "# a | b", "a; b", "\n"] {
        let is_one = !line.is_empty() && line.ends_with('a');
        let stage = is_one.then(|| {
            Box::new(StageSource {
                text: "a".into(),
                name: Some("a".into()),
                shown: "a".into(),
                program: Some(("a".into(), "exec a".into())),
            })
        });
        let expected = CommandLine::Other {
            has_pipes: false,
            stage,
            negated: line.starts_with('!'),
        };
        assert_eq!(cut(line.as_ref(), Dialect::Posix), expected, "{line}");
    }
}

#[test]
fn what_only_the_shell_can_tell_is_left_to_it() {
    for line in [
        "a |",
        "| a",
        "a | | b",
        "!|a",
        "! | a | b",
        "! && a | b",
        "a 'b",
        "a \"b",
        "a $(b",
        "(a | b",
        "a | )",
        // The shell accepts these lines.
        "a <<E",
        "a <<E | b\nx\nE\n",
        "a $(case x in x) b;; esac) | c",
        "case x in x|y) a;; esac | b",
        "f() { a | b; } | c",
        "a $(b # )\n) | c",
        "((a)) | b",
        "a $(b | c | d",
        // The backslash joins the two operators.
        "a |\\\n| b",
        "a | !\\\n",
        "i\\\nf a; then b; fi | c",
        "ti\\\nme a | b",
        "a >\\\n| b",
        "a $\\\n(b | c) | d",
        "a | { b |& c; }",
        // This is one pipeline in bash, and no pipeline in POSIX.
        "cat <(a) | b",
        // Shells differ in what the number is.
        "a 99999999999999999999>f | b",
        // A single quote in double quotes is a character, whatever is around it.
        r#"a "${x:-it's}" | b "${x:-it's}" | c"#,
        r#"a "${x:-it's}" 'b}" | c' | d "'}" '"'"#,
        r#"a "${x:-${y}it's}" | b "${x:-it's}""#,
        r#"a "${x:-\}it's}" | b "${x:-it's}""#,
        // Only a shell that knows `$'…'` reads on after the backslash.
        r"a $'b\' | c $'d\' | e",
        // A pipe, or a word of zsh.
        "a >! b | c",
        "a >>| b | c",
        "a && | b",
        "a ;; b | c",
        "} | a",
        "{ a; ) | b",
        "a | ! b",
        "{a} | b",
        "a {b}>c | d",
        // To some shells these words begin a pipeline or a loop, and to others they are programs.
        "time a | b",
        "! time a | b",
        "a |\n time b | c",
        "coproc a | b",
        "repeat 3 a | b",
        "function f { a | b",
        "[[ a < b | c ]]",
    ] {
        assert_eq!(
            cut(line.as_ref(), Dialect::Posix),
            CommandLine::Unclear,
            "{line}"
        );
    }
    for line in [
        "time a | b",
        "! time a | b",
        "a | time b",
        "[[ y =~ a|b ]] | c",
    ] {
        assert_eq!(
            cut(line.as_ref(), Dialect::Bash),
            CommandLine::Unclear,
            "{line}"
        );
    }
    let deep = format!("a {}b{} | c", "$(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(cut(deep.as_ref(), Dialect::Posix), CommandLine::Unclear);
}

#[test]
fn bash_has_more() {
    assert_eq!(
        stages_of(
            "cat <(a | b) <<< x | { c |& d; } | e=f$((1 < 2)) g",
            Dialect::Bash
        ),
        ["cat <(a | b) <<< x ", "{ c |& d; } ", "e=f$((1 < 2)) g"]
    );
    // In POSIX the first half is a command in the background.
    assert_eq!(stages_of("a &> f | b", Dialect::Bash), ["a &> f ", "b"]);
    let list = CommandLine::Other {
        has_pipes: true,
        stage: None,
        negated: false,
    };
    assert_eq!(cut("a &> f | b".as_ref(), Dialect::Posix), list);
}

#[test]
fn names_that_are_no_utf_8_are_kept_byte_for_byte() {
    let line = OsString::from_vec(b"cat '\xff\xfe | ' \xe4 | b\xc3\xa9".to_vec());
    let CommandLine::Pipeline { stages, .. } = cut(&line, Dialect::Posix) else {
        panic!("it is a pipeline");
    };
    assert_eq!(stages[0].text.as_bytes(), b"cat '\xff\xfe | ' \xe4 ");
    assert_eq!(stages[1].text.as_bytes(), b"b\xc3\xa9");
}

#[test]
fn long_lines_are_cut_in_a_moment() {
    let many = vec!["cat"; 1000].join(" | ");
    assert_eq!(stages(&many).len(), 1000);
    let nested = format!("{{ {many}; }} | cat");
    assert_eq!(stages(&nested).len(), 2);
}

#[test]
fn lines_of_pieces_that_are_joined_at_random_are_cut_without_a_panic() {
    const PIECES: &[&str] = &[
        "a",
        " ",
        "|",
        "&",
        ";",
        "\n",
        "<",
        ">",
        "<<",
        "$",
        "$(",
        "$((",
        "))",
        ")",
        "(",
        "{",
        "}",
        "${",
        "$[",
        "`",
        "'",
        "\"",
        "\\",
        "#",
        "!",
        "&&",
        "|&",
        "case x in",
        "if",
        "fi",
        "do",
        "done",
        "while",
        "=",
        "[[",
        "<(",
        "\t",
        "$'",
        "7",
        "for x in",
    ];
    let mut random = fastrand::Rng::with_seed(4711);
    let mut cuts = 0;
    for _ in 0..200_000 {
        let length = random.usize(1..12);
        let line: String = (0..length)
            .map(|_| PIECES[random.usize(..PIECES.len())])
            .collect();
        for dialect in [Dialect::Posix, Dialect::Bash] {
            let found = cut(line.as_ref(), dialect);
            cuts += usize::from(matches!(found, CommandLine::Pipeline { .. }));
        }
    }
    assert!(cuts > 0);
}
