//! The page of a run or a comparison, before it is HTML: `templates/page.html` shows it from the top down,
//! and askama compiles that in.
//!
//! All data goes through [`Harmless`], which askama applies to every `{{ … }}`. Marked as `safe` in the
//! templates are the style and the script, which are not data, and the shapes of charts, which are numbers.

use std::fmt::{self, Write};

use askama::Template;
use askama::filters::{Escaper, Html};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::report::chart::Chart;
use crate::report::fields::Field;
use crate::report::grid::{CHUNKS, Grid, PIPE_SIZES};
use crate::report::harmless;

/// Escapes text for HTML and SVG, without characters that could make it show as another text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Harmless;

impl Escaper for Harmless {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        let mut characters = text.chars();
        characters.try_for_each(|c| Html.write_escaped_char(&mut out, harmless(c)))
    }
}

/// What the page shows.
#[derive(Template)]
#[template(path = "page.html")]
pub struct Page<'a> {
    pub title: String,
    /// The command that makes such a page.
    pub made_by: &'static str,
    /// What was found, a sentence each.
    pub conclusion: Vec<String>,
    /// Why figures are doubtful, a sentence each.
    pub doubts: Vec<String>,
    /// What was measured, a sentence each.
    pub lead: Vec<String>,
    pub sections: Vec<Section<'a>>,
    /// What `facts` are.
    pub heading_of_facts: String,
    pub facts: Vec<(String, String)>,
    /// What the figures mean, a sentence each.
    pub method: Vec<String>,
}

/// A group of experiments, or other rows.
#[derive(Default)]
pub struct Section<'a> {
    /// The ID of the heading, which no other element has.
    pub id: String,
    pub heading: String,
    /// What the section shows, a sentence each.
    pub remarks: Vec<String>,
    pub chart: Option<Chart>,
    pub map: Option<Grid<'a>>,
    pub table: Option<Table>,
}

impl Page<'_> {
    const STYLE: &'static str = concat!(
        "\n",
        include_str!("../../../templates/page.css"),
        include_str!("../../../templates/chart.css")
    );
    const SCRIPT: &'static str = concat!("\n", include_str!("../../../templates/page.js"));

    /// The version of the command.
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    /// Returns the Content-Security-Policy: this style sheet, this script, and nothing else.
    fn policy(&self) -> String {
        format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
             form-action 'none'",
            hash(Self::STYLE),
            hash(Self::SCRIPT)
        )
    }
}

/// Returns a hash as a policy names it (Content Security Policy Level 3, 2.3.1).
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

/// A table.
pub struct Table {
    /// Its title.
    pub caption: String,
    pub columns: Vec<Field>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn of(caption: String, columns: Vec<Field>) -> Table {
        let rows = 0..columns[0].cells.len();
        let row = |at: usize| columns.iter().map(|field| Cell::of(field, at)).collect();
        Table {
            caption,
            rows: rows.map(row).collect(),
            columns,
        }
    }

    /// Returns the class of the hint that the table scrolls: on every screen, or only on a phone; `None`
    /// where the table is narrow.
    pub fn scrolls(&self) -> Option<&'static str> {
        match self.columns.len() {
            0..4 => None,
            4..9 => Some("scrolls"),
            _ => Some("scrolls always"),
        }
    }
}

/// A cell of a table.
pub struct Cell {
    pub text: String,
    /// A second line, which only the first cell of a row has.
    pub below: String,
    /// The value by which it is sorted; its text where that is `None`.
    pub key: Option<f64>,
    /// The class that says how it looks.
    pub class: &'static str,
}

impl Cell {
    fn of(field: &Field, at: usize) -> Cell {
        let (text, key) = field.cells[at].clone();
        let class = match text.as_str() {
            _ if field.is_number => "number",
            "right" => "good",
            "WRONG" => "bad",
            text if text.starts_with('▲') => "good",
            text if text.starts_with('▼') => "bad",
            _ => "",
        };
        Cell {
            text,
            below: String::new(),
            key,
            class,
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
        for text in [Page::SCRIPT, Page::STYLE] {
            assert!(!text.contains(['<', '&']));
            for word in ["://", "url(", "@import", "fetch(", "import("] {
                assert!(!text.contains(word), "{word}");
            }
        }
    }
}
