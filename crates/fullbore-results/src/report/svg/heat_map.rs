//! A grid as a heat map: a cell per experiment, the deeper its colour, the larger its figure.
//!
//! The scale has one hue. Its steps are equally far apart in lightness as people see it (OKLCH, hue
//! 250°), and proportional to the figure, from 0. On a light page more is darker; on a dark one,
//! lighter. The figure is written in each cell, in a colour that stands out from the cell's by 4.5 to 1
//! or more in both (WCAG 2.2, 1.4.3). A cell without a figure is hatched and says why.

use super::canvas::{
    AXIS, Anchor, BACKGROUND, Canvas, Colors, FAINT_TEXT, GRID, Label, Rect, TEXT_SIZE, colors,
};
use super::layout::{LINE_HEIGHT, Paper, room_for, shortened, wrapped};
use crate::report::grid::{self, Grid};
use crate::report::{figure, marked_median, one_line, reason};
use crate::run::Outcome;

/// The figures on cells that are palest on a light page, and darkest on a dark one.
const INK_LOW: Colors = colors(0x1b_23_2c, 0xe6_ed_f4);
/// The figures on cells in between, which are light enough for dark figures on both.
const INK_MIDDLE: Colors = colors(0x1b_23_2d, 0x0b_12_1a);
/// The figures on cells that are darkest on a light page, and lightest on a dark one.
const INK_HIGH: Colors = colors(0xfe_fe_fe, 0x0b_12_1b);

/// The colours of a cell and of the figure in it, from the smallest figures to the largest.
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

/// Returns the colours that heat maps have beside those of all charts.
pub(super) fn palette() -> impl Iterator<Item = Colors> {
    let inks = [INK_LOW, INK_MIDDLE, INK_HIGH];
    STEPS.into_iter().map(|(cell, _)| cell).chain(inks)
}

// Lengths are in pixels.
const CELL_HEIGHT: i32 = 34;
const WIDEST_CELL: i32 = 120;
/// Between two cells.
const CELL_GAP: i32 = 2;
/// Between the cells and what stands left of them.
const LABEL_GAP: i32 = 10;
/// Above the cells, for the pipe sizes and what they are.
const TOP: i32 = 2 * LINE_HEIGHT + 4;
/// Below the cells, for the scale of colours.
const SCALE_HEIGHT: i32 = 34;
/// The width of a step of the scale, where there is room.
const STEP_WIDTH: i32 = 22;
/// Between two lines of a hatching.
const HATCH: i32 = 9;

/// What the rows are.
const CHUNKS: &str = "bytes of a call";
/// What the columns are.
const PIPE_SIZES: &str = "capacity of the pipe";

/// A grid with the texts below it.
pub struct HeatMap<'a> {
    grid: Grid<'a>,
    /// What is best, and why cells are empty.
    lines: Vec<String>,
    paper: Paper,
}

