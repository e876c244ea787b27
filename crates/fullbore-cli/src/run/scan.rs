//! The borders of the tokens of a line for a shell.

use std::ops::Range;

/// The dialect in which the shell reads the line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The language of POSIX, with `|&` in addition, and perhaps extensions that are not known here.
    #[default]
    Posix,
    /// The language of bash, with its extensions.
    Bash,
}

/// A token, whose position in the line the scanner returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    Word,
    Operator(Operator),
    /// The operator of a redirection, with the number before it.
    Redirection,
    /// The word after that.
    Target,
    Newline,
}

/// An operator that is no redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Pipe {
        with_errors: bool,
    },
    /// `&&` or `||`.
    AndOr,
    Semicolon,
    /// `&`.
    And,
    Open,
    Close,
}

/// How deep expansions may be nested in a line that is cut.
const MOST_NESTED: usize = 100;

/// Finds the tokens of a line. All methods that return an [`Option`] return `None` where only the shell can tell.
pub struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
    dialect: Dialect,
    /// Whether the word of a redirection has to come next.
    expects_target: bool,
    nested: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(line: &'a [u8], dialect: Dialect) -> Self {
        Self {
            line,
            at: 0,
            dialect,
            expects_target: false,
            nested: 0,
        }
    }

    /// Returns the next token and its position; `Some(None)` at the end.
    pub fn next(&mut self) -> Option<Option<(Token, Range<usize>)>> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(&byte) = self.line.get(start) else {
            return (!self.expects_target).then_some(None);
        };
        let is_word = !b"\n;&|()<>".contains(&byte);
        if self.expects_target && !is_word {
            return None;
        }
        let token = match byte {
            b'\n' => {
                self.at += 1;
                Token::Newline
            }
            b'<' | b'>' => self.redirection()?,
            b'&' if self.dialect == Dialect::Bash && self.peek(1) == Some(b'>') => {
                self.at += 1;
                self.redirection()?
            }
            _ if !is_word => Token::Operator(self.operator(byte)?),
            _ => self.word()?,
        };
        Some(Some((token, start..self.at)))
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.line.get(self.at + ahead).copied()
    }

    /// Skips blanks, newlines after a backslash, and comments.
    fn skip_blanks(&mut self) -> Option<()> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b' ' | b'\t'), _) => self.at += 1,
                (Some(b'\\'), Some(b'\n')) => {
                    // What is before and after it could be one operator.
                    let before = self.at.checked_sub(1).map(|at| self.line[at]);
                    if before.is_some_and(|byte| !b" \t\n".contains(&byte)) {
                        return None;
                    }
                    self.at += 2;
                }
                (Some(b'#'), _) => {
                    let rest = &self.line[self.at..];
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                _ => return Some(()),
            }
        }
    }

    fn operator(&mut self, byte: u8) -> Option<Operator> {
        let next = self.peek(1);
        let (operator, len) = match (byte, next) {
            (b'|', Some(b'|')) | (b'&', Some(b'&')) => (Operator::AndOr, 2),
            (b'|', Some(b'&')) => (Operator::Pipe { with_errors: true }, 2),
            (b'|', _) => (Operator::Pipe { with_errors: false }, 1),
            // `;;` and the like are of `case`; zsh has `&|` and `&!`.
            (b';', Some(b';' | b'&' | b'|')) | (b'&', Some(b'|' | b'!')) => return None,
            (b';', _) => (Operator::Semicolon, 1),
            (b'&', _) => (Operator::And, 1),
            (b'(', Some(b'(')) => return None,
            (b'(', _) => (Operator::Open, 1),
            _ => (Operator::Close, 1),
        };
        self.at += len;
        // In `|&&`, for example, shells could divide the characters differently.
        match (operator, self.peek(0)) {
            (Operator::Open | Operator::Close, _) => Some(operator),
            (_, Some(b'&' | b'|' | b';')) => None,
            _ => Some(operator),
        }
    }

    fn redirection(&mut self) -> Option<Token> {
        let is_bash = self.dialect == Dialect::Bash;
        let rest = &self.line[self.at..];
        let len = match rest {
            [b'<', b'<', b'<', ..] if is_bash => 3,
            // A here-document.
            [b'<', b'<', ..] => return None,
            // The name of a process substitution is a word.
            [b'<' | b'>', b'(', ..] if is_bash => return self.word(),
            [b'<', b'&' | b'>', ..] | [b'>', b'>' | b'&' | b'|', ..] => 2,
            _ => 1,
        };
        self.at += len;
        if let Some(b'<' | b'>' | b'|' | b'&' | b'(' | b'!' | b'\\') = self.peek(0) {
            return None;
        }
        self.expects_target = true;
        Some(Token::Redirection)
    }

    fn word(&mut self) -> Option<Token> {
        let start = self.at;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'<' | b'>' if self.dialect == Dialect::Bash && self.peek(1) == Some(b'(') => {
                    self.at += 1;
                    self.brackets()?;
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                _ => self.part(byte)?,
            }
        }
        let word = &self.line[start..self.at];
        if self.expects_target {
            self.expects_target = false;
            return Some(Token::Target);
        }
        match self.peek(0) {
            Some(b'<' | b'>') if word.iter().all(u8::is_ascii_digit) => {
                // Shells differ in what they make of a number that is too large.
                (word.len() < 10).then_some(())?;
                self.redirection()
            }
            // bash puts a number into the variable that such a word names.
            Some(b'<' | b'>') if word.starts_with(b"{") => None,
            // A function, an array, or a pattern.
            Some(b'(') => None,
            _ => Some(Token::Word),
        }
    }

    /// Skips a character of a word, with what it quotes or begins.
    fn part(&mut self, byte: u8) -> Option<()> {
        self.at += 1;
        match byte {
            b'\\' => self.escaped(),
            b'\'' => self.until_quote(),
            b'"' => self.until(b'"', true),
            b'`' => self.until(b'`', false),
            b'$' => self.expansion(false),
            _ => Some(()),
        }
    }

    fn escaped(&mut self) -> Option<()> {
        self.peek(0).map(|_| self.at += 1)
    }

    fn until_quote(&mut self) -> Option<()> {
        let len = memchr::memchr(b'\'', &self.line[self.at..]);
        len.map(|len| self.at += len + 1)
    }

    /// Skips the bytes up to `end` that is not escaped, with the expansions among them if there can be some.
    fn until(&mut self, end: u8, has_expansions: bool) -> Option<()> {
        loop {
            let byte = self.peek(0)?;
            self.at += 1;
            match byte {
                _ if byte == end => return Some(()),
                b'\\' => self.escaped()?,
                b'`' if has_expansions => self.until(b'`', false)?,
                b'$' if has_expansions => self.expansion(true)?,
                _ => {}
            }
        }
    }

    /// Skips what a dollar sign begins.
    fn expansion(&mut self, in_quotes: bool) -> Option<()> {
        match self.peek(0) {
            Some(b'(') => self.brackets(),
            Some(b'{') => self.braces(in_quotes),
            Some(b'\'') if !in_quotes => self.dollar_quoted(),
            // An old form of `$((…))`, to some shells. A newline after a backslash would join the lines.
            Some(b'[' | b'\\') => None,
            _ => Some(()),
        }
    }

    /// Skips what is in `$'…'`, in which bash knows `\'`. Another shell may know neither.
    fn dollar_quoted(&mut self) -> Option<()> {
        self.at += 1;
        let start = self.at;
        if self.dialect == Dialect::Posix {
            self.until_quote()?;
            return (!self.line[start..self.at].ends_with(b"\\'")).then_some(());
        }
        self.until(b'\'', false)
    }

    /// Skips what is in `${…}`. To a shell a single quote is a quote in `"${a#'b'}"`, and a character in
    /// `"${a:-it's}"`.
    fn braces(&mut self, in_quotes: bool) -> Option<()> {
        self.at += 1;
        self.deeper(|scanner| {
            loop {
                match scanner.peek(0)? {
                    b'}' => return scanner.escaped(),
                    b'\'' | b'"' | b'\\' | b'`' if in_quotes => return None,
                    b'$' => {
                        scanner.at += 1;
                        scanner.expansion(in_quotes)?;
                    }
                    byte => scanner.part(byte)?,
                }
            }
        })
    }

    /// Skips what is in `$(…)`, `$((…))` and `<(…)`.
    fn brackets(&mut self) -> Option<()> {
        self.at += 1;
        let start = self.at;
        let is_sum = self.peek(0) == Some(b'(');
        self.deeper(|scanner| {
            let mut open = 1;
            loop {
                let byte = scanner.peek(0)?;
                let is_first = scanner.is_first_of_word();
                match byte {
                    b'(' => open += 1,
                    b')' => open -= 1,
                    // A comment or a here-document could hold anything, and a pattern of `case` a bracket.
                    b'#' if !is_sum && is_first => return None,
                    b'<' if !is_sum && scanner.peek(1) == Some(b'<') => return None,
                    b'c' if is_first && scanner.line[scanner.at..].starts_with(b"case") => {
                        return None;
                    }
                    _ => {}
                }
                scanner.part(byte)?;
                if open == 0 {
                    break;
                }
            }
            // What looks like a sum may be a subshell in a command substitution.
            let text = &scanner.line[start..scanner.at];
            (!is_sum || text.ends_with(b"))")).then_some(())
        })
    }

    fn is_first_of_word(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.line[at]);
        before.is_none_or(|byte| b" \t\n;&|()".contains(&byte))
    }

    fn deeper(&mut self, skip: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.nested += 1;
        if self.nested > MOST_NESTED {
            return None;
        }
        skip(self)?;
        self.nested -= 1;
        Some(())
    }
}
