//! The experiments, as data. A new experiment is a new row.
//!
//! Where a row is a writer and a reader, they are options of `fullbore write` and `fullbore read`, so
//! the experiment can be repeated in a shell, and taken apart there. The other groups have their
//! tables beside what they do.

use std::sync::LazyLock;

use super::endpoint::{Checked, Pair};
use super::experiment::{Experiment, Group};
use super::latency;
use super::movers;
use super::page_lookup;
use super::pipelines;
use super::sweep::{self, Axes};
use super::transports;
use super::unix_copy;
use fullbore_host::refusal::Usage;
use fullbore_results::names::{is_meant, pattern};
use fullbore_results::run::Unit;

/// The group that runs when none is named.
pub const DEFAULT_GROUP: &str = "ladder";

macro_rules! experiments {
    ($group:literal $checked:ident: $($name:literal, $published:expr, $shows:literal, $writer:literal => $reader:literal;)*) => {
        &[$(Experiment {
            group: $group,
            name: $name,
            shows: $shows,
            unit: Unit::GibPerS,
            published: $published,
            work: &Pair { writer: $writer, reader: $reader, checked: Checked::$checked, cell: None },
        }),*]
    };
}

/// The article's ladder, and rungs above it.
///
/// Published figures: the article 'How fast are Linux pipes anyway?' (2022), on a Skylake laptop
/// with Linux 5.17.
#[rustfmt::skip]
const LADDER: &[Experiment] = experiments! { "ladder" No:
    "write_read", Some(3.7), "write(2) and read(2), the usual way",
        "" => "";
    "write_read_huge", None, "the same, buffers on huge pages",
        "--huge-page --check-huge-page" => "--huge-page --check-huge-page";
    "vmsplice_read", Some(12.7), "vmsplice(2) instead of write(2): one copy fewer",
        "--write-with-vmsplice" => "";
    "vmsplice_read_huge", None, "the same, buffers on huge pages",
        "--write-with-vmsplice --huge-page --check-huge-page" => "--huge-page --check-huge-page";
    "vmsplice_splice", Some(32.8), "splice(2) to /dev/null instead of read(2): no copy at all",
        "--write-with-vmsplice" => "--read-with-splice";
    "vmsplice_splice_untouched", Some(25.0), "the same, with pages that were not touched before",
        "--write-with-vmsplice --dont-touch-pages" => "--read-with-splice";
    "vmsplice_splice_same_buffer", None, "the same, with two halves of one contiguous buffer",
        "--write-with-vmsplice --same-buffer" => "--read-with-splice";
    "vmsplice_splice_huge", Some(51.0), "the same, with buffers on huge pages, which are faster to look up",
        "--write-with-vmsplice --huge-page --check-huge-page" => "--read-with-splice";
    "busy_loop_huge", Some(62.5), "the same, in a busy loop instead of sleeping: the article's last step",
        "--write-with-vmsplice --huge-page --check-huge-page --busy-loop" => "--read-with-splice --busy-loop";
    "large_slots", None, "the same, 1 MiB at a time",
        "--write-with-vmsplice --huge-page --check-huge-page --busy-loop --buf-size 2M" => "--read-with-splice --busy-loop --buf-size 2M";
    "adaptive", None, "as busy_loop_huge, but spinning for a limited time before sleeping",
        "--write-with-vmsplice --huge-page --check-huge-page --wait adaptive" => "--read-with-splice --wait adaptive";
    "roomy_pipe", None, "as write_read, with a pipe of 1 MiB",
        "--pipe-size 1M" => "";
    "double_buffer", None, "new data in every buffer, and every word read: the article's two buffers",
        "--write-with-vmsplice --huge-page --check-huge-page --data words" => "--huge-page --check-huge-page --sum";
    "deep_ring", None, "the same with a ring of chunks, a pipe of 1 MiB and blocking calls",
        "--ring 2M --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words" => "--huge-page --check-huge-page --sum";
};

/// Each way to produce against write(2), before a reader that sums every word and before one that
/// splices to /dev/null.
#[rustfmt::skip]
const PRODUCE: &[Experiment] = experiments! { "produce" Yes:
    "write_default_sum", None, "write(2) into a default pipe, every word read and added up",
        "--way copy --chunk 512K --huge-page --data words" => "--chunk 512K --huge-page --sum";
    "write_roomy_sum", None, "the same, into a pipe of 1 MiB",
        "--way copy --chunk 512K --pipe-size 1M --huge-page --data words" => "--chunk 512K --huge-page --sum";
    "double_buffer_sum", None, "the article's double buffering, the same job",
        "--write-with-vmsplice --huge-page --check-huge-page --data words" => "--chunk 512K --huge-page --sum";
    "fresh_sum", None, "fresh pages: correct for every reader",
        "--way fresh --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words" => "--chunk 512K --huge-page --sum";
    "recycle_sum", None, "recycled pages: correct only for a reader that copies",
        "--way recycle --pipe-size 1M --huge-page --check-huge-page --data words" => "--chunk 512K --huge-page --sum";
    "recycle_sum_busy", None, "the same, in a busy loop instead of sleeping",
        "--way recycle --pipe-size 1M --huge-page --check-huge-page --data words --busy-loop" => "--chunk 512K --huge-page --sum --busy-loop";
    "write_default_splice", None, "write(2) into a default pipe, spliced to /dev/null",
        "--way copy --chunk 512K --huge-page --data words" => "--read-with-splice --chunk 1M";
    "write_roomy_splice", None, "the same, into a pipe of 1 MiB",
        "--way copy --chunk 512K --pipe-size 1M --huge-page --data words" => "--read-with-splice --chunk 1M";
    "fresh_splice", None, "fresh pages, spliced to /dev/null",
        "--way fresh --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words" => "--read-with-splice --chunk 1M";
    "recycle_splice", None, "recycled pages, spliced to /dev/null",
        "--way recycle --pipe-size 1M --huge-page --check-huge-page --data words" => "--read-with-splice --chunk 1M";
    "lines_std_sum", None, "lines of 80 bytes through std's BufWriter, into a default pipe",
        "--lines 80 --data words" => "--chunk 512K --huge-page --sum";
    "lines_fresh_sum", None, "the same lines through Producer's io::Write",
        "--way fresh --chunk 512K --pipe-size 1M --lines 80 --huge-page --check-huge-page --data words" => "--chunk 512K --huge-page --sum";
    "repeat_read", None, "a pattern of 2 bytes again and again, into read(2)",
        "--way repeat --pipe-size 1M" => "--chunk 1M --huge-page";
    "repeat_splice", None, "the same, spliced to /dev/null",
        "--way repeat --pipe-size 1M" => "--read-with-splice --chunk 16M";
    "repeat_splice_busy", None, "the same, in a busy loop instead of sleeping",
        "--way repeat --pipe-size 1M --busy-loop" => "--read-with-splice --chunk 16M --busy-loop";
};

