//! The table of what was measured in a group, row by row.

use super::page::{Cell, Column, Table};
use crate::report::chart::which_is_better;
use crate::report::{figure, marked_median, one_line, percent};
use crate::run::{Cost, Limit, Outcome, Unit};
use fullbore_host::size;

/// Returns the table of the experiments that have a figure; `None` where none has.
pub fn results(
    id: &str,
    name: &str,
    outcomes: &[&Outcome],
    limit: Option<&Limit>,
) -> Option<Table> {
    let measured: Vec<&Outcome> = outcomes
        .iter()
        .copied()
        .filter(|outcome| outcome.figure.is_some())
        .collect();
    let unit = measured.first()?.unit;
    let mut notes: Vec<String> = Vec::new();
    for note in measured.iter().flat_map(|outcome| said(outcome)) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let columns = columns(&measured, unit, &notes, limit);
    let row = |outcome: &&Outcome| columns.iter().map(|(_, cell)| cell(outcome)).collect();
    let rows = measured.iter().map(row).collect();
    let columns = columns.into_iter().map(|(column, _)| column).collect();
    Some(Table {
        id: format!("{id}-table"),
        caption: format!("{}, {}", one_line(name), which_is_better(unit)),
        columns,
        rows,
        notes,
    })
}

/// A column, and what it shows of an experiment.
type Shown<'a> = (Column, Box<dyn Fn(&Outcome) -> Cell + 'a>);

fn shown<'a>(column: Column, cell: impl Fn(&Outcome) -> Cell + 'a) -> Shown<'a> {
    (column, Box::new(cell))
}

/// Returns the columns that have something to show.
fn columns<'a>(
    measured: &[&'a Outcome],
    unit: Unit,
    notes: &'a [String],
    limit: Option<&'a Limit>,
) -> Vec<Shown<'a>> {
    let any = |has: fn(&Outcome) -> bool| measured.iter().any(|outcome| has(outcome));
    let times = |ratio: f64| format!("{}×", figure(ratio));
    let mut columns = vec![shown(Column::words("experiment"), |o| named(o, notes))];
    if any(|o| o.cell.is_some()) {
        let (chunk, pipe) = ("bytes of a call", "pipe");
        columns.push(shown(Column::numbers(chunk), |o| {
            bytes(o.cell.map(|cell| cell.chunk))
        }));
        columns.push(shown(Column::numbers(pipe), |o| {
            bytes(o.cell.map(|cell| cell.pipe_size))
        }));
    }
    let median = Column::numbers(format!("median {}", unit.name()));
    columns.push(shown(median, |o| {
        Cell::number(o.figure.as_ref().map(|spread| spread.median), |_| {
            marked_median(o)
        })
    }));
    columns.push(shown(Column::numbers("least"), |o| {
        Cell::number(o.figure.as_ref().map(|spread| spread.min), figure)
    }));
    columns.push(shown(Column::numbers("most"), |o| {
        Cell::number(o.figure.as_ref().map(|spread| spread.max), figure)
    }));
    columns.extend(further(measured));
    if any(|o| o.ratio.is_some()) {
        columns.push(shown(Column::numbers("ratio"), move |o| {
            Cell::number(o.ratio, times)
        }));
    }
    if any(|o| o.cost.is_some()) {
        let cost = |heading: &str, of: fn(&Cost) -> f64| {
            shown(Column::numbers(heading), move |o| {
                Cell::number(o.cost.as_ref().map(of), figure)
            })
        };
        columns.push(cost("CPU s/GiB", |cost| cost.total.median));
        columns.push(cost("user", |cost| cost.user.median));
        columns.push(cost("system", |cost| cost.system.median));
    }
    if let Some(limit) = limit.filter(|limit| measured.iter().any(|o| o.share_of(limit).is_some()))
    {
        columns.push(shown(Column::numbers("of the limit"), |o| {
            Cell::number(o.share_of(limit), percent)
        }));
    }
    if any(|o| o.published.is_some()) {
        columns.push(shown(Column::numbers("published"), |o| {
            Cell::number(o.published, figure)
        }));
    }
    if any(|o| o.peer.is_some()) {
        columns.push(shown(Column::numbers("to C"), peer));
    }
    if any(|o| o.soundness.is_some()) {
        columns.push(shown(Column::words("bytes"), soundness));
    }
    columns
}

/// Returns a column for each further figure that any of the experiments has.
fn further<'a>(measured: &[&'a Outcome]) -> Vec<Shown<'a>> {
    let mut also: Vec<(&str, Unit)> = Vec::new();
    for figure in measured.iter().flat_map(|outcome| &outcome.also) {
        if also.iter().all(|(name, _)| *name != figure.name) {
            also.push((&figure.name, figure.unit));
        }
    }
    let column = |(name, unit): (&'a str, Unit)| {
        let heading = format!("{name} {}", unit.name());
        shown(Column::numbers(heading), move |o| {
            let found = o.also.iter().find(|also| also.name == name);
            Cell::number(found.map(|also| also.figure.median), figure)
        })
    };
    also.into_iter().map(column).collect()
}

/// Returns the name of an experiment with what it shows and the numbers of its notes.
fn named(outcome: &Outcome, notes: &[String]) -> Cell {
    let numbers = said(outcome)
        .iter()
        .filter_map(|note| Some(notes.iter().position(|known| known == note)? + 1))
        .collect();
    Cell {
        below: outcome.shows.clone(),
        notes: numbers,
        ..Cell::text(&outcome.name)
    }
}

fn bytes(bytes: Option<usize>) -> Cell {
    Cell::number(bytes.map(|bytes| bytes as f64), |b| size::format(b as u64))
}

/// Returns how many times as fast an experiment was as the program in C that does the same.
fn peer(outcome: &Outcome) -> Cell {
    let ratio = outcome.peer.as_ref().and_then(|peer| peer.ratio);
    let mut cell = Cell::number(ratio, |ratio| format!("{ratio:.2}×"));
    if outcome.peer.is_some() && ratio.is_none() {
        cell.text = "failed".into();
    }
    cell
}

/// Returns whether the bytes of an experiment were right.
fn soundness(outcome: &Outcome) -> Cell {
    match &outcome.soundness {
        None => Cell::default(),
        Some(soundness) if soundness.right => Cell {
            class: "good",
            ..Cell::text("right")
        },
        Some(_) => Cell {
            class: "bad",
            ..Cell::text("WRONG")
        },
    }
}

/// Returns what a person should know beside the figure: the notes, and the error of the program in
/// C.
fn said(outcome: &Outcome) -> Vec<String> {
    let peer = outcome.peer.as_ref().and_then(|peer| peer.failed.as_ref());
    let notes = outcome.notes.iter().map(|note| one_line(note));
    notes
        .chain(peer.map(|failed| one_line(&format!("the program in C failed: {failed}"))))
        .collect()
}
