//! The run as one SVG document, for a page or an article: a section for each group, with its bars, its
//! percentiles, or its heat map.
//!
//! The shapes are those of the HTML page (`chart.rs`, `grid.rs`), and so are the colours, light and dark
//! (`templates/chart.css`). Here they get places on a sheet that is 960 pixels wide.

use std::fmt::Write as _;
use std::io;

use askama::filters::Escaper as _;

use super::chart::{Chart, Line, Scale};
use super::conclusion::{conclusion, title};
use super::grid::{CHUNKS, Grid, PIPE_SIZES};
use super::html::page::Harmless;
use super::{Report, groups, how_measured, is_noisy, noisy_footnote, one_line, reason};
use crate::run::{Outcome, Run};
use fullbore_host::text;

/// The run as one SVG document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Svg;

impl Report<Run> for Svg {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(Sheet::of(run).written(&title(run)).as_bytes())
    }
}

/// The colours of charts, light and dark.
pub(super) const STYLE: &str = include_str!("../../templates/chart.css");

// Lengths are in pixels.
const WIDTH: i32 = 960;
const MARGIN: i32 = 24;
const RIGHT: i32 = WIDTH - MARGIN;
/// From one row to the next.
const ROW: i32 = 26;
const LINE: i32 = 18;
/// Between names, bars and figures.
const GAP: i32 = 12;
const MOST_FOR_NAMES: i32 = 360;
const MOST_FOR_FIGURES: i32 = 220;
const WIDEST_CELL: i32 = 120;

/// Returns the pixels that a line of `text` takes at most: few fonts have wider characters on average. A
/// text has no width before a browser picks a font.
fn room_for(text: &str) -> i32 {
    (text::columns(text) as f64 * 7.5).ceil() as i32
}

/// A document that is drawn from the top down.
struct Sheet {
    elements: String,
    /// Where the next line begins.
    top: i32,
}

impl Sheet {
    fn of(run: &Run) -> Sheet {
        let mut sheet = Sheet {
            elements: String::new(),
            top: MARGIN,
        };
        sheet.text(MARGIN, "start", "title", &title(run), RIGHT - MARGIN);
        sheet.top += ROW;
        sheet.sentences(&conclusion(run));
        for (name, outcomes) in groups(run) {
            sheet.top += GAP;
            sheet.text(MARGIN, "start", "heading", &name, RIGHT - MARGIN);
            sheet.top += ROW;
            if let Some(grid) = Grid::of(&outcomes) {
                sheet.map(&grid, &outcomes);
            } else if let Some(chart) = Chart::of(&outcomes) {
                sheet.chart(&chart);
            }
        }
        let mut caption = vec![how_measured(run)];
        caption.extend(run.experiments.iter().any(is_noisy).then(noisy_footnote));
        sheet.sentences(&caption);
        sheet
    }

    /// Returns the document.
    fn written(&self, title: &str) -> String {
        let height = self.top + MARGIN;
        format!(
            "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\" class=\"fullbore\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n{}</svg>\n",
            escaped(title),
            self.elements,
        )
    }

    /// Draws a text that ends in an ellipsis where it needs more than `room`. `anchor` says which point of the text is at
    /// `x`: `start`, `middle` or `end`.
    fn text(&mut self, x: i32, anchor: &str, class: &str, text: &str, room: i32) {
        let text = text::one_line(&one_line(text), (f64::from(room) / 7.5) as usize);
        let _ = writeln!(
            self.elements,
            r#"<text class="{class}" x="{x}" y="{}" text-anchor="{anchor}">{}</text>"#,
            // The middle of a line is the middle of its capitals.
            self.top + ROW / 2 + 4,
            escaped(&text)
        );
    }

    /// Draws sentences below each other, wrapped.
    fn sentences(&mut self, sentences: &[String]) {
        for sentence in sentences {
            let columns = (f64::from(RIGHT - MARGIN) / 7.5) as usize;
            for line in text::wrapped(&one_line(sentence), columns) {
                self.text(MARGIN, "start", "faint", &line, RIGHT - MARGIN);
                self.top += LINE;
            }
        }
    }

