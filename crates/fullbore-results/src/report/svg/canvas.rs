//! SVG elements, written one by one: rectangles, lines, polygons, circles and texts.
//!
//! Positions and lengths are whole pixels at the drawing's own size, x to the right and y down. Every
//! text is escaped in [`Canvas::text`], and nowhere else. A colour is written as its light form; a
//! style sheet replaces it by the dark one, which it finds by the light one.

use std::fmt::{self, Write as _};

use crate::report::one_line;

/// A colour as 0xrrggbb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rgb(pub u32);

impl fmt::Display for Rgb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "#{:06X}", self.0)
    }
}

/// A colour for light surroundings and its counterpart for dark ones.
#[derive(Debug, Clone, Copy)]
pub struct Colors {
    pub light: Rgb,
    pub dark: Rgb,
}

pub const BACKGROUND: Colors = colors(0xff_ff_ff, 0x0d_11_17);
pub const TEXT: Colors = colors(0x1f_23_28, 0xe6_ed_f3);
pub const FAINT_TEXT: Colors = colors(0x59_63_6e, 0x91_98_a1);
pub const GRID: Colors = colors(0xe4_e8_ec, 0x26_2c_36);
pub const AXIS: Colors = colors(0xa9_b1_ba, 0x56_5f_6b);

/// The colours that all kinds of charts have. No two colours of all charts have the same light form,
/// because the style sheet tells them apart by it.
pub const PALETTE: [Colors; 5] = [BACKGROUND, TEXT, FAINT_TEXT, GRID, AXIS];

/// Returns a colour for light surroundings with that for dark ones, both as 0xrrggbb.
pub const fn colors(light: u32, dark: u32) -> Colors {
    Colors {
        light: Rgb(light),
        dark: Rgb(dark),
    }
}

/// The size of a text that is no heading.
pub const TEXT_SIZE: i32 = 12;

const PROPORTIONAL: &str = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif";
const MONOSPACED: &str = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

/// A point: x and y.
pub type Point = (i32, i32);

/// A rectangle with sides along the axes.
#[derive(Debug, Clone, Copy)]
pub struct Rect {
    pub left: i32,
    pub top: i32,
    pub width: i32,
    pub height: i32,
}

impl Rect {
    pub fn right(self) -> i32 {
        self.left + self.width
    }

    pub fn bottom(self) -> i32 {
        self.top + self.height
    }

    /// Returns the point in the middle.
    pub fn middle(self) -> Point {
        (self.left + self.width / 2, self.top + self.height / 2)
    }

    /// Returns the rectangle without a border of `x` pixels at the sides, and `y` above and below.
    pub fn without_border(self, x: i32, y: i32) -> Rect {
        Rect {
            left: self.left + x,
            top: self.top + y,
            width: self.width - 2 * x,
            height: self.height - 2 * y,
        }
    }
}

/// Elements that have been drawn, the first at the back.
#[derive(Debug, Default)]
pub struct Canvas {
    elements: String,
}

impl Canvas {
    /// Draws a filled rectangle.
    pub fn rect(&mut self, rect: Rect, fill: Colors) {
        let Rect {
            left,
            top,
            width,
            height,
        } = rect;
        self.element(format_args!(
            r#"<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="{}"/>"#,
            fill.light
        ));
    }

