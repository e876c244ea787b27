//! The fullbore command: one verb, one file in `command/`.

#![deny(unsafe_code)]

mod buffer;
mod command;
mod completion;
mod copying;
mod error_text;
mod exit;
#[cfg(all(test, feature = "lab"))]
mod habits;
mod inherited;
mod limits;
mod manual;
mod meter;
mod names;
mod parallel;
mod processes;
mod run;
mod terminal;
mod top;
mod tune_report;

use std::ffi::OsStr;
use std::process::ExitCode;

use crate::terminal::lines::say_line;
use anyhow::Context;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use clap_complete::CompleteEnv;
use fullbore_host::text::clean;

const ABOUT: &str = "Move bytes through Linux pipes fast and unchanged, and find the slow stage";

/// A verb of the command line.
struct Verb {
    name: &'static str,
    /// The line about it in `fullbore --help`.
    about: &'static str,
    /// Whether it is for processes of the laboratory, not for people.
    hidden: bool,
    /// Adds its options.
    options: fn(Command) -> Command,
    /// Does what the command line says.
    run: fn(&mut ArgMatches) -> Result<anyhow::Result<ExitCode>, clap::Error>,
}

macro_rules! verbs {
    ($($(#[$of_feature:meta])? $name:literal $about:literal $options:ty, hidden: $hidden:literal
        $(, of: $parser:ident)?;)*) => {
        &[$($(#[$of_feature])? Verb {
            name: $name,
            about: $about,
            hidden: $hidden,
            options: |command| with_negative_numbers(<$options>::augment_args(command)),
            run: |matches| Ok(<$options>::from_arg_matches_mut(matches)?.run($($parser())?)),
        }),*]
    };
}

/// The verbs, in the order in which the help lists them. Some are about the parser, and some of the laboratory.
#[rustfmt::skip]
const VERBS: &[Verb] = verbs! {
    "copy" "Copy files, or stdin, to stdout or into a file" command::copy::Copy, hidden: false;
    "tee" "Copy stdin to stdout, and to each of the files" command::tee::Tee, hidden: false;
    "meter" "Copy files, or stdin, to stdout, and show progress, rate and which side is slow" command::meter::Meter, hidden: false;
    "buffer" "Copy stdin to stdout through a large buffer, so that neither side waits for the other" command::buffer::Buffer, hidden: false;
    "run" "Run a pipeline in larger pipes, whole or not at all if asked, and name the slow stage" command::run::Run, hidden: false;
    "parallel" "Run a filter of lines on all CPUs, with its output in the order of its input" command::parallel::Parallel, hidden: false;
    "top" "Show all pipes and FIFOs that this user may inspect, live" command::top::Top, hidden: false;
    "tune" "Enlarge the pipes of a running pipeline" command::tune::Tune, hidden: false;
    #[cfg(feature = "lab")] "doctor" "Report what this machine allows, and which settings slow pipes down" command::doctor::Doctor, hidden: false;
    #[cfg(feature = "lab")] "bench" "Measure how fast pipes are on this machine, and how much each technique gains" command::bench::Bench, hidden: false;
    #[cfg(feature = "lab")] "explain" "Report where an experiment, or any command, spends its time" command::explain::Explain, hidden: false;
    #[cfg(feature = "lab")] "write" "Write to the pipe on stdout, as an experiment does" command::write::Write, hidden: false;
    #[cfg(feature = "lab")] "read" "Read from the pipe on stdin, and report the throughput" command::read::Read, hidden: false;
    "generate" "Print a manual page, or what makes a shell complete command lines" command::generate::Generate, hidden: true, of: parser;
    #[cfg(feature = "lab")] "middleman" "Copy stdin to stdout with one behaviour that programs in pipelines have" command::middleman::Middleman, hidden: true;
    #[cfg(feature = "lab")] "part" "Run one process of an experiment" command::part::Part, hidden: true;
};

/// Lets the values of options be negative numbers, so that `-n -5` is an invalid number, and `-5` not taken for an
/// option.
fn with_negative_numbers(command: Command) -> Command {
    let has_values = |arg: &clap::Arg| {
        let count = arg.get_num_args();
        arg.get_action().takes_values() && count.is_none_or(|count| count.takes_values())
    };
    command.mut_args(|arg| match !arg.is_positional() && has_values(&arg) {
        true => arg.allow_negative_numbers(true),
        false => arg,
    })
}

/// The parser of the command line. The options of a verb are only built when it is named: some verbs have
/// no more than a moment's work to do.
fn parser() -> Command {
    let verbs = VERBS.iter().map(|verb| {
        let command = Command::new(verb.name).about(verb.about);
        command.hide(verb.hidden).defer(verb.options)
    });
    Command::new("fullbore")
        .version(env!("FULLBORE_VERSION"))
        .about(ABOUT)
        .long_about(format!("{ABOUT}\n\n{}", exit::CODES))
        .max_term_width(100)
        .arg_required_else_help(true)
        .subcommand_required(true)
        // For every verb. An alias can have options: of an option that is given twice, the last one counts.
        .args_override_self(true)
        .subcommands(verbs)
}

fn main() -> ExitCode {
    if let Some(code) = names::run() {
        return code;
    }
    exit::end_where_no_thread_starts(asked_for());
    let completes = CompleteEnv::with_factory(parser).var(command::generate::VARIABLE);
    // bash completes the names of files by itself, and quotes them.
    let is_bash =
        std::env::var_os(command::generate::VARIABLE).is_some_and(|shell| shell == "bash");
    let directory = std::env::current_dir().ok().filter(|_| !is_bash);
    match completes.try_complete(std::env::args_os(), directory.as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => run().unwrap_or_else(|error| bad_command_line(&error)),
        Err(error) => bad_command_line(&error),
    }
}

/// Does what the command line says.
fn run() -> Result<ExitCode, clap::Error> {
    let mut parser = parser();
    let mut matches = parser.try_get_matches_from_mut(std::env::args_os())?;
    let (name, mut options) = matches.remove_subcommand().expect("clap requires one");
    let verb = VERBS.iter().find(|verb| verb.name == name);
    let verb = verb.expect("clap knows no others");
    let outcome = match inherited::let_children_be_waited_for() {
        Ok(()) => (verb.run)(&mut options).map_err(|error| error.format(&mut parser))?,
        Err(error) => Err(error).context("SIGCHLD cannot be handled"),
    };
    Ok(ended(&format!("fullbore {name}"), exit::closed(outcome)))
}

/// The exit code of what was done, after a line on stderr where it failed.
fn ended(who: &str, outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => exit::code(&error).map_or(ExitCode::SUCCESS, |code| {
            exit::say(who, &error);
            code
        }),
    }
}