    /// Draws the shapes of a line from `left` on.
    fn shapes(&mut self, scale: &Scale, line: &Line, left: i32, width: i32) {
        let (top, shapes) = (self.top, scale.shapes(line));
        let _ = write!(
            self.elements,
            "<svg x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{ROW}\" overflow=\"visible\">\n{shapes}</svg>\n"
        );
    }

    fn chart(&mut self, chart: &Chart) {
        let legend = chart.legend.join("; ");
        self.sentences(&[chart.caption(), legend]);
        let names = chart.rows.iter().map(|row| room_for(&row.name)).max();
        let left = MARGIN + names.unwrap_or(0).min(MOST_FOR_NAMES) + GAP;
        let lines = chart.rows.iter();
        let lines = lines.filter(|line| line.is_measured());
        let figures = lines.map(|line| room_for(&line.words)).max().unwrap_or(0);
        let figures = figures.max(GAP + room_for(chart.unit.name()));
        let right = RIGHT - figures.min(MOST_FOR_FIGURES) - GAP;
        for row in &chart.rows {
            self.text(left - GAP, "end", "name", &row.name, MOST_FOR_NAMES);
            self.shapes(&chart.scale, row, left, right - left);
            let x = if row.is_measured() { right } else { left } + GAP;
            self.text(x, "start", row.class, &row.words, RIGHT - x);
            self.top += ROW;
        }
        for (percent, label) in chart.scale.ticks() {
            let x = left + (percent / 100.0 * f64::from(right - left)).round() as i32;
            self.text(x, "middle", "faint", &label, RIGHT);
        }
        let unit = chart.unit.name();
        self.text(right + 2 * GAP, "start", "faint", unit, RIGHT);
        self.top += ROW;
    }

    fn map(&mut self, grid: &Grid, outcomes: &[&Outcome]) {
        let left = MARGIN + room_for(CHUNKS) + GAP;
        let width = ((RIGHT - left) / grid.pipe_sizes.len().max(1) as i32).min(WIDEST_CELL);
        let unit = grid.unit();
        self.sentences(&[format!(
            "heat map in {unit}, by {CHUNKS} ↓ and {PIPE_SIZES} →"
        )]);
        let middle = |column: usize| left + column as i32 * width + width / 2;
        for (column, name) in grid.columns().iter().enumerate() {
            self.text(middle(column), "middle", "faint", name, width);
        }
        self.top += ROW;
        for (name, cells) in grid.rows() {
            self.text(left - GAP, "end", "faint", &name, left);
            for (column, (class, text)) in cells.iter().enumerate() {
                let (x, y) = (left + column as i32 * width, self.top);
                let (width_of, height) = (width - 2, ROW - 2);
                let _ = writeln!(
                    self.elements,
                    r#"<g class="{class}"><rect x="{x}" y="{y}" width="{width_of}" height="{height}"/>"#
                );
                self.text(middle(column), "middle", "ink", text, width);
                self.elements += "</g>\n";
            }
            self.top += ROW;
        }
        let mut sentences: Vec<String> = grid.in_words().into_iter().collect();
        for outcome in outcomes.iter().filter(|o| o.figure.is_none()) {
            let reason = reason(outcome);
            if !sentences.contains(&reason) {
                sentences.push(reason);
            }
        }
        self.sentences(&sentences);
    }
}

/// Returns `text` on one line, as the content of an XML element.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    let written = Harmless.write_escaped_str(&mut escaped, &one_line(text));
    written.expect("a String takes all text");
    escaped
}

#[cfg(test)]
mod tests {
    use roxmltree::{Document, Node};

    use super::super::{fixture, grid};
    use super::*;

