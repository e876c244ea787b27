//! The words of mbuffer, with which a buffer speaks if it was called by that name.

use fullbore::buffer::Level;

use super::status_line::Reading;

/// Returns what stands before a message: an `error` or a `warning`.
pub fn before(as_mbuffer: bool, kind: &str) -> String {
    match as_mbuffer {
        true => format!("mbuffer: {kind}: "),
        false => "fullbore buffer: ".to_owned(),
    }
}

/// Writes a number of bytes as mbuffer does: `2929 ki`, ` 185 Mi`, `79.1 Mi`.
fn amount(bytes: f64) -> String {
    const PREFIXES: [char; 4] = ['k', 'M', 'G', 'T'];
    let (mut value, mut at) = (bytes / 1024.0, 0);
    while value > 10_000.0 && at + 1 < PREFIXES.len() {
        value /= 1024.0;
        at += 1;
    }
    let digits = usize::from(value < 100.0);
    format!("{value:>4.digits$} {}i", PREFIXES[at])
}

/// Returns the summary of mbuffer.
pub fn summary(level: &Level, outputs: usize) -> String {
    let seconds = level.elapsed.as_secs_f64();
    let (hours, minutes) = (seconds as u64 / 3600, seconds as u64 / 60 % 60);
    let rest = seconds - (hours * 3600 + minutes * 60) as f64;
    let time = match (hours, minutes) {
        (0, 0) => format!("{rest:>4.1}sec"),
        (0, minutes) => format!("{minutes:>2}min {rest:04.1}sec"),
        (hours, minutes) => format!("{hours}h {minutes:02}min {rest:04.1}sec"),
    };
    let times = several(outputs, "x ");
    let total = (level.taken * outputs.max(1) as u64) as f64;
    let average = if seconds > 0.0 { total / seconds } else { 0.0 };
    let mut text = format!(
        "summary: {times}{}Byte in {time} - average of {}B/s",
        amount(level.taken as f64),
        amount(average)
    );
    for (waits, what) in [(level.empty, "empty"), (level.full, "full")] {
        if waits.times > 0 {
            text += &format!(", {}x {what}", waits.times);
        }
    }
    text
}

/// Returns the number of outputs and a sign behind it, if there are several.
fn several(outputs: usize, sign: &str) -> String {
    match outputs {
        0 | 1 => String::new(),
        outputs => format!("{outputs}{sign}"),
    }
}

/// Returns the line of mbuffer while it runs: what came in and went out `since` another level, and how much is done if
/// the `size` of the input is known.
pub fn status(level: &Level, since: &Level, outputs: usize, size: Option<u64>) -> String {
    let reading = Reading::of(level, since);
    let times = several(outputs, " x ");
    let done = match size {
        Some(size @ 1..) => format!(", {:>3.0}% done", 100.0 * reading.sent as f64 / size as f64),
        _ => String::new(),
    };
    format!(
        "in @ {}B/s, out @ {}B/s, {times}{}B total, buffer {:>3.0}% full{done}",
        amount(reading.comes),
        amount(reading.goes * outputs.max(1) as f64),
        amount(reading.sent as f64),
        reading.percent,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn level(taken: u64, held: u64, seconds: u64) -> Level {
        let mut level = Level::default();
        (level.taken, level.held, level.capacity) = (taken, held, 100 << 20);
        level.elapsed = Duration::from_secs(seconds);
        level
    }

    #[test]
    fn amounts_are_those_of_mbuffer() {
        for (bytes, text) in [
            (0.0, " 0.0 ki"),
            (3e6, "2930 ki"),
            (185.0 * 1048576.0, " 185 Mi"),
            (79.1 * 1048576.0, "79.1 Mi"),
            (1e15, " 909 Ti"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }

    #[test]
    fn the_summary_and_the_line_are_those_of_mbuffer() {
        let mut ended = level(50 << 30, 0, 4000);
        assert_eq!(
            summary(&ended, 1),
            "summary: 50.0 GiByte in 1h 06min 40.0sec - average of 12.8 MiB/s"
        );
        (ended.empty.times, ended.elapsed) = (3, Duration::from_millis(61_500));
        assert_eq!(
            summary(&ended, 2),
            "summary: 2x 50.0 GiByte in  1min 01.5sec - average of 1665 MiB/s, 3x empty"
        );
        let line = status(
            &level(300 << 20, 50 << 20, 2),
            &level(0, 0, 0),
            1,
            Some(500 << 20),
        );
        assert_eq!(
            line,
            "in @  150 MiB/s, out @  125 MiB/s,  250 MiB total, buffer  50% full,  50% done"
        );
    }
}
