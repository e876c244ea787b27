//! A chart before it has a place in a document: bars with whiskers from zero on, or lines of percentiles
//! on a logarithmic axis.
//!
//! The SVG report and the HTML page draw the same shapes ([`Scale::shapes`]). Their positions are
//! percentages of the room that they get, and their colours are classes of `templates/chart.css`.

use std::fmt::Write as _;

use super::{NOISY_MARK, figure, is_noisy, marked_median, reason};
use crate::run::{Outcome, Unit};
use crate::statistics::Spread;

/// A chart of one unit.
pub struct Chart {
    pub unit: Unit,
    pub scale: Scale,
    /// What the shapes mean.
    pub legend: Vec<String>,
    pub rows: Vec<Line>,
}

/// A name, the shapes beside it, and the figures as text.
#[derive(Debug, Default)]
pub struct Line {
    pub name: String,
    /// The end of the bar.
    pub bar: Option<f64>,
    /// The ends of a whisker, or percentiles in ascending order.
    pub marks: Vec<f64>,
    pub published: Option<f64>,
    /// The figures, or why there are none.
    pub words: String,
    /// The class that says how the words look.
    pub class: &'static str,
}

impl Line {
    /// Returns whether there are figures.
    pub fn is_measured(&self) -> bool {
        self.bar.is_some() || !self.marks.is_empty()
    }
}

/// The most percentiles that a line shows beside the median.
const MOST_PERCENTILES: usize = 2;

impl Chart {
    /// Returns the chart of these experiments: percentiles where they have some, or else medians.
    pub fn of(outcomes: &[&Outcome]) -> Option<Chart> {
        let unit = outcomes.first()?.unit;
        let percentiles = percentiles(outcomes, unit);
        let rows = outcomes.iter().map(|outcome| line(outcome, &percentiles));
        let rows: Vec<Line> = rows.collect();
        let mut legend = Vec::new();
        if !percentiles.is_empty() {
            legend.push(format!("marks: median, {}", percentiles.join(", ")));
        } else if rows.iter().any(Line::is_measured) {
            legend.push("bar: median of the rounds".to_owned());
            legend.push("thin line: slowest and fastest round".to_owned());
        }
        if rows.iter().any(|line| line.published.is_some()) {
            legend.push(
                "thick line: figure published in the article that the experiment follows, from another machine"
                    .to_owned(),
            );
        }
        Some(Chart {
            unit,
            scale: Scale::of(&rows, !percentiles.is_empty()),
            legend,
            rows,
        })
    }

    /// Returns what the axis shows.
    pub fn caption(&self) -> String {
        let is_logarithmic = self.scale.is_logarithmic;
        which_is_better(self.unit)
            + if is_logarithmic {
                ", on a logarithmic axis"
            } else {
                ""
            }
    }
}

/// Returns the unit, and whether more of it is better.
pub fn which_is_better(unit: Unit) -> String {
    let better = if unit.more_is_better() {
        "more"
    } else {
        "less"
    };
    format!("{}: {better} is better", unit.name())
}

/// Returns the names of the further figures that are percentiles, such as `p99`.
fn percentiles<'a>(outcomes: &[&'a Outcome], unit: Unit) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for also in outcomes.iter().flat_map(|outcome| &outcome.also) {
        let number = also.name.strip_prefix('p').map(str::parse::<f64>);
        if matches!(number, Some(Ok(_))) && also.unit == unit && !names.contains(&&*also.name) {
            names.push(&also.name);
        }
    }
    names.truncate(MOST_PERCENTILES);
    names
}

fn line(outcome: &Outcome, percentiles: &[&str]) -> Line {
    let mut line = Line {
        name: outcome.name.clone(),
        published: outcome.published,
        words: marked_median(outcome),
        ..Line::default()
    };
    match &outcome.figure {
        None => (line.words, line.class) = (reason(outcome), "faint"),
        Some(spread) if percentiles.is_empty() => {
            (line.bar, line.marks) = (Some(spread.median), vec![spread.min, spread.max]);
        }
        Some(spread) => {
            let others = percentiles.iter().filter_map(|name| {
                let also = outcome.also.iter().find(|also| also.name == **name)?;
                Some(also.figure.median)
            });
            line.marks = [spread.median].into_iter().chain(others).collect();
            let figures: Vec<String> = line.marks.iter().map(|mark| figure(*mark)).collect();
            let mark = if is_noisy(outcome) { NOISY_MARK } else { "" };
            line.words = format!("{mark}{}", figures.join(" · "));
        }
    }
    line
}

