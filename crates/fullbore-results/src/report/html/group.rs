//! A group of experiments on the page: its drawing, its table, and its command lines.

use super::page::{Figure, Table};
use super::percentiles::Percentiles;
use super::results::results;
use crate::report::grid::Grid;
use crate::report::svg::{self, Paper};
use crate::report::{least_cost, one_line, remarks};
use crate::run::{EndpointReport, Outcome, Run};

/// A group, or one table of it.
pub struct Group {
    pub id: String,
    pub name: String,
    pub figure: Figure,
    /// What is best of a heat map.
    pub best: Option<String>,
    /// `None` where nothing was measured.
    pub table: Option<Table>,
    /// Which experiment uses the least CPU time, if it is not the fastest one; and what else the table shows.
    pub remarks: Vec<String>,
    /// Names, and command lines that do the same in a shell.
    pub commands: Vec<(String, String)>,
}

impl Group {
    pub fn of(index: usize, name: &str, outcomes: &[&Outcome], run: &Run) -> Group {
        let id = format!("group-{}", index + 1);
        let grid = Grid::of(outcomes);
        Group {
            name: one_line(name),
            figure: chart(&id, name, outcomes, grid.is_some()),
            best: grid.as_ref().and_then(Grid::in_words),
            table: results(&id, name, outcomes, run.limit.as_ref()),
            remarks: least_cost(outcomes)
                .into_iter()
                .chain(remarks(run, outcomes).map(one_line))
                .collect(),
            commands: commands(outcomes),
            id,
        }
    }
}

/// Returns the drawing of a group: a heat map, dots or bars.
fn chart(id: &str, name: &str, outcomes: &[&Outcome], is_grid: bool) -> Figure {
    let unit = outcomes.first().map_or("", |outcome| outcome.unit.name());
    let name = one_line(name);
    let label = |kind: &str| format!("{name}: {kind}, {unit}");
    let words = one_line(&svg::chart_in_words(&name, outcomes));
    if is_grid {
        let charts = svg::charts(outcomes, Paper::CELLS);
        return Figure::scrolling(id, label("heat map"), words, charts);
    }
    if let Some(dots) = Percentiles::of(outcomes) {
        let words = dots.in_words(&name, unit, outcomes);
        let dots = dots.dots(unit, outcomes);
        let draw = |paper| dots.charts(paper);
        return Figure::of(id, label("percentiles on a logarithmic axis"), words, draw);
    }
    let draw = |paper| svg::charts(outcomes, paper);
    Figure::of(id, label("bar chart"), words, draw)
}

/// Returns the experiments that ran commands, each with a command line that does the same in a
/// shell.
fn commands(outcomes: &[&Outcome]) -> Vec<(String, String)> {
    let endpoint = |verb: &str, options: Option<String>| {
        options.map(|options| format!("fullbore {verb} {options}").trim_end().to_owned())
    };
    outcomes
        .iter()
        .filter_map(|outcome| {
            let parts: Vec<String> = [
                endpoint(
                    "write",
                    outcome.writer.as_ref().map(EndpointReport::own_options),
                ),
                outcome.mover.as_ref().map(|mover| mover.command.clone()),
                endpoint(
                    "read",
                    outcome.reader.as_ref().map(EndpointReport::own_options),
                ),
            ]
            .into_iter()
            .flatten()
            .collect();
            (!parts.is_empty()).then(|| (outcome.name.clone(), parts.join(" | ")))
        })
        .collect()
}
