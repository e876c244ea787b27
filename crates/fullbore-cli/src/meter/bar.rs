//! The bars of pv's line.

use super::appearance::Style::{Block, Granular, Plain, Shaded};
use super::appearance::{Appearance, Style, count};
use crate::terminal::line::Reading;

/// The highest percentage that is shown.
const MOST: u64 = 100_000;

/// Draws `[===>   ]  40%`, or `[  <=>   ]` if the total is not known, in exactly `width` columns; nothing if there is
/// too little room.
pub fn progress(reading: &Reading, appearance: &Appearance, width: usize) -> String {
    let suffix = amount(reading, appearance).map_or_else(String::new, |text| match reading.total {
        Some(_) => format!(" {text}"),
        None => format!("/{text}"),
    });
    let Some(inside) = width.checked_sub(suffix.len() + 2) else {
        return String::new();
    };
    match bar(reading, appearance, appearance.style, inside) {
        bar if bar.is_empty() && inside > 0 => String::new(),
        bar => format!("[{bar}]{suffix}"),
    }
}

/// Returns the percentage, or for a gauge the highest rate; `None` if there is neither.
pub fn amount(reading: &Reading, appearance: &Appearance) -> Option<String> {
    match percent(reading) {
        Some(percent) => Some(format!("{percent:>3}%")),
        None if appearance.gauge => Some(count(reading.fastest, reading.unit, appearance, "/s")),
        None => None,
    }
}

/// Returns the percentage, if the total is known.
fn percent(reading: &Reading) -> Option<u64> {
    let total = reading.total.filter(|&total| total > 0);
    Some(total.and(reading.percent())?.min(MOST))
}

/// Returns how full the bar is in percent; `None` if it moves to and fro.
fn fill(reading: &Reading, appearance: &Appearance) -> Option<f64> {
    match reading.total {
        Some(total) if total > 0 => Some(100.0 * reading.passed as f64 / total as f64),
        _ if !appearance.gauge => None,
        _ if reading.fastest > 0.0 => Some(100.0 * reading.rate() / reading.fastest),
        _ => Some(0.0),
    }
}

/// Draws a bar without sides in exactly `width` columns.
pub fn bar(reading: &Reading, appearance: &Appearance, style: Style, width: usize) -> String {
    let cells = style.cells();
    let (empty, full) = (cells[0], cells[cells.len() - 1]);
    let row = |sign: char, count: usize| sign.to_string().repeat(count);
    let Some(fill) = fill(reading, appearance) else {
        let indicator = style.indicator();
        let Some(room) = width.checked_sub(indicator.chars().count()) else {
            return String::new();
        };
        let before = room * to_and_fro(reading.tick) as usize / 100;
        return row(empty, before) + indicator + &row(empty, room - before);
    };
    let exact = width as f64 * fill / 100.0;
    // More than there should be fills the place of the tip too.
    let part = cells[((cells.len() - 1) as f64 * exact.fract()) as usize];
    let (done, tip) = match style {
        Plain => ((exact as usize).saturating_sub(1), ">".to_owned()),
        Block => (exact as usize, String::new()),
        Granular | Shaded => (exact as usize, part.to_string()),
    };
    let done = done.min(width);
    let tip = if done < width { tip } else { String::new() };
    let rest = width - done - tip.chars().count();
    row(full, done) + &tip + &row(empty, rest)
}

/// Returns where the indicator is, in percent of its way, when a line is drawn after `tick` others.
pub fn to_and_fro(tick: u64) -> u64 {
    let there = (tick % 100 + 1) * 2 % 200;
    if there > 100 { 200 - there } else { there }
}

#[cfg(test)]
mod tests {
    use fullbore_host::text::columns;

    use super::*;

    fn drawn(style: Style, percent: u64, width: usize) -> String {
        let reading = Reading {
            passed: percent,
            total: Some(100),
            ..Reading::default()
        };
        bar(&reading, &Appearance::default(), style, width)
    }

    #[test]
    fn bars_are_those_of_pv() {
        assert_eq!(drawn(Plain, 0, 10), ">         ");
        assert_eq!(drawn(Plain, 60, 10), "=====>    ");
        assert_eq!(drawn(Plain, 100, 10), "=========>");
        assert_eq!(drawn(Plain, 120, 10), "==========");
        assert_eq!(
            drawn(Block, 55, 10),
            "\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}     "
        );
        assert_eq!(
            drawn(Granular, 55, 10),
            "\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{258c}    "
        );
        assert_eq!(
            drawn(Shaded, 55, 10),
            "\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2592}\u{2591}\u{2591}\u{2591}\u{2591}"
        );
    }

    #[test]
    fn a_bar_has_its_width_whatever_it_shows() {
        for style in [Plain, Block, Granular, Shaded] {
            for percent in [0, 1, 50, 99, 100, 101, 110, 1000] {
                for width in 0..40 {
                    assert_eq!(
                        columns(&drawn(style, percent, width)),
                        width,
                        "{style:?} {percent}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_gauge_shows_the_rate_beside_the_highest_one() {
        let reading = Reading {
            now: 512.0,
            fastest: 1024.0,
            ..Reading::default()
        };
        let appearance = Appearance {
            gauge: true,
            ..Appearance::default()
        };
        assert_eq!(
            progress(&reading, &appearance, 23),
            "[====>      ]/1.00KiB/s"
        );
    }
}