/// Help and version go to stdout; everything else is one line on stderr and code 2.
fn bad_command_line(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return ended(&asked_for(), print(error));
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(2);
    }
    let line = clean(&exit::first_line(error));
    let meant = suggestion(error).map(|word| format!("; did you mean '{word}'?"));
    let (meant, verb) = (meant.unwrap_or_default(), asked_for());
    say_line(format_args!("{verb}: {line}{meant} (see '{verb} --help')"));
    ExitCode::from(2)
}

/// Returns the verb, option or value that was probably meant. clap lists the most similar one last, and knows hidden
/// verbs too. It has no suggestion for 'help WORD'.
fn suggestion(error: &clap::Error) -> Option<String> {
    let mut words = std::env::args_os().skip(1);
    let helps = words.next().is_some_and(|word| word == "help");
    let of_help = || words.next().filter(|_| helps).and_then(|word| meant(&word));
    suggested(error).map(str::to_owned).or_else(of_help)
}

/// Returns the verb that was probably meant by a word that is none.
fn meant(word: &OsStr) -> Option<String> {
    let answer = parser().try_get_matches_from([OsStr::new("fullbore"), word]);
    suggested(&answer.err()?).map(str::to_owned)
}

fn suggested(error: &clap::Error) -> Option<&str> {
    let kinds = [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ];
    let is_hidden = |word: &&str| VERBS.iter().any(|verb| verb.hidden && verb.name == *word);
    kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.as_str()),
        ContextValue::Strings(words) => {
            let mut words = words.iter().map(String::as_str).rev();
            words.find(|word| !is_hidden(word))
        }
        _ => None,
    })
}

