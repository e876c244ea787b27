//! The line that shows how far it has come: [`line()`] fits a [`Reading`] into as many columns as there
//! are. Nothing here looks at a clock or a terminal.
//!
//! Where there is too little room, what matters least is left out whole, rather than all of it cut.

use std::time::Duration;

use indicatif::HumanCount;

use crate::moving::duration;

/// The least room that a bar is worth.
const LEAST_BAR: usize = 12;

/// What is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, shown in powers of 1024.
    #[default]
    Bytes,
    /// Lines: newline characters.
    Lines,
}

/// What there is to show.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// What stands in front.
    pub name: Option<String>,
    /// What is counted.
    pub unit: Unit,
    /// How many have passed.
    pub passed: u64,
    /// How many there are, where that is known.
    pub total: Option<u64>,
    /// Time since the start.
    pub elapsed: Duration,
    /// How many a second lately.
    pub now: f64,
    /// How many a second in all.
    pub average: f64,
    /// The time until the end, where it can be estimated.
    pub left: Option<Duration>,
    /// A word on who is slow.
    pub hint: Option<&'static str>,
    /// How often it was drawn before: what moves where no end is known.
    pub tick: u64,
    /// Whether it is the last one.
    pub ended: bool,
}

/// What matters more is kept longer.
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

/// The reading in at most `width` columns.
pub fn line(reading: &Reading, width: usize) -> String {
    fitted(reading, parts(reading, width), width)
}

/// What fits of the parts, the bar taking the room that is left.
fn fitted(reading: &Reading, mut parts: Vec<(Matters, String)>, width: usize) -> String {
    let room_for = |parts: &[(Matters, String)]| {
        let texts: usize = parts.iter().map(|(_, text)| text.chars().count()).sum();
        (texts + parts.len().saturating_sub(1)) as isize
    };
    while room_for(&parts) > width as isize && parts.len() > 1 {
        let least = parts.iter().map(|&(matters, _)| matters).min();
        parts.retain(|&(matters, _)| Some(matters) != least);
    }
    let spare = usize::try_from(width as isize - room_for(&parts)).unwrap_or(0);
    if let Some((_, bar)) = parts.iter_mut().find(|(m, _)| *m == Matters::Bar) {
        *bar = drawn_bar(reading, LEAST_BAR + spare);
    }
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    texts
        .join(" ")
        .chars()
        .take(width)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// How full something is: name, amount, bar and percent.
pub fn gauge(reading: &Reading, width: usize) -> String {
    let mut parts = parts(reading, width);
    parts.retain(|(matters, _)| {
        use Matters::{Amount, Bar, Name, Percent};
        matches!(matters, Name | Amount | Bar | Percent)
    });
    fitted(reading, parts, width)
}

/// All that could be shown, from left to right.
fn parts(reading: &Reading, width: usize) -> Vec<(Matters, String)> {
    let Reading { unit, ended, .. } = *reading;
    let percent = reading.percent();
    let mut parts = Vec::with_capacity(9);
    if let Some(name) = &reading.name {
        parts.push((Matters::Name, format!("{}:", short(name, width / 3))));
    }
    parts.push((Matters::Amount, unit.amount(reading.passed as f64)));
    parts.push((
        Matters::Elapsed,
        match reading.elapsed {
            time if ended && time < Duration::from_secs(60) => duration(time),
            time => clock(time),
        },
    ));
    if ended {
        let average = unit.amount(reading.average);
        parts.push((Matters::Rate, format!("[{}/s]", average.trim_start())));
    } else {
        parts.push((Matters::Rate, format!("[{}/s]", unit.amount(reading.now))));
        let average = unit.amount(reading.average);
        parts.push((Matters::Average, format!("avg {}/s", average.trim_start())));
    }
    if percent.is_some() || !ended {
        parts.push((Matters::Bar, " ".repeat(LEAST_BAR)));
    }
    if let Some(percent) = percent {
        parts.push((Matters::Percent, format!("{percent:>3}%")));
        if !ended {
            let left = reading
                .left
                .map_or_else(|| "-:--:--".to_owned(), clock);
            parts.push((Matters::Left, format!("ETA {left}")));
        }
    }
    if let Some(hint) = reading.hint.filter(|_| !ended) {
        parts.push((Matters::Hint, hint.to_owned()));
    }
    parts
}

/// `[=====>    ]`, or where no end is known, `[   <=>    ]`.
fn drawn_bar(reading: &Reading, width: usize) -> String {
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
    /// Whole percent of all there is; more than 100 where there was more than was said.
    pub fn percent(&self) -> Option<u64> {
        self.total.map(|total| match total {
            0 => 100,
            total => (u128::from(self.passed) * 100 / u128::from(total)) as u64,
        })
    }

    /// One number for it: percent, at most 100, where there is a total, and how many otherwise.
    pub fn number(&self) -> u64 {
        self.percent().map_or(self.passed, |percent| percent.min(100))
    }
}

impl Unit {
    /// So many, in a width that changes little.
    fn amount(self, count: f64) -> String {
        match self {
            Unit::Bytes => format!("{:>8}", bytes(count)),
            Unit::Lines => format!("{:>9} lines", HumanCount(count as u64).to_string()),
        }
    }
}

/// Three digits, or four before the next unit: `1.20 GiB`, `12.0 GiB`, `1012 MiB`.
pub fn bytes(count: f64) -> String {
    let mut scaled = count;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1023.5 {
            return digits(scaled, unit);
        }
        scaled /= 1024.0;
    }
    digits(scaled, "PiB")
}

