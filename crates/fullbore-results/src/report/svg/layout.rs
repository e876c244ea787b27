//! The measures of a chart: how wide it may be, what a text needs, and where rows stand.
//!
//! A text has no width before a browser picks a font, so every text gets the room of a wide font.

use super::canvas::{Anchor, Canvas, Label, TEXT_SIZE};
use crate::report::one_line;
use fullbore_host::text;

/// The room that a chart has across, and what it does with it. Lengths are in pixels.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    pub width: i32,
    /// Left and right of everything.
    pub margin: i32,
    /// Whether names stand above the bars instead of beside them.
    pub names_above: bool,
    /// Whether sentences are drawn; a page has them as text.
    pub sentences: bool,
}

impl Paper {
    /// A document by itself.
    pub const ALONE: Paper = Paper {
        width: 960,
        margin: 24,
        names_above: false,
        sentences: true,
    };
    /// Part of a page on a screen or on paper.
    pub const WIDE: Paper = Paper {
        width: 960,
        margin: 2,
        names_above: false,
        sentences: false,
    };
    /// A heat map in a page.
    pub const CELLS: Paper = Paper {
        width: 760,
        ..Paper::WIDE
    };
    /// Part of a page on a phone.
    pub const NARROW: Paper = Paper {
        width: 336,
        margin: 2,
        names_above: true,
        sentences: false,
    };

    /// Returns the width between the margins.
    pub fn inside(self) -> i32 {
        self.width - 2 * self.margin
    }

    /// Returns where the right margin begins.
    pub fn right(self) -> i32 {
        self.width - self.margin
    }
}

pub const ROW_HEIGHT: i32 = 28;
/// Between the names and the axis.
pub const NAME_GAP: i32 = 10;
/// The room below the rows for the figures of the axis.
pub const AXIS_HEIGHT: i32 = 24;
pub const LINE_HEIGHT: i32 = 18;
/// Between a legend and what it explains.
const LEGEND_BOTTOM: i32 = 8;
/// Between two entries of a legend.
const LEGEND_GAP: i32 = 16;

/// The most rows of a drawing in a page, so that it fits on a sheet of paper.
pub const MOST_ROWS: usize = 40;

/// The width of a character as a share of the font's size: few fonts have more on average.
const CHARACTER: f64 = 0.62;

/// Returns the pixels that a line of `text` takes at most.
pub fn room_for(text: &str, size: i32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * CHARACTER).ceil() as i32
}

/// Returns the characters that have room in so many pixels.
fn columns(size: i32, room: i32) -> usize {
    (f64::from(room.max(0)) / (f64::from(size) * CHARACTER)) as usize
}

/// Returns `text` on one line of at most `room` pixels, with an ellipsis where it was longer.
pub fn shortened(text: &str, size: i32, room: i32) -> String {
    text::one_line(&one_line(text), columns(size, room))
}

/// Returns `text` in lines of at most `room` pixels, broken between words.
pub fn wrapped(text: &str, size: i32, room: i32) -> Vec<String> {
    text::wrapped(&one_line(text), columns(size, room))
}

/// A drawing for a page, which has its title and its style sheet.
#[derive(Debug)]
pub struct ChartSvg {
    /// In pixels.
    pub width: i32,
    /// In pixels.
    pub height: i32,
    /// SVG elements; every text in them is escaped.
    pub shapes: String,
}

impl ChartSvg {
    /// Returns what was drawn on `canvas`.
    pub fn of(paper: Paper, height: i32, canvas: Canvas) -> ChartSvg {
        ChartSvg {
            width: paper.width,
            height,
            shapes: canvas.into_group(),
        }
    }
}

/// Draws a name left of `left` around the height `y`; above what is drawn there, where `paper` has
/// names above.
pub fn draw_name(canvas: &mut Canvas, name: &str, left: i32, paper: Paper, y: i32) {
    if paper.names_above {
        let name = shortened(name, TEXT_SIZE, paper.inside());
        let y = y - ROW_HEIGHT / 2 - LINE_HEIGHT / 2 + 2;
        canvas.text(Label::at(left, y).monospaced(), &name);
        return;
    }
    let name = shortened(name, TEXT_SIZE, left - NAME_GAP - paper.margin);
    let label = Label::at(left - NAME_GAP, y).monospaced();
    canvas.text(label.anchored(Anchor::End), &name);
}

/// What a legend explains: signs, each with a few words.
#[derive(Debug)]
pub struct Legend<Sign> {
    /// The room for a sign in pixels.
    pub sign_room: i32,
    /// The signs and what they mean.
    pub entries: Vec<(Sign, String)>,
}