/// Jobs by programs, the cross product of the tables in `movers`.
static MOVE: LazyLock<Vec<Experiment>> = LazyLock::new(movers::experiments);

/// Pipelines by ways to run them, the cross product of the tables in `pipelines`.
static PIPELINES: LazyLock<Vec<Experiment>> = LazyLock::new(pipelines::experiments);

/// All experiments of one command line: some are made from its options.
#[derive(Debug)]
pub struct Catalogue {
    groups: Vec<Group>,
}

/// All groups, in the order they are shown. A new group is a new row here.
fn groups(axes: &Axes) -> Vec<Group> {
    let group = |name, shows, experiments| Group {
        name,
        shows,
        experiments,
    };
    vec![
        group(
            "ladder",
            "a writer and a reader on one pipe, by technique",
            LADDER,
        ),
        group(
            "produce",
            "each method of the library's Producer, with readers that read or discard the data",
            PRODUCE,
        ),
        group(
            movers::GROUP,
            "programs that copy from one file descriptor to another: copy and tee compared with \
             cat, tee, pv and others",
            &MOVE,
        ),
        group(
            pipelines::GROUP,
            "pipelines of ordinary programs, run by fullbore run and by bash",
            &PIPELINES,
        ),
        group(
            transports::GROUP,
            "the same stream over every transport, and memory itself, in lmbench's order",
            transports::EXPERIMENTS,
        ),
        group(
            latency::GROUP,
            "round-trip time over every transport, and the cost of one wake-up",
            &latency::EXPERIMENTS,
        ),
        group(
            page_lookup::GROUP,
            "the cost of looking up one page of memory, which vmsplice(2) pays for each page",
            page_lookup::EXPERIMENTS,
        ),
        group(
            sweep::GROUP,
            "throughput by bytes per call and pipe capacity",
            axes.experiments(),
        ),
        group(
            unix_copy::GROUP,
            "an object sent through a Unix socket: copied, copied past the caches, or by reference",
            unix_copy::EXPERIMENTS,
        ),
    ]
}

impl Catalogue {
    /// With a sweep over these axes.
    pub fn new(axes: &Axes) -> Self {
        Self {
            groups: groups(axes),
        }
    }

    /// All groups, in the order they are shown.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// All experiments, in the order they are shown.
    pub fn iter(&self) -> impl Iterator<Item = &'static Experiment> {
        self.groups.iter().flat_map(|group| group.experiments)
    }

    /// The experiments that the patterns mean, in the catalogue's order; the default group for none.
    pub fn select(&self, patterns: &[String]) -> Result<Vec<Experiment>, Usage> {
        if patterns.is_empty() {
            return self.select(&[DEFAULT_GROUP.to_owned()]);
        }
        let mut meant = vec![false; self.iter().count()];
        for text in patterns {
            let pattern = pattern(text)?;
            let mut found = false;
            for (experiment, meant) in self.iter().zip(&mut meant) {
                if is_meant(experiment.group, experiment.name, &pattern) {
                    *meant = true;
                    found = true;
                }
            }
            if !found {
                return Err(Usage(format!(
                    "unknown experiment '{text}': 'fullbore bench --list' lists all"
                )));
            }
        }
        Ok(self
            .iter()
            .zip(meant)
            .filter_map(|(experiment, meant)| meant.then_some(*experiment))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::lab::endpoint::Options;

    #[derive(Parser)]
    struct Endpoint {
        #[command(flatten)]
        options: Options,
    }

    fn catalogue() -> Catalogue {
        Catalogue::new(&Axes::default())
    }

    fn options(text: &str) -> Options {
        let words = std::iter::once("endpoint").chain(text.split_whitespace());
        Endpoint::try_parse_from(words).unwrap().options
    }

    #[test]
    fn every_experiment_is_one_that_its_endpoints_accept() {
        for experiment in catalogue().iter() {
            if let Some((writer, reader)) = experiment.work.endpoints() {
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
            ["write_read", "write_read_huge", "deep_ring"]
        );
        assert_eq!(
            names(&["one_three_s*", "move/pipe_pipe_re*"]),
            ["pipe_pipe_reference", "one_three_std", "one_three_snapshot"]
        );
        assert!(catalogue().select(&["nothing".into()]).is_err());
        assert!(catalogue().select(&["[".into()]).is_err());
    }
}
