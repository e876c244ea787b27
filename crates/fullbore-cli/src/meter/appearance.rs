//! How a line of pv looks: its units, and the signs of its bars.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::terminal::line::Unit;

/// How counts and bars are written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appearance {
    /// In powers of 1000.
    pub si: bool,
    /// In bits.
    pub bits: bool,
    /// The style of the bars that have none of their own.
    pub style: Style,
    /// Whether a bar shows the rate if the total is not known.
    pub gauge: bool,
}

/// The signs of a bar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Style {
    #[default]
    Plain,
    Block,
    Granular,
    Shaded,
}
use Style::{Block, Granular, Plain, Shaded};

impl Style {
    /// Returns what moves while the total is not known.
    pub fn indicator(self) -> &'static str {
        match self {
            Plain => "<=>",
            Block | Granular => "\u{25c0}\u{25b6}",
            Shaded => "\u{2592}\u{2593}\u{2592}",
        }
    }

    /// Returns the signs of a cell, from empty to full.
    pub fn cells(self) -> Vec<char> {
        let cells = match self {
            Plain => " =",
            Block => " \u{2588}",
            Granular => " \u{258f}\u{258e}\u{258d}\u{258c}\u{258b}\u{258a}\u{2589}\u{2588}",
            Shaded => "\u{2591}\u{2592}\u{2593}\u{2588}",
        };
        cells.chars().collect()
    }
}

/// Writes a count as pv does: three or four digits, the prefix of a unit or blanks, and the unit.
pub fn count(count: f64, unit: Unit, appearance: &Appearance, per: &str) -> String {
    let (mut value, basic) = match (unit, appearance.bits) {
        (Unit::Lines, _) => (count, ""),
        (Unit::Bytes, true) => (count * 8.0, "b"),
        (Unit::Bytes, false) => (count, "B"),
    };
    const BINARY: [&str; 10] = ["ni", "ui", "mi", "  ", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 10] = ["n", "u", "m", " ", "k", "M", "G", "T", "P", "E"];
    let (ratio, prefixes) = match unit == Unit::Bytes && !appearance.si {
        true => (1024.0, BINARY),
        false => (1000.0, DECIMAL),
    };
    let mut at = 3;
    while value > ratio * 0.97 && at + 1 < prefixes.len() {
        value /= ratio;
        at += 1;
    }
    while value < 1.0 && value != 0.0 && at > 0 {
        value *= ratio;
        at -= 1;
    }
    let prefix = prefixes[at];
    let number = match value {
        value if value > 99.9 => format!("{:>4}", value.min(100_000.0) as u64),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    format!("{number}{prefix}{basic}{per}")
}
