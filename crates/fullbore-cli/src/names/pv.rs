//! `pv`, in the versions from 1.6.20 to 1.12: the options of `fullbore meter`, as pv reads them, with its words and exit
//! codes.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use super::call::{Call, options_of, version, word};
use super::getopt::{self, Spec, flag, valued};
use super::monitor;
use crate::command::meter::Meter;
use crate::exit;
use crate::meter::manner::{Manner, NOT_TOLD, WRONG};
use crate::words::Failed;
use fullbore_host::refusal::Usage;

/// All options of pv.
#[rustfmt::skip]
const OPTIONS: &[Spec] = &[
    flag('p', "progress", "show a bar"),
    flag('t', "timer", "show the elapsed time"),
    flag('e', "eta", "show the remaining time"),
    flag('I', "fineta", "show when it will be done"),
    flag('r', "rate", "show the current rate"),
    flag('a', "average-rate", "show the average rate"),
    flag('b', "bytes", "show the number of bytes"),
    flag('8', "bits", "show bits instead of bytes"),
    flag('k', "si", "powers of 1000, also in the options that follow"),
    flag('T', "buffer-percent", "show how full the pipe behind is"),
    valued('A', "last-written", "NUM", "show the last NUM bytes"),
    valued('F', "format", "FORMAT", "show a line of this format"),
    flag('n', "numeric", "print numbers for scripts"),
    flag('q', "quiet", "print nothing"),
    flag('W', "wait", "begin at the first byte"),
    valued('D', "delay-start", "SEC", "show nothing before SEC seconds"),
    valued('s', "size", "SIZE", "expect SIZE bytes, or the size of @FILE"),
    flag('g', "gauge", "show the rate in the bar if the size is not known"),
    flag('l', "line-mode", "count lines"),
    flag('0', "null", "count lines that end with a null character"),
    valued('i', "interval", "SEC", "update every SEC seconds"),
    valued('m', "average-rate-window", "SEC", "take the average of the last SEC seconds"),
    valued('w', "width", "WIDTH", "the columns of the line"),
    valued('H', "height", "HEIGHT", "the rows of the terminal"),
    valued('N', "name", "NAME", "print NAME before the line"),
    valued('u', "bar-style", "STYLE", "plain, block, granular or shaded"),
    valued('x', "extra-display", "SPEC", "show the line in the title of the window too"),
    flag('9', "conemu", "show the percentage in the tab of the terminal too"),
    flag('v', "stats", "print statistics of the rate at the end"),
    flag('f', "force", "show the line also if stderr is no terminal"),
    flag('c', "cursor", "draw below other pvs"),
    valued('o', "output", "FILE", "write to FILE"),
    valued('L', "rate-limit", "RATE", "pass at most RATE bytes per second"),
    valued('B', "buffer-size", "BYTES", "move at most BYTES at a time"),
    valued('J', "pipe-buffer-size", "BYTES", "let the pipe behind hold BYTES"),
    flag('C', "no-splice", "read and write, do not splice"),
    flag('E', "skip-errors", "write zeros for what cannot be read"),
    valued('Z', "error-skip-block", "BYTES", "with -E, skip so many bytes at a time"),
    flag('S', "stop-at-size", "stop after the size of -s"),
    flag('Y', "sync", "wait for the disk"),
    flag('K', "direct-io", "read past the page cache"),
    flag('O', "sparse", "without effect"),
    flag('X', "discard", "write nothing"),
    valued('U', "store-and-forward", "FILE", "store all input in FILE first"),
    valued('d', "watchfd", "PID[:FD]", "watch the files of a process"),
    valued('R', "remote", "PID", "change a running pv"),
    valued('Q', "query", "PID", "show the progress of a running pv"),
    valued('M', "monitor", "SIDE", "watch the input, the output or both of a command: in, out, both"),
    valued('P', "pidfile", "FILE", "write the process id to FILE"),
    flag('h', "help", "print this help"),
    flag('V', "version", "print the version"),
];

/// The options that say what the line shows.
const SHOWS: &str = "pteIrabTA";

/// The shortest and the longest time between two updates, in seconds.
const INTERVALS: (f64, f64) = (0.1, 600.0);

/// The seconds over which pv takes the average rate.
const WINDOW: &str = "30";

pub fn run(call: &Call) -> Result<ExitCode, ExitCode> {
    let parsed = call.parsed(OPTIONS);
    let mut parsed = parsed.map_err(|_| ExitCode::from(WRONG))?;
    for (id, _) in &parsed.options {
        match id {
            'h' => return Ok(call.print(&help())),
            'V' => return Ok(call.print(&version("pv", "pv 1.12"))),
            _ => {}
        }
    }
    // As pv does, without directories; the C library says the whole name about wrong options.
    let own = Call::new(OsStr::new("pv"), Vec::new());
    let wrong = |text: String| {
        own.say(text);
        ExitCode::from(WRONG)
    };
    let started = monitor::start(&own.who, &mut parsed);
    let started = started.map_err(|error| match error.is::<Usage>() {
        true => wrong(error.to_string()),
        false => own.failed(error),
    })?;
    let words = words(parsed).map_err(wrong)?;
    let tells = words.iter().any(|word| {
        let word = word.to_string_lossy();
        word.starts_with("--remote=") || word.starts_with("--query=")
    });
    let meter = options_of::<Meter>(words).map_err(wrong)?;
    let code = match exit::closed(meter.speaking_as_pv().run()) {
        Ok(code) => code,
        Err(error) if exit::code(&error).is_none() => ExitCode::SUCCESS,
        Err(error) => {
            crate::terminal::lines::say_line(Manner::Pv.line(&error));
            ExitCode::from(if tells { NOT_TOLD } else { Manner::bit(&error) })
        }
    };
    Ok(started.end(code))
}

