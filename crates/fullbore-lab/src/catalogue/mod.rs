//! Lists the experiments, as data. A group is a folder or a file here, and a row in [`Catalogue::default`];
//! an experiment is a row in its group.

mod between;
mod latency;
pub(crate) mod movers;
mod page_lookup;
mod pairs;
pub mod pipelines;
mod services;
mod text;
pub(crate) mod transports;
pub mod unix_copy;
mod worth;

use fullbore_host::refusal::Usage;
use fullbore_results::names::Patterns;

use crate::experiment::{Experiment, Group};
use crate::task::Part;

/// The group that runs when none is named.
pub const DEFAULT_GROUP: &str = "ladder";

/// All experiments that a command line can name.
#[derive(Debug)]
pub struct Catalogue {
    /// All groups, in the order of display.
    pub groups: Vec<Group>,
}

impl Default for Catalogue {
    /// Returns the catalogue. The groups are in the order of display; a new group is a new row.
    fn default() -> Self {
        let groups = vec![
            pairs::ladder(),
            pairs::produce(),
            worth::group(),
            between::group(),
            between::parallel(),
            movers::buffers(),
            movers::group(),
            pipelines::group(),
            services::group(),
            transports::group(),
            latency::group(),
            page_lookup::group(),
            pairs::sweep(),
            unix_copy::group(),
        ];
        Self { groups }
    }
}

impl Catalogue {
    /// Returns all experiments, in the order of display.
    pub fn iter(&self) -> impl Iterator<Item = &'static Experiment> {
        self.groups.iter().flat_map(|group| group.experiments)
    }

    /// Returns the part with this name, of any group.
    pub fn part(&self, name: &str) -> Option<Part> {
        let mut parts = self.groups.iter().flat_map(|group| group.parts);
        parts.find(|part| part.name == name).copied()
    }

    /// Returns the experiments that match the patterns, in the catalogue's order, or the default group
    /// if there are no patterns.
    pub fn select(&self, patterns: &[String]) -> Result<Vec<Experiment>, Usage> {
        if patterns.is_empty() {
            return self.select(&[DEFAULT_GROUP.to_owned()]);
        }
        let mut wanted = Patterns::of(patterns)?;
        let meant = self.iter().filter(|one| wanted.mean(one.group, one.name));
        let meant: Vec<Experiment> = meant.copied().collect();
        match wanted.unused() {
            Some(text) => Err(Usage(format!(
                "unknown experiment '{text}': 'fullbore bench --list' lists all"
            ))),
            None => Ok(meant),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::endpoint::Options;

    #[derive(Parser)]
    struct Endpoint {
        #[command(flatten)]
        options: Options,
    }

    fn catalogue() -> Catalogue {
        Catalogue::default()
    }

    fn options(text: &str) -> Options {
        let words = std::iter::once("endpoint").chain(text.split_whitespace());
        Endpoint::try_parse_from(words).unwrap().options
    }

    #[test]
    fn every_experiment_is_one_that_its_endpoints_accept() {
        for experiment in catalogue().iter() {
            if let Some((writer, reader)) = experiment.endpoints {
                options(writer).check_writer().unwrap();
                options(reader).check_reader().unwrap();
            }
            assert!(!experiment.shows.is_empty() && !experiment.shows.contains('\n'));
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = catalogue().iter().map(|e| e.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), catalogue().iter().count());
    }

    #[test]
    fn names_of_parts_are_unique() {
        let catalogue = catalogue();
        let parts = catalogue.groups.iter().flat_map(|group| group.parts);
        let mut names: Vec<_> = parts.map(|part| part.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_articles_seven_cases_are_there_under_their_names() {
        for name in [
            "write_read",
            "write_read_huge",
            "vmsplice_read",
            "vmsplice_read_huge",
            "vmsplice_splice",
            "vmsplice_splice_huge",
            "busy_loop_huge",
        ] {
            assert_eq!(
                catalogue().select(&[name.into()]).unwrap().len(),
                1,
                "{name}"
            );
        }
    }

    #[test]
    fn names_globs_and_groups_select() {
        let names = |patterns: &[&str]| -> Vec<&str> {
            let patterns: Vec<String> = patterns.iter().map(|&p| p.into()).collect();
            catalogue()
                .select(&patterns)
                .unwrap()
                .iter()
                .map(|e| e.name)
                .collect()
        };
        assert_eq!(names(&[]), names(&["ladder"]));
        assert_eq!(names(&["all"]).len(), catalogue().iter().count());
        assert_eq!(
            names(&["ladder/write_*", "deep_*"]),
            [
                "write_read",
                "write_read_one_cpu",
                "write_read_huge",
                "deep_ring"
            ]
        );
        assert_eq!(
            names(&["one_three_s*", "move/pipe_pipe_re*"]),
            ["pipe_pipe_reference", "one_three_std", "one_three_snapshot"]
        );
        assert!(catalogue().select(&["nothing".into()]).is_err());
        assert!(catalogue().select(&["[".into()]).is_err());
    }
}
