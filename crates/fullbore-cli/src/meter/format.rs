//! The line as pv writes it: a format with sequences such as `%b` and `%{rate}`, each replaced by a part of
//! a [`Reading`]. Numbers, widths and the bar are those of pv 1.6.20; the sequences in braces are those of
//! pv 1.9. Nothing here reads a clock or a terminal.

use std::time::Duration;

use fullbore_host::text::{clean, columns, cut, padded};

use crate::terminal::line::{Reading, Unit};

/// What a sequence stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The bar with its percentage.
    Progress,
    Percentage,
    Bar(Style),
    Timer,
    Eta,
    /// The time of day at which it will be done.
    Finish,
    Rate,
    AverageRate,
    Count,
    LastWritten,
    PreviousLine,
    Name,
    /// Which side is slow: not one of pv's.
    Slow,
}

/// How a bar is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Block,
    Granular,
    Shaded,
}

/// All sequences: the letter, if there is one, and the name.
#[rustfmt::skip]
const SEQUENCES: &[(Option<char>, &str, Part)] = &[
    (Some('p'), "progress", Part::Progress),
    (None, "progress-amount-only", Part::Percentage),
    (None, "progress-bar-only", Part::Bar(Style::Plain)),
    (None, "bar-plain", Part::Bar(Style::Plain)),
    (None, "bar-block", Part::Bar(Style::Block)),
    (None, "bar-granular", Part::Bar(Style::Granular)),
    (None, "bar-shaded", Part::Bar(Style::Shaded)),
    (Some('t'), "timer", Part::Timer),
    (Some('e'), "eta", Part::Eta),
    (Some('I'), "fineta", Part::Finish),
    (Some('r'), "rate", Part::Rate),
    (Some('a'), "average-rate", Part::AverageRate),
    (Some('b'), "bytes", Part::Count),
    (None, "transferred", Part::Count),
    (Some('A'), "last-written", Part::LastWritten),
    (Some('L'), "previous-line", Part::PreviousLine),
    (Some('N'), "name", Part::Name),
    (None, "slow", Part::Slow),
];

/// Those that need the buffer of a program that copies every byte through one.
const OF_A_BUFFER: [&str; 2] = ["T", "{buffer-percent}"];

/// A piece of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// Characters that take no room: colours.
    Colour(String),
    Part(Part, usize),
}

/// A format that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format(Vec<Piece>);

/// How counts are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Scale {
    /// In powers of 1000.
    pub si: bool,
    /// In bits.
    pub bits: bool,
}

impl Format {
    /// Reads a format. What is no sequence is text, as for pv.
    ///
    /// # Errors
    /// A sentence, for a sequence that only pv has.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            let sequence = &rest[at + 1..];
            let digits = sequence.len()
                - sequence
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .len();
            let (number, name) = sequence.split_at(digits);
            let len = match name
                .strip_prefix('{')
                .and_then(|inner| inner.find(['}', '%']))
            {
                Some(end) if name.as_bytes()[end + 1] == b'}' => end + 2,
                _ => name.chars().next().map_or(0, char::len_utf8),
            };
            let name = &name[..len];
            if OF_A_BUFFER.contains(&name) {
                return Err(format!(
                    "invalid format '{text}': meter has no buffer that %{name} could show; \
                     'fullbore buffer' has one, and %{{slow}} says which side is slow"
                ));
            }
            let number = number.parse().unwrap_or(0);
            pieces.push(match Self::part(name) {
                Some(part) => Piece::Part(part, number),
                None => match name
                    .strip_prefix("{sgr:")
                    .and_then(|codes| codes.strip_suffix('}'))
                {
                    Some(codes) => Piece::Colour(colour(codes)),
                    None if name == "%" => Piece::Text("%".to_owned()),
                    None => Piece::Text(format!("%{}{name}", &sequence[..digits])),
                },
            });
            rest = &sequence[digits + len..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    fn part(sequence: &str) -> Option<Part> {
        let name = sequence
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'));
        let is_it = |&&(letter, long, _): &&(Option<char>, &str, Part)| match name {
            Some(name) => name == long,
            None => {
                letter.is_some_and(|letter| sequence.len() == 1 && sequence.starts_with(letter))
            }
        };
        SEQUENCES.iter().find(is_it).map(|&(_, _, part)| part)
    }

    /// Returns how many of the last bytes the line shows, if it shows any.
    pub fn looks_at(&self) -> Option<usize> {
        let of = |piece: &Piece| match *piece {
            Piece::Part(Part::LastWritten, number) => Some(number.clamp(1, 256)),
            Piece::Part(Part::PreviousLine, _) => Some(4096),
            _ => None,
        };
        self.0.iter().filter_map(of).max()
    }

    /// Returns the line in at most `width` columns. Whatever does not fit any more is left out, as pv does
    /// it; the bars and the previous line get the room that the others leave.
    pub fn line(&self, reading: &Reading, scale: Scale, width: usize) -> String {
        let flexible = |piece: &Piece| {
            matches!(
                piece,
                Piece::Part(Part::Progress | Part::Bar(_) | Part::PreviousLine, 0)
            )
        };
        let fixed: Vec<Option<String>> = (self.0.iter())
            .map(|piece| match piece {
                piece if flexible(piece) => None,
                Piece::Text(text) | Piece::Colour(text) => Some(text.clone()),
                Piece::Part(part, number) => Some(part.text(reading, scale, *number)),
            })
            .collect();
        let taken: usize = (self.0.iter().zip(&fixed))
            .map(|(piece, text)| columns_of(piece, text.as_deref().unwrap_or_default()))
            .sum();
        let bars = fixed.iter().filter(|text| text.is_none()).count().max(1);
        let room = width.saturating_sub(taken) / bars;
        let (mut line, mut used) = (String::new(), 0);
        for (piece, text) in self.0.iter().zip(fixed) {
            let text = match (text, piece) {
                (Some(text), _) => text,
                (None, Piece::Part(part, _)) => part.text(reading, scale, room),
                (None, _) => continue,
            };
            let wide = columns_of(piece, &text);
            if used + wide > width {
                break;
            }
            used += wide;
            line += &text;
        }
        line
    }
}

/// Returns how many columns a piece takes.
fn columns_of(piece: &Piece, text: &str) -> usize {
    match piece {
        Piece::Colour(_) => 0,
        _ => columns(text),
    }
}

impl Format {
    /// Returns the line with plain numbers, for a script: bytes, seconds, percent.
    pub fn numbers(&self, reading: &Reading) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Colour(_) => String::new(),
            Piece::Part(part, number) => part.number(reading, *number),
        });
        pieces.collect()
    }
}

