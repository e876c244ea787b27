//! A bar per experiment, from zero on: its median, with a whisker from the smallest round to the
//! largest and a mark at the published figure.

use super::canvas::{AXIS, Anchor, Canvas, Colors, GRID, Label, Point, Rect, TEXT_SIZE, colors};
use super::layout::{
    AXIS_HEIGHT, LINE_HEIGHT, Legend, NAME_GAP, Paper, ROW_HEIGHT, draw_name, room_for, shortened,
};
use crate::report::{marked_median, one_line, reason};
use crate::run::Outcome;

pub const BAR: Colors = colors(0x3b_82_c4, 0x4f_95_d8);
const WHISKER: Colors = colors(0x12_33_54, 0xd3_e6_fa);
const PUBLISHED: Colors = colors(0xd9_57_0a, 0xff_9d_4d);

/// Returns the colours that bars have beside those of all charts.
pub(super) fn palette() -> impl Iterator<Item = Colors> {
    [BAR, WHISKER, PUBLISHED].into_iter()
}

// Lengths are in pixels.
const BAR_HEIGHT: i32 = 16;
/// Between a bar with its whisker and the figure at its end.
const VALUE_GAP: i32 = 8;
/// Right of the scale's end, for the figure of the longest bar.
const VALUE_ROOM: i32 = 64;
/// Between the figures of two ticks.
const TICK_GAP: i32 = 10;
/// The width of a legend's sign, and the room it has.
const SIGN_WIDTH: i32 = 24;
const SIGN_ROOM: i32 = 30;

/// What the legend explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Median,
    Range,
    Published,
}

impl Sign {
    /// Draws the sign from a point on.
    pub fn draw(self, canvas: &mut Canvas, (x, y): Point) {
        match self {
            Sign::Median => canvas.rect(
                Rect {
                    left: x,
                    top: y - 5,
                    width: SIGN_WIDTH,
                    height: 10,
                },
                BAR,
            ),
            Sign::Range => draw_whisker(canvas, x + 1, x + SIGN_WIDTH - 1, y),
            Sign::Published => draw_published(canvas, x + SIGN_WIDTH / 2, y),
        }
    }
}

/// Returns the legend for bars of these experiments.
pub fn legend<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Legend<Sign> {
    let measured = outcomes.clone().any(|outcome| outcome.figure.is_some());
    let published = outcomes.clone().any(|outcome| outcome.published.is_some());
    let entries = [
        (measured, Sign::Median, "median of the rounds"),
        (measured, Sign::Range, "slowest and fastest round"),
        (published, Sign::Published, "published figure"),
    ];
    Legend {
        sign_room: SIGN_ROOM,
        entries: entries
            .into_iter()
            .filter(|(is_shown, ..)| *is_shown)
            .map(|(_, sign, words)| (sign, words.to_owned()))
            .collect(),
    }
}

/// Returns where the axes of these experiments' bars begin: right of the longest name, unless names
/// stand above the bars.
pub fn axis_left<'a>(outcomes: impl Iterator<Item = &'a Outcome>, paper: Paper) -> i32 {
    if paper.names_above {
        return paper.margin;
    }
    let longest_name = outcomes
        .map(|outcome| room_for(&one_line(&outcome.name), TEXT_SIZE))
        .max()
        .unwrap_or(0);
    paper.margin + longest_name.min(paper.width / 2) + NAME_GAP
}

/// Bars on one scale.
#[derive(Debug)]
pub struct Bars<'a> {
    outcomes: Vec<&'a Outcome>,
    ticks: Ticks,
    paper: Paper,
}

impl<'a> Bars<'a> {
    pub fn of(outcomes: Vec<&'a Outcome>, paper: Paper) -> Bars<'a> {
        let largest = outcomes
            .iter()
            .flat_map(|outcome| [largest_round(outcome), outcome.published])
            .flatten()
            .fold(0.0, f64::max);
        Bars {
            outcomes,
            ticks: Ticks::up_to(largest),
            paper,
        }
    }

    /// Returns the same bars in parts of at most `most`, all on this scale.
    pub fn parts(&self, most: usize) -> impl Iterator<Item = Bars<'a>> {
        self.outcomes.chunks(most).map(|outcomes| Bars {
            outcomes: outcomes.to_vec(),
            ticks: self.ticks,
            paper: self.paper,
        })
    }

    fn row_height(&self) -> i32 {
        if self.paper.names_above {
            LINE_HEIGHT + ROW_HEIGHT
        } else {
            ROW_HEIGHT
        }
    }

