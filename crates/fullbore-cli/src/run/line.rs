//! Cuts a line that was written for a shell at its top-level pipes.
//!
//! Only the borders of words, quotes, brackets and loops are looked for. A stage is never printed from what was read:
//! it is cut out of the source, and the shell parses it again. Wherever shells could understand something in more than
//! one way, or a construct would need a parser (here-documents, `case`), the line is not cut, and the shell gets it whole.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::scan::{Dialect, Operator, Scanner, Token};

/// The kind of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// One pipeline.
    Pipeline {
        /// The stages, at least two.
        stages: Vec<StageSource>,
        /// Whether a `!` precedes the pipeline.
        negated: bool,
    },
    /// One pipeline of two stages or more, followed by a `&`.
    Background,
    /// A list, a single command, or no command at all.
    Other {
        /// Whether the line contains pipes.
        has_pipes: bool,
    },
    /// A line that only the shell can interpret.
    Unclear,
}

/// A stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageSource {
    /// The source of the stage, for the shell.
    pub text: OsString,
    /// For one simple command without assignments: its name, which may be a program's, and the source with
    /// `exec` before the name.
    pub program: Option<(OsString, OsString)>,
}

/// Words that are no programs at the beginning of a command, to some shells at least: the pipeline or the loop that
/// follows belongs to them, or a `|` or a `)` after them is none.
const UNCLEAR: &[&[u8]] = &[
    b"time",
    b"coproc",
    b"function",
    b"repeat",
    b"select",
    b"foreach",
    b"[[",
    b"case",
    b"esac",
    b"in",
    b"nocorrect",
    b"noglob",
];

/// The most bytes of a plain line.
const MOST_PLAIN: usize = 4096;

/// Cuts a line at its top-level pipes.
pub fn cut(line: &OsStr, dialect: Dialect) -> CommandLine {
    let line = line.as_bytes();
    Cutter::new(line, dialect)
        .cut()
        .unwrap_or(CommandLine::Unclear)
}

/// Returns whether a line consists of words, pipes, quotes and `>` alone, so that no shell has to check what was cut.
pub fn is_plain(line: &OsStr) -> bool {
    line.len() <= MOST_PLAIN
        && line
            .as_bytes()
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || b" _./-+=:,@%|>'\"".contains(&byte))
}

/// What separates the words of a line. To a shell, a carriage return is part of a word.
pub const BLANKS: &[u8] = b" \t\n";

/// Where the next token of a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At its start, where reserved words are recognized.
    Start,
    /// After assignments or redirections, before its name.
    Prefix,
    /// Among its arguments, or in the head of a loop.
    Arguments,
    /// After the end of a compound command.
    End,
}

/// What has to come before an open compound command is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closer {
    Bracket,
    Brace,
    Fi,
    Done,
}

/// What is known about a stage.
#[derive(Debug, Clone, Default)]
struct Stage {
    source: Range<usize>,
    /// Where the last token of its command ends, before a semicolon or a comment.
    end: usize,
    is_empty: bool,
    name: Option<Range<usize>>,
    is_compound: bool,
    /// Whether something in it runs in the background.
    has_background: bool,
    /// Whether its stderr goes into the pipe too.
    with_errors: bool,
}

/// A line, and what was found so far.
struct Cutter<'a> {
    line: &'a [u8],
    dialect: Dialect,
    place: Place,
    open: Vec<Closer>,
    stages: Vec<Stage>,
    stage: Stage,
    negated: bool,
    /// The number of pipes, including those inside of compound commands.
    pipes: usize,
    /// Whether a `|&` is inside of a compound command.
    has_inner_errors: bool,
    /// Whether a semicolon, a newline or a `&` has ended the pipeline.
    is_ended: bool,
    is_list: bool,
    in_background: bool,
}

impl<'a> Cutter<'a> {
    fn new(line: &'a [u8], dialect: Dialect) -> Self {
        Self {
            line,
            dialect,
            place: Place::Start,
            open: Vec::new(),
            stages: Vec::new(),
            stage: Stage::from(0),
            negated: false,
            pipes: 0,
            has_inner_errors: false,
            is_ended: false,
            is_list: false,
            in_background: false,
        }
    }

