//! The run as one HTML page that needs nothing else: pictures, tables that sort, and how it was
//! measured; for a browser, a phone, a screen reader and paper.
//!
//! What stands where is in `templates/run.html`; what every page has, in `html/page.rs`; pictures
//! are those of the SVG report, drawn for a page. Here a run becomes what the template shows.

pub(crate) mod page;

use std::io;

use askama::Template;

use super::grid::Grid;
use super::svg::dots::{Dot, Dots, Dotted};
use super::svg::{self, Paper};
use super::{
    Report, against_c, base_of_ratios, distance, figure, groups, how_measured, is_noisy,
    marked_median, noisy_footnote, one_line, over_all_tables, peers, reason,
};
use crate::compare::without_settings;
use crate::run::{Outcome, Run, Settings, Unit};
use crate::statistics::DISAGREEMENT_WORTH_A_WARNING;
use fullbore_host::size;
use page::{Cell, Column, Dress, Figure, Table};

/// The run as one HTML document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Html;

impl Report<Run> for Html {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        Page::of(run).write_into(out)
    }
}

/// What the template shows.
#[derive(Template)]
#[template(path = "run.html")]
struct Page<'a> {
    dress: Dress,
    title: String,
    lead: String,
    /// Anchors and their headings.
    contents: Vec<(String, String)>,
    /// The machine.
    facts: Vec<(&'static str, String)>,
    groups: Vec<Group>,
    not_measured: Table,
    not_measured_in_short: String,
    settings: &'a Settings,
    measured: String,
    /// In percent.
    disagreement: f64,
    /// What ratios are to.
    base: Option<String>,
    /// How experiments compare with their programs in C.
    against_c: Option<String>,
    /// What came of those who are set against each other in several tables.
    over_all_tables: Vec<String>,
}

/// A group, or one table of it.
struct Group {
    id: String,
    name: String,
    figure: Figure,
    /// What is best of a heat map.
    best: Option<String>,
    /// `None` where nothing was measured.
    table: Option<Table>,
    /// Names, and command lines that do the same in a shell.
    commands: Vec<(String, String)>,
}