/// Where a figure stands across.
#[derive(Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    ticks: Vec<f64>,
}

impl Scale {
    /// Returns a scale with round ticks that has room for all these lines.
    fn of(lines: &[Line], is_logarithmic: bool) -> Scale {
        let figures = lines.iter().flat_map(|line| {
            let marks = line.marks.iter().copied();
            marks.chain(line.bar).chain(line.published)
        });
        let figures = figures.filter(|figure| figure.is_normal() && *figure > 0.0);
        let all = Spread::of(&figures.collect::<Vec<_>>());
        let (low, high) = all.map_or((1.0, 1.0), |all| (all.min, all.max));
        match is_logarithmic {
            true => Scale::logarithmic(low, high),
            false => Scale::linear(high),
        }
    }

    /// Returns a scale of four to eight round steps from 0 on.
    fn linear(largest: f64) -> Scale {
        let magnitude = 10_f64.powf((largest / 8.0).log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * magnitude);
        let step = steps.into_iter().find(|step| largest / step <= 8.0);
        let step = step.unwrap_or(largest);
        // A whisker that ends on a tick needs no further one.
        let count = (largest / step - 1e-9).ceil().max(1.0);
        let ticks = 0..=count as u32;
        Scale {
            low: 0.0,
            high: count * step,
            is_logarithmic: false,
            ticks: ticks.map(|index| f64::from(index) * step).collect(),
        }
    }

    /// Returns a scale of whole decades, with at most nine ticks.
    fn logarithmic(low: f64, high: f64) -> Scale {
        let first = low.log10().floor() as i32;
        let last = (high.log10().ceil() as i32).max(first + 1);
        let every = (last - first) as usize / 9 + 1;
        let ticks = (first..=last).step_by(every);
        Scale {
            low: 10_f64.powi(first),
            high: 10_f64.powi(last),
            is_logarithmic: true,
            ticks: ticks.map(|decade| 10_f64.powi(decade)).collect(),
        }
    }

    /// Returns the position of a figure in percent.
    fn at(&self, figure: f64) -> f64 {
        let share = match self.is_logarithmic {
            true => (figure / self.low).ln() / (self.high / self.low).ln(),
            false => figure / self.high,
        };
        let percent = (share * 1000.0).round() / 10.0;
        match percent.is_nan() {
            true => 0.0,
            false => percent.clamp(0.0, 100.0),
        }
    }

    /// Returns the positions of the ticks in percent, and their figures.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let ticks = self.ticks.iter();
        ticks.map(|tick| (self.at(*tick), tick_label(*tick)))
    }

    /// Returns a line as SVG elements: ticks, bar, whisker and published figure.
    pub fn shapes(&self, line: &Line) -> String {
        let mut shapes = String::new();
        for tick in &self.ticks {
            shapes += &vertical("grid", self.at(*tick), [0, 100]);
        }
        if let Some(bar) = line.bar {
            // A bar of the smallest figure is visible too.
            let width = self.at(bar).max(0.2);
            let rest = r#"y="20%" height="60%"/>"#;
            let _ = writeln!(shapes, "<rect class=\"bar\" width=\"{width}%\" {rest}");
        }
        if let (Some(first), Some(last)) = (line.marks.first(), line.marks.last()) {
            let (x1, x2) = (self.at(*first), self.at(*last));
            let rest = r#"y1="50%" y2="50%"/>"#;
            let _ = writeln!(
                shapes,
                "<line class=\"mark\" x1=\"{x1}%\" x2=\"{x2}%\" {rest}"
            );
        }
        for mark in &line.marks {
            shapes += &vertical("mark", self.at(*mark), [30, 70]);
        }
        if let Some(published) = line.published {
            shapes += &vertical("published", self.at(published), [5, 95]);
        }
        shapes
    }
}