/// Prints help or the version on stdout.
fn print(text: &clap::Error) -> anyhow::Result<ExitCode> {
    inherited::stdout()?;
    text.print().context("write to stdout")?;
    exit::close_stdout()?;
    Ok(ExitCode::SUCCESS)
}

/// The command, with the verb if one was given: the command line to which `--help` can be added.
fn asked_for() -> String {
    let given = std::env::args_os().nth(1).unwrap_or_default();
    match VERBS.iter().find(|verb| given == verb.name) {
        Some(verb) => format!("fullbore {}", verb.name),
        None => "fullbore".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_consistent_and_the_table_says_what_each_verb_says_of_itself() {
        parser().debug_assert();
        for verb in VERBS {
            let options = (verb.options)(Command::new(verb.name));
            let about = options.get_about().unwrap().to_string();
            assert_eq!(about, verb.about, "{}", verb.name);
        }
    }

    /// What a person may write once for this option.
    fn words(option: &clap::Arg, value: &str) -> Vec<String> {
        let takes_value = option.get_num_args().is_some_and(|n| n.takes_values());
        let long = option.get_long().map(|long| match takes_value {
            true => format!("--{long}={value}"),
            false => format!("--{long}"),
        });
        let short = option.get_short().map(|short| match takes_value {
            true => format!("-{short}{value}"),
            false => format!("-{short}"),
        });
        long.into_iter().chain(short).collect()
    }

    #[test]
    fn an_option_may_be_given_more_than_once_and_lists_stay_lists() {
        use clap::error::ErrorKind;
        let mut parser = parser();
        parser.build();
        let ask = |verb: &str, words: &[&str]| {
            let line = ["fullbore", verb].into_iter().chain(words.iter().copied());
            super::parser().try_get_matches_from(line)
        };
        for verb in parser.get_subcommands() {
            let name = verb.get_name();
            for option in verb.get_arguments().filter(|a| !a.is_positional()) {
                let possible = option.get_possible_values();
                let mut values: Vec<&str> = possible.iter().map(|v| v.get_name()).collect();
                values.extend([
                    "1", "10", "100", "1,2", "a", "1=1", "a=1", "1:1", "0-1", "1..2", "64K",
                    "window",
                ]);
                let taken = values.iter().find_map(|value| {
                    let words = words(option, value);
                    let is_taken = words.iter().all(|word| {
                        let kind = ask(name, &[word]).err().map(|error| error.kind());
                        !matches!(
                            kind,
                            Some(ErrorKind::ValueValidation | ErrorKind::InvalidValue)
                        )
                    });
                    is_taken.then_some(words)
                });
                let words = taken.unwrap_or_else(|| panic!("{name}: no value for {option}"));
                for word in words {
                    match (ask(name, &[&word]), ask(name, &[&word, &word])) {
                        (Ok(once), Ok(twice)) => {
                            let count = |matches: &ArgMatches| {
                                let options = matches.subcommand().unwrap().1;
                                options
                                    .get_raw(option.get_id().as_str())
                                    .map(Iterator::count)
                            };
                            let is_list = matches!(option.get_action(), clap::ArgAction::Append);
                            let often = if is_list { 2 } else { 1 };
                            let expected = count(&once).map(|once| often * once);
                            assert_eq!(count(&twice), expected, "{name} {word}");
                        }
                        (once, twice) => {
                            let kind = |answer: &Result<_, clap::Error>| {
                                answer.as_ref().err().map(clap::Error::kind)
                            };
                            assert_eq!(kind(&once), kind(&twice), "{name} {word}");
                        }
                    }
                }
            }
        }
    }
}