    /// Returns `None` if only the shell can tell.
    fn cut(mut self) -> Option<CommandLine> {
        let mut scanner = Scanner::new(self.line, self.dialect);
        while let Some((token, place)) = scanner.next()? {
            match token {
                Token::Newline if !self.open.is_empty() => self.place = Place::Start,
                Token::Newline if self.stage.is_empty => {}
                Token::Newline => self.is_ended = true,
                token => {
                    if self.is_ended {
                        self.begin_another();
                    }
                    self.take(token, &place)?;
                }
            }
        }
        self.finish()
    }

    /// Begins a command after another pipeline on the line.
    fn begin_another(&mut self) {
        self.is_list = true;
        self.is_ended = false;
        self.stage = Stage::from(self.stage.end);
        self.place = Place::Start;
    }

    fn take(&mut self, token: Token, place: &Range<usize>) -> Option<()> {
        let is_inner = !self.open.is_empty();
        match token {
            Token::Newline => {}
            Token::Word => self.word(place)?,
            Token::Redirection => {
                if self.place == Place::Start {
                    self.place = Place::Prefix;
                }
            }
            // What belongs to a redirection says nothing about the command.
            Token::Target => {}
            Token::Operator(Operator::Open) => self.open(Closer::Bracket)?,
            Token::Operator(Operator::Close) => self.close(Closer::Bracket)?,
            Token::Operator(_) if self.stage.is_empty => return None,
            Token::Operator(Operator::Pipe { with_errors }) if is_inner => {
                self.pipes += 1;
                self.has_inner_errors |= with_errors;
                self.place = Place::Start;
            }
            Token::Operator(operator) if is_inner => {
                self.stage.has_background |= operator == Operator::And;
                self.place = Place::Start;
            }
            Token::Operator(Operator::Pipe { with_errors }) => {
                self.pipes += 1;
                let next = Stage::from(place.end);
                let mut stage = std::mem::replace(&mut self.stage, next);
                stage.source.end = place.start;
                stage.with_errors = with_errors;
                self.stages.push(stage);
                self.place = Place::Start;
                return Some(());
            }
            Token::Operator(Operator::AndOr) => {
                self.is_list = true;
                self.stage = Stage::from(place.end);
                self.place = Place::Start;
                return Some(());
            }
            Token::Operator(operator) => {
                self.is_ended = true;
                self.in_background = operator == Operator::And;
                return Some(());
            }
        }
        self.stage.end = place.end;
        self.stage.is_empty = false;
        Some(())
    }

    fn word(&mut self, place: &Range<usize>) -> Option<()> {
        let word = &self.line[place.clone()];
        match self.place {
            Place::End => return None,
            Place::Arguments => {}
            Place::Prefix if is_assignment(word) => {}
            Place::Prefix => self.place = Place::Arguments,
            Place::Start => match word {
                b"{" => self.open(Closer::Brace)?,
                b"if" => self.open(Closer::Fi)?,
                b"while" | b"until" => self.open(Closer::Done)?,
                b"for" => {
                    self.open(Closer::Done)?;
                    self.place = Place::Arguments;
                }
                b"then" | b"else" | b"elif" => self.is_inside(Closer::Fi)?,
                b"do" => self.is_inside(Closer::Done)?,
                b"}" => self.close(Closer::Brace)?,
                b"fi" => self.close(Closer::Fi)?,
                b"done" => self.close(Closer::Done)?,
                b"!" if !self.open.is_empty() => {}
                b"!" => self.negate(place)?,
                _ if UNCLEAR.contains(&word)
                    || word.starts_with(b"{")
                    || word.starts_with(b"}") =>
                {
                    return None;
                }
                _ if is_assignment(word) => self.place = Place::Prefix,
                _ => {
                    self.place = Place::Arguments;
                    if self.open.is_empty() {
                        self.stage.name = Some(place.clone());
                    }
                }
            },
        }
        Some(())
    }

    /// POSIX allows only one `!`, before all stages.
    fn negate(&mut self, place: &Range<usize>) -> Option<()> {
        if self.negated || !self.stages.is_empty() || self.is_list {
            return None;
        }
        self.negated = true;
        self.stage.source.start = place.end;
        Some(())
    }

