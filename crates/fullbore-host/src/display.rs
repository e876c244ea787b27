//! How texts, amounts and errors are shown to people, wherever they are shown.

use std::io;

use super::text::clean;

/// The kernel's words for an error, without the number that Rust appends.
pub fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// An amount of bytes with three digits, or four before the next unit: `1.20 GiB`, `12.0 GiB`, `1012 MiB`.
pub fn bytes(count: f64) -> String {
    let mut scaled = count;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1023.5 {
            return digits(scaled, unit);
        }
        scaled /= 1024.0;
    }
    digits(scaled, "PiB")
}

fn digits(scaled: f64, unit: &str) -> String {
    let places = match scaled {
        _ if unit == "B" => 0,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.places$} {unit}")
}

/// A text as one line of at most `most` characters, without anything that a terminal obeys.
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

/// A text as lines of at most `columns` characters, divided between words.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.extend(word.chars().take(columns));
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.chars().take(columns).collect());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn lines_are_divided_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one abcdefghij two", 7), ["one", "abcdefg", "two"]);
        assert_eq!(wrapped("", 7), [""]);
    }
}