impl<'a> HeatMap<'a> {
    pub fn of(grid: Grid<'a>, paper: Paper) -> HeatMap<'a> {
        let mut sentences: Vec<String> = grid.in_words().into_iter().collect();
        for outcome in cells(&grid).filter_map(|(_, _, outcome)| outcome) {
            if outcome.figure.is_none() {
                let reason = reason(outcome);
                if !sentences.contains(&reason) {
                    sentences.push(reason);
                }
            }
        }
        let in_lines = |sentence: &String| wrapped(sentence, TEXT_SIZE, paper.inside());
        if !paper.sentences {
            sentences.clear();
        }
        HeatMap {
            lines: sentences.iter().flat_map(in_lines).collect(),
            grid,
            paper,
        }
    }

    /// Returns which cell is best, in words.
    pub fn in_words(&self) -> Option<String> {
        self.grid.in_words()
    }

    pub fn height(&self) -> i32 {
        let lines = self.lines.len() as i32 * LINE_HEIGHT;
        TOP + self.cells_height() + SCALE_HEIGHT + lines
    }

    /// Returns where the cells begin.
    fn left(&self) -> i32 {
        self.paper.margin + room_for(CHUNKS, TEXT_SIZE) + LABEL_GAP
    }

    fn cells_height(&self) -> i32 {
        self.grid.chunks.len() as i32 * CELL_HEIGHT
    }

    fn cell_width(&self) -> i32 {
        let columns = self.grid.pipe_sizes.len().max(1) as i32;
        ((self.paper.right() - self.left()) / columns).clamp(1, WIDEST_CELL)
    }

    /// Returns the place of a cell, where all cells begin at `top`.
    fn cell(&self, row: usize, column: usize, top: i32) -> Rect {
        let width = self.cell_width();
        Rect {
            left: self.left() + column as i32 * width,
            top: top + row as i32 * CELL_HEIGHT,
            width: width - CELL_GAP,
            height: CELL_HEIGHT - CELL_GAP,
        }
    }

    /// Draws the map from `top` on.
    pub fn draw(&self, canvas: &mut Canvas, top: i32) {
        let cells_top = top + TOP;
        self.draw_headings(canvas, top);
        for (row, column, outcome) in cells(&self.grid) {
            let cell = self.cell(row, column, cells_top);
            match outcome {
                Some(outcome) => self.draw_cell(canvas, cell, outcome),
                None => hatch(canvas, cell),
            }
        }
        let mut y = cells_top + self.cells_height();
        self.draw_scale(canvas, y + SCALE_HEIGHT / 2);
        y += SCALE_HEIGHT + LINE_HEIGHT / 2;
        for text in &self.lines {
            canvas.text(Label::at(self.paper.margin, y).faint(), text);
            y += LINE_HEIGHT;
        }
    }

    /// Draws what the rows and the columns are.
    fn draw_headings(&self, canvas: &mut Canvas, top: i32) {
        let beside = |y: i32| Label::at(self.left() - LABEL_GAP, y).anchored(Anchor::End);
        let y = top + LINE_HEIGHT / 2;
        canvas.text(Label::at(self.left(), y).faint(), PIPE_SIZES);
        let y = y + LINE_HEIGHT;
        canvas.text(beside(y).faint(), CHUNKS);
        for (column, &pipe_size) in self.grid.pipe_sizes.iter().enumerate() {
            let cell = self.cell(0, column, top);
            let label = Label::at(cell.middle().0, y).anchored(Anchor::Middle);
            let text = shortened(&grid::size(pipe_size), TEXT_SIZE, cell.width);
            canvas.text(label, &text);
        }
        for (row, &chunk) in self.grid.chunks.iter().enumerate() {
            let (_, y) = self.cell(row, 0, top + TOP).middle();
            canvas.text(beside(y), &grid::size(chunk));
        }
    }

    fn draw_cell(&self, canvas: &mut Canvas, cell: Rect, outcome: &Outcome) {
        let (x, y) = cell.middle();
        let label = Label::at(x, y).anchored(Anchor::Middle);
        let Some(spread) = &outcome.figure else {
            return draw_reason(canvas, cell, outcome);
        };
        let (fill, ink) = STEPS[step(spread.median, self.grid.largest())];
        canvas.rect(cell, fill);
        let figure = one_line(&marked_median(outcome));
        if !self.grid.is_best(outcome) {
            let text = shortened(&figure, TEXT_SIZE, cell.width);
            return canvas.text(label.colored(ink), &text);
        }
        canvas.frame(cell.without_border(1, 1), ink, 2);
        let inside = cell.without_border(4, 4).width;
        let text = [format!("best {figure}"), figure]
            .into_iter()
            .find(|text| room_for(text, TEXT_SIZE) <= inside)
            .unwrap_or_default();
        canvas.text(label.colored(ink).bold(), &text);
    }

    /// Draws the steps of the scale around the height `y`, with the figures at both ends.
    fn draw_scale(&self, canvas: &mut Canvas, y: i32) {
        if self.grid.best().is_none() {
            return;
        }
        let most = format!("{} {}", figure(self.grid.largest()), self.grid.unit());
        let beside = LABEL_GAP + room_for(&most, TEXT_SIZE);
        let width = (self.paper.right() - self.left() - beside) / STEPS.len() as i32;
        let width = width.clamp(1, STEP_WIDTH);
        let step = |index: usize| Rect {
            left: self.left() + index as i32 * width,
            top: y - 6,
            width,
            height: 12,
        };
        for (index, (fill, _)) in STEPS.iter().enumerate() {
            canvas.rect(step(index), *fill);
        }
        let all = Rect {
            width: STEPS.len() as i32 * width,
            ..step(0)
        };
        canvas.frame(all, AXIS, 1);
        let below = Label::at(all.left - LABEL_GAP, y).anchored(Anchor::End);
        canvas.text(below.faint(), "0");
        canvas.text(Label::at(all.right() + LABEL_GAP, y).faint(), &most);
    }
}

/// Draws a hatched cell that says in one word why it has no figure.
fn draw_reason(canvas: &mut Canvas, cell: Rect, outcome: &Outcome) {
    hatch(canvas, cell);
    let word = if outcome.failed.is_some() {
        "failed"
    } else {
        "skipped"
    };
    let word = shortened(word, TEXT_SIZE, cell.width);
    // The hatching stops around the word.
    let beside = (cell.width - room_for(&word, TEXT_SIZE)).max(0) / 2;
    canvas.rect(cell.without_border(beside, 7), BACKGROUND);
    let (x, y) = cell.middle();
    let label = Label::at(x, y).anchored(Anchor::Middle);
    canvas.text(label.colored(FAINT_TEXT), &word);
}

/// Returns every cell, by row and column.
fn cells<'b, 'a>(
    grid: &'b Grid<'a>,
) -> impl Iterator<Item = (usize, usize, Option<&'a Outcome>)> + 'b {
    let rows = grid.chunks.iter().enumerate();
    rows.flat_map(move |(row, &chunk)| {
        let columns = grid.pipe_sizes.iter().enumerate();
        columns.map(move |(column, &pipe_size)| (row, column, grid.at(chunk, pipe_size)))
    })
}

/// Returns the step of the scale for a figure.
fn step(figure: f64, largest: f64) -> usize {
    if largest <= 0.0 {
        return 0;
    }
    let share = (figure / largest).clamp(0.0, 1.0);
    ((share * STEPS.len() as f64) as usize).min(STEPS.len() - 1)
}

/// Draws a frame filled with slanting lines: nothing was measured here.
fn hatch(canvas: &mut Canvas, cell: Rect) {
    let (left, top, right, bottom) = (cell.left, cell.top, cell.right(), cell.bottom());
    // Each line goes down to the left, and is cut off at both sides.
    for at in (left + HATCH..right + cell.height).step_by(HATCH as usize) {
        let from = if at > right {
            (right, top + at - right)
        } else {
            (at, top)
        };
        let to = if at - cell.height < left {
            (left, top + at - left)
        } else {
            (at - cell.height, bottom)
        };
        canvas.line(from, to, GRID, 1);
    }
    canvas.frame(cell, AXIS, 1);
}

#[cfg(test)]
mod tests {
    use super::super::Svg;
    use super::super::canvas::Rgb;
    use super::*;
    use crate::report::Report;
    use crate::report::grid::fixture;

    /// Relative luminance (WCAG 2.2).
    fn luminance(Rgb(color): Rgb) -> f64 {
        let [red, green, blue] = [16, 8, 0].map(|shift| {
            let part = f64::from(color >> shift & 0xff) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_figure_can_be_read_on_a_light_and_on_a_dark_page() {
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
            "64 MiB",
            "capacity of the pipe",
            "skipped: a pipe of 64 MiB is refused",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches(">skipped<").count(), 2, "{svg}");
        // No bars, so nothing about bars.
        assert!(!svg.contains("median of the rounds"));
    }
}
