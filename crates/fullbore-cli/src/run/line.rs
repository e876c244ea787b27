//! Cuts a line that was written for a shell at its top-level pipes.
//!
//! brush-parser reads the line: its tokens give the positions in the source, and its grammar decides which
//! `|` are top-level and whether the line is one pipeline at all. A stage is never printed from what was
//! parsed: it is cut out of the source, and the shell parses it again. Wherever the two parsers could
//! understand something differently, the line is not cut, and the shell gets it whole.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use brush_parser::ast;
use brush_parser::{ParserOptions, Token, TokenizerOptions, parse_tokens, uncached_tokenize_str};
use serde::{Deserialize, Serialize};

use super::bounded::bounded;
use super::tokens::{
    are_unclear, is_in_background, is_pipe, only_pipeline, opened, with_errors_as_pipes,
};

/// The kind of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSource {
    /// The source of the stage, for the shell.
    pub text: OsString,
    /// For one simple command without assignments: its name, which may be a program's, and the source with
    /// `exec` before the name.
    pub program: Option<(OsString, OsString)>,
}

/// The dialect in which the shell reads the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The language of POSIX, with `|&` in addition, and perhaps extensions that are not known here.
    Posix,
    /// The language of bash, with its extensions.
    Bash,
}

/// The most brackets and loops in a line that is cut, because the grammar descends recursively.
const MOST_OPENED: usize = 200;

/// The most pipes inside of brackets and loops in a line that is cut, because at each of them the stage is
/// parsed from its start.
const MOST_INNER_PIPES: usize = 200;

/// Words that are programs to some shells. To others (bash as sh, ksh, zsh) the pipeline or the loop that follows
/// belongs to them, or a `|` after them is no pipe.
const UNCLEAR: &[&str] = &[
    "time", "coproc", "function", "repeat", "select", "foreach", "[[",
];

/// The most bytes of a plain line.
const MOST_PLAIN: usize = 4096;

/// Cuts a line at its top-level pipes.
pub fn cut(line: &OsStr, dialect: Dialect) -> CommandLine {
    // The parser has locks. If a test parsed in one thread while another one forked, the child would wait for a
    // lock for ever.
    #[cfg(test)]
    let _alone = super::bounded::FORKING.lock();
    let cut = || Source::read(line, dialect).map(|source| source.cut());
    let cut = match is_plain(line) {
        true => cut(),
        // brush-parser 0.4 panics on some lines, such as `a $(b`, and never ends on others, such as
        // `<<-$(( )$(`.
        false => bounded(|| serde_json::to_vec(&cut()).unwrap_or_default())
            .and_then(|cut| serde_json::from_slice(&cut).ok().flatten()),
    };
    cut.unwrap_or(CommandLine::Unclear)
}

/// Returns whether a line consists of words, pipes, quotes and `>` alone, on which the parser always ends.
/// Such a line is parsed without the child process, whose start and end take most of a millisecond.
pub fn is_plain(line: &OsStr) -> bool {
    line.len() <= MOST_PLAIN
        && line
            .as_bytes()
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || b" _./-+=:,@%|>'\"".contains(&byte))
}

/// A line and its tokens.
struct Source<'a> {
    line: &'a [u8],
    tokens: Vec<Token>,
    /// The indices of the tokens that were `|&`.
    with_errors: Vec<usize>,
    dialect: Dialect,
    options: ParserOptions,
}

/// The position of a stage: among the tokens, and in the source.
struct Place {
    tokens: Range<usize>,
    source: Range<usize>,
    command: ast::Command,
    /// Whether the stderr of the stage goes into the pipe too.
    with_errors: bool,
    is_first: bool,
}

/// What separates the words of a line. To a shell, a carriage return is part of a word.
pub const BLANKS: &[u8] = b" \t\n";

