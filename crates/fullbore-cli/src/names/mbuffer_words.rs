//! The command line of mbuffer, as words for `fullbore buffer`. Fuzzing includes this file.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::getopt::word;

/// The options that have no value. `-f` is `--truncate`.
pub const FLAGS: &str = "--append --truncate -f -L -d -t -q -Q -c -e -0 -4 -6 -H --md5 --pid --direct --no-direct --tapeaware";

/// The options whose value follows, or for a letter is attached.
pub const VALUES: &str =
    "-b -s -m -D -P -p -i -o -I -O -n -T -l -u -r -R -a -A -v -W --tcpbuffer --tcptimeo --hash";

/// The names of the levels of messages.
const LEVELS: &[(&str, u8)] = &[
    ("silent", 0),
    ("none", 0),
    ("fatal", 0),
    ("error", 1),
    ("warning", 2),
    ("info", 4),
    ("debug", 5),
    ("io", 6),
];

/// What a command line asks for.
#[derive(Debug, PartialEq)]
pub enum Read {
    /// With the mistakes that mbuffer prints before it goes on without the option; it ends with 1 then.
    Words(Vec<OsString>, Vec<String>),
    Help,
    Version,
    Algorithms,
}

/// Returns the command line of `fullbore buffer` for that of mbuffer. `is_time` tells whether it is a time to `--tcptimeo`.
pub fn read(args: &[OsString], is_time: fn(&str) -> bool) -> Result<Read, String> {
    let (mut words, mut at): (Vec<OsString>, usize) = (Vec::new(), 0);
    let (mut thresholds, mut errors) = ([false; 2], Vec::new());
    while let Some(arg) = args.get(at) {
        at += 1;
        let shown = arg.to_string_lossy();
        match &*shown {
            "-h" | "--help" => return Ok(Read::Help),
            "-V" | "--version" => return Ok(Read::Version),
            "-f" => {
                words.push("--truncate".into());
                continue;
            }
            flag if FLAGS.split(' ').any(|one| one == flag) => {
                words.push(flag.into());
                continue;
            }
            _ => {}
        }
        let is_it = |option: &&str| match option.starts_with("--") {
            true => *option == shown,
            false => shown.starts_with(*option),
        };
        let option = VALUES.split(' ').find(is_it);
        let option = option.ok_or_else(|| format!("unknown option \"{shown}\""))?;
        let value = if shown.len() > 2 && !option.starts_with("--") {
            OsString::from_vec(arg.as_bytes()[2..].to_vec())
        } else {
            at += 1;
            let value = args.get(at - 1).cloned();
            value.ok_or_else(|| format!("missing argument to option {option}"))?
        };
        if option == "--hash" && value == "list" {
            return Ok(Read::Algorithms);
        }
        thresholds[0] |= option == "-p";
        thresholds[1] |= option == "-P";
        if thresholds == [true; 2] {
            return Err(
                "setting both low watermark and high watermark doesn't make any sense...".into(),
            );
        }
        if let Err(mistake) = push(&mut words, option, value, is_time) {
            match mistake {
                Mistake::Fatal(text) => return Err(text),
                Mistake::Error(text) => errors.push(text),
            }
        }
    }
    let given = |words: &[OsString], option: &str| {
        let starts = |word: &OsString| word.as_bytes().starts_with(option.as_bytes());
        words.iter().rposition(starts)
    };
    if given(&words, "-A").is_some() && given(&words, "-i").or(given(&words, "-o")).is_none() {
        return Err(
            "Setting autoloader time or command without using a device doesn't make any sense!"
                .into(),
        );
    }
    // The last value counts, whatever the others are.
    let last = given(&words, "-b").map(|at| words[at].clone());
    words.retain(|word| !word.as_bytes().starts_with(b"-b"));
    let number = |word: &OsString| word.to_str()?[2..].parse::<u64>().ok();
    if last
        .as_ref()
        .and_then(number)
        .is_some_and(|blocks| blocks < 5)
    {
        return Err("Number of blocks must be at least 5.".into());
    }
    words.extend(last);
    // The file of -T is that of -t, whichever is last.
    if given(&words, "-T").is_some() {
        words.retain(|word| word != "-t");
    }
    Ok(Read::Words(words, errors))
}

/// A mistake in the value of an option.
#[derive(Debug)]
pub enum Mistake {
    /// mbuffer ends at once.
    Fatal(String),
    /// mbuffer goes on without the option.
    Error(String),
}

impl From<String> for Mistake {
    fn from(text: String) -> Self {
        Self::Fatal(text)
    }
}

