//! A page of text for a terminal: lines that fit, tables without borders, and bars.
//!
//! Colour is put on whole lines, and on the bars at their ends, after they are laid out, so that no
//! escape sequence ever counts as width.

use std::io;

use super::fields::Field;
use super::one_line;
use fullbore_host::text;

/// The width in columns where there is no terminal to ask.
pub const WIDTH_WITHOUT_A_TERMINAL: u16 = 100;

/// The number of spaces between two columns.
pub const GAP: usize = 2;

/// How a line looks where there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without a style.
    Plain,
    /// Bold.
    Title,
    /// Faint.
    Dim,
}

/// A page of text that lines are added to.
pub struct TextPage {
    /// How many columns a line may have.
    pub width: usize,
    /// The lines, top down, without escape sequences.
    lines: Vec<(Style, String)>,
}

impl TextPage {
    /// Returns a page without lines, `width` columns wide; as wide as is usual where that is `None`.
    pub fn new(width: Option<u16>) -> TextPage {
        TextPage {
            width: usize::from(width.unwrap_or(WIDTH_WITHOUT_A_TERMINAL)),
            lines: Vec::new(),
        }
    }

    /// Adds a line, however long it is.
    pub fn line(&mut self, style: Style, text: impl Into<String>) {
        self.lines.push((style, text.into()));
    }

    /// Writes all lines, with colors for a terminal if these are wanted.
    pub fn write(&self, color: bool, out: &mut dyn io::Write) -> io::Result<()> {
        for (style, text) in &self.lines {
            match style {
                Style::Title if color => writeln!(out, "\u{1b}[1m{text}\u{1b}[0m")?,
                Style::Dim if color => writeln!(out, "\u{1b}[2m{text}\u{1b}[0m")?,
                _ => writeln!(out, "{text}")?,
            }
        }
        Ok(())
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.line(Style::Plain, "");
    }

    /// Adds labels, each with its lines of text, one below the other.
    pub fn labelled(&mut self, lines: &[(&str, String)]) {
        let widest = lines.iter().map(|(label, _)| label.len()).max();
        let widest = widest.unwrap_or(0);
        for (label, text) in lines {
            self.wrapped(Style::Plain, &format!("{label:<widest$}  "), text);
        }
    }

    /// Adds a table of these columns.
    pub fn fields(&mut self, fields: &[&Field]) {
        let headings = fields.iter().map(|field| field.heading.clone());
        let mut rows: Vec<Vec<String>> = vec![headings.collect()];
        let count = fields.iter().map(|field| field.cells.len()).max();
        rows.extend((0..count.unwrap_or(0)).map(|at| {
            let texts = fields.iter().map(|field| field.cells[at].0.clone());
            texts.collect()
        }));
        self.table(&rows, |at| fields[at].is_number);
    }

    /// Adds a table, whose first row is the header. `is_number` says which columns are aligned to the right.
    pub fn table(&mut self, rows: &[Vec<String>], is_number: impl Fn(usize) -> bool) {
        for (row, line) in text::table_lines(rows, is_number).iter().enumerate() {
            let style = if row == 0 { Style::Dim } else { Style::Plain };
            self.line(style, format!("{:GAP$}{line}", ""));
        }
    }

    /// Adds texts below a heading, if there are any.
    pub fn listed(&mut self, heading: &str, texts: impl Iterator<Item = String>) {
        for (at, text) in texts.enumerate() {
            if at == 0 {
                self.line(Style::Plain, format!("  {heading}"));
            }
            self.wrapped(Style::Plain, "    ", &text);
        }
    }

    /// Adds `label` and then `text`, in lines that fit, each but the first indented to the text.
    pub fn wrapped(&mut self, style: Style, label: &str, text: &str) {
        let indent = text::columns(label);
        let mut start = label.to_owned();
        for words in text::wrapped(&one_line(text), self.width.saturating_sub(indent)) {
            self.line(style, format!("{start}{words}"));
            start = " ".repeat(indent);
        }
    }
}

/// The blocks of one to eight eighths.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Returns a bar that is `share` (0 to 1) of `longest` columns long, to an eighth of a column. A
/// share above zero has at least an eighth.
pub fn bar(share: f64, longest: usize) -> String {
    if share.is_nan() || share <= 0.0 || longest == 0 {
        return String::new();
    }
    let eighths = (share.min(1.0) * (longest * 8) as f64).round().max(1.0) as usize;
    let mut bar = "█".repeat(eighths / 8);
    if let Some(last) = (eighths % 8).checked_sub(1) {
        bar.push(EIGHTHS[last]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_drawn_to_an_eighth_of_a_column() {
        let cases = [
            (0.0, ""),
            (f64::NAN, ""),
            (0.0001, "▏"),
            (0.25, "█"),
            (0.28125, "█▏"),
            (0.5, "██"),
            (1.0, "████"),
            (7.0, "████"),
        ];
        for (share, expected) in cases {
            assert_eq!(bar(share, 4), expected, "{share}");
        }
        assert_eq!(bar(1.0, 0), "");
    }
}
