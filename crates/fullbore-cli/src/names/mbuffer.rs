//! `mbuffer` R20230301: the options of `fullbore buffer`, as mbuffer reads them, with its words and exit codes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::call::{Call, options_of, version};
use super::mbuffer_words::{FLAGS, Mistake, Read, VALUES, push, read};
use crate::buffer::hashing::name;
use crate::buffer::network;
use crate::command::buffer::Buffer;
use crate::copying::hash::Algorithm;
use crate::exit;
use crate::terminal::lines::{say, say_line};
use fullbore_host::text::clean;

/// The keys of a configuration file, and the option that each is.
const KEYS: &[(&str, &str)] = &[
    ("numblocks", "-b"),
    ("blocksize", "-s"),
    ("totalmem", "-m"),
    ("pause", "-u"),
    ("startread", "-p"),
    ("startwrite", "-P"),
    ("timeout", "-W"),
    ("maxwritespeed", "-R"),
    ("maxreadspeed", "-r"),
    ("tcpbufsize", "--tcpbuffer"),
    ("tcptimeout", "--tcptimeo"),
    ("verbose", "-v"),
];

/// The keys whose value is yes or no, the option that each is, and the value that gives it.
const SWITCHES: &[(&str, &str, bool)] = &[
    ("showstatus", "-q", false),
    ("logstatus", "-Q", false),
    ("memlock", "-L", true),
    ("printpid", "--pid", true),
];

/// The keys that have no effect here: about tapes, O_DIRECT, and the time between two lines.
const WITHOUT_EFFECT: &[&str] = &["autoloadtime", "tapeaware", "directio", "statusinterval"];

/// What stands between a key and its value.
const BETWEEN: [char; 4] = [' ', '\t', '=', ':'];

pub fn run(call: &Call) -> Result<ExitCode, ExitCode> {
    let fatal = |text: String| {
        say_line(format_args!("mbuffer: fatal: {text}"));
        ExitCode::FAILURE
    };
    let (mut words, warnings) = configured();
    let errors = match read(&call.args, is_time).map_err(fatal)? {
        Read::Words(own, errors) => {
            words.extend(own);
            errors
        }
        Read::Help => return Ok(call.print(&help())),
        // mbuffer has it on stderr.
        Read::Version => {
            say(&version("mbuffer version", "mbuffer R20230301"));
            return Ok(ExitCode::SUCCESS);
        }
        Read::Algorithms => {
            say("valid hash functions are:\n");
            for &algorithm in Algorithm::value_variants() {
                say_line(format_args!("\t{}", name(algorithm)));
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    let levels = words.iter().rev();
    let mut level = levels.filter_map(|word| word.to_str()?.strip_prefix("-v"));
    let is_quiet = level.next().is_some_and(|level| level < "2");
    for text in warnings.iter().filter(|_| !is_quiet) {
        say_line(format_args!("mbuffer: warning: {}", clean(text)));
    }
    for text in &errors {
        say_line(format_args!("mbuffer: error: {text}"));
    }
    let buffer = options_of::<Buffer>(words).map_err(fatal)?;
    let ended = exit::closed(buffer.speaking_as_mbuffer().run());
    let ended = ended.map_err(|error| fatal(format!("{error:#}")))?;
    Ok(match errors.is_empty() {
        true => ended,
        false => ExitCode::FAILURE,
    })
}

fn is_time(text: &str) -> bool {
    network::timeout(text).is_ok()
}

/// Returns the options of the configuration files: those of the machine, of the user, and of `$MBUFFERRC`. What is wrong
/// there is ignored, as with mbuffer, and returned as warnings.
fn configured() -> (Vec<OsString>, Vec<String>) {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".mbuffer.rc"));
    let own = std::env::var_os("MBUFFERRC").map(PathBuf::from);
    let files = [Some("/etc/mbuffer.rc".into()), home, own];
    let (mut words, mut warnings) = (Vec::new(), Vec::new());
    for file in files.into_iter().flatten() {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            match line.split_once(BETWEEN) {
                Some((key, value)) => match entry(key, value.trim_start_matches(BETWEEN)) {
                    Ok(more) => words.extend(more),
                    Err(text) => warnings.push(text),
                },
                None if line.is_empty() => {}
                None => warnings.push(format!(
                    "config file {}, line {}: error parsing '{line}'",
                    file.display(),
                    number + 1
                )),
            }
        }
    }
    (words, warnings)
}

/// Returns the options that an entry of a configuration file is.
fn entry(key: &str, value: &str) -> Result<Vec<OsString>, String> {
    let lower = key.to_ascii_lowercase();
    if let Some((_, option)) = KEYS.iter().find(|(known, _)| *known == lower) {
        // These values are the defaults, which the options refuse.
        if (value == "0" && lower != "verbose") || (&*lower, value) == ("startread", "100") {
            return Ok(Vec::new());
        }
        if matches!(*option, "-b" | "-u" | "-W") && value.parse::<u64>().is_err() {
            return Err(format!(
                "ignoring invalid key/value pair ({key} = {value}): it is no number"
            ));
        }
        let mut words = Vec::new();
        let pushed = push(&mut words, option, value.into(), is_time);
        return pushed
            .map_err(|(Mistake::Fatal(text) | Mistake::Error(text))| text)
            .and_then(|()| options_of::<Buffer>(words.clone()))
            .map(|_| words)
            .map_err(|why| format!("ignoring invalid key/value pair ({key} = {value}): {why}"));
    }
    let is_yes = match &*value.to_ascii_lowercase() {
        "yes" | "on" | "1" | "true" => Some(true),
        "no" | "off" | "0" | "false" => Some(false),
        _ => None,
    };
    let switch = SWITCHES.iter().find(|(known, ..)| *known == lower);
    match (switch, is_yes) {
        (Some((_, option, when)), Some(is_yes)) => {
            Ok(Vec::from_iter((*when == is_yes).then(|| option.into())))
        }
        (Some(_), None) => Err(format!("invalid argument for {key}: \"{value}\"")),
        (None, _) if WITHOUT_EFFECT.contains(&&*lower) => Ok(Vec::new()),
        (None, _) => Err(format!("unknown parameter: {key}")),
    }
}

fn help() -> String {
    format!(
        "usage: mbuffer [Options]\n\
         Copy standard input, or -i FILE, or a TCP connection (-I), through a large memory to standard output, -o FILE and \
         -O HOST:PORT.\n\n\
         Options: {} {}\n\n\
         This is 'fullbore buffer' under the name of mbuffer; 'fullbore buffer --help' says what the options mean.\n",
        FLAGS, VALUES,
    )
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;

    #[test]
    fn every_option_is_one_of_buffer() {
        let command = Buffer::augment_args(Command::new("buffer"));
        for option in FLAGS.split(' ').chain(VALUES.split(' ')) {
            let found = command
                .get_arguments()
                .any(|arg| match option.strip_prefix("--") {
                    Some(long) => arg.get_long() == Some(long),
                    None => arg.get_short() == option.chars().nth(1),
                });
            assert!(found, "{option}");
        }
    }
}
