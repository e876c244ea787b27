//! The line that shows the progress: [`line()`] fits a [`Reading`] into the columns of the terminal. Nothing
//! here reads a clock or a terminal.
//!
//! If there is too little room, the least important parts are left out whole.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use fullbore_host::size::amount;
use fullbore_host::text::{clean, columns, cut, duration, thousands};
use fullbore_observe::Rate;

/// The least width of a bar.
const LEAST_BAR: usize = 12;

/// What is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bytes, shown in powers of 1024.
    #[default]
    Bytes,
    /// Lines: newline characters.
    Lines,
}

/// What a line shows.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The text before the line.
    pub name: Option<String>,
    /// What is counted.
    pub unit: Unit,
    /// How many have passed.
    pub passed: u64,
    /// The expected count, if it is known.
    pub total: Option<u64>,
    /// Time since the start.
    pub elapsed: Duration,
    /// The current rate per second.
    pub now: f64,
    /// The average rate per second.
    pub average: f64,
    /// The estimated time until the end, if there is an estimate.
    pub left: Option<Duration>,
    /// A short hint which side is slow.
    pub hint: Option<&'static str>,
    /// How often the line was drawn before, for the bar that moves if the total is not known.
    pub tick: u64,
    /// The highest rate that was seen.
    pub fastest: f64,
    /// How full the pipe behind is, in percent; 0 if there is none.
    pub buffered: f64,
    /// Whether this is the final line.
    pub ended: bool,
    /// The last bytes that passed, if they are to be shown.
    pub tail: Vec<u8>,
}

/// The parts of a line, the least important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Matters {
    Average,
    Hint,
    Elapsed,
    Bar,
    Left,
    Name,
    Rate,
    Percent,
    Amount,
}

/// Returns the line in at most `width` columns.
pub fn line(reading: &Reading, width: usize) -> String {
    fitted(reading, parts(reading, width), width)
}

/// Joins the parts that fit. The bar gets the room that is left.
fn fitted(reading: &Reading, mut parts: Vec<(Matters, String)>, width: usize) -> String {
    let spare = leave_out(&mut parts, 1, width);
    if let Some((_, bar)) = parts.iter_mut().find(|(m, _)| *m == Matters::Bar) {
        *bar = drawn_bar(reading, LEAST_BAR + spare);
    }
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    cut(&texts.join(" "), width).trim_end().to_owned()
}

/// Leaves out the least important parts until the others fit, with so many columns `between` two of them. Returns the
/// columns that are left.
pub fn leave_out<M: Copy + Ord>(
    parts: &mut Vec<(M, String)>,
    between: usize,
    width: usize,
) -> usize {
    loop {
        let texts: usize = parts.iter().map(|(_, text)| columns(text)).sum();
        let needed = texts + between * parts.len().saturating_sub(1);
        if needed <= width || parts.len() <= 1 {
            return width.saturating_sub(needed);
        }
        let least = parts.iter().map(|&(matters, _)| matters).min();
        parts.retain(|&(matters, _)| Some(matters) != least);
    }
}

/// Returns a line that shows how full something is: name, amount, bar and percentage.
pub fn gauge(reading: &Reading, width: usize) -> String {
    let mut parts = parts(reading, width);
    parts.retain(|(matters, _)| {
        use Matters::{Amount, Bar, Name, Percent};
        matches!(matters, Name | Amount | Bar | Percent)
    });
    fitted(reading, parts, width)
}