/// A position in the source, and the text to insert there.
type Insertion = (usize, &'static [u8]);

impl<'a> Source<'a> {
    fn read(line: &'a OsStr, dialect: Dialect) -> Option<Self> {
        let line = line.as_bytes();
        // Each byte becomes one character, so that the position of a token, which is counted in characters,
        // is its position in bytes, and a name that is not UTF-8 is handled like any other. A byte that is
        // not ASCII becomes a letter, because no shell gives it any other meaning.
        let text: String = line
            .iter()
            .map(|&byte| match byte {
                0..0x80 => char::from(byte),
                other => char::from_u32(0x100 + u32::from(other)).unwrap_or('x'),
            })
            .collect();
        let posix = dialect == Dialect::Posix;
        let options = ParserOptions {
            enable_extended_globbing: false,
            posix_mode: posix,
            sh_mode: posix,
            ..ParserOptions::default()
        };
        let read = TokenizerOptions {
            enable_extended_globbing: false,
            posix_mode: posix,
            sh_mode: posix,
        };
        let tokens = uncached_tokenize_str(&text, &read).ok()?;
        if opened(&tokens) > MOST_OPENED || are_unclear(&tokens, posix) {
            return None;
        }
        let (tokens, with_errors) = with_errors_as_pipes(tokens);
        Some(Self {
            line,
            tokens,
            with_errors,
            dialect,
            options,
        })
    }

    fn cut(&self) -> CommandLine {
        if !self.has_its_here_documents() {
            return CommandLine::Unclear;
        }
        let Ok(program) = parse_tokens(&self.tokens, &self.options) else {
            return CommandLine::Unclear;
        };
        if is_in_background(&program) {
            return CommandLine::Background;
        }
        // A single command does not run in a subshell, as the stages of a pipeline do: it can end the shell,
        // even with a '!' before it.
        let Some(pipeline) = only_pipeline(&program).filter(|pipeline| pipeline.seq.len() > 1)
        else {
            return CommandLine::Other {
                has_pipes: self.tokens.iter().any(is_pipe),
            };
        };
        let is = |text: &'static str| move |token: &&Token| token.to_str() == text;
        let newlines = self.tokens.iter().take_while(is("\n")).count();
        let negations = self.tokens[newlines..].iter().take_while(is("!")).count();
        let first = match negations {
            0 => 0,
            1 => newlines + 1,
            // POSIX allows only one '!'.
            _ => return CommandLine::Unclear,
        };
        let Some(places) = self
            .places(first)
            .filter(|all| all.len() == pipeline.seq.len())
            .filter(|all| !all.iter().any(|place| self.is_unclear(place)))
        else {
            return CommandLine::Unclear;
        };
        let stages: Vec<StageSource> = places.iter().map(|place| self.stage(place)).collect();
        // Within a stage, `|&` is an operator of bash, and sh should report that it has none.
        let inner =
            places.iter().filter(|place| place.with_errors).count() != self.with_errors.len();
        if inner && self.dialect == Dialect::Posix {
            return CommandLine::Unclear;
        }
        // After the `<<` of a here-document, brush-parser 0.4 splits a `$(b | c)`.
        if !self.here_documents().is_empty() && !stages.iter().all(|stage| self.understands(stage))
        {
            return CommandLine::Unclear;
        }
        CommandLine::Pipeline {
            stages,
            negated: pipeline.bang,
        }
    }

    /// Returns whether a stage begins with a word that means something else to some shells. Which one `sh` is
    /// is not known.
    fn is_unclear(&self, place: &Place) -> bool {
        let mut tokens = self.tokens[place.tokens.clone()].iter().map(Token::to_str);
        let first = tokens.find(|&token| token != "\n");
        self.dialect == Dialect::Posix && first.is_some_and(|first| UNCLEAR.contains(&first))
    }

    /// Returns whether a stage is a command by itself.
    fn understands(&self, stage: &StageSource) -> bool {
        Source::read(&stage.text, self.dialect)
            .is_some_and(|source| source.command(0..source.tokens.len()).is_some())
    }

    /// Returns the positions of the stages. A `|` is top-level exactly if the tokens between it and the
    /// previous one form a command. Inside of braces, loops and other compound commands, something would be
    /// left open.
    fn places(&self, first: usize) -> Option<Vec<Place>> {
        let mut stages = Vec::new();
        let mut token = first;
        let mut byte = match first {
            0 => 0,
            first => self.end_of(first - 1),
        };
        let mut inner = 0;
        for (number, pipe) in self.tokens.iter().enumerate().skip(first) {
            if !is_pipe(pipe) {
                continue;
            }
            let Some(command) = self.command(token..number) else {
                inner += 1;
                if inner > MOST_INNER_PIPES {
                    return None;
                }
                continue;
            };
            let end = self.end_of(number);
            let with_errors = self.with_errors.contains(&number);
            stages.push(Place {
                tokens: token..number,
                source: byte..end - if with_errors { 2 } else { 1 },
                command,
                with_errors,
                is_first: stages.is_empty(),
            });
            (token, byte) = (number + 1, end);
        }
        let last = token..self.tokens.len();
        stages.push(Place {
            command: self.command(last.clone())?,
            tokens: last,
            source: byte..self.line.len(),
            with_errors: false,
            is_first: stages.is_empty(),
        });
        Some(stages)
    }

    /// Returns the command that these tokens form, if they form exactly one.
    fn command(&self, tokens: Range<usize>) -> Option<ast::Command> {
        let program = parse_tokens(&self.tokens[tokens], &self.options).ok()?;
        let pipeline = only_pipeline(&program)?;
        match pipeline.seq.as_slice() {
            [command] if !pipeline.bang && pipeline.timed.is_none() => Some(command.clone()),
            _ => None,
        }
    }

    /// Returns the position where a token ends. (The tokenizer does not report exactly where a token begins:
    /// it may include what it skips before the token, such as a comment.)
    fn end_of(&self, token: usize) -> usize {
        self.tokens[token].location().end.index.min(self.line.len())
    }

    fn stage(&self, place: &Place) -> StageSource {
        let mut beside: Vec<Insertion> = Vec::new();
        let end = self.end_of_command(place);
        if self.has_background(place) && !place.is_first {
            // If bash runs the whole pipeline, a background process of a stage reads from the pipe. Here the
            // pipe is the stdin that the shell of the stage is started with, and a shell gives its background
            // processes /dev/null instead of that, unless stdin is redirected.
            beside.push((end, b" <&0"));
        }
        if place.with_errors {
            beside.push((end, b" 2>&1"));
        }
        StageSource {
            text: self.text(place, &beside),
            program: self.program(place).map(|(name, at)| {
                beside.insert(0, (at, b"exec "));
                (name, self.text(place, &beside))
            }),
        }
    }

    /// Returns whether a stage is a compound command that runs something in the background.
    fn has_background(&self, place: &Place) -> bool {
        let is_and =
            |token: &Token| matches!(token, Token::Operator(operator, _) if operator == "&");
        matches!(place.command, ast::Command::Compound(..))
            && self.tokens[place.tokens.clone()].iter().any(is_and)
    }

    /// Returns the name of a simple command, and its position. The name contains nothing that a shell would
    /// expand.
    fn program(&self, place: &Place) -> Option<(OsString, usize)> {
        let ast::Command::Simple(command) = &place.command else {
            return None;
        };
        let word = command
            .word_or_name
            .as_ref()
            .filter(|_| command.prefix.is_none())?;
        let name = word.value.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./+-".contains(byte);
        let at = word.loc.as_ref()?.end.index.checked_sub(name.len())?;
        let is_there = self.line.get(at..at + name.len()) == Some(name);
        (is_there && name.iter().all(plain)).then(|| (OsString::from(&word.value), at))
    }

    /// Returns the position where the last token of the command ends, before a semicolon or a comment.
    fn end_of_command(&self, place: &Place) -> usize {
        let here_documents = self.here_documents();
        let of_a_document =
            |n: &usize| here_documents.iter().any(|(of, _)| n == of || *n == of + 1);
        let last = place.tokens.clone().rev().find(|number| {
            !matches!(self.tokens[*number].to_str(), ";" | "\n") && !of_a_document(number)
        });
        last.map_or(place.source.start, |number| self.end_of(number))
    }

    /// Returns the source of a stage: the bytes from pipe to pipe, without the here-documents of other stages
    /// among them, and with its own here-documents from elsewhere.
    fn text(&self, place: &Place, insertions: &[Insertion]) -> OsString {
        let mut pieces = Vec::new();
        let mut elsewhere = Vec::new();
        let mut at = place.source.start;
        for (number, body) in &self.here_documents() {
            let own = place.tokens.contains(number);
            let inside = place.source.contains(&body.start);
            if own && !inside {
                elsewhere.push(body.clone());
            } else if inside && !own {
                pieces.push(at..body.start);
                at = body.end;
            }
        }
        pieces.push(at..place.source.end);
        let mut text: Vec<u8> = Vec::new();
        let mut insertions = insertions.iter().peekable();
        for piece in pieces {
            let mut from = piece.start;
            while let Some((at, bytes)) = insertions.next_if(|(at, _)| *at <= piece.end) {
                text.extend(&self.line[from..*at]);
                text.extend(*bytes);
                from = *at;
            }
            text.extend(&self.line[from..piece.end]);
        }
        let blanks = text.iter().take_while(|byte| BLANKS.contains(byte));
        text.drain(..blanks.count());
        for body in elsewhere {
            if text.last() != Some(&b'\n') || text.ends_with(b"\\\n") {
                text.push(b'\n');
            }
            text.extend(&self.line[body]);
        }
        OsString::from_vec(text)
    }

    /// Returns the token number of each here-document and its position in the source, including the line that
    /// ends it, in the order of the source.
    fn here_documents(&self) -> Vec<(usize, Range<usize>)> {
        let mut all: Vec<(usize, Range<usize>)> = (1..self.tokens.len())
            // The tokenizer adds a token of zero length for the line that ends a here-document.
            .filter(|&number| {
                let (token, place) = (&self.tokens[number], self.tokens[number].location());
                matches!(token, Token::Word(word, _) if !word.is_empty())
                    && place.start.index == place.end.index
            })
            .map(|number| {
                let start = self.tokens[number - 1].location().start.index;
                (number - 1, start..self.end_of(number))
            })
            .collect();
        all.sort_by_key(|(_, place)| place.start);
        all
    }

    /// Returns whether each here-document was found, and ends where the shell ends it. A backslash joins the
    /// line that ends it to the line before, unless the document is quoted; and if the word after `<<` has
    /// quotes within quotes, brush-parser 0.4 removes all of them.
    fn has_its_here_documents(&self) -> bool {
        let found = self.here_documents();
        let begun = |token: &&Token| matches!(token, Token::Operator(operator, _) if operator == "<<" || operator == "<<-");
        found.len() == self.tokens.iter().filter(begun).count()
            && found.iter().all(|(number, _)| {
                let (word, body) = (
                    self.tokens[number - 1].to_str(),
                    self.tokens[*number].to_str(),
                );
                is_plainly_quoted(word) && !body.ends_with("\\\n")
            })
    }
}

/// Returns whether a word is quoted as a whole, by a backslash before it, or not at all.
fn is_plainly_quoted(word: &str) -> bool {
    let inside = ["'", "\""]
        .iter()
        .find_map(|quote| word.strip_prefix(quote)?.strip_suffix(quote))
        .or(word.strip_prefix('\\'))
        .unwrap_or(word);
    !inside.is_empty() && !inside.contains(['\'', '"', '\\', '$', '`'])
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
            (
                "case $x in a|b) c | d;; (e|f) g;; esac | h",
                &["case $x in a|b) c | d;; (e|f) g;; esac ", "h"],
            ),
            ("if a | b; then c; fi | d", &["if a | b; then c; fi ", "d"]),
            ("f() { a | b; } | c", &["f() { a | b; } ", "c"]),
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
            ("a 2147483647>f | b", ["a 2147483647>f ", "b"]),
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
        assert_eq!(stages("a <<E |& b\nx\nE\n"), ["a <<E 2>&1 \nx\nE\n", "b\n"]);
    }

    #[test]
    fn what_runs_in_the_background_reads_from_the_pipe() {
        assert_eq!(
            stages("{ a & } | { b & c; }; # d"),
            ["{ a & } ", "{ b & c; } <&0; # d"]
        );
        assert_eq!(
            stages("a | ( b <<E & ) > f |& c\nE\n"),
            ["a ", "( b <<E & ) > f <&0 2>&1 \nE\n", "c\n"]
        );
        assert_eq!(stages("a | b 2>&1 | { c; }"), ["a ", "b 2>&1 ", "{ c; }"]);
    }

    #[test]
    fn a_simple_command_can_take_the_place_of_its_shell() {
        let line = "a 'b c' | \\\n d <<E > f |& # g\nE\n./h | A=b i | j\"k\" | $l | >m n | { o; } | p\\\nq\n";
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
                Some(("d", "\\\n exec d <<E > f 2>&1 \nE\n")),
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
    fn here_documents_go_with_their_stage() {
        assert_eq!(
            stages("a <<E | b <<'F' 3<<G\nx | y\nE\n z\nF\nw\nG\n"),
            ["a <<E \nx | y\nE\n", "b <<'F' 3<<G\n z\nF\nw\nG\n"]
        );
        // The body of the first here-document is in the middle of the second stage.
        assert_eq!(
            stages("a <<E |\nx\nE\nb <<-F\n\ty\n\tF"),
            ["a <<E \nx\nE\n", "b <<-F\n\ty\n\tF"]
        );
        assert_eq!(
            stages("{ a <<E; c; } | { b\nE\nd <<F; } | e\nx\nF\n"),
            ["{ a <<E; c; } \nE\n", "{ b\nd <<F; } \nx\nF\n", "e\n"]
        );
        assert_eq!(stages("a <<E | b\nE"), ["a <<E \nE", "b\n"]);
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
        for line in ["a | b &", "! a | b&\n", "a <<E | b &\nE\n"] {
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
            "a $(case x in x) b;; esac) | c",
            "a <<'' | b\nx\n\n",
            // Here a pipe inside of the brackets would be treated as a top-level pipe.
            "a <<E | b $(c | d)\nE\n",
            "a <<'E\"F' | b\nEF\nE\"F\n",
            // brush-parser panics on this line.
            "a $(b | c | d",
            // The backslash joins the two lines.
            "a <<E | b\nx\\\nE\nE\n",
            "a | { b |& c; }",
            // This is one pipeline in bash, and no pipeline in POSIX.
            "cat <(a) | b",
            // brush-parser panics on a number before a redirection that is no i32.
            "a 99999999999999999999>f | b",
            "a 2147483648<f | b",
            // A single quote in double quotes is a character, whatever is around it.
            r#"a "${x:-it's}" | b "${x:-it's}" | c"#,
            r#"a "${x:-it's}" 'b}" | c' | d "'}" '"'"#,
            r#"a "${x:-${y}it's}" | b "${x:-it's}""#,
            r#"a "${x:-\}it's}" | b "${x:-it's}""#,
            // Only a shell that knows `$'…'` reads on after the backslash.
            r"a $'b\' | c $'d\' | e",
            r"a \$'b\' | c \$'d\' | e",
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
            r"a \$'b\' | c \$'d\' | e",
        ] {
            assert_eq!(
                cut(line.as_ref(), Dialect::Bash),
                CommandLine::Unclear,
                "{line}"
            );
        }
        let deep = format!("{}a{} | b", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(cut(deep.as_ref(), Dialect::Posix), CommandLine::Unclear);
    }

    #[test]
    fn nonsense_on_which_the_tokenizer_never_ends_is_left_to_the_shell() {
        for line in ["<<-$(( )$(", "a | <<-$(( )$("] {
            assert_eq!(
                cut(line.as_ref(), Dialect::Posix),
                CommandLine::Unclear,
                "{line}"
            );
        }
    }

    /// Cuts lines of pieces that are joined at random: 10,000 lines, or `FULLBORE_FUZZ_LINES`.
    #[test]
    #[ignore = "takes minutes"]
    fn whatever_is_cut_is_cut_in_bounded_time() {
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
            "<<-",
            "E",
            "\nE\n",
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
            "]",
            "`",
            "'",
            "\"",
            "\\",
            "#",
            "!",
            "&&",
            "||",
            "|&",
            "case x in",
            "esac",
            "if",
            "fi",
            "do",
            "done",
            "while",
            "=",
            "[[",
            "]]",
            "<(",
            "\t",
            "$'",
        ];
        let count = std::env::var("FULLBORE_FUZZ_LINES");
        let count: usize = count.map_or(10_000, |count| count.parse().unwrap());
        let mut random = fastrand::Rng::with_seed(4711);
        let (mut cuts, mut slow) = (0, Vec::new());
        for _ in 0..count {
            let length = random.usize(1..10);
            let line: String = (0..length)
                .map(|_| PIECES[random.usize(..PIECES.len())])
                .collect();
            let began = std::time::Instant::now();
            let found = cut(
                line.as_ref(),
                random.choice([Dialect::Posix, Dialect::Bash]).unwrap(),
            );
            cuts += usize::from(matches!(found, CommandLine::Pipeline { .. }));
            let took = began.elapsed();
            assert!(took.as_secs() < 15, "{line:?} took {took:?}");
            if took.as_millis() >= 800 {
                slow.push(line);
            }
        }
        println!("{cuts} of {count} are pipelines; these do not end: {slow:?}");
        assert!(cuts > 0);
    }

    #[test]
    fn a_plain_line_is_parsed_here_and_every_other_line_in_a_child() {
        for line in [
            "a|b",
            "cat -n 'x y' | wc -l >/dev/null",
            "A=1 \"b\" | c,d:e@f%g+h",
        ] {
            assert!(is_plain(line.as_ref()), "{line}");
        }
        for line in [
            "a $(b",
            "<<-$(( )$(",
            "a\nb",
            "a;b",
            "a <b",
            "\u{e4}",
            "a\\|b",
        ] {
            assert!(!is_plain(line.as_ref()), "{line}");
        }
        assert!(!is_plain("a".repeat(MOST_PLAIN + 1).as_ref()));
        // No plain line keeps the parser from returning.
        let alphabet = [
            " ",
            "|",
            "a",
            "=",
            "'",
            "\"",
            ">",
            "2",
            "99999999999",
            "if ",
            "do ",
            " in ",
            "time ",
            "function ",
        ];
        let mut random = fastrand::Rng::with_seed(4711);
        for _ in 0..20_000 {
            let length = random.usize(1..40);
            let line: String = (0..length)
                .map(|_| alphabet[random.usize(..alphabet.len())])
                .collect();
            assert!(is_plain(line.as_ref()), "{line}");
            cut(
                line.as_ref(),
                random.choice([Dialect::Posix, Dialect::Bash]).unwrap(),
            );
        }
    }

    #[test]
    fn bash_has_more() {
        assert_eq!(
            stages_of(
                "cat <(a | b) <<< x | [[ y =~ a|b ]] | ((1 < 2))",
                Dialect::Bash
            ),
            ["cat <(a | b) <<< x ", "[[ y =~ a|b ]] ", "((1 < 2))"]
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
        assert!(matches!(
            cut(nested.as_ref(), Dialect::Posix),
            CommandLine::Unclear | CommandLine::Pipeline { .. }
        ));
    }
}