    fn bars_height(&self) -> i32 {
        self.outcomes.len() as i32 * self.row_height()
    }

    pub fn height(&self) -> i32 {
        self.bars_height() + AXIS_HEIGHT
    }

    /// Draws the bars from `top` on, right of `axis_left`.
    pub fn draw(&self, canvas: &mut Canvas, axis_left: i32, top: i32) {
        let scale = Scale {
            left: axis_left,
            length: self.paper.right() - VALUE_ROOM - axis_left,
            end: self.ticks.end(),
            paper: self.paper,
        };
        self.draw_axis(canvas, &scale, top);
        for (row, outcome) in self.outcomes.iter().enumerate() {
            let bottom = top + (row as i32 + 1) * self.row_height();
            scale.draw_row(canvas, outcome, bottom - ROW_HEIGHT / 2);
        }
    }

    /// Draws a line for each tick, their figures and the unit.
    fn draw_axis(&self, canvas: &mut Canvas, scale: &Scale, top: i32) {
        let bottom = top + self.bars_height();
        let y = bottom + AXIS_HEIGHT / 2;
        let widths = self.ticks.values().map(|tick| self.ticks.width(tick));
        let widest = widths.max().unwrap_or(0);
        let step = (scale.length / self.ticks.steps as i32).max(1);
        // Where figures would run into each other, only every other tick has one, or fewer.
        let every = (widest + TICK_GAP + step - 1) / step;
        let mut end = scale.left;
        for (index, tick) in self.ticks.values().enumerate() {
            let x = scale.x(tick);
            let color = if index == 0 { AXIS } else { GRID };
            canvas.line((x, top), (x, bottom), color, 1);
            if index as i32 % every != 0 {
                continue;
            }
            let (anchor, half) = if x <= self.paper.margin {
                (Anchor::Start, self.ticks.width(tick))
            } else {
                (Anchor::Middle, self.ticks.width(tick) / 2)
            };
            let label = Label::at(x, y).faint().anchored(anchor);
            canvas.text(label, &self.ticks.label(tick));
            end = x + half;
        }
        let unit = self.outcomes.first().map_or("", |one| one.unit.name());
        let end = end.max(scale.x(scale.end));
        canvas.text(Label::at(end + 6, y).faint(), unit);
    }
}

fn largest_round(outcome: &Outcome) -> Option<f64> {
    outcome.figure.as_ref().map(|spread| spread.max)
}

/// Round numbers along an axis, from 0 on.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    /// From one to the next.
    step: f64,
    /// How many steps the axis has.
    steps: u32,
}

impl Ticks {
    /// Returns four to eight steps of a round number that reach `largest`.
    fn up_to(largest: f64) -> Ticks {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let magnitude = 10_f64.powf((largest / 8.0).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|factor| factor * magnitude)
            .into_iter()
            .find(|step| largest / step <= 8.0)
            .unwrap_or(10.0 * magnitude);
        Ticks {
            step,
            // A whisker that ends on a tick needs no further one.
            steps: (largest / step - 1e-9).ceil().max(1.0) as u32,
        }
    }

    fn end(&self) -> f64 {
        f64::from(self.steps) * self.step
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let step = self.step;
        (0..=self.steps).map(move |index| f64::from(index) * step)
    }