impl Part {
    /// Returns a part as a plain number, if it is one.
    fn number(self, reading: &Reading, number: usize) -> String {
        match self {
            Part::Progress | Part::Percentage | Part::Bar(_) => reading.number().to_string(),
            Part::Timer => format!("{:.4}", reading.elapsed.as_secs_f64()),
            Part::Eta => format!("{:.0}", reading.left.unwrap_or_default().as_secs_f64()),
            Part::Rate => format!("{:.0}", reading.rate()),
            Part::AverageRate => format!("{:.0}", reading.average),
            Part::Count => reading.passed.to_string(),
            Part::Name => clean(reading.name.as_deref().unwrap_or_default()),
            Part::Finish | Part::LastWritten | Part::PreviousLine | Part::Slow => {
                self.text(reading, Scale::default(), number)
            }
        }
    }

    /// Returns the text of a part; `number` is the one in its sequence, or the width of a bar.
    fn text(self, reading: &Reading, scale: Scale, number: usize) -> String {
        let rate = |rate| format!("[{}]", count(rate, reading.unit, scale, "/s"));
        let eta = |text: String| match reading.total {
            Some(total) if total > 0 => text,
            _ => String::new(),
        };
        let left = reading.left.unwrap_or_default();
        match self {
            Part::Progress => progress(reading, number),
            Part::Percentage => match reading.percent() {
                Some(percent) => format!("{:>2}%", percent.min(MOST)),
                None => count(reading.passed as f64, reading.unit, scale, ""),
            },
            Part::Bar(style) => bar(reading, style, number),
            Part::Timer => clock(reading.elapsed),
            Part::Eta => {
                let text = format!("ETA {}", clock(left));
                // Blanks at the end of the transfer, so that nothing moves.
                eta(if reading.ended {
                    " ".repeat(text.len())
                } else {
                    text
                })
            }
            Part::Finish => eta(format!("ETA {}", time_of_day(left))),
            Part::Rate => rate(reading.rate()),
            Part::AverageRate => rate(reading.average),
            Part::Count => count(reading.passed as f64, reading.unit, scale, ""),
            Part::LastWritten => {
                let most = number.clamp(1, 256);
                let tail = &reading.tail[reading.tail.len().saturating_sub(most)..];
                let shown: String = tail.iter().map(|&byte| printable(byte)).collect();
                format!("{shown:.>most$}")
            }
            Part::PreviousLine => {
                let end = reading
                    .tail
                    .iter()
                    .rposition(|&byte| byte == b'\n')
                    .unwrap_or(0);
                let begin = reading.tail[..end].iter().rposition(|&byte| byte == b'\n');
                let line = &reading.tail[begin.map_or(0, |at| at + 1)..end];
                let line = clean(&String::from_utf8_lossy(line));
                padded(&cut(&line, number), number)
            }
            Part::Name => match &reading.name {
                Some(name) => format!("{:>9}:", clean(name)),
                None => String::new(),
            },
            Part::Slow => reading.hint.unwrap_or_default().to_owned(),
        }
    }
}