/// Returns all parts, from left to right.
fn parts(reading: &Reading, width: usize) -> Vec<(Matters, String)> {
    let Reading { unit, ended, .. } = *reading;
    let percent = reading.percent();
    let mut parts = Vec::with_capacity(9);
    if let Some(name) = &reading.name {
        parts.push((Matters::Name, format!("{}:", short(name, width / 3))));
    }
    parts.push((Matters::Amount, unit.amount(reading.passed as f64)));
    let elapsed = match reading.elapsed {
        time if ended && time < Duration::from_secs(60) => duration(time),
        time => clock(time),
    };
    parts.push((Matters::Elapsed, elapsed));
    let average = unit.amount(reading.average);
    let average = average.trim_start();
    if ended {
        parts.push((Matters::Rate, format!("[{average}/s]")));
    } else {
        parts.push((Matters::Rate, format!("[{}/s]", unit.amount(reading.now))));
        parts.push((Matters::Average, format!("avg {average}/s")));
    }
    if percent.is_some() || !ended {
        parts.push((Matters::Bar, " ".repeat(LEAST_BAR)));
    }
    if let Some(percent) = percent {
        parts.push((Matters::Percent, format!("{percent:>3}%")));
        if !ended {
            let left = reading.left.map_or_else(|| "-:--:--".to_owned(), clock);
            parts.push((Matters::Left, format!("ETA {left}")));
        }
    }
    if let Some(hint) = reading.hint.filter(|_| !ended) {
        parts.push((Matters::Hint, hint.to_owned()));
    }
    parts
}

/// Draws `[=====>    ]`, or if the total is not known, `[   <=>    ]`.
pub fn drawn_bar(reading: &Reading, width: usize) -> String {
    let inside = width - 2;
    match reading.percent() {
        Some(percent) => {
            let done = inside * percent.min(100) as usize / 100;
            let head = if done < inside { ">" } else { "" };
            format!("[{:<inside$}]", "=".repeat(done) + head)
        }
        None => {
            let most = (inside - 3) as u64;
            let step = reading.tick * 2 % (2 * most).max(1);
            let at = if step > most { 2 * most - step } else { step };
            format!("[{:<inside$}]", " ".repeat(at as usize) + "<=>")
        }
    }
}

impl Reading {
    /// Returns the count, the times and the rates of this rate, and nothing else.
    pub fn of(rate: &Rate, total: Option<u64>) -> Self {
        Self {
            passed: rate.count(),
            total,
            elapsed: rate.elapsed(),
            now: rate.now(),
            average: rate.average(),
            left: total.and_then(|total| rate.left(total)),
            ..Self::default()
        }
    }

    /// Returns the percentage, rounded down; above 100 if there was more than expected.
    pub fn percent(&self) -> Option<u64> {
        self.total.map(|total| match total {
            0 => 100,
            total => (u128::from(self.passed) * 100 / u128::from(total)) as u64,
        })
    }

    /// Returns the current rate, and at the end the average.
    pub fn rate(&self) -> f64 {
        if self.ended { self.average } else { self.now }
    }

    /// Returns one number for scripts: the percentage if the total is known, otherwise the count.
    pub fn number(&self) -> u64 {
        self.percent().unwrap_or(self.passed)
    }
}

impl Unit {
    /// Formats a count, in a width that changes little.
    fn amount(self, count: f64) -> String {
        match self {
            Unit::Bytes => format!("{:>8}", amount(count)),
            Unit::Lines => format!("{:>9} lines", thousands(count as u64)),
        }
    }
}

/// `0:01:23`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3600);
    format!("{hours}:{minutes:02}:{:02}", seconds % 60)
}