    fn written(run: &Run) -> String {
        let mut text = Vec::new();
        Svg.write(run, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Bars and a heat map.
    fn all_kinds() -> Run {
        let mut run = grid::fixture();
        run.experiments.extend(fixture().experiments);
        run
    }

    fn number(node: Node, name: &str) -> i32 {
        node.attribute(name).unwrap().parse().unwrap()
    }

    #[test]
    fn every_experiment_is_in_the_document_whatever_its_name_is() {
        let svg = written(&all_kinds());
        let document = Document::parse(&svg).unwrap();
        let texts: Vec<&str> = document
            .descendants()
            .filter(|node| node.tag_name().name() == "text")
            .filter_map(|node| node.text())
            .collect();
        for text in [
            "more <&> \"others\"",
            "vmsplice_splice_same_buffer",
            "~104",
            "skipped: no hugetlb page is free here",
            "sweep: copy → read, block",
            "▸4.00",
            "64 MiB",
            "skipped: a pipe of 64 MiB is refused",
            "GiB/s: more is better",
        ] {
            assert!(texts.contains(&text), "{text} in {texts:?}");
        }
        assert!(texts[0].contains("<Platinum>"));
    }

    #[test]
    fn no_text_overlaps_another_or_leaves_the_document() {
        let svg = written(&all_kinds());
        let document = Document::parse(&svg).unwrap();
        let height = number(document.root_element(), "height");
        let texts: Vec<(i32, i32, i32, &str)> = document
            .descendants()
            .filter(|node| node.tag_name().name() == "text")
            .map(|node| {
                let text = node.text().unwrap_or_default();
                let (x, width) = (number(node, "x"), room_for(text));
                let left = match node.attribute("text-anchor").unwrap() {
                    "start" => x,
                    "middle" => x - width / 2,
                    _ => x - width,
                };
                (left, left + width, number(node, "y"), text)
            })
            .collect();
        for (index, one) in texts.iter().enumerate() {
            assert!(one.0 >= 0 && one.1 <= WIDTH && one.2 < height, "{one:?}");
            for other in &texts[index + 1..] {
                let apart = one.1 <= other.0 || other.1 <= one.0 || (one.2 - other.2).abs() >= LINE;
                assert!(apart, "{one:?} and {other:?} overlap");
            }
        }
    }

    #[test]
    fn the_document_has_its_figures_as_text() {
        let svg = written(&all_kinds());
        let document = Document::parse(&svg).unwrap();
        let texts: Vec<&str> = document
            .descendants()
            .filter(|node| ["title", "text"].contains(&node.tag_name().name()))
            .filter_map(|node| node.text())
            .collect();
        assert!(texts[0].starts_with("Measured by fullbore bench: Intel"));
        for expected in ["0.93", "0.25", "failed: the reader"] {
            let is_shown = texts.iter().any(|text| text.starts_with(expected));
            assert!(is_shown, "{expected} in {texts:?}");
        }
    }

    /// The relative luminance and the contrast of colours (WCAG 2.2).
    fn luminance(hex: &str) -> f64 {
        let part = |at: usize| {
            let part = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            match part <= 0.04045 {
                true => part / 12.92,
                false => ((part + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn every_figure_of_a_heat_map_can_be_read_and_more_is_always_stronger() {
        let steps: Vec<[f64; 2]> = STYLE
            .lines()
            .filter(|line| line.trim_start().starts_with(".fullbore .step"))
            .map(|line| {
                let colors: Vec<&str> = line.split('#').skip(1).collect();
                [colors[0], colors[2]].map(|color| luminance(&format!("#{}", &color[..6])))
            })
            .collect();
        assert_eq!(steps.len(), 16);
        for [cell, ink] in &steps {
            assert!(
                (cell.max(*ink) + 0.05) / (cell.min(*ink) + 0.05) >= 4.5,
                "{cell} {ink}"
            );
        }
        assert!(steps[..8].windows(2).all(|pair| pair[1][0] < pair[0][0]));
        assert!(steps[8..].windows(2).all(|pair| pair[1][0] > pair[0][0]));
    }
}