impl<Sign: Copy> Legend<Sign> {
    /// Returns where each entry begins, and on which line: as many on a line as fit.
    fn places(&self, paper: Paper) -> Vec<(i32, i32)> {
        let (mut x, mut line) = (paper.margin, 0);
        let place = |(_, words): &(Sign, String)| {
            let width = self.sign_room + room_for(words, TEXT_SIZE);
            if x > paper.margin && x + width > paper.right() {
                (x, line) = (paper.margin, line + 1);
            }
            let place = (x, line);
            x += width + LEGEND_GAP;
            place
        };
        self.entries.iter().map(place).collect()
    }

    /// Returns the height of the legend and the room below it; 0 without entries.
    pub fn height(&self, paper: Paper) -> i32 {
        let lines = self.places(paper).last().map_or(0, |(_, line)| line + 1);
        lines * LINE_HEIGHT + if lines > 0 { LEGEND_BOTTOM } else { 0 }
    }

    /// Draws the entries below `top`; `draw_sign` draws a sign from a point on, around its height.
    pub fn draw(
        &self,
        canvas: &mut Canvas,
        paper: Paper,
        top: i32,
        draw_sign: impl Fn(&mut Canvas, Sign, (i32, i32)),
    ) {
        for ((sign, words), (x, line)) in self.entries.iter().zip(self.places(paper)) {
            let y = top + line * LINE_HEIGHT + LINE_HEIGHT / 2;
            draw_sign(canvas, *sign, (x, y));
            canvas.text(Label::at(x + self.sign_room, y), words);
        }
    }
}

/// Fails where two texts of an SVG element overlap, or one is not inside of it.
#[cfg(test)]
pub fn assert_texts_have_room(svg: &str) {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
    let root = document.root_element();
    let number = |node: roxmltree::Node, name: &str| -> Option<i32> {
        Some(node.attribute(name)?.parse().expect("a whole number"))
    };
    let texts: Vec<(i32, i32, i32, i32, &str)> = root
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")))
        .map(|node| {
            let text = node.text().unwrap_or_default();
            let size = number(node, "font-size").unwrap_or(TEXT_SIZE);
            let (x, y) = (number(node, "x").unwrap(), number(node, "y").unwrap());
            let width = room_for(text, size);
            let left = match node.attribute("text-anchor") {
                None => x,
                Some("middle") => x - width / 2,
                Some("end") => x - width,
                Some(other) => panic!("{other}"),
            };
            (left, left + width, y - size / 2, y + size / 2, text)
        })
        .collect();
    let (width, height) = (
        number(root, "width").unwrap(),
        number(root, "height").unwrap(),
    );
    for (index, one) in texts.iter().enumerate() {
        let (left, right, top, bottom, text) = *one;
        let is_inside = left >= -1 && right <= width + 1 && top >= 0 && bottom <= height;
        assert!(is_inside, "{text:?} is at {one:?} of {width} × {height}");
        for other in &texts[index + 1..] {
            let apart = right <= other.0 || other.1 <= left || bottom <= other.2 || other.3 <= top;
            assert!(apart, "{one:?} and {other:?} overlap");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_too_long_end_in_an_ellipsis() {
        assert_eq!(shortened("short", 12, 100), "short");
        let text = shortened("a text that is far too long for this", 12, 100);
        assert!(text.ends_with('…') && room_for(&text, 12) <= 100, "{text}");
    }

    #[test]
    fn lines_are_no_wider_than_their_room() {
        let lines = wrapped(
            "so many words that one line is not enough for them",
            12,
            150,
        );
        assert!(lines.len() > 2);
        for line in &lines {
            assert!(room_for(line, 12) <= 150, "{line}");
        }
    }

    #[test]
    fn a_legend_takes_as_many_lines_as_it_needs() {
        let entry = |words: &str| ((), words.to_owned());
        let mut legend = Legend {
            sign_room: 20,
            entries: vec![entry("one"), entry("another one")],
        };
        assert_eq!(legend.height(Paper::NARROW), LINE_HEIGHT + LEGEND_BOTTOM);
        legend.entries.push(entry("a third that goes on for long"));
        assert_eq!(
            legend.height(Paper::NARROW),
            2 * LINE_HEIGHT + LEGEND_BOTTOM
        );
        assert_eq!(legend.height(Paper::WIDE), LINE_HEIGHT + LEGEND_BOTTOM);
        legend.entries.clear();
        assert_eq!(legend.height(Paper::WIDE), 0);
    }
}
