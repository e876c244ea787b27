//! A grid as a heat map: a cell per experiment, the deeper its colour the larger its figure.
//!
//! The scale is of one hue, its steps equally far apart in lightness as people see it (OKLCH, hue 250°),
//! and proportional to the figure, from 0. On a light page more is darker; on a dark one, lighter. Each
//! cell has its figure written in it, in a colour that stands out from the cell's by 4.5 to 1 or more in
//! both (WCAG 2.2, 1.4.3); what has none is hatched and says why.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{
    AXIS, Area, BACKGROUND, Colors, Drawn, FAINT_TEXT, GRID, LINE_HEIGHT, Label, Paper, TEXT_SIZE,
    colors, line, reason, room_for, shortened, wrapped,
};
use crate::report::grid::{self, Grid};
use crate::report::{figure, marked_median, one_line};
use crate::run::Outcome;

/// Figures on the cells that are palest by day, and darkest by night.
const INK_LOW: Colors = colors(0x1b_23_2c, 0xe6_ed_f4);
/// Those in between, which are light enough for dark figures both times.
const INK_MIDDLE: Colors = colors(0x1b_23_2d, 0x0b_12_1a);
/// Those that are deepest by day, and lightest by night.
const INK_HIGH: Colors = colors(0xfe_fe_fe, 0x0b_12_1b);

/// From the smallest figures to the largest: the cell, and what is written in it.
const STEPS: [(Colors, Colors); 8] = [
    (colors(0xe2_f6_ff, 0x10_25_3a), INK_LOW),
    (colors(0xb5_dd_ff, 0x15_3b_60), INK_LOW),
    (colors(0x8b_c4_ff, 0x1d_53_85), INK_LOW),
    (colors(0x65_aa_f0, 0x2c_6b_a7), INK_LOW),
    (colors(0x46_91_da, 0x43_85_c6), INK_MIDDLE),
    (colors(0x2f_78_bd, 0x61_a0_df), INK_HIGH),
    (colors(0x22_61_9a, 0x85_bb_f2), INK_HIGH),
    (colors(0x1e_4a_74, 0xad_d5_ff), INK_HIGH),
];

/// All colours that only heat maps have.
pub(super) fn palette() -> impl Iterator<Item = Colors> {
    let inks = [INK_LOW, INK_MIDDLE, INK_HIGH];
    STEPS.into_iter().map(|(cell, _)| cell).chain(inks)
}

// Lengths are in pixels at the picture's own size.
const CELL_HEIGHT: i32 = 34;
const WIDEST_CELL: i32 = 120;
/// Between two cells.
const CELL_GAP: i32 = 2;
/// Left of the cells: the chunks.
const CHUNKS_ROOM: i32 = 92;
/// Above the cells: the pipe sizes, and what they are.
const TOP: i32 = 2 * LINE_HEIGHT + 4;
/// Below the cells, the scale.
const SCALE_HEIGHT: i32 = 34;
/// Between two lines of a hatching.
const HATCH: i32 = 9;

/// A grid that is drawn.
pub(super) struct HeatMap<'a> {
    grid: Grid<'a>,
    /// What is best, and why cells are empty.
    lines: Vec<String>,
    paper: Paper,
}

