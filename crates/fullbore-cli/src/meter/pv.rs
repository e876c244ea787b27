//! The table of pv's options: those of 1.6.20, and those of versions up to 1.12. `meter` has most of them,
//! in pv's meaning; it refuses the others in one line that says what to use instead.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind};

/// What `meter` does about an option of pv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// As pv has it.
    Taken,
    /// Refused; the text says what to use instead.
    Refused(&'static str),
    /// Refused, and it has a value.
    RefusedValue(&'static str),
}
use Here::{Refused, RefusedValue, Taken};

/// An option of pv: its letter, its name, and what is done about it.
pub type Row = (char, &'static str, Here);

/// All options of pv.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    // Version 1.6.20.
    ('p', "progress", Taken),
    ('t', "timer", Taken),
    ('e', "eta", Taken),
    ('I', "fineta", Taken),
    ('r', "rate", Taken),
    ('a', "average-rate", Taken),
    ('b', "bytes", Taken),
    ('T', "buffer-percent", Refused("meter has no buffer to show: 'fullbore buffer' has one, and the line of meter says which side is slow")),
    ('A', "last-written", Taken),
    ('F', "format", Taken),
    ('n', "numeric", Taken),
    ('q', "quiet", Taken),
    ('W', "wait", Taken),
    ('D', "delay-start", Taken),
    ('s', "size", Taken),
    ('l', "line-mode", Taken),
    ('0', "null", Taken),
    ('i', "interval", Taken),
    ('w', "width", Taken),
    ('H', "height", Taken),
    ('N', "name", Taken),
    ('f', "force", Taken),
    ('c', "cursor", Taken),
    ('L', "rate-limit", Taken),
    ('B', "buffer-size", Taken),
    ('C', "no-splice", Taken),
    ('E', "skip-errors", Taken),
    ('S', "stop-at-size", Taken),
    ('R', "remote", Taken),
    ('P', "pidfile", Taken),
    ('d', "watchfd", Taken),
    ('h', "help", Taken),
    // Later versions.
    ('8', "bits", Taken),
    ('k', "si", Taken),
    ('o', "output", Taken),
    ('Q', "query", Taken),
    ('X', "discard", Taken),
    ('Z', "error-skip-block", Taken),
    ('g', "gauge", Refused("use --format '%r %{slow}', which shows the rate and which side is slow")),
    ('K', "direct-io", Refused("use 'dd iflag=direct oflag=direct bs=1M' beside meter")),
    ('m', "average-rate-window", RefusedValue("the remaining time follows the last seconds by itself; --average-rate is that of the whole time")),
    ('O', "sparse", Refused("use 'fullbore copy FILE -o FILE', which keeps the holes of a file")),
    ('U', "store-and-forward", RefusedValue("use 'fullbore buffer', which can store on disk what memory cannot hold")),
    ('u', "bar-style", RefusedValue("use --format with %{bar-plain}, %{bar-block}, %{bar-granular} or %{bar-shaded}")),
    ('v', "stats", Refused("the last line of meter has the average, and 'fullbore run --report' has more")),
    ('x', "extra-display", RefusedValue("use --format for the line on the terminal")),
    ('Y', "sync", Taken),
];

/// The options that are refused, for the command line.
#[derive(Debug, Clone)]
pub struct OptionsOfPv;

impl Args for OptionsOfPv {
    fn augment_args(command: Command) -> Command {
        let refused = TABLE.iter().filter_map(|&(letter, name, here)| {
            let action = match here {
                Taken => return None,
                Refused(_) => ArgAction::SetTrue,
                RefusedValue(_) => ArgAction::Set,
            };
            Some(
                Arg::new(name)
                    .short(letter)
                    .long(name)
                    .hide(true)
                    .action(action),
            )
        });
        command.args(refused)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OptionsOfPv {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        for &(letter, name, here) in TABLE {
            let (given, instead) = match here {
                Taken => continue,
                Refused(instead) => (matches.get_flag(name), instead),
                RefusedValue(instead) => (matches.contains_id(name), instead),
            };
            if given {
                let words = format!("-{letter}, --{name} of pv is not supported: {instead}\n");
                return Err(Error::raw(ErrorKind::ArgumentConflict, words));
            }
        }
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        Self::from_arg_matches(matches).map(|_| ())
    }
}
