//! `pv`, in the versions from 1.6.20 to 1.12: the options of `fullbore meter`, as pv reads them, with its words and exit
//! codes.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{Args, Command};

use super::call::{Call, options_of, version};
use super::getopt::{self, Spec, Value, flag, valued, word};
use super::monitor;
use crate::command::meter::Meter;
use crate::error_text::Failed;
use crate::exit;
use crate::meter::manner::{Manner, NOT_TOLD, WRONG};
use fullbore_host::refusal::Usage;

/// Returns the options of pv: its own, and those of the meter that have a letter.
fn options(meter: &Command) -> Vec<Spec<'_>> {
    let of_meter = meter.get_arguments().filter_map(|option| {
        let aliases = option.get_visible_aliases().unwrap_or_default();
        let names = option.get_value_names().and_then(<[_]>::first);
        let name = names.filter(|_| option.get_action().takes_values());
        Some(Spec {
            id: option.get_short()?,
            letter: option.get_short(),
            long: aliases.first().copied().or(option.get_long())?,
            value: name.map_or(Value::None, |name| Value::Required(name)),
            about: option.get_help()?.to_string(),
        })
    });
    let own = [
        valued(
            'M',
            "monitor",
            "SIDE",
            "Watch the input, the output or both of a command: in, out, both",
        ),
        flag('h', "help", "Print this help"),
        flag('V', "version", "Print the version"),
    ];
    of_meter.chain(own).collect()
}

/// The options that say what the line shows.
const SHOWS: &str = "pteIrabTA";

/// The shortest and the longest time between two updates, in seconds.
const INTERVALS: (f64, f64) = (0.1, 600.0);

/// The seconds over which pv takes the average rate.
const WINDOW: &str = "30";

pub fn run(call: &Call) -> Result<ExitCode, ExitCode> {
    let meter = Meter::augment_args(Command::new("pv"));
    let specs = options(&meter);
    let parsed = call.parsed(&specs);
    let mut parsed = parsed.map_err(|_| ExitCode::from(WRONG))?;
    for (id, _) in &parsed.options {
        match id {
            'h' => return Ok(call.print(&help(&specs))),
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
    let mut given = parsed.options.iter();
    let tells = given.any(|(id, _)| matches!(id, 'R' | 'Q'));
    let words = words(parsed, &specs).map_err(wrong)?;
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
fn words(parsed: getopt::Parsed, specs: &[Spec<'_>]) -> Result<Vec<OsString>, String> {
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
        let spec = specs.iter().find(|spec| spec.id == id);
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
                words.extend(watched(&text[1..])?);
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

/// Returns the options for the processes that a file lists, a line each.
fn watched(path: &str) -> Result<Vec<OsString>, String> {
    let list = std::fs::read_to_string(path);
    let list = list.failed(format_args!("-d @: {path}"));
    let list = list.map_err(|error| error.to_string())?;
    let lines = list.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(|line| format!("--watch={line}").into()).collect())
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

fn help(specs: &[Spec<'_>]) -> String {
    format!(
        "Usage: pv [OPTION]... [FILE]...\n\
         Copy each FILE, or standard input, to standard output, and show the progress on standard error.\n\n\
         {}\n\
         This is 'fullbore meter' under the name of pv; docs/meter.md has the table of the options.\n",
        getopt::help(specs)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_pv_is_one_of_meter_by_the_same_letter() {
        let meter = Meter::augment_args(Command::new("meter"));
        let specs = options(&meter);
        let line =
            |spec: &Spec<'_>| format!("{} {} {}\n", spec.id, spec.long, spec.value != Value::None);
        let lines: String = specs.iter().map(line).collect();
        assert_eq!(
            lines,
            include_str!("../../../../fuzz/pv_options"),
            "{lines}"
        );
        for letter in "pteIrabTA8kFnqWDsgl0imwHNuxvfcoLBJCEZSYKOXUdRQMPhV9".chars() {
            assert_eq!(
                specs.iter().filter(|spec| spec.id == letter).count(),
                1,
                "{letter}"
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
