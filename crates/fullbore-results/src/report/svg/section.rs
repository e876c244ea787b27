//! The experiments of one group: as bars, or as a heat map where they stand in a grid; and in words.

use std::fmt::Write as _;

use super::bars::{self, Bars};
use super::canvas::Canvas;
use super::heat_map::HeatMap;
use super::layout::{ChartSvg, MOST_ROWS, Paper};
use crate::report::grid::Grid;
use crate::report::{figure, marked_median, one_line, reason};
use crate::run::Outcome;

/// A group of experiments.
pub struct Section<'a> {
    pub name: String,
    pub outcomes: Vec<&'a Outcome>,
    chart: Chart<'a>,
}

/// How a section shows its experiments.
enum Chart<'a> {
    Bars(Bars<'a>),
    Cells(HeatMap<'a>),
}

impl<'a> Section<'a> {
    pub fn of(name: &str, outcomes: Vec<&'a Outcome>, paper: Paper) -> Section<'a> {
        let chart = match Grid::of(&outcomes) {
            Some(grid) => Chart::Cells(HeatMap::of(grid, paper)),
            None => Chart::Bars(Bars::of(outcomes.clone(), paper)),
        };
        Section {
            name: one_line(name),
            outcomes,
            chart,
        }
    }

    /// Returns the experiments that have bars: all of them, or none.
    pub fn with_bars(&self) -> &[&'a Outcome] {
        match self.chart {
            Chart::Bars(_) => &self.outcomes,
            Chart::Cells(_) => &[],
        }
    }

    /// Returns the height without the name.
    pub fn height(&self) -> i32 {
        match &self.chart {
            Chart::Bars(bars) => bars.height(),
            Chart::Cells(map) => map.height(),
        }
    }

    /// Draws the chart from `top` on; bars begin at `axis_left`.
    pub fn draw(&self, canvas: &mut Canvas, axis_left: i32, top: i32) {
        match &self.chart {
            Chart::Bars(bars) => bars.draw(canvas, axis_left, top),
            Chart::Cells(map) => map.draw(canvas, top),
        }
    }

    /// Returns every experiment with its figure, and which is the best of a heat map.
    pub fn in_words(&self) -> String {
        let kind = match self.chart {
            Chart::Bars(_) => "horizontal bar chart",
            Chart::Cells(_) => "heat map",
        };
        let unit = self.outcomes.first().map_or("", |one| one.unit.name());
        let mut words = format!("{}, {kind} in {unit}:", self.name);
        for (index, outcome) in self.outcomes.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            let _ = write!(words, "{separator} {} {}", outcome.name, in_words(outcome));
        }
        words.push('.');
        if let Chart::Cells(map) = &self.chart
            && let Some(best) = map.in_words()
        {
            let _ = write!(words, " {best}.");
        }
        words
    }
}

/// Returns the figures of an outcome in words.
fn in_words(outcome: &Outcome) -> String {
    let measured = match &outcome.figure {
        Some(spread) => format!(
            "{} ({} to {})",
            marked_median(outcome),
            figure(spread.min),
            figure(spread.max)
        ),
        None => reason(outcome),
    };
    match outcome.published {
        Some(published) => format!("{measured}, published {}", figure(published)),
        None => measured,
    }
}

/// Draws one group for a page: a heat map in one drawing, or bars in several of one scale where there
/// are many. The first has the legend.
pub fn charts(outcomes: &[&Outcome], paper: Paper) -> Vec<ChartSvg> {
    let bars = match Section::of("", outcomes.to_vec(), paper).chart {
        Chart::Bars(bars) => bars,
        Chart::Cells(map) => {
            let mut canvas = Canvas::default();
            map.draw(&mut canvas, 0);
            return vec![ChartSvg::of(paper, map.height(), canvas)];
        }
    };
    let all = outcomes.iter().copied();
    let axis_left = bars::axis_left(all.clone(), paper);
    let mut legend = bars::legend(all);
    let mut charts = Vec::new();
    for part in bars.parts(MOST_ROWS) {
        let mut canvas = Canvas::default();
        let top = legend.height(paper);
        legend.draw(&mut canvas, paper, 0, |canvas, sign, at| {
            sign.draw(canvas, at);
        });
        part.draw(&mut canvas, axis_left, top);
        charts.push(ChartSvg::of(paper, top + part.height(), canvas));
        legend.entries.clear();
    }
    charts
}
