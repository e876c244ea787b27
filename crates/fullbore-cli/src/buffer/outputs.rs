//! The options that name outputs and connections. As with mbuffer, `--append` and `--truncate` are about the next
//! `-o`, and `-4`, `-6` and `-0` about all that follow.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};

use super::network::{Address, Family};
use crate::moving::{Existing, Output};
use fullbore_host::refusal::Usage;

/// The outputs, in the order of the command line, and an input that is a connection.
#[derive(Debug, Default)]
pub struct Outputs {
    all: Vec<(Place, Option<Existing>)>,
    /// Where to wait for the connection that is the input.
    pub listen: Option<Address>,
    /// Whether the watchdog stands before, and so is about waiting for that too.
    pub is_watched: bool,
}

/// Where bytes go.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Connection(Address),
}

/// An output that is not open yet.
pub enum Wanted {
    File(Output),
    Connection(Address),
}

const OUTPUT: &str = "output";
const CONNECT: &str = "connect";
const LISTEN: &str = "listen";
/// The option of the watchdog, which is not defined here.
const WATCHDOG: &str = "watchdog";
const APPEND: &str = "append";
const TRUNCATE: &str = "truncate";
/// The versions of IP, for the options that follow.
const FAMILIES: [(&str, char, Family); 3] = [
    ("ipv4", '4', Family::V4),
    ("ipv6", '6', Family::V6),
    ("any-ip", '0', Family::Any),
];

impl Outputs {
    /// Returns the outputs, which are not open yet, unless they replace files; stdout if none was named. A file
    /// that exists is refused, unless its own options or `otherwise` say what becomes of it.
    ///
    /// # Errors
    /// If a file is to be replaced (`is_atomic`) and cannot be, or is to be appended to as well.
    pub fn all(&self, otherwise: Existing, is_atomic: bool) -> anyhow::Result<Vec<Wanted>> {
        if self.all.is_empty() {
            return Ok(vec![Wanted::File(Output::stdout())]);
        }
        let output = |(place, existing): &(Place, Option<Existing>)| {
            let existing = existing.unwrap_or(otherwise);
            let path = match place {
                Place::Connection(address) => return Ok(Wanted::Connection(address.clone())),
                Place::File(path) => path,
            };
            let output = match is_atomic {
                _ if path.as_os_str() == "-" => Output::stdout(),
                true if existing == Existing::Append => {
                    return Err(Usage(
                        "--atomic replaces files, and --append adds to them: give one of them"
                            .into(),
                    )
                    .into());
                }
                true => Output::replacing(path, existing)?,
                false => Output::named(path.clone(), existing),
            };
            Ok(Wanted::File(output))
        };
        self.all.iter().map(output).collect()
    }
}

