//! Defines the group `many`: many writers and readers on one pipe, many pipelines side by side, and both while memory
//! has to be reclaimed.
//!
//! Writers send messages that say who made them and when. Readers check every message, and how long it took. The
//! figure is what comes to all readers together; the percentiles of the messages' times are beside it.
//!
//! `table` lists the experiments, `message` is what is sent, `send` and `receive` are the writers and the readers,
//! which all begin by `board`; `shortage` makes memory short, in a `cgroup` if it can; `measure` puts it all together,
//! and `remark` says what the tables show.

mod board;
mod cgroup;
mod measure;
mod message;
mod receive;
mod remark;
mod send;
mod shortage;
mod table;
mod window;

use std::sync::LazyLock;

use anyhow::Result;

use crate::experiment::{Experiment, Group};
use crate::measurement::Measured;
use crate::part::Part;
use crate::work::{Bench, Work};
use cgroup::{EnterTask, RemoveTask};
use fullbore_results::run::Outcome;
use receive::ReceiveTask;
use send::SendTask;
use shortage::{ReadAllTask, TakeTask};
use table::{Row, rows};

/// The group's name.
const GROUP: &str = "many";

/// Returns the group.
pub fn group() -> Group {
    Group {
        name: GROUP,
        shows: "many writers, readers and pipelines at once, also while memory has to be reclaimed",
        experiments: &EXPERIMENTS,
        parts: PARTS,
    }
}

/// The rows.
static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let experiment = |row: Row| {
        let work: &Many = Box::leak(Box::new(Many { row }));
        Experiment::bandwidth(GROUP, &work.row.name, None, &work.row.shows, work)
    };
    rows().into_iter().map(experiment).collect()
});

/// The tasks of this group's processes.
const PARTS: &[Part] = &[
    Part::of::<SendTask>(),
    Part::of::<ReceiveTask>(),
    Part::of::<ReadAllTask>(),
    Part::of::<TakeTask>(),
    Part::of::<EnterTask>(),
    Part::of::<RemoveTask>(),
];

/// The work of many processes at once.
#[derive(Debug)]
struct Many {
    row: Row,
}

impl Work for Many {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        measure::measure(&self.row, bench)
    }

    fn table(&self) -> Option<&'static str> {
        Some(self.row.table)
    }

    fn fixed_pipe_size(&self) -> Option<&'static str> {
        Some("the pipes have the default capacity")
    }

    fn runs_anywhere(&self) -> bool {
        true
    }

    fn remark(&self, table: &[&Outcome]) -> Option<String> {
        remark::remark(self.row.table, table)
    }
}
