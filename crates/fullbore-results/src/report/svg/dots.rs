//! Dots on a logarithmic axis: for figures that differ by powers of ten, such as percentiles, and for
//! ratios, where twice and half as fast are equally far from 1.
//!
//! Dots differ in shape as well as in colour. The figures of a line stand at its end as text, so
//! nothing has to be read off the axis.

use super::bars::BAR;
use super::canvas::{AXIS, Anchor, Canvas, Colors, GRID, Label, Point, Rect, TEXT_SIZE, colors};
use super::layout::{
    AXIS_HEIGHT, ChartSvg, LINE_HEIGHT, Legend, MOST_ROWS, NAME_GAP, Paper, draw_name, room_for,
    shortened,
};
use crate::report::one_line;

const LATER: Colors = colors(0xb3_5c_00, 0xf0_a0_50);
const LAST: Colors = colors(0xb0_2a_5b, 0xff_8f_b8);
const UP: Colors = colors(0x1a_7f_37, 0x4a_c2_6b);
const DOWN: Colors = colors(0xc4_2b_1c, 0xff_7b_72);
const SIDEWAYS: Colors = colors(0x6e_77_81, 0x8b_94_9e);

/// Returns the colours that dots have beside those of all charts and of bars.
pub(super) fn palette() -> impl Iterator<Item = Colors> {
    [LATER, LAST, UP, DOWN, SIDEWAYS].into_iter()
}

/// What a dot looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dot {
    /// The median.
    Middle,
    /// A percentile above it,
    Later,
    /// and one above that.
    Last,
    /// Better than the first, beyond the noise.
    Up,
    /// Worse than the first, beyond the noise.
    Down,
    /// Neither was shown.
    Sideways,
}

impl Dot {
    fn color(self) -> Colors {
        match self {
            Dot::Middle => BAR,
            Dot::Later => LATER,
            Dot::Last => LAST,
            Dot::Up => UP,
            Dot::Down => DOWN,
            Dot::Sideways => SIDEWAYS,
        }
    }

    fn draw(self, canvas: &mut Canvas, (x, y): Point) {
        let color = self.color();
        match self {
            Dot::Middle => canvas.disc((x, y), 5, color),
            Dot::Sideways => canvas.ring((x, y), 4, color, 2),
            Dot::Later => {
                let diamond = [(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)];
                canvas.polygon(&diamond, color);
            }
            Dot::Last => {
                let square = Rect {
                    left: x - 4,
                    top: y - 4,
                    width: 9,
                    height: 9,
                };
                canvas.rect(square, color);
            }
            // To the right, where larger figures are, and to the left.
            Dot::Up => canvas.polygon(&[(x - 5, y - 6), (x + 6, y), (x - 5, y + 6)], color),
            Dot::Down => canvas.polygon(&[(x + 5, y - 6), (x - 6, y), (x + 5, y + 6)], color),
        }
    }
}

/// A drawing of dots, before it has coordinates.
#[derive(Debug, Default)]
pub struct Dots {
    /// What the axis is in.
    pub unit: &'static str,
    /// What the dots mean.
    pub legend: Vec<(Dot, String)>,
    /// A name, and its lines.
    pub rows: Vec<(String, Vec<Dotted>)>,
    /// Whether figures are ratios, so that 1 is marked, and each dot has a line to it.
    pub ratios: bool,
}

/// A line of dots.
#[derive(Debug, Default)]
pub struct Dotted {
    /// Figures; one that is not above zero has no place on the axis.
    pub dots: Vec<(Dot, f64)>,
    /// The figures as text.
    pub words: String,
}

// Lengths are in pixels.
const DOTTED_HEIGHT: i32 = 22;
/// Between the figures of two ticks.
const TICK_GAP: i32 = 8;
/// The least room for dots on each side of the axis.
const SIDE: i32 = 10;
/// The most room for the words at the ends of lines.
const MOST_FOR_WORDS: i32 = 300;
/// The room for a dot in the legend, and where in it the dot stands.
const SIGN_ROOM: i32 = 20;
const SIGN_MIDDLE: i32 = 7;