impl Args for Outputs {
    fn augment_args(command: Command) -> Command {
        let flag = |name| {
            let flag = Arg::new(name).long(name).num_args(0);
            flag.action(ArgAction::Append).default_missing_value("")
        };
        command
            .arg(
                Arg::new(OUTPUT)
                    .short('o')
                    .long(OUTPUT)
                    .value_name("FILE")
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(PathBuf))
                    .help(
                        "Write to FILE instead of stdout; '-' means stdout. Can be given several \
                         times, and every output gets all bytes",
                    ),
            )
            .arg(
                Arg::new(CONNECT)
                    .short('O')
                    .value_name("HOST:PORT")
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(Address))
                    .help("Write to a TCP connection to this port of HOST. Can be given several times"),
            )
            .arg(
                Arg::new(LISTEN)
                    .short('I')
                    .value_name("[HOST:]PORT")
                    .conflicts_with("input")
                    .value_parser(value_parser!(Address))
                    .help("Read from the first TCP connection to this port, only from HOST if it is named"),
            )
            .args(FAMILIES.map(|(name, letter, _)| {
                flag(name).short(letter).long(None::<&str>).help(match letter {
                    '4' => "Use IPv4 for the -I and -O that follow",
                    '6' => "Use IPv6 for the -I and -O that follow",
                    _ => "Use IPv4 or IPv6 for the -I and -O that follow [default]",
                })
            }))
            .arg(flag(APPEND).help("Append to the next output file"))
            .arg(flag(TRUNCATE).help("Replace the contents of the next output file"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Outputs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let at = |name| matches.indices_of(name).into_iter().flatten();
        let paths = matches.get_many::<PathBuf>(OUTPUT).into_iter().flatten();
        let paths = paths.map(|path| Place::File(path.clone()));
        // The last version of IP that stands before.
        let family = |to: usize| {
            let before = FAMILIES.iter().flat_map(|&(name, _, family)| {
                at(name)
                    .filter(move |&at| at < to)
                    .map(move |at| (at, family))
            });
            before
                .max_by_key(|&(at, _)| at)
                .map_or(Family::Any, |(_, family)| family)
        };
        let with_family = |(address, to): (&Address, usize)| address.with_family(family(to));
        let addresses = |name: &'static str| {
            let all = matches.get_many::<Address>(name).into_iter().flatten();
            all.zip(at(name)).map(with_family)
        };
        let connections = addresses(CONNECT).map(Place::Connection);
        let mut all: Vec<(usize, Place)> = at(OUTPUT).zip(paths).collect();
        all.extend(at(CONNECT).zip(connections));
        all.sort_by_key(|&(at, _)| at);
        let mut from = 0;
        let all = all.into_iter().map(|(to, place)| {
            let is_given = |name| at(name).any(|at| (from..to).contains(&at));
            let existing = match (is_given(APPEND), is_given(TRUNCATE)) {
                (true, _) => Some(Existing::Append),
                (false, true) => Some(Existing::Replace),
                (false, false) => None,
            };
            if matches!(place, Place::File(_)) {
                from = to;
            }
            (place, existing)
        });
        let all: Vec<(Place, Option<Existing>)> = all.collect();
        let without_host = |(place, _): &&(Place, Option<Existing>)| match place {
            Place::Connection(address) => !address.has_host(),
            Place::File(_) => false,
        };
        if let Some((Place::Connection(address), _)) = all.iter().find(without_host) {
            let words = format!("-O {address}: expected HOST:PORT\n");
            return Err(Error::raw(clap::error::ErrorKind::ValueValidation, words));
        }
        let listen = addresses(LISTEN).last();
        let listens_at = at(LISTEN).last();
        let is_watched = at(WATCHDOG).any(|at| Some(at) < listens_at);
        Ok(Self {
            all,
            listen,
            is_watched,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Vec<(String, Option<Existing>)> {
        let others = ["input", WATCHDOG].map(|name| Arg::new(name).long(name));
        let command =
            Outputs::augment_args(Command::new("buffer").no_binary_name(true).args(others));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        let Outputs { all, .. } = Outputs::from_arg_matches(&matches).unwrap();
        let named = |(place, existing)| match place {
            Place::File(path) => (path.display().to_string(), existing),
            Place::Connection(address) => (format!("{address} {:?}", address.family), existing),
        };
        all.into_iter().map(named).collect()
    }

    #[test]
    fn an_option_is_about_the_next_output_only() {
        let line = "-o a --append -o b -o c --truncate --output d --append";
        let expected = [
            ("a", None),
            ("b", Some(Existing::Append)),
            ("c", None),
            ("d", Some(Existing::Replace)),
        ];
        assert_eq!(
            parsed(line),
            expected.map(|(path, existing)| (path.to_owned(), existing))
        );
        let line = "-O a:1 -4 -O b:2 -o c -6 -O d:3";
        let expected = ["a:1 Any", "b:2 V4", "c", "d:3 V6"];
        assert_eq!(parsed(line), expected.map(|name| (name.to_owned(), None)));
    }
}
