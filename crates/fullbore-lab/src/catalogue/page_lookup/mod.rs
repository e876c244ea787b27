//! Defines the group `page_lookup`: the kernel's cost of finding one page of a program's memory,
//! which vmsplice(2) pays for every page.
//!
//! If the kernel has its own benchmark of this, its result is used (`kernel.rs`). Otherwise the
//! cost is estimated from vmsplice itself (`estimate.rs`), and the row's note says so. The
//! experiment is one process, on the writer's CPU.

mod estimate;
mod kernel;
mod memory;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::part::{self, Part, Task, Timing};
use crate::process::{Ended, Process};
use crate::work::{Bench, Work};
use fullbore_host::refusal::Unsupported;
use fullbore_results::run::{Settings, Unit};
use memory::{Found, Which};

/// The group's name.
const GROUP: &str = "page_lookup";

/// Returns the group.
pub fn group() -> Group {
    Group {
        name: GROUP,
        shows: "the cost of looking up one page of memory, which vmsplice(2) pays \
                for each page",
        experiments: EXPERIMENTS,
        parts: PARTS,
    }
}

const fn row(name: &'static str, shows: &'static str, work: &'static Lookup) -> Experiment {
    Experiment {
        unit: Unit::NanosecondsPerPage,
        ..Experiment::bandwidth(GROUP, name, None, shows, work)
    }
}

/// The rows. Ratios are relative to the first one.
#[rustfmt::skip]
const EXPERIMENTS: &[Experiment] = &[
    row("lookup_base_touched", "base pages that are mapped",
        &Lookup { pages: Which { huge: false, touched: true }, peer: "lookup base_touched" }),
    row("lookup_base_untouched", "base pages that are not mapped yet",
        &Lookup { pages: Which { huge: false, touched: false }, peer: "lookup base_untouched" }),
    row("lookup_huge_touched", "mapped huge pages, of which one look-up finds many base pages",
        &Lookup { pages: Which { huge: true, touched: true }, peer: "lookup huge_touched" }),
    row("lookup_huge_untouched", "huge pages that are not mapped yet",
        &Lookup { pages: Which { huge: true, touched: false }, peer: "lookup huge_untouched" }),
];

/// The work of looking up pages of one kind.
#[derive(Debug)]
struct Lookup {
    pages: Which,
    peer: &'static str,
}

impl Work for Lookup {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let timing = Timing::of(bench.settings);
        let pages = self.pages;
        let task = LookupTask { pages, timing };
        let process = Process::start(bench.program.part(&task, Some(bench.cpus.writer))?)?;
        Ok(judge(&process.end_within(timing.patience())?)?)
    }

    fn peer(&self, _settings: &Settings) -> Option<String> {
        Some(self.peer.into())
    }

    fn fixed_pipe_size(&self) -> Option<&'static str> {
        Some("it uses no pipe")
    }
}

fn judge(ended: &Ended) -> Result<Measured, Stop> {
    let found: Found = ended.report("look-up")?;
    Ok(Measured {
        figure: found.ns_per_page,
        notes: found.notes,
        ..Measured::default()
    })
}

/// The tasks of this group's processes.
const PARTS: &[Part] = &[Part::of::<LookupTask>()];

/// The task of looking up pages and measuring the time.
#[derive(Debug, Serialize, Deserialize)]
struct LookupTask {
    pages: Which,
    timing: Timing,
}

impl Task for LookupTask {
    const NAME: &'static str = "pagelookup";

    fn play(self) -> Result<()> {
        let Self { pages, timing } = self;
        let mut found = match kernel::Benchmark::find() {
            Ok(benchmark) => kernel::measure(&benchmark, pages, timing)?,
            Err(why_not) => estimate::measure(pages, timing, &why_not)?,
        };
        if !found.ns_per_page.is_finite() || found.ns_per_page <= 0.0 {
            bail!(Unsupported(format!(
                "look-ups are too fast for this clock: it gives {} ns per page",
                found.ns_per_page
            )));
        }
        if !pages.touched {
            found.notes.push(
                "the figure includes the page fault: a read fault, which maps the shared zero page \
                 and allocates nothing"
                    .into(),
            );
        }
        part::say(&found)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{ExitStatus, Output};

    use super::*;

    fn ended(code: i32, stderr: &str) -> Ended {
        Ended {
            output: Output {
                status: ExitStatus::from_raw(code << 8),
                stdout: Vec::new(),
                stderr: stderr.into(),
            },
            killed: false,
        }
    }

    #[test]
    fn what_a_part_says_is_the_figure_and_its_notes() {
        let said = "{\"ns_per_page\":12.5,\"notes\":[\"an estimate\"]}\n";
        let taken = judge(&ended(0, said)).unwrap();
        assert_eq!(taken.figure, 12.5);
        assert_eq!(taken.notes, ["an estimate"]);
    }

    #[test]
    fn what_a_part_cannot_do_is_skipped_and_what_it_breaks_at_failed() {
        let skipped = judge(&ended(3, "fullbore part: no huge pages\n"));
        assert!(matches!(skipped, Err(Stop::Skipped(reason)) if reason == "no huge pages"));
        assert!(matches!(judge(&ended(1, "")), Err(Stop::Failed(_))));
        assert!(matches!(judge(&ended(0, "nonsense")), Err(Stop::Failed(_))));
    }
}
