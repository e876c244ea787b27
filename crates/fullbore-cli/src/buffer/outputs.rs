//! The options that name outputs and connections. As with mbuffer, `--append` and `--truncate` are about the next
//! `-o`, and `-4`, `-6` and `-0` about all that follow.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::network::{Address, Family};
use crate::copying::{Existing, Output};
use fullbore_host::refusal::Usage;

/// The outputs, in the order of the command line, and an input that is a connection.
#[derive(Debug, Default)]
pub struct Outputs {
    all: Vec<(Place<PathBuf>, Option<Existing>)>,
    /// Where to wait for the connection that is the input.
    pub listen: Option<Address>,
    /// Whether the watchdog stands before, and so is about waiting for that too.
    pub is_watched: bool,
}

/// Where bytes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place<File> {
    File(File),
    Connection(Address),
}

/// An option whose place on the command line matters.
#[derive(Debug, Clone)]
enum Given {
    Existing(Existing),
    Family(Family),
    Watchdog,
    Output(PathBuf),
    Connect(Address),
    Listen(Address),
}

impl Outputs {
    /// Returns the names of the files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().filter_map(|(place, _)| match place {
            Place::File(path) => Some(path.as_path()),
            Place::Connection(_) => None,
        })
    }

    /// Returns the outputs, which are not open yet, unless they replace files; stdout if none was named. A file
    /// that exists is refused, unless its own options or `otherwise` say what becomes of it.
    ///
    /// # Errors
    /// If a file is to be replaced (`is_atomic`) and cannot be, or is to be appended to as well.
    pub fn all(&self, otherwise: Existing, is_atomic: bool) -> anyhow::Result<Vec<Place<Output>>> {
        if self.all.is_empty() {
            return Ok(vec![Place::File(Output::Stdout)]);
        }
        let output = |(place, existing): &(Place<PathBuf>, Option<Existing>)| {
            let existing = existing.unwrap_or(otherwise);
            Ok(Place::File(match place {
                Place::Connection(address) => return Ok(Place::Connection(address.clone())),
                Place::File(path) if path.as_os_str() == "-" => Output::Stdout,
                Place::File(_) if is_atomic && existing == Existing::Append => bail!(Usage(
                    "--atomic replaces files, and --append adds to them: give one of them".into()
                )),
                Place::File(path) => Output::of(path, existing, is_atomic)?,
            }))
        };
        self.all.iter().map(output).collect()
    }
}

/// The options, whose order matters.
#[derive(Args)]
#[group(skip)]
#[allow(dead_code, reason = "the values are read in their order, by the names")]
struct Options {
    /// Write to FILE instead of stdout; '-' means stdout. Can be given several times, and every output gets all bytes
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// Write to a TCP connection to this port of HOST. Can be given several times
    #[arg(short = 'O', value_name = "HOST:PORT")]
    connect: Vec<Address>,

    /// Read from the first TCP connection to this port, only from HOST if it is named
    #[arg(short = 'I', value_name = "[HOST:]PORT", conflicts_with = "input")]
    listen: Option<Address>,

    /// Use IPv4 for the -I and -O that follow
    #[arg(short = '4', num_args = 0, default_missing_value = "")]
    ipv4: Vec<String>,

    /// Use IPv6 for the -I and -O that follow
    #[arg(short = '6', num_args = 0, default_missing_value = "")]
    ipv6: Vec<String>,

    /// Use IPv4 or IPv6 for the -I and -O that follow [default]
    #[arg(short = '0', num_args = 0, default_missing_value = "")]
    any_ip: Vec<String>,

    /// Append to the next output file
    #[arg(long, num_args = 0, default_missing_value = "")]
    append: Vec<String>,

    /// Replace the contents of the next output file
    #[arg(long, num_args = 0, default_missing_value = "")]
    truncate: Vec<String>,
}

impl Args for Outputs {
    fn augment_args(command: Command) -> Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Outputs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let at = |name| matches.indices_of(name).into_iter().flatten();
        let addresses = |name| matches.get_many::<Address>(name).into_iter().flatten();
        let paths = matches.get_many("output").into_iter().flatten();
        let mut all: Vec<(usize, Given)> = Vec::new();
        for (name, given) in [
            ("append", Given::Existing(Existing::Append)),
            ("truncate", Given::Existing(Existing::Replace)),
            ("ipv4", Given::Family(Family::V4)),
            ("ipv6", Given::Family(Family::V6)),
            ("any_ip", Given::Family(Family::Any)),
            // The option of the watchdog is not defined here.
            ("watchdog", Given::Watchdog),
        ] {
            all.extend(at(name).map(|at| (at, given.clone())));
        }
        all.extend(at("output").zip(paths.cloned().map(Given::Output)));
        all.extend(at("connect").zip(addresses("connect").cloned().map(Given::Connect)));
        all.extend(at("listen").zip(addresses("listen").cloned().map(Given::Listen)));
        all.sort_by_key(|&(at, _)| at);
        let mut outputs = Self::default();
        let (mut existing, mut family, mut has_watchdog) = (None, Family::Any, false);
        for (_, given) in all {
            match given {
                Given::Existing(_) if existing == Some(Existing::Append) => {}
                Given::Existing(given) => existing = Some(given),
                Given::Family(given) => family = given,
                Given::Watchdog => has_watchdog = true,
                Given::Output(path) => outputs.all.push((Place::File(path), existing.take())),
                Given::Connect(address) if !address.has_host() => {
                    let words = format!("-O {address}: expected HOST:PORT\n");
                    return Err(Error::raw(clap::error::ErrorKind::ValueValidation, words));
                }
                Given::Connect(address) => {
                    let place = Place::Connection(Address { family, ..address });
                    outputs.all.push((place, None));
                }
                Given::Listen(address) => {
                    outputs.listen = Some(Address { family, ..address });
                    outputs.is_watched = has_watchdog;
                }
            }
        }
        Ok(outputs)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn parsed(line: &str) -> Vec<(String, Option<Existing>)> {
        let others = ["input", "watchdog"].map(|name| Arg::new(name).long(name));
        let command =
            Outputs::augment_args(Command::new("buffer").no_binary_name(true).args(others));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        let Outputs { all, .. } = Outputs::from_arg_matches(&matches).unwrap();
        let named = |(place, existing): (Place<PathBuf>, Option<Existing>)| match place {
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