/// Adds an option with its value.
pub fn push(
    words: &mut Vec<OsString>,
    option: &str,
    value: OsString,
    is_time: fn(&str) -> bool,
) -> Result<(), Mistake> {
    let text = value.to_string_lossy().into_owned();
    let value: OsString = match option {
        "-s" | "-m" | "-r" | "-R" | "-D" | "--tcpbuffer" => size(option, &text)?.into(),
        "-v" => level(&text).map_err(Mistake::Error)?.into(),
        "--tcptimeo" if text == "0" => return Ok(()),
        "--tcptimeo" if !is_time(&text) => {
            return Err(Mistake::Error(format!("invalid time argument \"{text}\"")));
        }
        "-P" | "-p" => {
            let number = text.trim_end_matches('%').parse::<f64>().unwrap_or(-1.0);
            let (is_right, has_to) = match option {
                "-P" => (
                    number > 0.0 && number <= 100.0,
                    "bigger than 0 and less or equal 100",
                ),
                _ => (
                    (0.0..100.0).contains(&number),
                    "bigger or equal to 0 and less than 100",
                ),
            };
            if !is_right {
                return Err(format!("error in argument {option}: must be {has_to}").into());
            }
            value
        }
        "-b" | "-u" | "-W" => match (option, leading(&text)) {
            ("-W", 0) => return Err("invalid argument to option -W".to_owned().into()),
            ("-b", number) => number.max(0).to_string().into(),
            // It is none.
            (_, ..=0) => return Ok(()),
            (_, number) => number.to_string().into(),
        },
        _ => value,
    };
    let between = if option.starts_with("--") { "=" } else { "" };
    words.push(word(format!("{option}{between}"), value));
    Ok(())
}

/// Returns the number at the beginning of a text, 0 without one (`strtol` in the C library).
fn leading(text: &str) -> i64 {
    let text = text.trim_start();
    let signs = usize::from(text.starts_with(['-', '+']));
    let digits = text[signs..].bytes().take_while(u8::is_ascii_digit).count();
    text[..signs + digits].parse().unwrap_or(0)
}

/// Reads a size as mbuffer does: at least 101 without a suffix, and with a suffix in powers of 1024.
fn size(option: &str, text: &str) -> Result<String, Mistake> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let suffix = &text[digits.len()..];
    let number = digits
        .parse::<f64>()
        .map_err(|_| format!("unrecognized argument \"{text}\" for option \"{option}\""));
    let number = match option {
        // Without a size of the memory, mbuffer crashes.
        "-m" => number?,
        _ => number.map_err(Mistake::Error)?,
    };
    if number <= 0.0 {
        return Err("invalid argument - must be > 0".to_owned().into());
    }
    let power = match suffix.chars().next().map(|c| c.to_ascii_lowercase()) {
        None if number <= 100.0 => {
            return Err(
                format!("invalid low value for option \"{option}\" - missing suffix?").into(),
            );
        }
        Some('b') if number < 128.0 => {
            return Err("invalid value for number of bytes".to_owned().into());
        }
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('%') if option == "-m" && number < 90.0 => return Ok(format!("{number}%")),
        Some('%') => {
            return Err("invalid value for percentage (must be 0..90)"
                .to_owned()
                .into());
        }
        Some(other) => {
            return Err(
                format!("unrecognized size charakter \"{other}\" for option \"{option}\"").into(),
            );
        }
    };
    Ok(((number * 1024f64.powi(power)) as u64).to_string())
}

/// Reads a level of messages: a number, or a name.
fn level(text: &str) -> Result<String, String> {
    let is_it = |(name, _): &&(&str, u8)| name.eq_ignore_ascii_case(text);
    let named = LEVELS.iter().find(is_it).map(|&(_, level)| level);
    let number = || text.parse().ok().filter(|&level| level <= 6);
    let level = named.or_else(number).map(|level| level.to_string());
    level.ok_or_else(|| format!("Invalid argument '{text}' for setting verbosity level."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_mbuffer_reads_them() {
        let words = |line: &str| -> Result<String, String> {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            match read(&args, |_| true)? {
                Read::Words(words, _) => {
                    let words: Vec<String> =
                        words.iter().map(|w| w.display().to_string()).collect();
                    Ok(words.join(" "))
                }
                other => Ok(format!("{other:?}")),
            }
        };
        for (line, expected) in [
            ("-q -s 128k -m 16M", "-q -s131072 -m16777216"),
            ("-s128k -m 2% -R 10M", "-s131072 -m2% -R10485760"),
            ("-f -o x -O h:1 -4 -I 80", "--truncate -ox -Oh:1 -4 -I80"),
            ("--hash list", "Algorithms"),
            ("-v warning --tcpbuffer 1M", "-v2 --tcpbuffer=1048576"),
            ("-q -V", "Version"),
        ] {
            assert_eq!(words(line).as_deref(), Ok(expected), "{line}");
        }
        for (line, expected) in [
            ("-z", "unknown option \"-z\""),
            ("-s", "missing argument to option -s"),
            (
                "-s 10",
                "invalid low value for option \"-s\" - missing suffix?",
            ),
            (
                "-P 101",
                "error in argument -P: must be bigger than 0 and less or equal 100",
            ),
            ("-b 4", "Number of blocks must be at least 5."),
            ("-m 95%", "invalid value for percentage (must be 0..90)"),
        ] {
            assert_eq!(words(line), Err(expected.to_owned()), "{line}");
        }
    }
}
