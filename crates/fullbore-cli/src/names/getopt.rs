//! The command line as getopt_long(3) reads it: bundled letters, values that follow or are attached, long options that
//! may be cut short, operands anywhere, and the words that GNU's C library has for mistakes.
//!
//! clap cannot be told to do this: it has other words, and exit code 2.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    None,
    /// The word is what the help calls it.
    Required(&'a str),
    /// Only after `=`, and only of the long option.
    Optional(&'a str),
}

/// An option of a program.
#[derive(Debug, Clone)]
pub struct Spec<'a> {
    /// Its letter, or another one for what has only a long name.
    pub id: char,
    pub letter: Option<char>,
    /// Empty if there is only the letter.
    pub long: &'a str,
    pub value: Value<'a>,
    pub about: String,
}

/// Returns an option without a value.
pub fn flag<'a>(letter: char, long: &'a str, about: &str) -> Spec<'a> {
    Spec {
        id: letter,
        letter: Some(letter),
        long,
        value: Value::None,
        about: about.to_owned(),
    }
}

/// Returns an option with a value.
pub fn valued<'a>(letter: char, long: &'a str, word: &'a str, about: &str) -> Spec<'a> {
    Spec {
        value: Value::Required(word),
        ..flag(letter, long, about)
    }
}

/// Returns an option that has no letter.
pub fn long<'a>(id: char, long: &'a str, value: Value<'a>, about: &str) -> Spec<'a> {
    Spec {
        letter: None,
        value,
        ..flag(id, long, about)
    }
}

/// Returns an option and its value as one word.
pub fn word(option: impl Into<OsString>, value: impl AsRef<OsStr>) -> OsString {
    let mut word = option.into();
    word.push(value);
    word
}

/// A command line that was read.
#[derive(Debug, Default, PartialEq)]
pub struct Parsed {
    /// The options in their order.
    pub options: Vec<(char, Option<OsString>)>,
    pub operands: Vec<OsString>,
}

/// Reads a command line. All programs print their help (`h`) and their version (`V`) as soon as they come to that
/// option, so a mistake behind it is none.
///
/// # Errors
/// What getopt_long(3) would print about a mistake, without the name of the program.
pub fn parse(specs: &[Spec<'_>], args: &[OsString]) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let read = read(specs, args, &mut parsed);
    let ends_before = parsed.options.iter().any(|(id, _)| matches!(id, 'h' | 'V'));
    match read {
        Err(mistake) if !ends_before => Err(mistake),
        _ => Ok(parsed),
    }
}

fn read(specs: &[Spec<'_>], args: &[OsString], parsed: &mut Parsed) -> Result<(), String> {
    let in_order = std::env::var_os("POSIXLY_CORRECT").is_some();
    let mut args: VecDeque<&OsStr> = args.iter().map(OsString::as_os_str).collect();
    while let Some(arg) = args.pop_front() {
        let bytes = arg.as_bytes();
        if arg == "--" {
            break;
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            let (name, attached) = split(long);
            let spec = long_option(specs, name, long)?;
            let shown = spec.long;
            let value = match (spec.value, attached) {
                (Value::None, Some(_)) => {
                    return Err(format!("option '--{shown}' doesn't allow an argument"));
                }
                (Value::Required(_), None) => {
                    let missing = || format!("option '--{shown}' requires an argument");
                    Some(args.pop_front().ok_or_else(missing)?.to_owned())
                }
                (_, attached) => attached,
            };
            parsed.options.push((spec.id, value));
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            let mut rest = &bytes[1..];
            while let [letter, after @ ..] = rest {
                let is_it = |spec: &&Spec| spec.letter == Some(char::from(*letter));
                let Some(spec) = specs.iter().find(is_it) else {
                    let letter = String::from_utf8_lossy(&rest[..1]);
                    return Err(format!("invalid option -- '{letter}'"));
                };
                rest = after;
                let value = match spec.value {
                    Value::Required(_) if !after.is_empty() => {
                        Some(OsStr::from_bytes(std::mem::take(&mut rest)))
                    }
                    Value::Required(_) => {
                        let letter = char::from(*letter);
                        let missing = || format!("option requires an argument -- '{letter}'");
                        Some(args.pop_front().ok_or_else(missing)?)
                    }
                    _ => None,
                };
                parsed.options.push((spec.id, value.map(OsStr::to_owned)));
            }
        } else {
            parsed.operands.push(arg.to_owned());
            if in_order {
                break;
            }
        }
    }
    let rest = args.into_iter().map(OsStr::to_owned);
    parsed.operands.extend(rest);
    Ok(())
}

/// Splits a long option at its `=`.
fn split(long: &[u8]) -> (&[u8], Option<OsString>) {
    match long.iter().position(|&byte| byte == b'=') {
        Some(at) => (&long[..at], Some(OsString::from_vec(long[at + 1..].into()))),
        None => (long, None),
    }
}

/// Finds the long option with this name, or the only one that begins with it. `word` is all that follows the dashes.
fn long_option<'a>(
    specs: &'a [Spec<'a>],
    name: &[u8],
    word: &[u8],
) -> Result<&'a Spec<'a>, String> {
    let shown = String::from_utf8_lossy(word);
    let begins = |spec: &&Spec| !spec.long.is_empty() && spec.long.as_bytes().starts_with(name);
    let found: Vec<&Spec> = specs.iter().filter(begins).collect();
    let exact = found.iter().find(|spec| spec.long.as_bytes() == name);
    match (exact, found.as_slice()) {
        (Some(exact), _) => Ok(exact),
        (None, []) => Err(format!("unrecognized option '--{shown}'")),
        (None, [first, rest @ ..]) if rest.iter().all(|other| other.id == first.id) => Ok(first),
        (None, several) => {
            let possible = several.iter().map(|spec| format!(" '--{}'", spec.long));
            let possible: String = possible.collect();
            Err(format!(
                "option '--{shown}' is ambiguous; possibilities:{possible}"
            ))
        }
    }
}