/// Returns the command line of `fullbore meter` for that of pv.
fn words(parsed: getopt::Parsed) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = Vec::new();
    let has = |letters: &str| parsed.options.iter().any(|(id, _)| letters.contains(*id));
    let (is_told, watches, has_size, skips) = (has("R"), has("d"), has("s"), has("E"));
    // A meter that is running keeps what it is not told to change.
    if !is_told && !has("n") && !has("F") && !has(SHOWS) {
        words.extend(["-p", "-t", "-e", "-r", "-b"].map(OsString::from));
    }
    if !is_told {
        words.push(format!("--average-rate-window={WINDOW}").into());
    }
    let mut unit = 1024.0;
    for (id, value) in parsed.options {
        let spec = OPTIONS.iter().find(|spec| spec.id == id);
        let spec = spec.expect("it was found there");
        let Some(value) = value else {
            match id {
                'k' => unit = 1000.0,
                'O' => continue,
                // Without a size to stop at, it has no effect.
                'S' if !has_size => continue,
                _ => {}
            }
            words.push(format!("--{}", spec.long).into());
            continue;
        };
        let text = value.to_string_lossy();
        let wrong = |what: &str| format!("-{id}: {text}: {what}");
        let integer = || {
            let integer = text.trim().parse::<u64>();
            integer.map_err(|_| wrong("integer argument expected"))
        };
        let number = || match text.trim().parse::<f64>() {
            Ok(number) if number >= 0.0 => Ok(number),
            _ => Err(wrong("numeric argument expected")),
        };
        let value: OsString = match id {
            // Without errors to skip, it has no effect.
            'Z' if !skips => continue,
            's' if text.starts_with('@') => value.clone(),
            's' | 'L' | 'B' | 'J' | 'Z' => {
                let size =
                    size(&text, unit).ok_or_else(|| wrong("numeric value not understood"))?;
                if matches!((id, size), ('B' | 'J' | 'Z', 0)) {
                    continue;
                }
                size.to_string().into()
            }
            'i' => number()?.clamp(INTERVALS.0, INTERVALS.1).to_string().into(),
            'D' => number()?.min(86_400.0).to_string().into(),
            'A' => integer()?.clamp(1, 256).to_string().into(),
            'm' => integer()?.clamp(1, 1_000_000).to_string().into(),
            // 0 is what the terminal has.
            'w' | 'H' => match (id, integer()?) {
                (_, 0) => continue,
                ('H', rows) => rows.clamp(2, 65_535).to_string().into(),
                (_, columns) => columns.min(65_535).to_string().into(),
            },
            'R' | 'Q' => integer()?.to_string().into(),
            'u' if !is_utf8() => "plain".into(),
            'd' if text.starts_with('@') => {
                let list = std::fs::read_to_string(&text[1..]);
                let list = list.failed(format_args!("-d @: {}", &text[1..]));
                let list = list.map_err(|error| error.to_string())?;
                let lines = list.lines().map(str::trim);
                let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
                words.extend(lines.map(|line| OsString::from(format!("--watch={line}"))));
                continue;
            }
            _ => value.clone(),
        };
        words.push(word(format!("--{}=", spec.long), value));
    }
    if watches {
        let watch = |operand| word("--watch=", operand);
        words.extend(parsed.operands.iter().map(watch));
    } else {
        words.push("--".into());
        words.extend(parsed.operands);
    }
    Ok(words)
}

/// Reads a number with a suffix, in powers of `unit`.
fn size(text: &str, unit: f64) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let power = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" => return digits.parse().ok(),
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return None,
    };
    let number = digits.parse::<f64>().ok()?;
    Some((number * unit.powi(power)) as u64)
}

/// Whether the locale has the characters of bars.
fn is_utf8() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let mut set = names.filter_map(|name| std::env::var(name).ok());
    let locale = set.find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

fn help() -> String {
    format!(
        "Usage: pv [OPTION]... [FILE]...\n\
         Copy each FILE, or standard input, to standard output, and show the progress on standard error.\n\n\
         {}\n\
         This is 'fullbore meter' under the name of pv; docs/meter.md has the table of the options.\n",
        getopt::help(OPTIONS)
    )
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;

    #[test]
    fn every_option_of_pv_is_one_of_meter_by_the_same_letter() {
        let command = Meter::augment_args(Command::new("meter"));
        for spec in OPTIONS.iter().filter(|spec| !"hVM".contains(spec.id)) {
            let option = command.get_arguments().find(|option| {
                let also = option.get_visible_aliases().unwrap_or_default();
                option.get_long() == Some(spec.long) || also.contains(&spec.long)
            });
            let option = option.unwrap_or_else(|| panic!("no --{}", spec.long));
            assert_eq!(option.get_short(), spec.letter, "{}", spec.long);
            let has_value = option
                .get_num_args()
                .is_some_and(|count| count.takes_values());
            let takes_value = matches!(
                option.get_action(),
                clap::ArgAction::Set | clap::ArgAction::Append
            );
            assert_eq!(
                has_value || takes_value,
                spec.value != getopt::Value::None,
                "{}",
                spec.long
            );
        }
    }

    #[test]
    fn sizes_are_those_of_pv() {
        for (text, unit, bytes) in [
            ("10000", 1024.0, Some(10_000)),
            ("1k", 1024.0, Some(1024)),
            ("1.5G", 1024.0, Some(1536 << 20)),
            ("2M", 1000.0, Some(2_000_000)),
            ("8T", 1024.0, Some(8 << 40)),
            ("x", 1024.0, None),
            ("5x", 1024.0, None),
            ("-5", 1024.0, None),
        ] {
            assert_eq!(size(text, unit), bytes, "{text}");
        }
    }
}