/// Shortens a name in the middle if it is too long.
fn short(name: &str, most: usize) -> String {
    let (clean, most) = (clean(name), most.max(8));
    if columns(&clean) <= most {
        return clean;
    }
    let head = cut(&clean, most / 3);
    let room = most - most / 3 - 3;
    let mut tails = clean.char_indices().map(|(at, _)| &clean[at..]);
    let tail = tails.find(|tail| columns(tail) <= room);
    format!("{head}...{}", tail.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Reading {
        Reading {
            passed: 1288490189,
            total: Some(3 << 30),
            elapsed: Duration::from_secs(83),
            now: 4.1 * 1073741824.0,
            average: 3.9 * 1073741824.0,
            left: Some(Duration::from_secs(5000)),
            hint: Some("slow: writer"),
            ..Reading::default()
        }
    }

    #[test]
    #[rustfmt::skip]
    fn what_matters_least_is_left_out_first_where_room_is_short() {
        let named = Reading { name: Some("in".into()), ..reading() };
        for (width, text) in [
            (91, "in: 1.20 GiB 0:01:23 [4.10 GiB/s] avg 3.90 GiB/s [====>     ]  40% ETA 1:23:20 slow: writer"),
            (90, "in: 1.20 GiB 0:01:23 [4.10 GiB/s] [=========>              ]  40% ETA 1:23:20 slow: writer"),
            (76, "in: 1.20 GiB 0:01:23 [4.10 GiB/s] [====>     ]  40% ETA 1:23:20 slow: writer"),
            (75, "in: 1.20 GiB 0:01:23 [4.10 GiB/s] [========>             ]  40% ETA 1:23:20"),
            (63, "in: 1.20 GiB 0:01:23 [4.10 GiB/s] [====>     ]  40% ETA 1:23:20"),
            (62, "in: 1.20 GiB [4.10 GiB/s] [======>          ]  40% ETA 1:23:20"),
            (54, "in: 1.20 GiB [4.10 GiB/s]  40% ETA 1:23:20"),
            (30, "in: 1.20 GiB [4.10 GiB/s]  40%"),
            (29, "1.20 GiB [4.10 GiB/s]  40%"),
            (13, "1.20 GiB  40%"),
            (12, "1.20 GiB"),
            (3, "1.2"),
            (0, ""),
        ] {
            assert_eq!(line(&named, width), text, "{width}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_whatever_is_in_it() {
        for total in [None, Some(0), Some(1), Some(u64::MAX)] {
            for passed in [0, 1, u64::MAX] {
                for ended in [false, true] {
                    for width in (0..40).chain((40..250).step_by(11)) {
                        let reading = Reading {
                            name: Some("a name\nof 二 lines".repeat(6)),
                            unit: if width % 2 == 0 {
                                Unit::Lines
                            } else {
                                Unit::Bytes
                            },
                            passed,
                            total,
                            ended,
                            tick: width as u64 * 7,
                            now: f64::MAX,
                            ..reading()
                        };
                        for line in [line(&reading, width), gauge(&reading, width)] {
                            assert!(columns(&line) <= width, "{width}: {line}");
                            assert!(!line.contains('\n'));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_last_line_has_the_average_and_no_time_left() {
        let last = Reading {
            ended: true,
            total: None,
            ..reading()
        };
        assert_eq!(line(&last, 79), "1.20 GiB 0:01:23 [3.90 GiB/s]");
        let quick = Reading {
            ended: true,
            passed: 3 << 30,
            elapsed: Duration::from_millis(840),
            ..reading()
        };
        assert_eq!(
            line(&quick, 50),
            "   3 GiB 0.840 s [3.90 GiB/s] [=============] 100%"
        );
    }

    #[test]
    fn a_bar_without_an_end_goes_to_and_fro() {
        let bar = |tick| {
            let reading = Reading {
                tick,
                total: None,
                ..reading()
            };
            drawn_bar(&reading, 12)
        };
        assert_eq!(bar(0), "[<=>       ]");
        assert_eq!(bar(3), "[      <=> ]");
        assert_eq!(bar(4), "[      <=> ]");
        assert_eq!(bar(7), "[<=>       ]");
    }

    #[test]
    fn numbers_are_percent_or_counts() {
        let number = |passed, total| {
            let reading = Reading {
                passed,
                total,
                ..Reading::default()
            };
            reading.number()
        };
        assert_eq!(number(199, Some(200)), 99);
        assert_eq!(number(300, Some(200)), 150);
        assert_eq!(number(0, Some(0)), 100);
        assert_eq!(number(300, None), 300);
    }

    #[test]
    fn a_long_name_keeps_both_its_ends() {
        assert_eq!(short("3: /var/log/some.log", 12), "3: /...e.log");
        assert_eq!(short("in", 2), "in");
    }
}
