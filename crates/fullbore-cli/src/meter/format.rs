//! The line as pv writes it: a format with sequences such as `%b` and `%{rate}`, each replaced by a part of
//! a [`Reading`]. Numbers, widths and sequences are those of pv 1.9 and later. Nothing here reads a clock or a terminal.

use std::time::Duration;

use fullbore_host::text::{clean, columns, cut, padded};

use super::appearance::{Appearance, Style, count};
use super::bar;
use crate::terminal::line::{self, Reading};

/// What a sequence stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The bar with its percentage.
    Progress,
    Percentage,
    /// The bar alone, in this style or in that of the line.
    Bar(Option<Style>),
    Timer,
    Eta,
    /// The time of day at which it will be done.
    Finish,
    Rate,
    AverageRate,
    Count,
    /// How full the pipe behind is.
    Buffer,
    LastWritten,
    PreviousLine,
    Name,
    /// The percentage for the tab of a terminal that is ConEmu, or like it.
    ConEmu,
    /// Which side is slow: not one of pv's.
    Slow,
}

/// All sequences: the letter, if there is one, and the name.
#[rustfmt::skip]
const SEQUENCES: &[(Option<char>, &str, Part)] = &[
    (Some('p'), "progress", Part::Progress),
    (None, "progress-amount-only", Part::Percentage),
    (None, "progress-bar-only", Part::Bar(None)),
    (None, "bar-plain", Part::Bar(Some(Style::Plain))),
    (None, "bar-block", Part::Bar(Some(Style::Block))),
    (None, "bar-granular", Part::Bar(Some(Style::Granular))),
    (None, "bar-shaded", Part::Bar(Some(Style::Shaded))),
    (Some('t'), "timer", Part::Timer),
    (Some('e'), "eta", Part::Eta),
    (Some('I'), "fineta", Part::Finish),
    (Some('r'), "rate", Part::Rate),
    (Some('a'), "average-rate", Part::AverageRate),
    (Some('b'), "bytes", Part::Count),
    (None, "transferred", Part::Count),
    (Some('T'), "buffer-percent", Part::Buffer),
    (Some('A'), "last-written", Part::LastWritten),
    (Some('L'), "previous-line", Part::PreviousLine),
    (Some('N'), "name", Part::Name),
    (None, "progress-conemu", Part::ConEmu),
    (None, "slow", Part::Slow),
];

/// The most columns that a part can be asked to take.
const MOST_COLUMNS: usize = 65_535;

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

impl Format {
    /// Reads a format. What is no sequence is text, as for pv.
    pub fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            let sequence = &rest[at + 1..];
            let name = sequence.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = &sequence[..sequence.len() - name.len()];
            let inner = name.strip_prefix('{');
            let len = match inner.and_then(|inner| inner.find(['}', '%'])) {
                Some(end) if name.as_bytes()[end + 1] == b'}' => end + 2,
                _ => name.chars().next().map_or(0, char::len_utf8),
            };
            let name;
            (name, rest) = sequence[digits.len()..].split_at(len);
            // More columns than a terminal can have are a mistake, and would take as much memory.
            let number = digits.parse().unwrap_or(0).min(MOST_COLUMNS);
            let inner = name
                .strip_prefix('{')
                .and_then(|name| name.strip_suffix('}'));
            let codes = inner.and_then(|inner| inner.strip_prefix("sgr:"));
            pieces.push(match (Self::part(name, inner), codes) {
                (Some(part), _) => Piece::Part(part, number),
                (None, Some(codes)) => Piece::Colour(colour(codes)),
                (None, None) if name == "%" => Piece::Text("%".to_owned()),
                (None, None) => Piece::Text(format!("%{digits}{name}")),
            });
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Self(pieces)
    }

    /// Returns the part of a sequence, by what is in its braces, or by its letter.
    fn part(sequence: &str, name: Option<&str>) -> Option<Part> {
        let mut letters = sequence.chars();
        let letter = letters.next().filter(|_| letters.next().is_none());
        let is_it = |&&(short, long, _): &&(Option<char>, &str, Part)| match name {
            Some(name) => name == long,
            None => letter.is_some() && short == letter,
        };
        SEQUENCES.iter().find(is_it).map(|&(_, _, part)| part)
    }

    /// Returns whether the line sets the progress in the tab of the terminal.
    pub fn sets_tab(&self) -> bool {
        let sets = |piece: &Piece| matches!(piece, Piece::Part(Part::ConEmu, _));
        self.0.iter().any(sets)
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
    pub fn line(&self, reading: &Reading, appearance: &Appearance, width: usize) -> String {
        let fixed = self.0.iter().map(|piece| match piece {
            Piece::Part(Part::Progress | Part::Bar(_) | Part::PreviousLine, 0) => None,
            Piece::Text(text) | Piece::Colour(text) => Some(text.clone()),
            Piece::Part(part, number) => Some(part.text(reading, appearance, *number)),
        });
        let fixed: Vec<Option<String>> = fixed.collect();
        let taken: usize = fixed.iter().flatten().map(|text| columns(text)).sum();
        let bars = fixed.iter().filter(|text| text.is_none()).count().max(1);
        let room = width.saturating_sub(taken) / bars;
        let (mut line, mut used) = (String::new(), 0);
        for (piece, text) in self.0.iter().zip(fixed) {
            let text = match (text, piece) {
                (Some(text), _) => text,
                (None, Piece::Part(part, _)) => part.text(reading, appearance, room),
                (None, _) => continue,
            };
            used += columns(&text);
            if used > width {
                break;
            }
            line += &text;
        }
        line
    }

    /// Returns the line with plain numbers, for a script: bytes, seconds, percent. If it is not known, that of `%p` goes
    /// to and fro if it `wanders`.
    pub fn numbers(&self, reading: &Reading, wanders: bool) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Colour(_) => String::new(),
            Piece::Part(part, number) => part.number(reading, *number, wanders),
        });
        pieces.collect()
    }
}

