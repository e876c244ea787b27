//! Text as it is shown: names that others chose (files, processes) without anything that moves the
//! cursor, starts a line or makes a text look like another; long text in lines; errors in words.

use std::fmt;
use std::io;

/// Stands for a character that must not be shown.
pub const REPLACEMENT: char = '\u{fffd}';

/// Returns whether a character changes the order in which those around it are shown (Unicode UAX #9,
/// explicit formatting characters and marks), so that a text could look like another.
pub fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `name` with a `?` or a [`REPLACEMENT`] for each character that moves the cursor, starts a
/// line or changes the order of the text.
pub fn clean(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            // Unicode's separators of lines and of paragraphs are not control characters.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => '?',
            c if reorders(c) => REPLACEMENT,
            c => c,
        })
        .collect()
}

/// Returns `text` as one line of at most `most` characters, [cleaned](clean), with an ellipsis where it
/// was longer.
pub fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let clean: Vec<char> = clean(&words.join(" ")).chars().collect();
    if clean.len() <= most {
        return clean.into_iter().collect();
    }
    let mut short: String = clean[..most.saturating_sub(1)].iter().collect();
    short.push('…');
    short
}

/// Returns `text` in lines of at most `columns` characters, broken between words.
///
/// A word that is longer than a line is broken where the line ends. An empty text is one empty line.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in text
        .split_whitespace()
        .flat_map(|word| pieces(word, columns))
    {
        let used = line.chars().count();
        if used > 0 && used + 1 + piece.chars().count() > columns {
            lines.push(std::mem::take(&mut line));
        } else if used > 0 {
            line.push(' ');
        }
        line += &piece;
    }
    lines.push(line);
    lines
}

/// Returns a word in pieces of at most `columns` characters, usually one.
fn pieces(word: &str, columns: usize) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    characters
        .chunks(columns)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// Returns a number with its noun: `1 process`, `2 processes`.
pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A share that is shown as whole percent.
pub struct Percent(pub f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}%", self.0 * 100.0)
    }
}

/// Returns the kernel's words for an error, without the number that Rust appends.
pub fn error_text(error: &io::Error) -> String {
    without_number(&error.to_string())
}

/// Returns a message without the number of the error that Rust appends, and without what follows it.
pub fn without_number(message: &str) -> String {
    let end = message.find(" (os error").unwrap_or(message.len());
    message[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_the_cursor_or_turns_text_around_is_left() {
        assert_eq!(clean("tar c \u{e4}\u{1f600}"), "tar c \u{e4}\u{1f600}");
        assert_eq!(clean("a\nb\u{1b}[2J\u{9b}c\r"), "a?b?[2J?c?");
        assert_eq!(clean("x\u{202e}y\u{2067}z\u{2028}"), "x\u{fffd}y\u{fffd}z?");
    }

    #[test]
    fn a_text_becomes_one_line_without_control_characters() {
        assert_eq!(
            one_line("sed -n\n 's/\u{1b}[2J//'\t| x", 40),
            "sed -n 's/?[2J//' | x"
        );
        assert_eq!(one_line("zstd -T0 --long", 8), "zstd -T…");
        assert_eq!(one_line("zstd -T0", 8), "zstd -T0");
        assert_eq!(one_line("", 8), "");
    }

    #[test]
    fn lines_are_broken_between_words_and_long_words_within() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a abcdefgh b", 3), ["a", "abc", "def", "gh", "b"]);
        assert_eq!(wrapped("abcdefgh b", 4), ["abcd", "efgh", "b"]);
        assert_eq!(wrapped("", 5), [""]);
    }

    #[test]
    fn an_error_has_the_words_of_the_kernel_and_no_number() {
        let error = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        assert_eq!(error_text(&error), "No space left on device");
        assert_eq!(error_text(&io::Error::other("no number")), "no number");
    }
}