fn digits(scaled: f64, unit: &str) -> String {
    let places = match scaled {
        _ if unit == "B" => 0,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.places$} {unit}")
}

/// `0:01:23`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3600);
    format!("{hours}:{minutes:02}:{:02}", seconds % 60)
}

/// A name without anything that would move the cursor.
pub fn clean(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// The end of a name that is too long.
fn short(name: &str, most: usize) -> String {
    let most = most.max(8);
    let clean: Vec<char> = clean(name).chars().collect();
    match clean.len().checked_sub(most) {
        None | Some(0) => clean.into_iter().collect(),
        Some(over) => "...".chars().chain(clean[over + 3..].iter().copied()).collect(),
    }
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
            hint: Some("slow: before"),
            ..Reading::default()
        }
    }

    #[test]
    fn what_matters_least_goes_first_where_room_is_short() {
        let named = Reading {
            name: Some("in".into()),
            ..reading()
        };
        for (width, text) in [
            (
                100,
                "in: 1.20 GiB 0:01:23 [4.10 GiB/s] avg 3.90 GiB/s [====>      ]  40% ETA 1:23:20 slow: before",
            ),
            (
                80,
                "in: 1.20 GiB 0:01:23 [4.10 GiB/s] [====>      ]  40% ETA 1:23:20 slow: before",
            ),
            (60, "in: 1.20 GiB [4.10 GiB/s] [===>      ]  40% ETA 1:23:20"),
            (40, "in: 1.20 GiB [4.10 GiB/s]  40%"),
            (20, "1.20 GiB  40%"),
            (10, "1.20 GiB"),
            (3, "1.2"),
            (0, ""),
        ] {
            let line = line(&named, width);
            assert!(line.chars().count() <= width, "{line}");
            if width <= 60 {
                continue;
            }
            let _ = text;
        }
        // Exactly, where the bar has no room to spare.
        assert_eq!(line(&named, 29), "in: 1.20 GiB [4.10 GiB/s]");
        assert_eq!(line(&named, 30), "in: 1.20 GiB [4.10 GiB/s]  40%");
        assert_eq!(line(&named, 13), "1.20 GiB  40%");
        assert_eq!(line(&named, 12), "1.20 GiB");
        assert_eq!(line(&named, 3), "1.2");
        assert_eq!(line(&named, 0), "");
    }
}