fn printable(byte: u8) -> char {
    match byte {
        b' '..=b'~' => byte.into(),
        _ => '.',
    }
}

/// Writes a count as pv does: three or four digits, the prefix of a unit or a blank, and the unit.
fn count(count: f64, unit: Unit, scale: Scale, per: &str) -> String {
    let (mut value, basic) = match (unit, scale.bits) {
        (Unit::Lines, _) => (count, ""),
        (Unit::Bytes, true) => (count * 8.0, "b"),
        (Unit::Bytes, false) => (count, "B"),
    };
    let binary = unit == Unit::Bytes && !scale.si;
    let (ratio, prefixes) = match binary {
        true => (
            1024.0,
            ["ni", "ui", "mi", " ", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
        ),
        false => (1000.0, ["n", "u", "m", " ", "k", "M", "G", "T", "P", "E"]),
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

/// `0:01:23`, and `1:02:03:04` for more than a day.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3600);
    let (of_minute, days) = (seconds % 60, seconds / 86_400);
    match time > Duration::from_secs(86_400) {
        true => format!("{days}:{:02}:{minutes:02}:{of_minute:02}", hours % 24),
        false => format!("{hours}:{minutes:02}:{of_minute:02}"),
    }
}

/// Returns the local time after this time, with the date if that is more than six hours.
fn time_of_day(left: Duration) -> String {
    let format = match left > Duration::from_secs(6 * 3600) {
        true => "%Y-%m-%d %H:%M:%S",
        false => "%H:%M:%S",
    };
    match jiff::Zoned::now().checked_add(left) {
        Ok(then) => then.strftime(format).to_string(),
        Err(_) => String::new(),
    }
}

/// The highest percentage that is shown.
const MOST: u64 = 100_000;

/// Returns the percentage, if the total is known.
fn percent(reading: &Reading) -> Option<u64> {
    let total = reading.total.filter(|&total| total > 0);
    Some(total.and(reading.percent())?.min(MOST))
}

/// Draws `[===>   ] 40%`, or `[  <=>   ]` if the total is not known, in exactly `width` columns; nothing if
/// there is too little room.
fn progress(reading: &Reading, width: usize) -> String {
    let percent = percent(reading);
    let suffix = percent.map_or_else(String::new, |percent| format!(" {percent:>2}%"));
    match width.checked_sub(suffix.len()) {
        Some(width) if width >= 2 => format!("{}{suffix}", bar(reading, Style::Plain, width)),
        _ => String::new(),
    }
}

fn bar(reading: &Reading, style: Style, width: usize) -> String {
    let percent = percent(reading);
    let Some(percent) = percent else {
        let Some(inside) = width.checked_sub(5) else {
            return String::new();
        };
        let there = (reading.tick % 100 + 1) * 2 % 200;
        let back = if there > 100 { 200 - there } else { there };
        let before = inside * back as usize / 100;
        return format!("[{}<=>{}]", " ".repeat(before), " ".repeat(inside - before));
    };
    let share = |width: usize, percent: u64| width * percent as usize / 100;
    let of = |width: usize, steps: usize| share(width * steps, percent.min(100));
    match style {
        Style::Plain => {
            let Some(inside) = width.checked_sub(2) else {
                return String::new();
            };
            let done = share(inside, percent).saturating_sub(1).min(inside);
            let head = if done < inside { ">" } else { "" };
            format!("[{:<inside$}]", "=".repeat(done) + head)
        }
        Style::Block => format!("{:<width$}", "█".repeat(of(width, 1))),
        Style::Shaded => {
            let done = of(width, 1);
            "█".repeat(done) + &"░".repeat(width - done)
        }
        Style::Granular => {
            let eighths = of(width, 8);
            let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
            format!("{:<width$}", "█".repeat(eighths / 8) + part)
        }
    }
}

/// Returns the sequence of console_codes(4) for names such as `bold,red`, `bg-blue` or numbers.
fn colour(names: &str) -> String {
    const COLOURS: [&str; 8] = [
        "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
    ];
    const MODES: [(&str, u8); 8] = [
        ("none", 0),
        ("reset", 0),
        ("bold", 1),
        ("dim", 2),
        ("italic", 3),
        ("underscore", 4),
        ("blink", 5),
        ("reverse", 7),
    ];
    let code = |name: &str| {
        let (name, base) = match name.strip_prefix("bg-") {
            Some(name) => (name, 40),
            None => (name.strip_prefix("fg-").unwrap_or(name), 30),
        };
        let of_colour = COLOURS
            .iter()
            .position(|&one| one == name)
            .map(|at| base + at as u8);
        let of_mode = MODES
            .iter()
            .find(|(one, _)| *one == name)
            .map(|&(_, code)| code);
        of_colour.or(of_mode).or_else(|| name.parse().ok())
    };
    let codes: Vec<String> = names
        .split(',')
        .filter_map(code)
        .map(|code| code.to_string())
        .collect();
    match codes.is_empty() {
        true => String::new(),
        false => format!("\x1b[{}m", codes.join(";")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: &str, reading: &Reading, width: usize) -> String {
        Format::new(format)
            .unwrap()
            .line(reading, Scale::default(), width)
    }

    fn reading() -> Reading {
        Reading {
            name: Some("nm".into()),
            passed: 600_000,
            total: Some(1_000_000),
            elapsed: Duration::from_secs(83),
            now: 21.4 * 1048576.0,
            average: 245.0 * 1024.0,
            left: Some(Duration::from_secs(90_000)),
            tail: b"first\nsecond\nthi".to_vec(),
            ..Reading::default()
        }
    }

    #[test]
    #[rustfmt::skip]
    fn counts_are_those_of_pv() {
        let bytes = |value| count(value, Unit::Bytes, Scale::default(), "");
        for (value, text) in [
            (0.0, "0.00 B"), (7.0, "7.00 B"), (11.0, "11.0 B"), (99.9, "99.9 B"), (100.0, " 100 B"), (993.0, " 993 B"),
            (994.0, " 994 B"),
            (1023.0, "1023 B"), (1024.0, "1.00KiB"), (600_000.0, " 585KiB"), (1_500_000.0, "1.43MiB"),
            (0.5, " 512miB"), (18e18, "15.6EiB"),
        ] {
            assert_eq!(bytes(value), text, "{value}");
        }
        let lines = |value| count(value, Unit::Lines, Scale::default(), "/s");
        assert_eq!([lines(0.0), lines(600.0), lines(1e6), lines(5.55)], ["0.00 /s", " 600 /s", "1.00M/s", "5.55 /s"]);
        let scale = Scale { si: true, bits: true };
        assert_eq!(count(1e6, Unit::Bytes, scale, "/s"), "8.00Mb/s");
    }

    #[test]
    #[rustfmt::skip]
    fn sequences_are_replaced_and_the_rest_is_text() {
        for (format, text) in [
            ("%b|%t|%r|%a|%N", " 585KiB|0:01:23|[21.4MiB/s]|[ 245KiB/s]|       nm:"),
            ("%{bytes}%{transferred} %{timer} %{name}", " 585KiB 585KiB 0:01:23        nm:"),
            ("%e|%{progress-amount-only}", "ETA 1:01:00:00|60%"),
            ("%5A|%A|%20A", "d.thi|i|....first.second.thi"),
            ("%10L|", "second    |"),
            ("a%%b%zz%{bytes%t%", "a%b%zz%{bytes0:01:23%"),
            ("%{sgr:bold,red}x%{sgr:reset}", "\x1b[1;31mx\x1b[0m"),
            ("%20p|", "[=======>      ] 60%|"),
            ("%{bar-plain}", "[=============================================>                                ]"),
            ("%{bar-shaded}%60t", "███████████████████████████████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░0:01:23"),
        ] {
            assert_eq!(line(format, &reading(), 80), text, "{format}");
        }
        assert!(Format::new("%b %T").unwrap_err().contains("%T"));
        assert!(Format::new("%{buffer-percent}").unwrap_err().contains("buffer"));
    }

    #[test]
    fn the_bar_fills_the_line_and_what_does_not_fit_is_left_out() {
        let text = line("%b %t %r %p %e", &reading(), 79);
        assert_eq!(
            text,
            " 585KiB 0:01:23 [21.4MiB/s] [=================>            ] 60% ETA 1:01:00:00"
        );
        for width in 0..200 {
            for format in [
                "%N %b %t %r %p %e",
                "%p",
                "%{bar-granular}",
                "%p%p %L",
                "%30p%b",
            ] {
                for total in [None, Some(0), Some(1_000_000), Some(1)] {
                    for tick in [0, 1, 49, 50, 99] {
                        let reading = Reading {
                            total,
                            tick,
                            ..reading()
                        };
                        let text = line(format, &reading, width);
                        assert!(columns(&text) <= width, "{format} {width} {text:?}");
                    }
                }
            }
        }
    }
}
