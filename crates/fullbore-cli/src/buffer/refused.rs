//! Options of mbuffer that this verb does not have: each is refused with what to use instead, unless it asks for nothing:
//! one volume, or a command for the next one that always fails, as mbuffer's manual gives it to those without a terminal.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use fullbore_host::refusal::Usage;

/// An option, and what to use instead.
struct Refused {
    /// The option as it is written.
    option: &'static str,
    has_value: bool,
    /// The value that asks for nothing, and is accepted.
    nothing: &'static str,
    instead: &'static str,
}

const TAPES: &str = "tapes of several volumes are not handled; use mbuffer itself";
#[rustfmt::skip]
const ALL: &[Refused] = &[
    Refused { option: "-n", has_value: true, nothing: "1", instead: TAPES },
    Refused { option: "-D", has_value: true, nothing: "", instead: TAPES },
    Refused { option: "-A", has_value: true, nothing: "/bin/false", instead: TAPES },
    Refused { option: "-a", has_value: true, nothing: "", instead: TAPES },
    Refused { option: "--tapeaware", has_value: false, nothing: "", instead: TAPES },
];

/// Those that were given.
#[derive(Debug, Default)]
pub struct RefusedOptions(Option<Usage>);

impl RefusedOptions {
    /// # Errors
    /// If one was given.
    pub fn check(&mut self) -> Result<(), Usage> {
        self.0.take().map_or(Ok(()), Err)
    }
}

impl Args for RefusedOptions {
    fn augment_args(command: Command) -> Command {
        ALL.iter().fold(command, |command, refused| {
            let option = refused.option;
            let name = option.trim_start_matches('-');
            let arg = match option.starts_with("--") {
                true => Arg::new(option).long(name),
                false => Arg::new(option).short(name.chars().next().expect("it has a letter")),
            };
            command.arg(arg.hide(true).action(match refused.has_value {
                true => ArgAction::Append,
                false => ArgAction::Count,
            }))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RefusedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let is_given = |refused: &&Refused| match refused.has_value {
            true => matches
                .get_many::<String>(refused.option)
                .is_some_and(|mut values| values.any(|value| value != refused.nothing)),
            false => matches.get_count(refused.option) > 0,
        };
        let found = ALL.iter().find(is_given);
        Ok(Self(found.map(
            |Refused {
                 option, instead, ..
             }| { Usage(format!("{option} is not offered: {instead}")) },
        )))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
