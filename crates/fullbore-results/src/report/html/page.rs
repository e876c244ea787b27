//! What every page has: style, script, and the policy that allows these two and nothing else; its
//! drawings and its tables. The templates are in `templates/`; askama compiles them in.
//!
//! All data goes through [`Harmless`], which askama applies to every `{{ … }}`. Marked as `safe` in the
//! templates are the style and the script, which are not data, and the elements of drawings, whose texts
//! the canvas escapes.

use std::fmt::{self, Write};

use askama::filters::{Escaper, Html};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::report::harmless;
use crate::report::svg::{self, ChartSvg, Paper};

/// Escapes text for HTML, without characters that could make it show as another text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Harmless;

impl Escaper for Harmless {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        text.chars()
            .try_for_each(|c| Html.write_escaped_char(&mut out, harmless(c)))
    }
}

/// What every page has around its content: how it looks and behaves, and what it may do.
pub struct PageFrame {
    /// The style sheet.
    pub style: String,
    /// The script.
    pub script: &'static str,
    /// The Content-Security-Policy: this style sheet, this script, and nothing else.
    pub policy: String,
    /// That of the command.
    pub version: &'static str,
}

impl PageFrame {
    /// Returns the style, the script and the policy of every page.
    pub fn new() -> PageFrame {
        let style = format!(
            "\n{}{}",
            include_str!("../../../templates/page.css"),
            svg::dark_rules()
        );
        let script = concat!("\n", include_str!("../../../templates/page.js"));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
             form-action 'none'",
            hash(&style),
            hash(script)
        );
        PageFrame {
            style,
            script,
            policy,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Returns a hash as a policy names it (Content Security Policy Level 3, 2.3.1).
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

/// A drawing with a description.
pub struct Figure {
    /// A short title.
    pub label: String,
    /// A description, with the figures.
    pub words: String,
    /// The class by which the style sheet finds it.
    pub class: &'static str,
    /// Its forms; the width of the screen decides which is shown.
    pub drawings: Vec<Drawing>,
}

/// One form of a drawing, or a part of it.
pub struct Drawing {
    /// The ID of the description, which no other element has.
    pub id: String,
    /// Whether it has the description: the first part of a form has it.
    pub is_first: bool,
    /// The class that says on which screens it is shown.
    pub class: &'static str,
    /// Whether it stands in a box that scrolls.
    pub scrolls: bool,
    /// The shapes.
    pub chart: ChartSvg,
}

impl Figure {
    /// Returns a figure in a wide form and a narrow one, as `draw` draws them.
    pub fn of(
        id: &str,
        label: String,
        words: String,
        draw: impl Fn(Paper) -> Vec<ChartSvg>,
    ) -> Figure {
        let mut drawings = self::drawings(id, "wide", draw(Paper::WIDE));
        drawings.extend(self::drawings(id, "narrow", draw(Paper::NARROW)));
        Figure {
            label,
            words,
            class: svg::CLASS,
            drawings,
        }
    }

    /// Returns a figure in one form, which scrolls where it is too wide.
    pub fn scrolling(id: &str, label: String, words: String, charts: Vec<ChartSvg>) -> Figure {
        Figure {
            label,
            words,
            class: svg::CLASS,
            drawings: drawings(id, "scroll", charts),
        }
    }
}

/// Returns the drawings of one form.
fn drawings(id: &str, class: &'static str, charts: Vec<ChartSvg>) -> Vec<Drawing> {
    let drawing = |(index, chart)| Drawing {
        id: format!("{id}-{class}"),
        class,
        scrolls: class == "scroll",
        is_first: index == 0,
        chart,
    };
    charts.into_iter().enumerate().map(drawing).collect()
}

/// A table.
#[derive(Default)]
pub struct Table {
    /// Its ID, which no other element has.
    pub id: String,
    /// Its title.
    pub caption: String,
    pub columns: Vec<Column>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Notes, to which cells refer by number, from 1 on.
    pub notes: Vec<String>,
    /// A sentence below the table.
    pub remark: String,
}

impl Table {
    /// Returns whether the table has more columns than fit on a sheet of paper; then its rows are
    /// printed as paragraphs.
    pub fn is_wide(&self) -> bool {
        self.columns.len() > 11
    }
}

/// A column of a table.
pub struct Column {
    pub heading: String,
    /// Whether it is sorted by value.
    pub numeric: bool,
}

impl Column {
    /// Returns a column that is sorted by its text.
    pub fn words(heading: impl Into<String>) -> Column {
        Column {
            heading: heading.into(),
            numeric: false,
        }
    }

    /// Returns a column that is sorted by value.
    pub fn numbers(heading: impl Into<String>) -> Column {
        Column {
            heading: heading.into(),
            numeric: true,
        }
    }
}

/// A cell of a table.
#[derive(Default)]
pub struct Cell {
    pub text: String,
    /// A second line, which only the first cell of a row has.
    pub below: String,
    /// The numbers of notes, which only the first cell of a row has.
    pub notes: Vec<usize>,
    /// The value by which it is sorted; its text where that is `None`.
    pub key: Option<f64>,
    /// The class that says how it looks.
    pub class: &'static str,
}

impl Cell {
    /// Returns a cell with a few words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            ..Cell::default()
        }
    }

    /// Returns a cell with a sentence.
    pub fn words(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            class: "words",
            ..Cell::default()
        }
    }

    /// Returns a cell with a number as `text` writes it; empty without a number.
    pub fn number(number: Option<f64>, text: impl Fn(f64) -> String) -> Cell {
        Cell {
            text: number.map(text).unwrap_or_default(),
            key: number,
            class: "number",
            ..Cell::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_cannot_show_as_another() {
        let mut out = String::new();
        Harmless
            .write_escaped_str(&mut out, "<a href='\"'>&\u{1b}\u{202e}b\u{0}")
            .unwrap();
        assert!(!out.contains(['<', '>', '"', '\'', '\u{1b}', '\u{202e}', '\u{0}']));
        assert!(out.ends_with("�b "), "{out}");
    }

    #[test]
    fn the_hash_is_the_one_of_the_standard() {
        // The example of CSP Level 3, 2.3.1.
        assert_eq!(
            hash("doSomething();"),
            "RFWPLDbv2BY+rCkDzsE+0fr8ylGr2R2faWMhq4lfEQc="
        );
    }

    #[test]
    fn style_and_script_need_no_escaping_in_xml_and_fetch_nothing() {
        let frame = PageFrame::new();
        for text in [frame.script, frame.style.as_str()] {
            assert!(!text.contains(['<', '&']));
            for word in ["://", "url(", "@import", "fetch(", "import("] {
                assert!(!text.contains(word), "{word}");
            }
        }
    }
}
