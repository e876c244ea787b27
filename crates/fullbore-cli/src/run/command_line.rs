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
        /// A single command.
        stage: Option<Box<StageSource>>,
        /// Whether a `!` precedes it.
        negated: bool,
    },
    /// A line that only the shell can interpret.
    Unclear,
}

/// A stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageSource {
    /// The source of the stage, for the shell.
    pub text: OsString,
    /// The name of a simple command, if that is a plain word.
    pub name: Option<OsString>,
    /// The part of the line that it is, as it was written.
    pub shown: OsString,
    /// For one simple command without assignments: its name, which may be a program's, and the source with
    /// `exec` before the name.
    pub program: Option<(OsString, OsString)>,
}

/// Words that are no programs at the beginning of a command, to some shells at least: the pipeline or the loop that
/// follows belongs to them, or a `|` or a `)` after them is none.
const UNCLEAR: &[u8] =
    b"time coproc function repeat select foreach [[ case esac in nocorrect noglob";

/// Words at the beginning of a command that are understood here.
const RESERVED: &[u8] = b"! { } if then else elif fi while until for do done";

/// The most bytes of a plain line.
const MOST_PLAIN: usize = 4096;

/// Cuts a line at its top-level pipes.
pub fn cut(line: &OsStr, dialect: Dialect) -> CommandLine {
    let line = line.as_bytes();
    let cutter = Cutter {
        line,
        dialect,
        stage: Stage::from(0),
        ..Cutter::default()
    };
    cutter.cut().unwrap_or(CommandLine::Unclear)
}

/// Returns whether a line consists of words, pipes, quotes and `>` alone, so that no shell has to check what was cut.
pub fn is_plain(line: &OsStr) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _./-+=:,@%|>'\"".contains(byte);
    line.len() <= MOST_PLAIN && line.as_bytes().iter().all(is_plain)
}

/// What separates the words of a line. To a shell, a carriage return is part of a word.
pub const BLANKS: &[u8] = b" \t\n";

/// Where the next token of a command stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// At its start, where reserved words are recognized.
    #[default]
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
    /// Whether the name is the first word of the stage, so that `exec` may stand before it.
    is_bare: bool,
    is_compound: bool,
    /// Whether something in it runs in the background.
    has_background: bool,
    /// Whether its stderr goes into the pipe too.
    with_errors: bool,
}

/// A line, and what was found so far.
#[derive(Default)]
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

impl Cutter<'_> {
    /// Returns `None` if only the shell can tell.
    fn cut(mut self) -> Option<CommandLine> {
        let mut scanner = Scanner::new(self.line, self.dialect);
        while let Some((token, place)) = scanner.next()? {
            match token {
                Token::Newline if !self.open.is_empty() => self.place = Place::Start,
                Token::Newline if self.stage.is_empty => {}
                Token::Newline => self.is_ended = true,
                token => {
                    if std::mem::take(&mut self.is_ended) {
                        // A command after another pipeline on the line.
                        self.is_list = true;
                        self.stage = Stage::from(self.stage.end);
                        self.place = Place::Start;
                    }
                    self.take(token, &place)?;
                }
            }
        }
        self.finish()
    }

    fn take(&mut self, token: Token, place: &Range<usize>) -> Option<()> {
        let is_inner = !self.open.is_empty();
        match token {
            Token::Newline => {}
            Token::Word => self.word(place)?,
            // What belongs to a redirection says nothing about the command.
            Token::Redirection if self.place == Place::Start => self.place = Place::Prefix,
            Token::Redirection | Token::Target => {}
            Token::Operator(Operator::Open) => self.open(Closer::Bracket)?,
            Token::Operator(Operator::Close) => self.close(Closer::Bracket)?,
            // So is a stage that has no more than a '!'.
            Token::Operator(_)
                if self.stage.is_empty || self.stage.source.start == self.stage.end =>
            {
                return None;
            }
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
            // A newline after a backslash is nothing to a shell, so `i\` and `f` on the next line are `if`.
            Place::Start if is_reserved_if_joined(word) => return None,
            Place::Arguments => {}
            Place::Prefix if is_assignment(word) => {}
            Place::Prefix => {
                self.place = Place::Arguments;
                if self.open.is_empty() {
                    self.stage.name = Some(place.clone());
                }
            }
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
                [b'{' | b'}', ..] => return None,
                word if is_one_of(UNCLEAR, word) => return None,
                _ if is_assignment(word) => self.place = Place::Prefix,
                _ => {
                    self.place = Place::Arguments;
                    if self.open.is_empty() {
                        self.stage.name = Some(place.clone());
                        self.stage.is_bare = true;
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
            self.stage.source.end = self.line.len();
            let is_single = !self.is_list && !self.stage.is_empty;
            return Some(CommandLine::Other {
                has_pipes: self.pipes > 0,
                stage: is_single.then(|| Box::new(self.source_of(&self.stage, true))),
                negated: self.negated && !self.is_list,
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
        let stages = stages.map(|(number, stage)| self.source_of(stage, number == 0));
        Some(CommandLine::Pipeline {
            stages: stages.collect(),
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
            let (before, rest) = self.line[from..to].split_at(name - from);
            let (words, after) = rest.split_at(stage.end - name);
            let text = [before, before_name, words, &beside, after].concat();
            let blanks = text.iter().take_while(|byte| BLANKS.contains(byte)).count();
            OsString::from_vec(text[blanks..].to_vec())
        };
        let name = self.name_of(stage);
        let bare = name.clone().zip(stage.name.clone());
        // What else is white space to Rust, such as a carriage return, is part of a word.
        let source = &self.line[stage.source.clone()];
        let is_word = |byte: &u8| !BLANKS.contains(byte);
        let begin = source.iter().position(is_word).unwrap_or(0);
        let end = source.iter().rposition(is_word).map_or(begin, |at| at + 1);
        let bare = bare.filter(|_| stage.is_bare);
        StageSource {
            shown: OsString::from_vec(source[begin..end].to_vec()),
            text: text(b"", stage.source.start),
            program: bare.map(|(name, place)| (name, text(b"exec ", place.start))),
            name,
        }
    }

    /// Returns the name of the simple command that a stage is, if that is a plain word.
    fn name_of(&self, stage: &Stage) -> Option<OsString> {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./+-".contains(byte);
        let name = &self.line[stage.name.clone()?];
        let is_plain = name.iter().all(plain);
        is_plain.then(|| OsStr::from_bytes(name).to_owned())
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

fn is_one_of(words: &[u8], word: &[u8]) -> bool {
    words.split(|&byte| byte == b' ').any(|one| one == word)
}

fn is_reserved_if_joined(word: &[u8]) -> bool {
    let joined = String::from_utf8_lossy(word).replace("\\\n", "");
    let joined = joined.as_bytes();
    joined != word && (is_one_of(RESERVED, joined) || is_one_of(UNCLEAR, joined))
}

/// Returns whether a word before the name of a command is an assignment: `name=…`, `name+=…`, `name[…]=…`.
fn is_assignment(word: &[u8]) -> bool {
    let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let name = word.iter().take_while(is_letter).count();
    let is_assigned = matches!(&word[name..], [b'=' | b'[', ..] | [b'+', b'=', ..]);
    name > 0 && !word[0].is_ascii_digit() && is_assigned
}

#[cfg(test)]
#[path = "command_line/tests.rs"]
mod tests;