impl<'a> HeatMap<'a> {
    pub(super) fn of(grid: Grid<'a>, paper: Paper) -> HeatMap<'a> {
        let mut sentences: Vec<String> = grid.in_words().into_iter().collect();
        for outcome in cells(&grid).filter_map(|(_, _, outcome)| outcome) {
            if outcome.figure.is_none() {
                let reason = reason(outcome);
                if !sentences.contains(&reason) {
                    sentences.push(reason);
                }
            }
        }
        let wrap = |sentence: &String| wrapped(sentence, TEXT_SIZE, paper.inside());
        if !paper.sentences {
            sentences.clear();
        }
        HeatMap {
            lines: sentences.iter().flat_map(wrap).collect(),
            grid,
            paper,
        }
    }

    /// Where the cells begin.
    fn left(&self) -> i32 {
        self.paper.margin + CHUNKS_ROOM
    }

    /// Which is best.
    pub(super) fn in_words(&self) -> Option<String> {
        self.grid.in_words()
    }

    pub(super) fn height(&self) -> i32 {
        let lines = self.lines.len() as i32 * LINE_HEIGHT;
        TOP + self.cells_height() + SCALE_HEIGHT + lines
    }

    fn cells_height(&self) -> i32 {
        self.grid.chunks.len() as i32 * CELL_HEIGHT
    }

    fn cell_width(&self) -> i32 {
        let columns = self.grid.pipe_sizes.len().max(1) as i32;
        ((self.paper.right() - self.left()) / columns).clamp(1, WIDEST_CELL)
    }

    pub(super) fn draw(&self, area: &Area, top: i32) -> Drawn {
        self.draw_axes(area, top)?;
        let cells_top = top + TOP;
        let width = self.cell_width();
        for (row, column, outcome) in cells(&self.grid) {
            let (left, top) = (
                self.left() + column as i32 * width,
                cells_top + row as i32 * CELL_HEIGHT,
            );
            let corners = [
                (left, top),
                (left + width - CELL_GAP, top + CELL_HEIGHT - CELL_GAP),
            ];
            match outcome {
                Some(outcome) => self.draw_cell(area, corners, outcome)?,
                None => hatch(area, corners)?,
            }
        }
        let mut y = cells_top + self.cells_height();
        self.draw_scale(area, y)?;
        y += SCALE_HEIGHT + LINE_HEIGHT / 2;
        for text in &self.lines {
            Label::at(self.paper.margin, y).faint().draw(area, text)?;
            y += LINE_HEIGHT;
        }
        Ok(())
    }

    /// What the rows and the columns are.
    fn draw_axes(&self, area: &Area, top: i32) -> Drawn {
        let width = self.cell_width();
        let y = top + LINE_HEIGHT / 2;
        Label::at(self.left(), y)
            .faint()
            .draw(area, "capacity of the pipe")?;
        let y = y + LINE_HEIGHT;
        Label::at(self.left() - 10, y)
            .faint()
            .anchored(HPos::Right)
            .draw(area, "bytes of a call")?;
        for (column, &pipe_size) in self.grid.pipe_sizes.iter().enumerate() {
            let x = self.left() + column as i32 * width + (width - CELL_GAP) / 2;
            let text = shortened(&grid::size(pipe_size), TEXT_SIZE, width);
            Label::at(x, y).anchored(HPos::Center).draw(area, &text)?;
        }
        for (row, &chunk) in self.grid.chunks.iter().enumerate() {
            let y = top + TOP + row as i32 * CELL_HEIGHT + (CELL_HEIGHT - CELL_GAP) / 2;
            Label::at(self.left() - 10, y)
                .anchored(HPos::Right)
                .draw(area, &grid::size(chunk))?;
        }
        Ok(())
    }

    fn draw_cell(&self, area: &Area, corners: [(i32, i32); 2], outcome: &Outcome) -> Drawn {
        let [(left, top), (right, bottom)] = corners;
        let label = Label::at(i32::midpoint(left, right), i32::midpoint(top, bottom))
            .anchored(HPos::Center);
        let Some(spread) = &outcome.figure else {
            hatch(area, corners)?;
            let word = if outcome.failed.is_some() {
                "failed"
            } else {
                "skipped"
            };
            // The hatching stops around the word.
            let half = room_for(word, TEXT_SIZE) / 2;
            let middle = i32::midpoint(left, right);
            let patch = [(middle - half, top + 7), (middle + half, bottom - 7)];
            area.draw(&Rectangle::new(patch, BACKGROUND.light.filled()))?;
            return label.colored(FAINT_TEXT).draw(area, word);
        };
        let (cell, ink) = STEPS[step(spread.median, self.grid.largest())];
        area.draw(&Rectangle::new(corners, cell.light.filled()))?;
        let text = one_line(&marked_median(outcome));
        if !self.grid.is_best(outcome) {
            return label.colored(ink).draw(area, &text);
        }
        let frame = [
            (left + 2, top + 2),
            (right - 2, top + 2),
            (right - 2, bottom - 2),
            (left + 2, bottom - 2),
            (left + 2, top + 2),
        ];
        area.draw(&PathElement::new(frame, ink.light.stroke_width(2)))?;
        label
            .colored(ink)
            .bold()
            .draw(area, &format!("best {text}"))
    }

    /// The steps of the scale with the figures that they begin and end with.
    fn draw_scale(&self, area: &Area, top: i32) -> Drawn {
        const STEP_WIDTH: i32 = 22;
        if self.grid.best().is_none() {
            return Ok(());
        }
        let (y, half) = (top + SCALE_HEIGHT / 2, 6);
        for (index, (cell, _)) in STEPS.iter().enumerate() {
            let left = self.left() + index as i32 * STEP_WIDTH;
            let corners = [(left, y - half), (left + STEP_WIDTH, y + half)];
            area.draw(&Rectangle::new(corners, cell.light.filled()))?;
        }
        let end = self.left() + STEPS.len() as i32 * STEP_WIDTH;
        let outline = [
            (self.left(), y - half),
            (end, y - half),
            (end, y + half),
            (self.left(), y + half),
            (self.left(), y - half),
        ];
        area.draw(&PathElement::new(outline, AXIS.light.stroke_width(1)))?;
        Label::at(self.left() - 10, y)
            .faint()
            .anchored(HPos::Right)
            .draw(area, "0")?;
        let most = format!("{} {}", figure(self.grid.largest()), self.grid.unit());
        Label::at(end + 10, y).faint().draw(area, &most)
    }
}

/// Every cell, by row and column.
fn cells<'b, 'a>(
    grid: &'b Grid<'a>,
) -> impl Iterator<Item = (usize, usize, Option<&'a Outcome>)> + 'b {
    let rows = grid.chunks.iter().enumerate();
    rows.flat_map(move |(row, &chunk)| {
        let columns = grid.pipe_sizes.iter().enumerate();
        columns.map(move |(column, &pipe_size)| (row, column, grid.at(chunk, pipe_size)))
    })
}

/// The step of the scale for a figure.
fn step(figure: f64, largest: f64) -> usize {
    if largest <= 0.0 {
        return 0;
    }
    let share = (figure / largest).clamp(0.0, 1.0);
    ((share * STEPS.len() as f64) as usize).min(STEPS.len() - 1)
}

/// A frame filled with slanting lines: nothing was measured here.
fn hatch(area: &Area, [(left, top), (right, bottom)]: [(i32, i32); 2]) -> Drawn {
    let height = bottom - top;
    // Each line goes down to the left, and is cut off at both sides.
    for at in (left + HATCH..right + height).step_by(HATCH as usize) {
        let (x0, y0) = if at > right {
            (right, top + at - right)
        } else {
            (at, top)
        };
        let (x1, y1) = if at - height < left {
            (left, top + at - left)
        } else {
            (at - height, bottom)
        };
        area.draw(&line((x0, y0), (x1, y1), GRID, 1))?;
    }
    let frame = [
        (left, top),
        (right, top),
        (right, bottom),
        (left, bottom),
        (left, top),
    ];
    area.draw(&PathElement::new(frame, AXIS.light.stroke_width(1)))
}

#[cfg(test)]
mod tests {
    use super::super::Svg;
    use super::*;
    use crate::report::Report;
    use crate::report::grid::fixture;

    /// Relative luminance (WCAG 2.2).
    fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
        let [red, green, blue] = [red, green, blue].map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: RGBColor, other: RGBColor) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_figure_can_be_read_by_day_and_by_night() {
        for (cell, ink) in STEPS {
            assert!(contrast(cell.light, ink.light) >= 4.5, "{:?}", cell.light);
            assert!(contrast(cell.dark, ink.dark) >= 4.5, "{:?}", cell.dark);
        }
    }

    #[test]
    fn the_scale_goes_one_way() {
        for pair in STEPS.windows(2) {
            let [(less, _), (more, _)] = pair else {
                panic!("two steps")
            };
            assert!(luminance(more.light) < luminance(less.light));
            assert!(luminance(more.dark) > luminance(less.dark));
        }
    }

    #[test]
    fn steps_are_proportional_to_the_figure() {
        assert_eq!(step(0.0, 8.0), 0);
        assert_eq!(step(0.99, 8.0), 0);
        assert_eq!(step(1.0, 8.0), 1);
        assert_eq!(step(8.0, 8.0), 7);
        assert_eq!(step(0.0, 0.0), 0);
    }

    #[test]
    fn cells_have_their_figures_and_what_was_skipped_says_so() {
        let mut text = Vec::new();
        Svg.write(&fixture(), &mut text).unwrap();
        let svg = String::from_utf8(text).unwrap();
        for text in [
            "sweep: copy → read, block",
            "best 4.00",
            "0.25",
            "64MiB",
            "capacity of the pipe",
            "skipped: a pipe of 64MiB is refused",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches(">\nskipped\n<").count(), 2, "{svg}");
        // No bars, so nothing about bars.
        assert!(!svg.contains("median of the rounds"));
    }
}
