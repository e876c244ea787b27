//! What every picture is drawn with: the area, its colours and its measures, texts and lines.

use std::io;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::one_line;
use crate::run::Outcome;

/// The area that the chart is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A colour for light surroundings and its counterpart for dark ones.
#[derive(Clone, Copy)]
pub struct Colors {
    pub light: RGBColor,
    pub dark: RGBColor,
}

pub const BACKGROUND: Colors = colors(0xff_ff_ff, 0x0d_11_17);
pub const TEXT: Colors = colors(0x1f_23_28, 0xe6_ed_f3);
pub const FAINT_TEXT: Colors = colors(0x59_63_6e, 0x91_98_a1);
pub const GRID: Colors = colors(0xe4_e8_ec, 0x26_2c_36);
pub const AXIS: Colors = colors(0xa9_b1_ba, 0x56_5f_6b);
pub const BAR: Colors = colors(0x3b_82_c4, 0x4f_95_d8);
pub const WHISKER: Colors = colors(0x12_33_54, 0xd3_e6_fa);
pub const PUBLISHED: Colors = colors(0xd9_57_0a, 0xff_9d_4d);

/// Every colour of the chart but those of heat maps. No two light ones are the same, theirs included:
/// the style sheet knows them by it.
pub const PALETTE: [Colors; 8] = [
    BACKGROUND, TEXT, FAINT_TEXT, GRID, AXIS, BAR, WHISKER, PUBLISHED,
];

/// Two colours as 0xrrggbb.
pub const fn colors(light: u32, dark: u32) -> Colors {
    const fn color(rgb: u32) -> RGBColor {
        RGBColor((rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8)
    }
    Colors {
        light: color(light),
        dark: color(dark),
    }
}

/// What comes of drawing.
pub type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// A colour as SVG and plotters write it.
pub fn hexadecimal(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

// Lengths are in pixels at the picture's own size.

/// The room that a picture has across, and what it does with it.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    pub width: i32,
    /// Left and right of everything.
    pub margin: i32,
    /// Whether names stand above the bars, not beside them.
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
    /// Within a page on a screen, or printed.
    pub const WIDE: Paper = Paper {
        width: 960,
        margin: 2,
        names_above: false,
        sentences: false,
    };
    /// A heat map within a page.
    pub const CELLS: Paper = Paper {
        width: 760,
        ..Paper::WIDE
    };
    /// Within a page on a phone.
    pub const NARROW: Paper = Paper {
        width: 336,
        margin: 2,
        names_above: true,
        sentences: false,
    };

    /// Between the margins.
    pub fn inside(self) -> i32 {
        self.width - 2 * self.margin
    }

    /// Where the right margin begins.
    pub fn right(self) -> i32 {
        self.width - self.margin
    }
}

pub const ROW_HEIGHT: i32 = 28;
pub const BAR_HEIGHT: i32 = 16;
/// Between the names and the axis.
pub const NAME_GAP: i32 = 10;
/// Between a bar, with its whisker, and the figure at its end.
pub const VALUE_GAP: i32 = 8;
/// The room right of the scale's end for the figure of the longest bar.
pub const VALUE_ROOM: i32 = 64;
/// The room below a section's bars for the figures of its axis.
pub const AXIS_HEIGHT: i32 = 24;
/// The room above a section's bars for its name.
pub const HEADING_HEIGHT: i32 = 30;
pub const SECTION_GAP: i32 = 18;
pub const LINE_HEIGHT: i32 = 18;
pub const TITLE_SIZE: i32 = 18;
pub const HEADING_SIZE: i32 = 14;
pub const TEXT_SIZE: i32 = 12;

pub const PROPORTIONAL: &str = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif";
pub const MONOSPACED: &str = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

/// Between two entries of a legend.
pub const LEGEND_GAP: i32 = 16;

/// What a line of `text` takes at most, in pixels: few fonts are wider than 0.62 em on average.
pub fn room_for(text: &str, size: i32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.62).ceil() as i32
}

/// `text` on one line that takes at most `room` pixels, with an ellipsis where it was too long.
pub fn shortened(text: &str, size: i32, room: i32) -> String {
    let mut text = one_line(text);
    if room_for(&text, size) <= room {
        return text;
    }
    while room_for(&text, size) + size > room && text.pop().is_some() {}
    text.trim_end().to_owned() + "…"
}