/// Returns the lines about the options for the help.
pub fn help(specs: &[Spec<'_>]) -> String {
    let line = |spec: &Spec<'_>| {
        let letter = spec.letter.map(|letter| format!("-{letter}"));
        let long = (!spec.long.is_empty()).then(|| format!("--{}", spec.long));
        let value = match spec.value {
            Value::None => String::new(),
            Value::Required(word) => format!(" {word}"),
            Value::Optional(word) => format!("[={word}]"),
        };
        let names = match (letter, long) {
            (Some(letter), Some(long)) => format!("{letter}, {long}"),
            (None, Some(long)) => format!("    {long}"),
            (letter, None) => letter.unwrap_or_default(),
        };
        match names.len() + value.len() > 28 {
            true => format!("  {names}{value}\n{:32}{}\n", "", spec.about),
            false => format!("  {:<30}{}\n", names + &value, spec.about),
        }
    };
    specs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<String, String> {
        let args: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let specs = [
            flag('a', "append", ""),
            valued('s', "size", "SIZE", ""),
            long('3', "apart", Value::Optional("MODE"), ""),
            flag('u', "", ""),
        ];
        let parsed = parse(&specs, &args)?;
        let value =
            |value: Option<OsString>| value.map_or(String::new(), |v| format!("={}", v.display()));
        let options = parsed
            .options
            .into_iter()
            .map(|(id, v)| format!("{id}{}", value(v)));
        let operands = parsed.operands.into_iter().map(|v| v.display().to_string());
        Ok(options.chain(operands).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn words_are_read_as_getopt_long_reads_them() {
        for (words, expected) in [
            ("-as 3 x", "a s=3 x"),
            ("x -s3 -ua - --size=4 y", "s=3 u a s=4 x - y"),
            ("--app --si 5 --apart --apart=", "a s=5 3 3="),
            ("-a -- -a", "a -a"),
            ("-s -a", "s=-a"),
        ] {
            assert_eq!(read(words).as_deref(), Ok(expected), "{words}");
        }
        for (words, expected) in [
            ("-az", "invalid option -- 'z'"),
            ("--foo=3", "unrecognized option '--foo=3'"),
            ("--append=3", "option '--append' doesn't allow an argument"),
            ("--siz", "option '--size' requires an argument"),
            ("-as", "option requires an argument -- 's'"),
            (
                "--ap",
                "option '--ap' is ambiguous; possibilities: '--append' '--apart'",
            ),
        ] {
            assert_eq!(read(words), Err(expected.to_owned()), "{words}");
        }
    }
}