    /// Returns a tick in as many digits as tell it from the next.
    fn label(&self, tick: f64) -> String {
        let text = format!("{tick:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// Returns the pixels that the label takes.
    fn width(&self, tick: f64) -> i32 {
        room_for(&self.label(tick), TEXT_SIZE)
    }
}

/// Where a figure stands across.
struct Scale {
    /// The place of 0.
    left: i32,
    /// From 0 to the end.
    length: i32,
    /// The figure at the end.
    end: f64,
    paper: Paper,
}

impl Scale {
    fn x(&self, figure: f64) -> i32 {
        self.left + (figure / self.end * f64::from(self.length)).round() as i32
    }

    /// Draws one experiment around the height `y`: its name, and its bar or why it has none.
    fn draw_row(&self, canvas: &mut Canvas, outcome: &Outcome, y: i32) {
        draw_name(canvas, &outcome.name, self.left, self.paper, y);
        let mut end = self.left;
        if let Some(spread) = &outcome.figure {
            draw_bar(canvas, self.left, self.x(spread.median), y);
            draw_whisker(canvas, self.x(spread.min), self.x(spread.max), y);
            end = self.x(spread.max);
        }
        let published = outcome.published.map(|published| self.x(published));
        if let Some(x) = published {
            draw_published(canvas, x, y);
        }
        self.draw_figure(canvas, outcome, end, published, y);
    }

    /// Draws the figure at the end of a bar, or the reason why there is no bar, clear of the mark at
    /// the published figure.
    fn draw_figure(
        &self,
        canvas: &mut Canvas,
        outcome: &Outcome,
        bar_end: i32,
        published: Option<i32>,
        y: i32,
    ) {
        let is_measured = outcome.figure.is_some();
        let text = if is_measured {
            marked_median(outcome)
        } else {
            reason(outcome)
        };
        let wanted = room_for(&text, TEXT_SIZE);
        let (x, room) = clear_of_mark(bar_end + VALUE_GAP, wanted, published, self.paper);
        let label = Label::at(x, y);
        let label = if is_measured { label } else { label.faint() };
        canvas.text(label, &shortened(&text, TEXT_SIZE, room));
    }
}

/// Returns where a text that needs `wanted` pixels begins, and the room it has: at `x`, unless it would
/// run into a mark and has more room behind that.
fn clear_of_mark(x: i32, wanted: i32, mark: Option<i32>, paper: Paper) -> (i32, i32) {
    let room_from = |x: i32| paper.width - paper.margin / 2 - x;
    let Some(mark) = mark.filter(|mark| *mark > x - VALUE_GAP) else {
        return (x, room_from(x));
    };
    let behind = mark + VALUE_GAP;
    let room_before = mark - VALUE_GAP - x;
    if wanted <= room_before || room_from(behind) < room_before {
        (x, room_before)
    } else {
        (behind, room_from(behind))
    }
}

fn draw_bar(canvas: &mut Canvas, left: i32, right: i32, y: i32) {
    let bar = Rect {
        left,
        top: y - BAR_HEIGHT / 2,
        // A bar of the smallest figure is visible too.
        width: (right - left).max(1),
        height: BAR_HEIGHT,
    };
    canvas.rect(bar, BAR);
}

/// Draws a line from the slowest round to the fastest, unless they are the same pixel.
fn draw_whisker(canvas: &mut Canvas, min: i32, max: i32, y: i32) {
    if max - min < 2 {
        return;
    }
    let cap = BAR_HEIGHT / 4;
    canvas.line((min, y), (max, y), WHISKER, 1);
    for x in [min, max] {
        canvas.line((x, y - cap), (x, y + cap), WHISKER, 1);
    }
}

fn draw_published(canvas: &mut Canvas, x: i32, y: i32) {
    let half = BAR_HEIGHT / 2 + 3;
    canvas.line((x, y - half), (x, y + half), PUBLISHED, 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ticks_that_reach_the_largest_figure() {
        let cases = [
            (0.0, 0.2, 5),
            (0.93, 0.2, 5),
            (8.0, 1.0, 8),
            (62.5, 10.0, 7),
            (104.0, 20.0, 6),
            (240.0, 50.0, 5),
        ];
        for (largest, step, steps) in cases {
            let ticks = Ticks::up_to(largest);
            assert!(
                (ticks.step - step).abs() < 1e-9,
                "{largest}: {}",
                ticks.step
            );
            assert_eq!(ticks.steps, steps, "{largest}");
            assert!(ticks.end() >= largest);
        }
        assert_eq!(Ticks::up_to(0.93).label(0.6000000000000001), "0.6");
        assert_eq!(Ticks::up_to(240.0).label(50.0), "50");
    }

    #[test]
    fn a_figure_is_clear_of_the_mark() {
        let end = Paper::ALONE.width - Paper::ALONE.margin / 2;
        let clear_of_mark = |x, wanted, mark| clear_of_mark(x, wanted, mark, Paper::ALONE);
        assert_eq!(clear_of_mark(300, 30, None), (300, end - 300));
        assert_eq!(clear_of_mark(300, 30, Some(200)), (300, end - 300));
        assert_eq!(clear_of_mark(300, 30, Some(310)).0, 318);
        assert_eq!(clear_of_mark(300, 30, Some(600)), (300, 292));
        // A long reason stays on the side that shows more of it.
        assert_eq!(clear_of_mark(300, 500, Some(310)).0, 318);
        assert_eq!(clear_of_mark(300, 500, Some(800)), (300, 492));
    }
}
