//! Options of mbuffer that this verb does not have: each is refused with what to use instead.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use fullbore_host::refusal::Usage;

/// An option, and what to use instead.
struct Refused {
    /// The option as it is written.
    option: &'static str,
    has_value: bool,
    instead: &'static str,
}

const NETWORK: &str = "use nc, socat or ssh before or after 'fullbore buffer', as in \
    'fullbore buffer | ssh HOST ...'";
const TAPES: &str = "tapes of several volumes are not handled; use mbuffer";
const HASH: &str = "use 'fullbore tee' or 'fullbore copy' with a program such as md5sum beside it";

#[rustfmt::skip]
const ALL: &[Refused] = &[
    Refused { option: "-I", has_value: true, instead: NETWORK },
    Refused { option: "-O", has_value: true, instead: NETWORK },
    Refused { option: "-4", has_value: false, instead: NETWORK },
    Refused { option: "-6", has_value: false, instead: NETWORK },
    Refused { option: "-0", has_value: false, instead: NETWORK },
    Refused { option: "--tcptimeo", has_value: true, instead: NETWORK },
    Refused { option: "--tcpbuffer", has_value: true, instead: NETWORK },
    Refused { option: "-n", has_value: true, instead: TAPES },
    Refused { option: "-D", has_value: true, instead: TAPES },
    Refused { option: "-A", has_value: true, instead: TAPES },
    Refused { option: "-a", has_value: true, instead: TAPES },
    Refused { option: "--tapeaware", has_value: false, instead: TAPES },
    Refused { option: "-d", has_value: false, instead: "give the block size of the device with -s" },
    Refused { option: "-L", has_value: false, instead: "to keep the memory from being swapped out, run it in a cgroup with memory.swap.max 0" },
    Refused { option: "-H", has_value: false, instead: HASH },
    Refused { option: "--md5", has_value: false, instead: HASH },
    Refused { option: "--hash", has_value: true, instead: HASH },
    Refused { option: "--direct", has_value: false, instead: "the file of -t is written through the page cache" },
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
            true => matches.contains_id(refused.option),
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
