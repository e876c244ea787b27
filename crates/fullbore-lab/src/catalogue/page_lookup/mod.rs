//! Defines the group `page_lookup`: the kernel's cost of finding one page of a program's memory,
//! which vmsplice(2) pays for every page.
//!
//! If the kernel has its own benchmark of this, its result is used (`kernel.rs`). Otherwise the
//! cost is estimated from vmsplice itself (`estimate.rs`), and the row's note says so. The
//! experiment is one process, on the writer's CPU.

mod estimate;
mod kernel;
mod memory;

use std::process::Stdio;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::process::Ended;
use crate::task::{self, Part, Task, Timing};
use crate::work::{Bench, Work};
use fullbore_host::refusal::Unsupported;
use fullbore_results::run::{Settings, Unit};
use memory::{Found, Which};

/// Returns the group.
pub fn group() -> Group {
    let rows = ROWS.map(|(peer, shows, pages)| Experiment {
        unit: Unit::NanosecondsPerPage,
        ..Experiment::new(peer.replace(' ', "_"), shows, Lookup { pages, peer })
    });
    let shows = "the cost of looking up one page of memory, which vmsplice(2) pays for each page";
    Group::new("page_lookup", shows, PARTS, rows)
}

/// The rows: the program in C, what it shows, and the pages. Ratios are relative to the first one.
#[rustfmt::skip]
const ROWS: [(&str, &str, Which); 4] = [
    ("lookup base_touched", "base pages that are mapped", Which { huge: false, touched: true }),
    ("lookup base_untouched", "base pages that are not mapped yet", Which { huge: false, touched: false }),
    ("lookup huge_touched", "mapped huge pages, of which one look-up finds many base pages", Which { huge: true, touched: true }),
    ("lookup huge_untouched", "huge pages that are not mapped yet", Which { huge: true, touched: false }),
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
        let (cpu, null) = (Some(bench.cpus.writer), Stdio::null);
        let process = bench.program.start(&task, cpu, null(), null())?;
        Ok(judge(&process.end_within(timing.patience())?)?)
    }

    fn peer(&self, _settings: &Settings) -> Option<String> {
        Some(self.peer.into())
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
        task::say(&found)
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
