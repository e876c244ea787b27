//! Text of others (names of files and processes, notes in files) as it may be shown: the one place that
//! says what would move the cursor, start a line, or make a text look like another.

/// What stands for a character that must not be shown as it is.
pub const REPLACEMENT: char = '\u{fffd}';

/// Whether a character changes the order of those around it (UAX #9, explicit formatting and
/// marks), so that a text could show as another.
pub fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name without anything that would move the cursor, make a line of its own, or turn text around.
pub fn clean(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            // The two that Unicode itself calls separators of lines and paragraphs are no controls.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => '?',
            c if reorders(c) => REPLACEMENT,
            c => c,
        })
        .collect()
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
}