/// Returns a vertical line at `x`; all in percent.
fn vertical(class: &str, x: f64, [top, bottom]: [u32; 2]) -> String {
    format!("<line class=\"{class}\" x1=\"{x}%\" x2=\"{x}%\" y1=\"{top}%\" y2=\"{bottom}%\"/>\n")
}

/// Returns a tick in as many digits as tell it from the next.
fn tick_label(tick: f64) -> String {
    if tick != 0.0 && !(0.001..1e6).contains(&tick) {
        return format!("{tick:.1e}");
    }
    let text = format!("{tick:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::run::Also;

    #[test]
    fn axes_have_round_ticks_that_reach_the_largest_figure() {
        let cases = [
            (0.93, 0.2, 5),
            (8.0, 1.0, 8),
            (62.5, 10.0, 7),
            (104.0, 20.0, 6),
            (240.0, 50.0, 5),
        ];
        for (largest, step, steps) in cases {
            let scale = Scale::linear(largest);
            assert!((scale.ticks[1] - step).abs() < 1e-9, "{largest}: {scale:?}");
            assert_eq!(scale.ticks.len() - 1, steps, "{largest}");
            assert!(scale.high >= largest);
        }
        assert_eq!(tick_label(0.6000000000000001), "0.6");
        assert_eq!(tick_label(50.0), "50");
    }

    #[test]
    fn a_logarithmic_axis_has_whole_decades() {
        let scale = Scale::logarithmic(0.93, 333.0);
        assert_eq!((scale.low, scale.high), (0.1, 1000.0));
        assert_eq!(
            (scale.at(0.1), scale.at(10.0), scale.at(1000.0)),
            (0.0, 50.0, 100.0)
        );
        assert!(Scale::logarithmic(1e-300, 1e300).ticks.len() <= 10);
    }

    #[test]
    fn figures_of_any_size_have_a_position() {
        for number in [0.0, -1.0, f64::NAN, f64::INFINITY, 5e-324, 1e308] {
            let line = Line {
                bar: Some(number),
                marks: vec![number],
                ..Line::default()
            };
            for is_logarithmic in [false, true] {
                let scale = Scale::of(std::slice::from_ref(&line), is_logarithmic);
                assert!(
                    (0.0..=100.0).contains(&scale.at(number)),
                    "{number}: {scale:?}"
                );
                assert!(
                    scale
                        .ticks()
                        .all(|(at, label)| at <= 100.0 && label.len() < 12)
                );
            }
        }
    }

    #[test]
    fn medians_are_bars_and_percentiles_are_marks() {
        let run = fixture();
        let outcomes: Vec<&Outcome> = run.experiments.iter().collect();
        let chart = Chart::of(&outcomes).unwrap();
        let line = &chart.rows[0];
        assert_eq!(
            (line.bar, line.marks.as_slice()),
            (Some(0.93), &[0.92, 0.95][..])
        );
        assert_eq!(chart.legend.len(), 3);
        assert_eq!(chart.caption(), "GiB/s: more is better");

        let mut outcome = run.experiments[0].clone();
        outcome.unit = Unit::Microseconds;
        for (name, value) in [("p99", 12.5), ("p99.9", 333.0), ("p99.99", 999.0)] {
            let figure = Spread::of(&[value]).unwrap();
            outcome.also.push(Also {
                name: name.into(),
                unit: Unit::Microseconds,
                figure,
            });
        }
        let chart = Chart::of(&[&outcome]).unwrap();
        let line = &chart.rows[0];
        assert_eq!(
            (line.bar, line.marks.as_slice()),
            (None, &[0.93, 12.5, 333.0][..])
        );
        assert_eq!(line.words, "0.93 · 12.5 · 333");
        assert_eq!(chart.legend[0], "marks: median, p99, p99.9");
        assert_eq!(chart.caption(), "µs: less is better, on a logarithmic axis");
    }
}