impl<'a> Page<'a> {
    fn of(run: &'a Run) -> Page<'a> {
        let mut facts = run.machine.lines();
        facts.extend(distance(run).map(|text| ("cache line", text)));
        facts.extend(peers(run).map(|text| ("peers", text)));
        let groups: Vec<Group> = groups(run)
            .iter()
            .enumerate()
            .map(|(index, (name, outcomes))| Group::of(index, name, outcomes))
            .collect();
        let not_measured = not_measured(run);
        let mut contents = vec![("machine".to_owned(), "The machine".to_owned())];
        contents.extend(groups.iter().map(|g| (g.id.clone(), g.name.clone())));
        if !not_measured.rows.is_empty() {
            contents.push(("not-measured".into(), "Skipped and failed".into()));
        }
        contents.push(("method".into(), "How it was measured".into()));
        Page {
            dress: Dress::new(),
            title: svg::title(run),
            lead: lead(run),
            contents,
            facts,
            groups,
            not_measured_in_short: not_measured_in_short(run),
            not_measured,
            settings: &run.settings,
            measured: how_measured(run),
            disagreement: (DISAGREEMENT_WORTH_A_WARNING * 100.0).round(),
            base: base_of_ratios(run),
            against_c: against_c(run),
            over_all_tables: over_all_tables(run),
        }
    }
}

/// When the run was taken, and how much of it there is.
fn lead(run: &Run) -> String {
    let measured = run
        .experiments
        .iter()
        .filter(|e| e.figure.is_some())
        .count();
    let taken = match &run.taken_at {
        Some(date) => format!("Taken {date}: "),
        None => String::new(),
    };
    format!(
        "{taken}{measured} of {} measured, {}.",
        counted(run.experiments.len(), "experiment"),
        how_measured(run)
    )
}

fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

fn not_measured_in_short(run: &Run) -> String {
    let count = |of: fn(&Outcome) -> bool| run.experiments.iter().filter(|e| of(e)).count();
    let failed = count(|e| e.failed.is_some());
    let skipped = count(|e| e.skipped.is_some() && e.failed.is_none());
    let counts = [(skipped, "skipped"), (failed, "failed")].into_iter();
    let parts: Vec<String> = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    parts.join(", ")
}

/// What has no figure, and why.
fn not_measured(run: &Run) -> Table {
    let rows = run.experiments.iter().filter_map(|outcome| {
        let (what, reason) = match (&outcome.failed, &outcome.skipped) {
            (Some(reason), _) => ("failed", reason.as_str()),
            (None, Some(reason)) => ("skipped", reason.as_str()),
            (None, None) if outcome.figure.is_none() => ("not measured", "unknown reason"),
            (None, None) => return None,
        };
        let class = if what == "failed" { "bad" } else { "" };
        Some(vec![
            Cell {
                below: outcome.shows.clone(),
                ..Cell::text(&outcome.name)
            },
            Cell::text(&outcome.group),
            Cell {
                class,
                ..Cell::text(what)
            },
            Cell::words(reason),
        ])
    });
    Table {
        id: "not-measured-table".into(),
        caption: "Experiments without a figure".into(),
        rows: rows.collect(),
        columns: ["experiment", "group", "what", "why"]
            .map(Column::words)
            .into(),
        ..Table::default()
    }
}

impl Group {
    fn of(index: usize, name: &str, outcomes: &[&Outcome]) -> Group {
        let id = format!("group-{}", index + 1);
        let grid = Grid::of(outcomes);
        Group {
            name: one_line(name),
            figure: picture(&id, name, outcomes, grid.is_some()),
            best: grid.as_ref().and_then(Grid::in_words),
            table: table(&id, name, outcomes),
            commands: commands(outcomes),
            id,
        }
    }
}

/// A heat map, dots or bars.
fn picture(id: &str, name: &str, outcomes: &[&Outcome], is_grid: bool) -> Figure {
    let unit = outcomes.first().map_or("", |outcome| outcome.unit.name());
    let name = one_line(name);
    let label = |kind: &str| format!("{name}: {kind}, {unit}");
    let words = one_line(&svg::picture_in_words(&name, outcomes));
    if is_grid {
        let pictures = svg::pictures(outcomes, Paper::CELLS);
        return Figure::scrolling(id, label("heat map"), words, pictures);
    }
    if let Some(dots) = Percentiles::of(outcomes) {
        let words = dots.in_words(&name, unit, outcomes);
        let dots = dots.dots(unit, outcomes);
        let draw = |paper| dots.pictures(paper);
        return Figure::of(id, label("percentiles on a logarithmic axis"), words, draw);
    }
    let draw = |paper| svg::pictures(outcomes, paper);
    Figure::of(id, label("bar chart"), words, draw)
}

/// Percentiles beside the median: names of further figures, such as `p99`, that are in its unit.
struct Percentiles<'a>(Vec<&'a str>);

impl<'a> Percentiles<'a> {
    /// The most of them that have dots of their own.
    const MOST: usize = 2;