impl Part {
    /// Returns a part as a plain number, if it is one.
    fn number(self, reading: &Reading, number: usize, wanders: bool) -> String {
        match self {
            Part::Progress if wanders && reading.total.is_none() => {
                bar::to_and_fro(reading.tick).to_string()
            }
            Part::Progress | Part::Percentage | Part::Bar(_) => reading.number().to_string(),
            Part::Buffer => format!("{:.0}", reading.buffered),
            Part::Timer => format!("{:.4}", reading.elapsed.as_secs_f64()),
            Part::Eta => format!("{:.0}", reading.left.unwrap_or_default().as_secs_f64()),
            Part::Rate => format!("{:.4}", reading.rate()),
            Part::AverageRate => format!("{:.4}", reading.average),
            Part::Count => reading.passed.to_string(),
            Part::Name => clean(reading.name.as_deref().unwrap_or_default()),
            Part::Finish | Part::LastWritten | Part::PreviousLine | Part::ConEmu | Part::Slow => {
                self.text(reading, &Appearance::default(), number)
            }
        }
    }

    /// Returns the text of a part; `number` is the one in its sequence, or the width of a bar.
    fn text(self, reading: &Reading, appearance: &Appearance, number: usize) -> String {
        let count_of = |number, per| count(number, reading.unit, appearance, per);
        let eta = |text: String| match reading.total {
            Some(total) if total > 0 => text,
            _ => String::new(),
        };
        let left = reading.left.unwrap_or_default();
        match self {
            Part::Progress => bar::progress(reading, appearance, number),
            Part::Percentage => {
                let amount = bar::amount(reading, appearance);
                amount.unwrap_or_else(|| count_of(reading.passed as f64, ""))
            }
            Part::Bar(style) => {
                let style = style.unwrap_or(appearance.style);
                bar::bar(reading, appearance, style, number)
            }
            Part::Timer => clock(reading.elapsed),
            Part::Eta => {
                let text = format!("ETA {}", clock(left));
                // Blanks at the end of the transfer, so that nothing moves.
                eta(match reading.ended {
                    true => " ".repeat(text.len()),
                    false => text,
                })
            }
            Part::Finish => eta(format!("FIN {}", time_of_day(left))),
            Part::Rate => format!("[{}]", count_of(reading.rate(), "/s")),
            Part::AverageRate => format!("({})", count_of(reading.average, "/s")),
            Part::Buffer => format!("{{{:>3.0}%}}", reading.buffered),
            Part::Count => count_of(reading.passed as f64, ""),
            Part::LastWritten => {
                let most = number.clamp(1, 256);
                let tail = &reading.tail[reading.tail.len().saturating_sub(most)..];
                let printable = |&byte: &u8| match byte {
                    b' '..=b'~' => char::from(byte),
                    _ => '.',
                };
                let shown: String = tail.iter().map(printable).collect();
                format!("{shown:.>most$}")
            }
            Part::PreviousLine => {
                let line = reading.tail.rsplit(|&byte| byte == b'\n').nth(1);
                let line = clean(&String::from_utf8_lossy(line.unwrap_or_default()));
                padded(&cut(&line, number), number)
            }
            Part::Name => {
                let name = reading.name.as_ref();
                name.map_or_else(String::new, |name| format!("{:>9}:", clean(name)))
            }
            // Its Operating System Command 9;4 (conemu.github.io, 'ANSI X3.64 and Xterm-256 Support').
            Part::ConEmu => match reading.percent() {
                Some(percent) => format!("\x1b]9;4;1;{percent}\x1b\\"),
                None => format!("\x1b]9;4;3;{}\x1b\\", bar::to_and_fro(reading.tick)),
            },
            Part::Slow => reading.hint.unwrap_or_default().to_owned(),
        }
    }
}