impl Dots {
    /// Draws the dots; in several drawings of one scale where there are many, the legend in the first.
    pub fn charts(&self, paper: Paper) -> Vec<ChartSvg> {
        let axis = self.axis(paper);
        let mut legend = Legend {
            sign_room: SIGN_ROOM,
            entries: self.legend.clone(),
        };
        let mut charts = Vec::new();
        for rows in self.parts() {
            let mut canvas = Canvas::default();
            let head = legend.height(paper);
            let body: i32 = rows.iter().map(|(_, lines)| row_height(lines, paper)).sum();
            legend.draw(&mut canvas, paper, 0, |canvas, dot, (x, y)| {
                dot.draw(canvas, (x + SIGN_MIDDLE, y));
            });
            self.draw_axis(&mut canvas, &axis, head, head + body);
            let mut top = head;
            for (name, lines) in rows {
                self.draw_row(&mut canvas, &axis, paper, name, lines, top);
                top += row_height(lines, paper);
            }
            charts.push(ChartSvg::of(paper, head + body + AXIS_HEIGHT, canvas));
            legend.entries.clear();
        }
        charts
    }

    /// Returns the rows in parts that fit on a sheet of paper.
    fn parts(&self) -> Vec<&[(String, Vec<Dotted>)]> {
        let lines = self.rows.iter().map(|(_, lines)| lines.len()).max();
        self.rows
            .chunks((MOST_ROWS / lines.unwrap_or(0).max(1)).max(1))
            .collect()
    }

    fn figures(&self) -> impl Iterator<Item = f64> {
        self.rows
            .iter()
            .flat_map(|(_, lines)| lines)
            .flat_map(|line| &line.dots)
            .map(|(_, figure)| *figure)
            .filter(|figure| has_a_place(*figure))
    }

    fn axis(&self, paper: Paper) -> Axis {
        let names = self.rows.iter().map(|(name, _)| one_line(name));
        let longest = names.map(|name| room_for(&name, TEXT_SIZE)).max();
        let left = if paper.names_above {
            paper.margin
        } else {
            paper.margin + longest.unwrap_or(0).min(paper.width / 3) + NAME_GAP
        };
        let lines = self.rows.iter().flat_map(|(_, lines)| lines);
        let words = lines
            .filter(|line| self.ratios || !line.dots.is_empty())
            .map(|line| room_for(&line.words, TEXT_SIZE))
            .max()
            .unwrap_or(0)
            .min(MOST_FOR_WORDS)
            .min(paper.inside() * 6 / 10);
        let (low, high) = self.ends();
        let suffix = if self.ratios { "×" } else { "" };
        // The unit stands right of the figure at the axis's end.
        let unit =
            room_for(&(number(high) + suffix), TEXT_SIZE) / 2 + room_for(self.unit, TEXT_SIZE);
        Axis {
            left: left + SIDE,
            right: (paper.right() - words.max(unit) - 2 * SIDE).max(left + 2 * SIDE),
            low,
            high,
            suffix,
        }
    }

