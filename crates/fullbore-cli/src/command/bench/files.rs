//! The options that name files for reports: one for each form of report.

use std::path::PathBuf;

use clap::{Arg, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};

use fullbore_results::report::forms::{FORMS, Form};

/// The files that were named, each with the form of its report.
pub struct ReportFiles(pub Vec<(&'static Form, PathBuf)>);

impl FromArgMatches for ReportFiles {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let named = FORMS.iter().filter_map(|form| {
            let path: &PathBuf = matches.get_one(form.name)?;
            Some((form, path.clone()))
        });
        Ok(Self(named.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ReportFiles {
    fn augment_args(command: Command) -> Command {
        let group = ArgGroup::new("ReportFiles").multiple(true);
        let command = command.group(group.args(FORMS.iter().map(|form| form.name)));
        FORMS.iter().fold(command, |command, form| {
            command.arg(
                Arg::new(form.name)
                    .long(form.name)
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help(form.about)
                    .help_heading("Reports"),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
