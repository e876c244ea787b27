//! The options that name outputs. As with mbuffer, `--append` and `--truncate` are about the next `-o`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};

use crate::moving::{Existing, Output};
use fullbore_host::refusal::Usage;

/// The outputs, in the order of the command line.
#[derive(Debug, Default)]
pub struct Outputs(Vec<(PathBuf, Option<Existing>)>);

const OUTPUT: &str = "output";
const APPEND: &str = "append";
const TRUNCATE: &str = "truncate";

impl Outputs {
    /// Returns the outputs, which are not open yet, unless they replace files; stdout if none was named. A file
    /// that exists is refused, unless its own options or `otherwise` say what becomes of it.
    ///
    /// # Errors
    /// If a file is to be replaced (`is_atomic`) and cannot be, or is to be appended to as well.
    pub fn all(
        &self,
        otherwise: Existing,
        is_synchronous: bool,
        is_atomic: bool,
    ) -> anyhow::Result<Vec<Output>> {
        if self.0.is_empty() {
            return Ok(vec![Output::stdout()]);
        }
        let output = |(path, existing): &(PathBuf, Option<Existing>)| {
            let existing = existing.unwrap_or(otherwise);
            match is_atomic {
                _ if path.as_os_str() == "-" => Ok(Output::stdout()),
                true if existing == Existing::Append => Err(Usage(
                    "--atomic replaces files, and --append adds to them: give one of them".into(),
                )
                .into()),
                true => Output::replacing(path, existing, is_synchronous),
                false => Ok(Output::named(path.clone(), existing).synchronous(is_synchronous)),
            }
        };
        self.0.iter().map(output).collect()
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
        let mut from = 0;
        let outputs = paths.zip(at(OUTPUT)).map(|(path, to)| {
            let is_given = |name| at(name).any(|at| (from..to).contains(&at));
            let existing = match (is_given(APPEND), is_given(TRUNCATE)) {
                (true, _) => Some(Existing::Append),
                (false, true) => Some(Existing::Replace),
                (false, false) => None,
            };
            from = to;
            (path.clone(), existing)
        });
        Ok(Self(outputs.collect()))
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
        let command = Outputs::augment_args(Command::new("buffer").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        let Outputs(all) = Outputs::from_arg_matches(&matches).unwrap();
        let named = |(path, existing): (PathBuf, _)| (path.display().to_string(), existing);
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
    }
}