    /// `None` where there are none.
    fn of(outcomes: &[&'a Outcome]) -> Option<Percentiles<'a>> {
        let mut names: Vec<&str> = Vec::new();
        for outcome in outcomes {
            for also in &outcome.also {
                let number = also
                    .name
                    .strip_prefix('p')
                    .and_then(|n| n.parse::<f64>().ok());
                if number.is_some() && also.unit == outcome.unit && !names.contains(&&*also.name) {
                    names.push(&also.name);
                }
            }
        }
        names.truncate(Self::MOST);
        (!names.is_empty()).then_some(Percentiles(names))
    }

    /// What an outcome has of them: names and figures, the median first.
    fn figures(&self, outcome: &Outcome) -> Vec<(&'a str, f64)> {
        let median = outcome
            .figure
            .as_ref()
            .map(|spread| ("median", spread.median));
        let others = self.0.iter().filter_map(|name| {
            let also = outcome.also.iter().find(|also| also.name == *name)?;
            Some((*name, also.figure.median))
        });
        median.into_iter().chain(others).collect()
    }

    fn dot(&self, name: &str) -> Dot {
        match self.0.iter().position(|known| *known == name) {
            None => Dot::Middle,
            Some(0) => Dot::Later,
            Some(_) => Dot::Last,
        }
    }

    fn dots(&self, unit: &'static str, outcomes: &[&Outcome]) -> Dots {
        let names = ["median"].into_iter().chain(self.0.iter().copied());
        let rows = outcomes.iter().map(|outcome| {
            let figures = self.figures(outcome);
            let words = if figures.is_empty() {
                reason(outcome)
            } else {
                let figures: Vec<String> = figures.iter().map(|(_, f)| figure(*f)).collect();
                let mark = if is_noisy(outcome) { "~" } else { "" };
                format!("{mark}{}", figures.join(" · "))
            };
            let dots = figures
                .iter()
                .map(|(name, f)| (self.dot(name), *f))
                .collect();
            (outcome.name.clone(), vec![Dotted { dots, words }])
        });
        Dots {
            unit,
            legend: names
                .map(|name| (self.dot(name), name.to_owned()))
                .collect(),
            rows: rows.collect(),
            ratios: false,
        }
    }

    fn in_words(&self, name: &str, unit: &str, outcomes: &[&Outcome]) -> String {
        let each: Vec<String> = outcomes
            .iter()
            .map(|outcome| {
                let figures: Vec<String> = self
                    .figures(outcome)
                    .iter()
                    .map(|(name, f)| format!("{name} {}", figure(*f)))
                    .collect();
                if figures.is_empty() {
                    format!("{} {}", outcome.name, reason(outcome))
                } else {
                    format!("{} {}", outcome.name, figures.join(", "))
                }
            })
            .collect();
        one_line(&format!("{name}, dots in {unit}: {}.", each.join("; ")))
    }
}

/// What was measured, row by row; `None` where nothing was.
fn table(id: &str, name: &str, outcomes: &[&Outcome]) -> Option<Table> {
    let measured = || outcomes.iter().filter(|outcome| outcome.figure.is_some());
    let unit = measured().next()?.unit;
    let mut also: Vec<(&str, Unit)> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for outcome in measured() {
        for further in &outcome.also {
            if also.iter().all(|(name, _)| *name != further.name) {
                also.push((&further.name, further.unit));
            }
        }
        for note in said(outcome) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    let any = |has: fn(&Outcome) -> bool| measured().any(|outcome| has(outcome));
    let cells = any(|outcome| outcome.cell.is_some());
    let ratios = any(|outcome| outcome.ratio.is_some());
    let published = any(|outcome| outcome.published.is_some());
    let peers = any(|outcome| outcome.peer.is_some());
    let checked = any(|outcome| outcome.soundness.is_some());

    let optional = |shown: bool, column: Column| shown.then_some(column);
    let mut columns = vec![Column::words("experiment")];
    columns.extend(optional(cells, Column::numbers("bytes of a call")));
    columns.extend(optional(cells, Column::numbers("pipe")));
    columns.extend([
        Column::numbers(format!("median {}", unit.name())),
        Column::numbers("least"),
        Column::numbers("most"),
    ]);
    let further = |(name, unit): &(&str, Unit)| Column::numbers(format!("{name} {}", unit.name()));
    columns.extend(also.iter().map(further));
    columns.extend(optional(ratios, Column::numbers("ratio")));
    columns.extend(optional(published, Column::numbers("published")));
    columns.extend(optional(peers, Column::numbers("to C")));
    columns.extend(optional(checked, Column::words("bytes")));

    let row = |outcome: &&Outcome| -> Vec<Cell> {
        let spread = outcome.figure.as_ref();
        let numbers = said(outcome)
            .iter()
            .filter_map(|note| Some(notes.iter().position(|known| known == note)? + 1))
            .collect();
        let mut row = vec![Cell {
            below: outcome.shows.clone(),
            notes: numbers,
            ..Cell::text(&outcome.name)
        }];
        if cells {
            let bytes = |bytes: Option<usize>| {
                Cell::number(bytes.map(|b| b as f64), |b| size::format(b as u64))
            };
            row.push(bytes(outcome.cell.map(|cell| cell.chunk)));
            row.push(bytes(outcome.cell.map(|cell| cell.pipe_size)));
        }
        row.push(Cell::number(spread.map(|s| s.median), |_| {
            marked_median(outcome)
        }));
        row.push(Cell::number(spread.map(|s| s.min), figure));
        row.push(Cell::number(spread.map(|s| s.max), figure));
        row.extend(also.iter().map(|(name, _)| {
            let found = outcome.also.iter().find(|also| also.name == *name);
            Cell::number(found.map(|also| also.figure.median), figure)
        }));
        let times = |ratio: f64| format!("{}×", figure(ratio));
        if ratios {
            row.push(Cell::number(outcome.ratio, times));
        }
        if published {
            row.push(Cell::number(outcome.published, figure));
        }
        if peers {
            let ratio = outcome.peer.as_ref().and_then(|peer| peer.ratio);
            let mut cell = Cell::number(ratio, |ratio| format!("{ratio:.2}×"));
            if outcome.peer.is_some() && ratio.is_none() {
                cell.text = "failed".into();
            }
            row.push(cell);
        }
        if checked {
            row.push(match &outcome.soundness {
                None => Cell::default(),
                Some(soundness) if soundness.right => Cell {
                    class: "good",
                    ..Cell::text("right")
                },
                Some(_) => Cell {
                    class: "bad",
                    ..Cell::text("WRONG")
                },
            });
        }
        row
    };
    let rows = measured().map(row).collect();
    let remark = any(is_noisy).then(noisy_footnote).unwrap_or_default();
    Some(Table {
        id: format!("{id}-table"),
        caption: format!("{}, {}", one_line(name), of_figures(unit)),
        columns,
        rows,
        notes,
        remark,
    })
}

/// What a person should know beside the figure: the notes, and what the program in C said.
fn said(outcome: &Outcome) -> Vec<String> {
    let peer = outcome.peer.as_ref().and_then(|peer| peer.failed.as_ref());
    let notes = outcome.notes.iter().map(|note| one_line(note));
    notes
        .chain(peer.map(|failed| one_line(&format!("the program in C failed: {failed}"))))
        .collect()
}

fn of_figures(unit: Unit) -> String {
    let better = if unit.more_is_better() {
        "more is better"
    } else {
        "less is better"
    };
    format!("{}: {better}", unit.name())
}

/// Experiments with the command lines that do what they do.
fn commands(outcomes: &[&Outcome]) -> Vec<(String, String)> {
    let endpoint = |verb: &str, options: Option<String>| {
        options.map(|options| format!("fullbore {verb} {options}").trim_end().to_owned())
    };
    outcomes
        .iter()
        .filter_map(|outcome| {
            let parts: Vec<String> = [
                endpoint("write", without_settings(outcome.writer.as_ref())),
                outcome.mover.as_ref().map(|mover| mover.command.clone()),
                endpoint("read", without_settings(outcome.reader.as_ref())),
            ]
            .into_iter()
            .flatten()
            .collect();
            (!parts.is_empty()).then(|| (outcome.name.clone(), parts.join(" | ")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, grid};
    use super::*;
    use crate::run::Also;
    use crate::statistics::Spread;

    fn written(run: &Run) -> String {
        let mut text = Vec::new();
        Html.write(run, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..roxmltree::ParsingOptions::default()
        };
        roxmltree::Document::parse_with_options(&text, options).unwrap_or_else(|error| {
            panic!("{error} in\n{text}");
        });
        text
    }

    #[test]
    fn every_experiment_is_on_the_page_with_its_reason() {
        let mut run = fixture();
        run.experiments.extend(grid::fixture().experiments);
        let page = written(&run);
        for outcome in &run.experiments {
            assert!(page.contains(&format!("<bdi>{}</bdi>", outcome.name)));
        }
        for words in [
            "no hugetlb page is free here",
            "the reader ended with status 1:  read from",
            "base pages</li>",
            "7 of 11 experiments measured",
            "best: 64KiB per call",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("<&>") && !page.contains("<Platinum>"));
    }

    #[test]
    fn no_two_elements_have_the_same_id() {
        let mut run = fixture();
        run.experiments.extend(grid::fixture().experiments);
        let page = written(&run);
        let mut ids: Vec<&str> = page
            .split(" id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for target in page.split("href=\"#").skip(1) {
            let target = target.split('"').next().unwrap();
            assert!(ids.contains(&target), "{target}");
        }
    }

    #[test]
    fn percentiles_are_dots_and_the_alternative_has_them() {
        let mut run = fixture();
        run.experiments.truncate(1);
        let outcome = &mut run.experiments[0];
        outcome.unit = Unit::Microseconds;
        for (name, value) in [("p99", 12.5), ("p99.9", 333.0)] {
            outcome.also.push(Also {
                name: name.into(),
                unit: Unit::Microseconds,
                figure: Spread::of(&[value]).unwrap(),
            });
        }
        let page = written(&run);
        assert!(page.contains("write_read median 0.93, p99 12.5, p99.9 333."));
        assert!(page.contains("<circle") && page.contains("<polygon"));
        assert!(page.contains("µs: less is better"));
    }

    #[test]
    fn a_run_of_nothing_is_still_a_page() {
        let mut run = fixture();
        run.experiments.clear();
        run.taken_at = None;
        assert!(written(&run).contains("0 of 0 experiments measured"));
    }
}