/// `text` in lines of at most `room` pixels, broken between words.
pub fn wrapped(text: &str, size: i32, room: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in one_line(text).split(' ') {
        match lines.last_mut() {
            Some(line) if room_for(line, size) + room_for(word, size) + size <= room => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(shortened(word, size, room)),
        }
    }
    lines
}

/// What `draw` draws, as SVG.
pub fn drawn(paper: Paper, height: i32, draw: impl FnOnce(&Area) -> Drawn) -> io::Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (paper.width as u32, height.max(1) as u32))
        .into_drawing_area();
    draw(&area)
        .and_then(|()| area.present())
        .map_err(io::Error::other)?;
    drop(area);
    Ok(svg)
}

/// A picture for a page, which has its title and its colours elsewhere.
#[derive(Debug)]
pub struct Picture {
    /// In pixels.
    pub width: i32,
    /// In pixels.
    pub height: i32,
    /// SVG elements; every text in them is escaped.
    pub shapes: String,
}

impl Picture {
    pub fn of(paper: Paper, height: i32, draw: impl FnOnce(&Area) -> Drawn) -> io::Result<Picture> {
        let drawn = drawn(paper, height, draw)?;
        // The page has a root element of its own.
        let (_, shapes) = drawn.split_once(">\n").unwrap_or_default();
        Ok(Picture {
            width: paper.width,
            height,
            shapes: shapes.trim_end().trim_end_matches("</svg>").to_owned(),
        })
    }
}

/// The most rows of a picture for a page: it has to fit on a sheet of paper.
pub const MOST_ROWS: usize = 40;

/// A name beside what is drawn from `left` on around the height `y`, or above it.
pub fn draw_name(area: &Area, name: &str, left: i32, paper: Paper, y: i32) -> Drawn {
    if paper.names_above {
        let name = shortened(name, TEXT_SIZE, paper.inside());
        let y = y - ROW_HEIGHT / 2 - LINE_HEIGHT / 2 + 2;
        return Label::at(left, y).monospaced().draw(area, &name);
    }
    let name = shortened(name, TEXT_SIZE, left - NAME_GAP - paper.margin);
    Label::at(left - NAME_GAP, y)
        .monospaced()
        .anchored(HPos::Right)
        .draw(area, &name)
}

/// Why an outcome has no bar.
pub fn reason(outcome: &Outcome) -> String {
    match (&outcome.skipped, &outcome.failed) {
        (_, Some(failed)) => format!("failed: {failed}"),
        (Some(skipped), None) => format!("skipped: {skipped}"),
        (None, None) => "not measured".to_owned(),
    }
}

/// A straight line `width` pixels thick.
pub fn line(
    from: (i32, i32),
    to: (i32, i32),
    color: Colors,
    width: u32,
) -> PathElement<(i32, i32)> {
    PathElement::new([from, to], color.light.stroke_width(width))
}

/// Where and how a text stands: left-aligned around a height, unless told otherwise.
pub struct Label {
    x: i32,
    y: i32,
    size: i32,
    color: RGBColor,
    family: &'static str,
    bold: bool,
    anchor: HPos,
}

impl Label {
    pub fn at(x: i32, y: i32) -> Label {
        Label {
            x,
            y,
            size: TEXT_SIZE,
            color: TEXT.light,
            family: PROPORTIONAL,
            bold: false,
            anchor: HPos::Left,
        }
    }

    pub fn faint(self) -> Label {
        let color = FAINT_TEXT.light;
        Label { color, ..self }
    }

    pub fn heading(self, size: i32) -> Label {
        let bold = true;
        Label { size, bold, ..self }
    }

    pub fn colored(self, color: Colors) -> Label {
        let color = color.light;
        Label { color, ..self }
    }

    pub fn bold(self) -> Label {
        let bold = true;
        Label { bold, ..self }
    }

    pub fn monospaced(self) -> Label {
        let family = MONOSPACED;
        Label { family, ..self }
    }

    pub fn anchored(self, anchor: HPos) -> Label {
        Label { anchor, ..self }
    }

    pub fn draw(self, area: &Area, text: &str) -> Drawn {
        let style = if self.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        // plotters-svg writes a font of size s as s / 1.24 pixels.
        let size = f64::from(self.size) * 1.24;
        let font: TextStyle = (self.family, size, style).into();
        let font = font
            .color(&self.color)
            .pos(Pos::new(self.anchor, VPos::Center));
        area.draw_text(text, &font, (self.x, self.y))
    }
}