/// `0:01:23`, and `1:02:03:04` for more than a day.
fn clock(time: Duration) -> String {
    let (days, seconds) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
    match time > Duration::from_secs(86_400) {
        true => format!("{days}:{:0>8}", line::clock(Duration::from_secs(seconds))),
        false => line::clock(time),
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

/// Returns the sequence of console_codes(4) for names such as `bold,red`, `bg-blue` or numbers.
pub fn colour(names: &str) -> String {
    const COLOURS: [&str; 8] = [
        "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
    ];
    #[rustfmt::skip]
    const MODES: [(&str, u8); 8] = [
        ("none", 0), ("reset", 0), ("bold", 1), ("dim", 2),
        ("italic", 3), ("underscore", 4), ("blink", 5), ("reverse", 7),
    ];
    let code = |name: &str| {
        let (name, base) = match name.strip_prefix("bg-") {
            Some(name) => (name, 40),
            None => (name.strip_prefix("fg-").unwrap_or(name), 30),
        };
        let of_colour = COLOURS.iter().position(|&one| one == name);
        let of_colour = of_colour.map(|at| base + at as u8);
        let of_mode = MODES.iter().find(|(one, _)| *one == name);
        let of_name = of_colour.or(of_mode.map(|&(_, code)| code));
        of_name.or_else(|| name.parse().ok())
    };
    let codes = names.split(',').filter_map(code);
    let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
    match codes.is_empty() {
        true => String::new(),
        false => format!("\x1b[{}m", codes.join(";")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::line::Unit;

    fn line(format: &str, reading: &Reading, width: usize) -> String {
        Format::new(format).line(reading, &Appearance::default(), width)
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
            buffered: 40.0,
            tail: b"first\nsecond\nthi".to_vec(),
            ..Reading::default()
        }
    }

    #[test]
    #[rustfmt::skip]
    fn counts_are_those_of_pv() {
        let bytes = |value| count(value, Unit::Bytes, &Appearance::default(), "");
        for (value, text) in [
            (0.0, "0.00  B"), (7.0, "7.00  B"), (11.0, "11.0  B"), (99.9, "99.9  B"), (100.0, " 100  B"), (993.0, " 993  B"),
            (994.0, " 994  B"),
            (1023.0, "1023  B"), (1024.0, "1.00KiB"), (600_000.0, " 585KiB"), (1_500_000.0, "1.43MiB"),
            (0.5, " 512miB"), (18e18, "15.6EiB"),
        ] {
            assert_eq!(bytes(value), text, "{value}");
        }
        let lines = |value| count(value, Unit::Lines, &Appearance::default(), "/s");
        assert_eq!([lines(0.0), lines(600.0), lines(1e6), lines(5.55)], ["0.00 /s", " 600 /s", "1.00M/s", "5.55 /s"]);
        let appearance = Appearance { si: true, bits: true, ..Appearance::default() };
        assert_eq!(count(1e6, Unit::Bytes, &appearance, "/s"), "8.00Mb/s");
    }

    #[test]
    #[rustfmt::skip]
    fn sequences_are_replaced_and_the_rest_is_text() {
        for (format, text) in [
            ("%b|%t|%r|%a|%N", " 585KiB|0:01:23|[21.4MiB/s]|( 245KiB/s)|       nm:"),
            ("%T|%{buffer-percent}", "{ 40%}|{ 40%}"),
            ("%{bytes}%{transferred} %{timer} %{name}", " 585KiB 585KiB 0:01:23        nm:"),
            ("%e|%{progress-amount-only}", "ETA 1:01:00:00| 60%"),
            ("%5A|%A|%20A", "d.thi|i|....first.second.thi"),
            ("%10L|", "second    |"),
            ("a%%b%zz%{bytes%t%", "a%b%zz%{bytes0:01:23%"),
            ("%{sgr:bold,red}x%{sgr:reset}", "\x1b[1;31mx\x1b[0m"),
            ("%b%{progress-conemu}|%20p|", " 585KiB\x1b]9;4;1;60\x1b\\|[======>      ]  60%|"),
            ("%20p|", "[======>      ]  60%|"),
            ("%10{bar-plain}|%10{progress-bar-only}", "=====>    |=====>    "),
            ("%{bar-shaded}%60t", "███████████████████████████████████████████▓░░░░░░░░░░░░░░░░░░░░░░░░░░░░░0:01:23"),
        ] {
            assert_eq!(line(format, &reading(), 80), text, "{format}");
        }
    }

    #[test]
    fn the_bar_fills_the_line_and_what_does_not_fit_is_left_out() {
        let text = line("%b %t %r %p %e", &reading(), 79);
        assert_eq!(
            text,
            " 585KiB 0:01:23 [21.4MiB/s] [================>            ]  60% ETA 1:01:00:00"
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