    fn open(&mut self, closer: Closer) -> Option<()> {
        if self.place != Place::Start {
            return None;
        }
        self.stage.is_compound = true;
        self.open.push(closer);
        Some(())
    }

    fn close(&mut self, closer: Closer) -> Option<()> {
        self.is_inside(closer)?;
        self.open.pop();
        self.place = Place::End;
        Some(())
    }

    fn is_inside(&self, closer: Closer) -> Option<()> {
        (self.open.last() == Some(&closer)).then_some(())
    }

    fn finish(mut self) -> Option<CommandLine> {
        let is_cut_off = self.stage.is_empty && (self.pipes > 0 || self.is_list || self.negated);
        if !self.open.is_empty() || is_cut_off {
            return None;
        }
        // A single command does not run in a subshell, as the stages of a pipeline do: it can end the shell, even
        // with a '!' before it.
        if self.is_list || self.stages.is_empty() {
            return Some(CommandLine::Other {
                has_pipes: self.pipes > 0,
            });
        }
        if self.in_background {
            return Some(CommandLine::Background);
        }
        // Within a stage, `|&` is an operator of bash, and sh should report that it has none.
        if self.has_inner_errors && self.dialect == Dialect::Posix {
            return None;
        }
        self.stage.source.end = self.line.len();
        self.stages.push(self.stage.clone());
        let stages = self.stages.iter().enumerate();
        Some(CommandLine::Pipeline {
            stages: stages
                .map(|(number, stage)| self.source_of(stage, number == 0))
                .collect(),
            negated: self.negated,
        })
    }

    fn source_of(&self, stage: &Stage, is_first: bool) -> StageSource {
        let mut beside = Vec::new();
        if stage.is_compound && stage.has_background && !is_first {
            // If bash runs the whole pipeline, a background process of a stage reads from the pipe. Here the pipe is
            // the stdin that the shell of the stage is started with, and a shell gives its background processes
            // /dev/null instead of that, unless stdin is redirected.
            beside.extend(b" <&0");
        }
        if stage.with_errors {
            beside.extend(b" 2>&1");
        }
        let text = |before_name: &[u8], name: usize| {
            let (from, to) = (stage.source.start, stage.source.end);
            let parts = [
                &self.line[from..name],
                before_name,
                &self.line[name..stage.end],
                &beside,
                &self.line[stage.end..to],
            ];
            let text = parts.concat();
            let blanks = text.iter().take_while(|byte| BLANKS.contains(byte)).count();
            OsString::from_vec(text[blanks..].to_vec())
        };
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./+-".contains(byte);
        let name = stage.name.clone();
        let name = name.filter(|name| self.line[name.clone()].iter().all(plain));
        StageSource {
            text: text(b"", stage.source.start),
            program: name.map(|name| {
                let text = text(b"exec ", name.start);
                (OsStr::from_bytes(&self.line[name]).to_owned(), text)
            }),
        }
    }
}

impl Stage {
    fn from(start: usize) -> Self {
        Self {
            source: start..start,
            end: start,
            is_empty: true,
            ..Self::default()
        }
    }
}

/// Returns whether a word before the name of a command is an assignment: `name=…`, `name+=…`, `name[…]=…`.
fn is_assignment(word: &[u8]) -> bool {
    let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let name = word.iter().take_while(is_letter).count();
    let rest = &word[name..];
    name > 0
        && !word[0].is_ascii_digit()
        && (rest.starts_with(b"=") || rest.starts_with(b"+=") || rest.starts_with(b"["))
}

#[cfg(test)]
mod tests {
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
            let expected = CommandLine::Other { has_pipes: true };
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
            let expected = CommandLine::Other { has_pipes: false };
            assert_eq!(cut(line.as_ref(), Dialect::Posix), expected, "{line}");
        }
    }

    #[test]
    fn what_only_the_shell_can_tell_is_left_to_it() {
        for line in [
            "a |",
            "| a",
            "a | | b",
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
        let list = CommandLine::Other { has_pipes: true };
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
}