    /// Draws the border of a rectangle, `thick` pixels wide, inside of it.
    pub fn frame(&mut self, rect: Rect, color: Colors, thick: u32) {
        // A stroke goes as far to the right of its path as to the left.
        let half = f64::from(thick) / 2.0;
        let (x, y) = (f64::from(rect.left) + half, f64::from(rect.top) + half);
        let width = f64::from(rect.width) - 2.0 * half;
        let height = f64::from(rect.height) - 2.0 * half;
        self.element(format_args!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="{}" stroke-width="{thick}"/>"#,
            color.light
        ));
    }

    /// Draws a straight line, `thick` pixels wide.
    pub fn line(&mut self, from: Point, to: Point, color: Colors, thick: u32) {
        // Whole numbers are between two pixels. There a thin line along an axis would be a blurred one
        // over both.
        let shift = f64::from(thick % 2) / 2.0;
        let aside = |along: bool| if along { shift } else { 0.0 };
        let (right, down) = (aside(from.0 == to.0), aside(from.1 == to.1));
        let (x1, y1) = (f64::from(from.0) + right, f64::from(from.1) + down);
        let (x2, y2) = (f64::from(to.0) + right, f64::from(to.1) + down);
        self.element(format_args!(
            r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{}" stroke-width="{thick}"/>"#,
            color.light
        ));
    }

    /// Draws a filled polygon.
    pub fn polygon(&mut self, corners: &[Point], fill: Colors) {
        let points: Vec<String> = corners.iter().map(|(x, y)| format!("{x},{y}")).collect();
        self.element(format_args!(
            r#"<polygon points="{}" fill="{}"/>"#,
            points.join(" "),
            fill.light
        ));
    }

    /// Draws a filled circle.
    pub fn disc(&mut self, (x, y): Point, radius: i32, fill: Colors) {
        self.element(format_args!(
            r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="{}"/>"#,
            fill.light
        ));
    }

    /// Draws the outline of a circle, `thick` pixels wide.
    pub fn ring(&mut self, (x, y): Point, radius: i32, color: Colors, thick: u32) {
        self.element(format_args!(
            r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="none" stroke="{}" stroke-width="{thick}"/>"#,
            color.light
        ));
    }

    /// Draws `text` on one line, escaped.
    pub fn text(&mut self, label: Label, text: &str) {
        let mut style = format!(r#"fill="{}""#, label.color.light);
        if label.anchor != Anchor::Start {
            let _ = write!(style, r#" text-anchor="{}""#, label.anchor.name());
        }
        if label.size != TEXT_SIZE {
            let _ = write!(style, r#" font-size="{}""#, label.size);
        }
        if label.bold {
            style += r#" font-weight="bold""#;
        }
        if label.monospaced {
            let _ = write!(style, r#" font-family="{MONOSPACED}""#);
        }
        let (x, y) = label.at;
        // Capitals are about 0.7 em high: half of that below y, they stand around it.
        self.element(format_args!(
            r#"<text x="{x}" y="{y}" dy="0.35em" {style}>{}</text>"#,
            escaped(text)
        ));
    }

    fn element(&mut self, element: fmt::Arguments<'_>) {
        let _ = writeln!(self.elements, "{element}");
    }

    /// Returns the elements as one group, which has the font of all texts.
    pub fn into_group(self) -> String {
        format!(
            "<g font-family=\"{PROPORTIONAL}\" font-size=\"{TEXT_SIZE}\">\n{}</g>\n",
            self.elements
        )
    }
}

/// Which point of a text is at the label's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    /// Returns the value of `text-anchor` (SVG 2, 11.10.2.1).
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// Where a text stands and how it looks: it begins at x, and y goes through its middle.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    at: Point,
    size: i32,
    color: Colors,
    monospaced: bool,
    bold: bool,
    anchor: Anchor,
}

impl Label {
    pub fn at(x: i32, y: i32) -> Label {
        Label {
            at: (x, y),
            size: TEXT_SIZE,
            color: TEXT,
            monospaced: false,
            bold: false,
            anchor: Anchor::Start,
        }
    }

    pub fn faint(self) -> Label {
        self.colored(FAINT_TEXT)
    }

    /// Returns a bold label of `size` pixels.
    pub fn heading(self, size: i32) -> Label {
        Label { size, ..self }.bold()
    }

    pub fn colored(self, color: Colors) -> Label {
        Label { color, ..self }
    }

    pub fn bold(self) -> Label {
        let bold = true;
        Label { bold, ..self }
    }

    pub fn monospaced(self) -> Label {
        let monospaced = true;
        Label { monospaced, ..self }
    }

    pub fn anchored(self, anchor: Anchor) -> Label {
        Label { anchor, ..self }
    }
}

/// Returns `text` on one line, as the content of an XML element.
pub fn escaped(text: &str) -> String {
    one_line(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Colors = colors(0xff_00_00, 0x80_00_00);

    fn drawn(draw: impl FnOnce(&mut Canvas)) -> String {
        let mut canvas = Canvas::default();
        draw(&mut canvas);
        canvas.into_group()
    }

    /// Returns the only element inside the group: its name, its attributes and its text.
    fn only(group: &str) -> (String, Vec<(String, String)>, String) {
        let document = roxmltree::Document::parse(group).unwrap();
        let mut elements = document.root_element().children();
        let element = elements.find(|node| node.is_element()).unwrap();
        assert!(!elements.any(|node| node.is_element()), "{group}");
        let attributes = element.attributes();
        (
            element.tag_name().name().to_owned(),
            attributes
                .map(|a| (a.name().to_owned(), a.value().to_owned()))
                .collect(),
            element.text().unwrap_or_default().to_owned(),
        )
    }

    fn has(attributes: &[(String, String)], name: &str, value: &str) {
        let found = attributes.iter().find(|(known, _)| known == name);
        assert_eq!(
            found.map(|(_, value)| value.as_str()),
            Some(value),
            "{name}"
        );
    }

    #[test]
    fn shapes_are_where_they_were_drawn() {
        let rect = Rect {
            left: 1,
            top: 2,
            width: 30,
            height: 40,
        };
        let (name, attributes, _) = only(&drawn(|canvas| canvas.rect(rect, RED)));
        assert_eq!(name, "rect");
        for (name, value) in [("x", "1"), ("y", "2"), ("width", "30"), ("height", "40")] {
            has(&attributes, name, value);
        }
        has(&attributes, "fill", "#FF0000");

        let (name, attributes, _) = only(&drawn(|canvas| canvas.frame(rect, RED, 2)));
        assert_eq!(name, "rect");
        has(&attributes, "fill", "none");
        for (name, value) in [("x", "2"), ("y", "3"), ("width", "28"), ("height", "38")] {
            has(&attributes, name, value);
        }
        has(&attributes, "stroke", "#FF0000");
        has(&attributes, "stroke-width", "2");

        let (name, attributes, _) = only(&drawn(|canvas| canvas.line((1, 2), (3, 4), RED, 1)));
        assert_eq!(name, "line");
        for (name, value) in [("x1", "1"), ("y1", "2"), ("x2", "3"), ("y2", "4")] {
            has(&attributes, name, value);
        }

        // Along an axis, the middle of an odd number of pixels.
        let (_, attributes, _) = only(&drawn(|canvas| canvas.line((1, 2), (1, 4), RED, 1)));
        for (name, value) in [("x1", "1.5"), ("y1", "2"), ("x2", "1.5"), ("y2", "4")] {
            has(&attributes, name, value);
        }

        let corners = [(0, 0), (5, 0), (0, 5)];
        let (name, attributes, _) = only(&drawn(|canvas| canvas.polygon(&corners, RED)));
        assert_eq!(name, "polygon");
        has(&attributes, "points", "0,0 5,0 0,5");

        let (name, attributes, _) = only(&drawn(|canvas| canvas.disc((7, 8), 5, RED)));
        assert_eq!(name, "circle");
        for (name, value) in [("cx", "7"), ("cy", "8"), ("r", "5"), ("fill", "#FF0000")] {
            has(&attributes, name, value);
        }
        let (_, attributes, _) = only(&drawn(|canvas| canvas.ring((7, 8), 5, RED, 2)));
        has(&attributes, "fill", "none");
        has(&attributes, "stroke", "#FF0000");
    }

    #[test]
    fn a_text_is_escaped_and_stands_on_one_line() {
        let label = Label::at(3, 4).anchored(Anchor::End).heading(18);
        let text = "<a href=\"x\"> &amp;\n\u{1b}[31m\u{202e}b";
        let (name, attributes, text) = only(&drawn(|canvas| canvas.text(label, text)));
        assert_eq!(name, "text");
        assert_eq!(text, "<a href=\"x\"> &amp; [31m\u{fffd}b");
        for (name, value) in [
            ("x", "3"),
            ("y", "4"),
            ("text-anchor", "end"),
            ("font-size", "18"),
            ("font-weight", "bold"),
        ] {
            has(&attributes, name, value);
        }
    }
}