    /// Returns the figures at both ends of the axis.
    fn ends(&self) -> (f64, f64) {
        let (mut low, mut high) = self
            .figures()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), figure| {
                (low.min(figure), high.max(figure))
            });
        if self.ratios {
            (low, high) = (low.min(0.5), high.max(2.0));
        } else if low > high {
            (low, high) = (1.0, 10.0);
        }
        let (low, high) = (step_below(low), step_above(high));
        (low, if high > low { high } else { low * 10.0 })
    }

    fn draw_axis(&self, canvas: &mut Canvas, axis: &Axis, top: i32, bottom: i32) {
        let y = bottom + AXIS_HEIGHT / 2;
        let mut end = axis.right;
        for tick in axis.ticks() {
            let x = axis.x(tick);
            let is_one = self.ratios && (tick - 1.0).abs() < 1e-9;
            let (color, thick) = if is_one { (AXIS, 2) } else { (GRID, 1) };
            canvas.line((x, top), (x, bottom), color, thick);
            let (middle, half) = axis.label_place(tick);
            let label = Label::at(middle, y).anchored(Anchor::Middle);
            let label = if is_one { label.bold() } else { label.faint() };
            canvas.text(label, &axis.label(tick));
            end = end.max(middle + half);
        }
        canvas.text(Label::at(end + 6, y).faint(), self.unit);
    }

    fn draw_row(
        &self,
        canvas: &mut Canvas,
        axis: &Axis,
        paper: Paper,
        name: &str,
        lines: &[Dotted],
        top: i32,
    ) {
        let first = top + name_height(paper) + DOTTED_HEIGHT / 2;
        let left = if paper.names_above {
            paper.margin
        } else {
            axis.left - SIDE
        };
        draw_name(canvas, name, left, paper, first);
        for (index, dotted) in lines.iter().enumerate() {
            let y = first + index as i32 * DOTTED_HEIGHT;
            let has_dots = self.draw_dots(canvas, axis, dotted, y);
            // A reason has the whole line, unless other lines have dots for the same name.
            let (x, label) = if !has_dots && lines.len() == 1 {
                (axis.left, Label::at(axis.left, y).faint())
            } else {
                let x = axis.right + 2 * SIDE;
                (x, Label::at(x, y))
            };
            canvas.text(label, &shortened(&dotted.words, TEXT_SIZE, paper.width - x));
        }
    }

    /// Draws the dots of a line and what connects them; returns whether there are any.
    fn draw_dots(&self, canvas: &mut Canvas, axis: &Axis, dotted: &Dotted, y: i32) -> bool {
        let places: Vec<(Dot, i32)> = dotted
            .dots
            .iter()
            .filter(|(_, figure)| has_a_place(*figure))
            .map(|(dot, figure)| (*dot, axis.x(*figure)))
            .collect();
        let from = self.ratios.then(|| axis.x(1.0));
        let ends = || places.iter().map(|(_, x)| *x).chain(from);
        if let (Some((dot, _)), Some(least), Some(most)) =
            (places.first(), ends().min(), ends().max())
        {
            let color = if self.ratios { dot.color() } else { AXIS };
            canvas.line((least, y), (most, y), color, 2);
        }
        for (dot, x) in &places {
            dot.draw(canvas, (*x, y));
        }
        !places.is_empty()
    }
}

fn name_height(paper: Paper) -> i32 {
    if paper.names_above { LINE_HEIGHT } else { 0 }
}

fn row_height(lines: &[Dotted], paper: Paper) -> i32 {
    name_height(paper) + lines.len().max(1) as i32 * DOTTED_HEIGHT + 4
}

/// Returns whether a figure has a place on a logarithmic axis.
fn has_a_place(figure: f64) -> bool {
    figure.is_normal() && figure > 0.0
}

/// A logarithmic axis.
#[derive(Debug)]
struct Axis {
    /// Where `low` is, in pixels.
    left: i32,
    /// Where `high` is.
    right: i32,
    low: f64,
    high: f64,
    /// What follows each figure.
    suffix: &'static str,
}

/// The round numbers of a decade.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];

impl Axis {
    fn x(&self, figure: f64) -> i32 {
        let share = (figure / self.low).ln() / (self.high / self.low).ln();
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    /// Returns what stands below a tick.
    fn label(&self, tick: f64) -> String {
        number(tick) + self.suffix
    }

    /// Returns the middle of what stands below a tick, and half its width.
    fn label_place(&self, tick: f64) -> (i32, i32) {
        let half = (room_for(&self.label(tick), TEXT_SIZE) + 1) / 2;
        (self.x(tick).max(half), half)
    }

    /// Returns round numbers whose labels have room: 1, 2 and 5 of each decade, or fewer.
    fn ticks(&self) -> Vec<f64> {
        let within = |tick: &f64| *tick >= self.low * 0.999 && *tick <= self.high * 1.001;
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = |numbers: &'static [f64]| -> Vec<f64> {
            let ticks = decades.clone().flat_map(|decade| {
                let magnitude = 10_f64.powi(decade);
                numbers.iter().map(move |number| number * magnitude)
            });
            ticks.filter(within).collect()
        };
        let fine = all(&ROUND);
        if self.have_room(&fine) {
            return fine;
        }
        let coarse = all(&ROUND[..1]);
        // Where 1 is among them, it stays.
        let one = coarse.iter().position(|tick| (tick - 1.0).abs() < 1e-9);
        let every_nth = |n: usize| -> Vec<f64> {
            let first = one.unwrap_or(0) % n;
            coarse.iter().copied().skip(first).step_by(n).collect()
        };
        (1..=coarse.len())
            .map(every_nth)
            .find(|ticks| self.have_room(ticks))
            .unwrap_or_default()
    }

