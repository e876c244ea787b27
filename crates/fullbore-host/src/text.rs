//! Text as it is shown: names that others chose (files, processes) without anything that moves the
//! cursor, starts a line or makes a text look like another; long text in lines; errors in words.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

/// Stands for a character that must not be shown.
pub const REPLACEMENT: char = '\u{fffd}';

/// Joins those parts that there are, if there are any.
pub(crate) fn joined<const N: usize>(parts: [Option<String>; N], between: &str) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(between))
}

/// Returns whether a character changes the order in which those around it are shown (Unicode UAX #9,
/// explicit formatting characters and marks), so that a text could look like another.
pub fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `name` with a `?` or a [`REPLACEMENT`] for each character that moves the cursor, starts a
/// line or changes the order of the text.
pub fn clean(name: &str) -> String {
    let shown = |c: char| match c {
        // Unicode's separators of lines and of paragraphs are not control characters.
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => '?',
        c if reorders(c) => REPLACEMENT,
        c => c,
    };
    name.chars().map(shown).collect()
}

/// Returns whether a word contains no byte with a special meaning to any shell. zsh looks up a word that
/// begins with an equals sign.
pub fn is_plain_word(word: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./+-,:@%=".contains(byte);
    word.first().is_some_and(|&byte| byte != b'=') && word.iter().all(is_plain)
}

/// Returns the words as they would be written in a line for a shell: in quotes, unless they are plain.
pub fn shell_words<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let quoted = words.into_iter().map(|word| {
        if is_plain_word(word) {
            return word.to_vec();
        }
        let parts: Vec<&[u8]> = word.split(|&byte| byte == b'\'').collect();
        [b"'", &*parts.join(&br"'\''"[..]), b"'"].concat()
    });
    quoted.collect::<Vec<_>>().join(&b' ')
}

/// Returns how many columns of a terminal a text occupies: wide characters occupy two, combining characters and
/// escape sequences none.
pub fn columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Returns as much of a text as fits into `most` columns, with all its escape sequences.
pub fn cut(text: &str, most: usize) -> String {
    let mut cut = String::new();
    let (mut used, mut is_full) = (0, false);
    for part in parts(text) {
        if is_escape(part) {
            cut += part;
            continue;
        }
        used += columns(part);
        is_full |= used > most;
        if !is_full {
            cut += part;
        }
    }
    cut
}

/// Returns a text with blanks behind it, so that it occupies at least this many columns.
pub fn padded(text: &str, least: usize) -> String {
    let blanks = least.saturating_sub(columns(text));
    format!("{text}{:blanks$}", "")
}

/// Returns the lines of a table without borders, whose columns are two blanks apart. `is_number` says which columns are
/// aligned to the right.
pub fn table_lines(rows: &[Vec<String>], is_number: impl Fn(usize) -> bool) -> Vec<String> {
    let widest = |at: usize| rows.iter().map(|row| columns(&row[at])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(widest).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (text, width))| match is_number(at) {
            true => " ".repeat(width - columns(text)) + text,
            false => padded(text, *width),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Returns a text without its escape sequences.
pub fn without_escapes(text: &str) -> String {
    parts(text).filter(|part| !is_escape(part)).collect()
}

/// Divides a text into characters and escape sequences: ESC, after ESC `[` all up to a letter, and after ESC `]` all up
/// to ESC `\`.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match rest.strip_prefix("\x1b[") {
            Some(inside) => inside
                .find(|c: char| ('@'..='~').contains(&c))
                .map(|end| end + 3),
            None if rest.starts_with("\x1b]") => rest.find("\x1b\\").map(|end| end + 2),
            None => Some(first.len_utf8()),
        };
        let len = end.unwrap_or(rest.len());
        let (part, after) = rest.split_at(len);
        rest = after;
        Some(part)
    })
}

fn is_escape(part: &str) -> bool {
    part.starts_with('\x1b')
}

/// Returns `text` as one line of at most `most` columns, [cleaned](clean), with an ellipsis where it was longer.
pub fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let clean = clean(&words.join(" "));
    match columns(&clean) <= most {
        true => clean,
        false => cut(&clean, most.saturating_sub(1)) + "…",
    }
}

/// Returns `text` in lines of at most `most` columns, broken between words.
///
/// A word that is longer than a line is broken where the line ends. An empty text is one empty line.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let whole = textwrap::WordSplitter::NoHyphenation;
    let lines = textwrap::wrap(
        &text,
        textwrap::Options::new(most.max(2)).word_splitter(whole),
    );
    lines.into_iter().map(Cow::into_owned).collect()
}

/// Returns a number with a blank between thousands: `12 345`.
pub fn thousands(number: u64) -> String {
    let mut digits = number.to_string();
    for at in (1..digits.len()).rev() {
        if (digits.len() - at) % 4 == 3 {
            digits.insert(at, ' ');
        }
    }
    digits
}

/// Formats a time: `0.012 s`, `8.40 s`, `3 min 20 s`, `2 h 5 min`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match time {
        time if time < Duration::from_secs(1) => format!("{:.3} s", time.as_secs_f64()),
        time if time < Duration::from_secs(120) => format!("{:.2} s", time.as_secs_f64()),
        _ if seconds < 7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
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
    fn columns_are_those_of_a_terminal() {
        for (text, expected) in [
            ("", 0),
            ("abc", 3),
            ("日本語", 6),
            ("e\u{301}", 1),
            ("\x1b[1;31mred\x1b[0m", 3),
            ("\u{1f600}", 2),
        ] {
            assert_eq!(columns(text), expected, "{text:?}");
        }
        assert_eq!(cut("日本語", 5), "日本");
        assert_eq!(cut("e\u{301}e\u{301}e", 2), "e\u{301}e\u{301}");
        assert_eq!(cut("\x1b[31mlong\x1b[0m", 2), "\x1b[31mlo\x1b[0m");
        assert_eq!(padded("日本", 6), "日本  ");
        let rows = [["a", "12"], ["日本", "3"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table_lines(&rows, |at| at == 1), ["a     12", "日本   3"]);
        assert_eq!(without_escapes("a\x1b[7mb\x1b[0m"), "ab");
        assert_eq!(one_line("日本語日本語", 7), "日本語…");
        assert_eq!(wrapped("日本語 日本", 4), ["日本", "語", "日本"]);
    }

    #[test]
    fn times_and_numbers_are_short() {
        let times = [0.012, 8.4, 200.0, 7500.0].map(|s| duration(Duration::from_secs_f64(s)));
        assert_eq!(times, ["0.012 s", "8.40 s", "3 min 20 s", "2 h 5 min"]);
        assert_eq!(thousands(12_345), "12 345");
        assert_eq!(thousands(999), "999");
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
