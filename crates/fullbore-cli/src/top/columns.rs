//! The columns of `top`: a row of the table for each, which says all that the screen, `--once` and the orders use of it.

use clap::builder::styling::{AnsiColor, Style};

use super::cells;
use crate::terminal::may_colour;
use fullbore_host::size::amount;
use fullbore_host::text::{columns as columns_of, cut};
use fullbore_observe::census::Process;
use fullbore_observe::overview::{Overview, PipeState, Slow};

/// A column of the table.
pub struct Column {
    pub name: &'static str,
    /// The least and the most columns of the terminal that it can use.
    pub least: usize,
    pub most: usize,
    /// The columns with the least weight are left out first.
    pub weight: u8,
    pub right: bool,
    /// Whether `--once` prints it too.
    pub once: bool,
    /// The text for so many columns of the terminal at most.
    pub text: fn(&Overview, &PipeState, usize) -> String,
    pub style: fn(&PipeState) -> Style,
    /// The order by this column: its place among the orders, its name, and the value by which a pipe is sorted. The
    /// highest comes first.
    pub order: Option<Order>,
}

pub type Order = (usize, &'static str, fn(&PipeState) -> f64);

const PLAIN: Column = Column {
    name: "",
    least: 0,
    most: 0,
    weight: 0,
    right: true,
    once: false,
    text: |_, _, _| String::new(),
    style: |_| Style::new(),
    order: None,
};

/// The order by the names of the processes, and nothing else.
pub const BY_NAME: &str = "name";

/// All columns, from left to right.
#[rustfmt::skip]
pub const COLUMNS: &[Column] = &[
    Column { name: "writer → reader", least: 24, most: 64, weight: 9, right: false, once: true, text: ends, order: Some((5, BY_NAME, |_| 0.0)), ..PLAIN },
    Column { name: "holds", least: 7, most: 8, weight: 4, once: true, text: |_, row, _| cells::capacity(row),
        order: Some((3, "holds", |row| row.capacity.map_or(-1.0, |size| size as f64))), ..PLAIN },
    Column { name: "fill", least: 5, most: 40, weight: 5, right: false, text: |_, row, width| spark(&row.fills, width), style: |_| coloured(AnsiColor::Cyan), ..PLAIN },
    Column { name: "full", least: 4, most: 4, weight: 8, once: true, text: |_, row, _| cells::filled(row), order: Some((1, "full", |row| row.filled.unwrap_or(-1.0))), ..PLAIN },
    Column { name: "rate", least: 11, most: 11, weight: 6, once: true, text: |_, row, _| cells::rate(row), order: Some((0, "rate", |row| row.bytes_per_second.unwrap_or(-1.0))), ..PLAIN },
    Column { name: "passed", least: 9, most: 9, weight: 3, text: |_, row, _| passed(row), ..PLAIN },
    Column { name: "waits", least: 11, most: 12, weight: 6, once: true, text: |_, row, _| cells::waits(row),
        order: Some((2, "waits", |row| row.blocked.iter().map(|blocked| blocked.seconds).fold(-1.0, f64::max))), ..PLAIN },
    Column { name: "slow", least: 12, most: 20, weight: 7, right: false, once: true, text: |overview, row, _| cells::slow(overview, row), style: slow_style, ..PLAIN },
    Column { name: "seen", least: 7, most: 7, weight: 2, text: |overview, row, _| cells::time(overview.taken_at - row.first_seen), order: Some((4, "newest", |row| row.first_seen)), ..PLAIN },
    Column { name: "inode", least: 9, most: 12, weight: 1, text: |_, row, _| row.inode.to_string(), ..PLAIN },
    Column { name: "command", least: 24, most: 80, weight: 0, right: false, text: |_, row, _| commands(row), ..PLAIN },
];

/// Returns the style of a colour, if there may be colours (no-color.org).
pub fn coloured(colour: AnsiColor) -> Style {
    Style::new().fg_color(may_colour().then_some(colour.into()))
}

fn slow_style(row: &PipeState) -> Style {
    match row.slow {
        Slow::Writer => coloured(AnsiColor::Yellow),
        Slow::Reader => coloured(AnsiColor::Magenta),
        Slow::Cpus => coloured(AnsiColor::Red),
        Slow::Both | Slow::Unknown => Style::new(),
    }
}

fn ends(overview: &Overview, row: &PipeState, width: usize) -> String {
    let branch = cells::branch(overview, row);
    let names = cells::ends(row);
    let room = width.saturating_sub(columns_of(branch));
    format!("{branch}{}", shown_in(&names, room))
}

fn commands(row: &PipeState) -> String {
    let [writer, reader] = [&row.writers, &row.readers]
        .map(|all| all.first().map_or("?", |who: &Process| &who.command));
    format!("{writer} | {reader}")
}

fn passed(row: &PipeState) -> String {
    let bytes = row.bytes.bytes.map(|count| amount(count as f64));
    bytes.unwrap_or_else(|| "unknown".to_owned())
}

/// Returns bars that show how full the pipe was, the latest at the right.
fn spark(fills: &[f64], width: usize) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let last = &fills[fills.len().saturating_sub(width)..];
    let bars = last.iter().map(|share| {
        // A pipe that is not empty gets at least the smallest bar.
        let eighths = (share.clamp(0.0, 1.0) * 8.0).round() as usize;
        BARS[eighths.max(usize::from(*share > 0.0))]
    });
    let bars: String = bars.collect();
    format!("{bars:>width$}")
}

/// Returns as much of a text as fits into some columns of the terminal, with an ellipsis where it was longer.
pub fn shown_in(text: &str, columns: usize) -> String {
    match columns_of(text) <= columns {
        true => text.to_owned(),
        false if columns == 0 => String::new(),
        false => cut(text, columns - 1) + "…",
    }
}