    /// Returns whether the labels of these ticks stand apart.
    fn have_room(&self, ticks: &[f64]) -> bool {
        ticks.windows(2).all(|pair| {
            let [(left, left_half), (right, right_half)] =
                [self.label_place(pair[0]), self.label_place(pair[1])];
            left + left_half + TICK_GAP <= right - right_half
        })
    }
}

/// Returns the largest round number that is not above `figure`.
fn step_below(figure: f64) -> f64 {
    let magnitude = 10_f64.powf(figure.log10().floor());
    let fits = |number: &f64| number * magnitude <= figure * 1.000_001;
    ROUND.into_iter().rev().find(fits).unwrap_or(1.0) * magnitude
}

/// Returns the smallest round number that is not below `figure`.
fn step_above(figure: f64) -> f64 {
    let magnitude = 10_f64.powf(figure.log10().floor());
    let reaches = |number: &f64| number * magnitude >= figure * 0.999_999;
    ROUND.into_iter().find(reaches).unwrap_or(10.0) * magnitude
}

/// Returns a round number in few characters.
fn number(number: f64) -> String {
    match number {
        n if !(1e-4..1e7).contains(&n) => format!("{n:.0e}"),
        n if n < 1.0 => {
            let text = format!("{n:.4}");
            text.trim_end_matches('0').to_owned()
        }
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::assert_texts_have_room;
    use super::*;

    fn axis(low: f64, high: f64, length: i32) -> Axis {
        Axis {
            left: 0,
            right: length,
            low,
            high,
            suffix: "",
        }
    }

    #[test]
    fn axes_begin_and_end_at_round_numbers() {
        for (figure, below, above) in [
            (1.0, 1.0, 1.0),
            (3.0, 2.0, 5.0),
            (0.07, 0.05, 0.1),
            (730.0, 500.0, 1000.0),
        ] {
            assert!((step_below(figure) / below - 1.0).abs() < 1e-9, "{figure}");
            assert!((step_above(figure) / above - 1.0).abs() < 1e-9, "{figure}");
        }
    }

    #[test]
    fn ticks_never_run_into_each_other_and_one_stays() {
        for (low, high) in [(0.5, 2.0), (0.001, 1000.0), (1e-12, 1e12), (20.0, 50.0)] {
            for length in [60, 150, 700] {
                let axis = axis(low, high, length);
                let ticks = axis.ticks();
                assert!(axis.have_room(&ticks));
                let has_one = ticks.iter().any(|tick| (tick - 1.0).abs() < 1e-9);
                assert!(has_one || low > 1.0, "{low} {high} {length}: {ticks:?}");
            }
        }
    }

    #[test]
    fn half_and_double_are_equally_far_from_one() {
        let axis = axis(0.1, 10.0, 1000);
        assert_eq!(axis.x(1.0), 500);
        assert_eq!(axis.x(2.0) - axis.x(1.0), axis.x(1.0) - axis.x(0.5));
    }

    #[test]
    fn numbers_that_have_no_place_break_nothing() {
        let dotted = |figure| Dotted {
            dots: vec![(Dot::Up, figure)],
            words: "words <&>".into(),
        };
        for figure in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            for ratios in [false, true] {
                let dots = Dots {
                    rows: vec![("name".into(), vec![dotted(figure), dotted(1.0)])],
                    ratios,
                    ..Dots::default()
                };
                for paper in [Paper::WIDE, Paper::NARROW] {
                    let charts = dots.charts(paper);
                    let shapes = &charts[0].shapes;
                    assert!(shapes.contains("words &lt;&amp;&gt;"), "{figure}: {shapes}");
                    assert_texts_have_room(&format!(
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\">{shapes}</svg>",
                        paper.width, charts[0].height
                    ));
                }
            }
        }
        assert!(Dots::default().charts(Paper::NARROW).is_empty());
    }
}
