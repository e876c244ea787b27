//! Completion of a command line that is being typed.
//!
//! A script in the language of each shell asks `fullbore complete`, so that the shells know the same, and
//! know what only fullbore can say: which experiments there are, and which processes.

pub mod answer;
#[cfg(feature = "lab")]
mod experiments;
mod line;
pub mod script;
mod values;

use clap::Command;

use answer::{Answer, Word};
use line::{Line, Place};
use values::{options, values, verbs};

/// Returns what can stand in place of the last of the words after `fullbore`.
pub fn complete(mut parser: Command, words: &[String]) -> Answer {
    parser.build();
    let Some((typed, before)) = words.split_last() else {
        return Answer::Words(Vec::new());
    };
    let Some((verb, before)) = before.split_first() else {
        return match typed.starts_with('-') {
            true => starting_with(typed, options(&parser)),
            false => starting_with(typed, verbs(&parser, true)),
        };
    };
    if verb == "help" {
        return starting_with(typed, verbs(&parser, false));
    }
    let Some(verb) = parser.find_subcommand(verb) else {
        return Answer::Words(Vec::new());
    };
    match Line::read(verb, before).place(typed) {
        Place::Option => starting_with(typed, options(verb)),
        Place::Value(of, prefix) => match values(verb.get_name(), of) {
            Answer::Words(words) => starting_with(typed, with_prefix(&prefix, words)),
            // The shell completes what is behind '='.
            other => other,
        },
        Place::Nothing => Answer::Words(Vec::new()),
    }
}

fn starting_with(typed: &str, words: Vec<Word>) -> Answer {
    let fits = |word: &Word| word.text.starts_with(typed);
    Answer::Words(words.into_iter().filter(fits).collect())
}

fn with_prefix(prefix: &str, words: Vec<Word>) -> Vec<Word> {
    let put = |word: Word| Word {
        text: format!("{prefix}{}", word.text),
        ..word
    };
    words.into_iter().map(put).collect()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction, ValueHint, value_parser};
    use std::path::PathBuf;

    use super::*;

    fn parser() -> Command {
        let bench = Command::new("bench")
            .about("Measure")
            .arg(Arg::new("names").num_args(0..).action(ArgAction::Append))
            .arg(
                Arg::new("compare")
                    .long("compare")
                    .num_args(1..)
                    .value_parser(value_parser!(PathBuf)),
            )
            .arg(
                Arg::new("peers")
                    .long("peers")
                    .value_hint(ValueHint::DirPath),
            )
            .arg(
                Arg::new("wait")
                    .short('w')
                    .long("wait")
                    .value_parser(["poll", "spin"]),
            )
            .arg(
                Arg::new("quick")
                    .short('q')
                    .long("quick")
                    .action(ArgAction::SetTrue),
            )
            .arg(
                Arg::new("secret")
                    .long("secret")
                    .hide(true)
                    .action(ArgAction::SetTrue),
            )
            .arg(
                Arg::new("command")
                    .last(true)
                    .num_args(0..)
                    .value_hint(ValueHint::CommandName),
            );
        Command::new("fullbore")
            .subcommand(bench)
            .subcommand(Command::new("part").hide(true))
    }

    /// The answer to a command line as it is typed; a space at its end begins a new word.
    fn answered(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match complete(parser(), &words) {
            Answer::Files => "<files>".to_owned(),
            Answer::Directories => "<directories>".to_owned(),
            Answer::Commands => "<commands>".to_owned(),
            Answer::Words(words) => {
                let words: Vec<String> = words.into_iter().map(|word| word.text).collect();
                words.join(" ")
            }
        }
    }

    #[test]
    fn each_place_of_a_command_line_gets_what_can_stand_there() {
        for (line, expected) in [
            ("", "bench help"),
            ("b", "bench"),
            ("pa", ""),
            ("--h", "--help"),
            ("help b", "bench"),
            ("unknown ", ""),
            ("bench --q", "--quick"),
            ("bench --secr", ""),
            (
                "bench write_read -",
                "--compare --peers --wait -w --quick -q --help -h",
            ),
            ("bench --wait ", "poll spin"),
            ("bench --wait p", "poll"),
            ("bench --wait=s", "--wait=spin"),
            ("bench -w ", "poll spin"),
            ("bench -qw s", "spin"),
            ("bench -wspin --qu", "--quick"),
            ("bench --wait spin --qu", "--quick"),
            ("bench --quick --wait ", "poll spin"),
            ("bench --compare ", "<files>"),
            ("bench --compare a b ", "<files>"),
            ("bench --compare a --wait ", "poll spin"),
            ("bench --compare=", "<files>"),
            ("bench --peers ", "<directories>"),
            ("bench -- ", "<commands>"),
            ("bench -- ls ", "<files>"),
            ("bench -- ls -", "<files>"),
            ("bench write_read_h", "write_read_huge"),
        ] {
            assert_eq!(answered(line), expected, "{line:?}");
        }
    }
}
