//! Defines the group `pipelines`: command lines that people type, run by bash and by `fullbore run`.
//!
//! The pipelines and the ways to run them are tables (`table.rs`), and the experiments are their cross
//! product: a new pipeline or another way to run one is a new row. A line is run unchanged in a directory
//! that contains the files it names (`inputs.rs`), and timed from its start to its end (`measure.rs`).

pub(super) mod inputs;
pub(super) mod measure;
pub mod once;
pub mod table;

use anyhow::Result;

use crate::catalogue::movers::version;
use crate::experiment::{Experiment, Group};
use crate::measurement::Measured;
use crate::task::Part;
use crate::work::{Bench, Work};
use fullbore_results::run::{MoverReport, Outcome, Settings, Unit};
use inputs::Kept;
use once::Once;
use table::{PIPELINES, Pipeline, WAYS, Way};

/// The tasks of this group's processes.
const PARTS: &[Part] = &[Part::of::<Once>(), Part::of::<Kept>()];

/// Returns the group: an experiment for every pipeline and every way to run it.
pub fn group() -> Group {
    let rows = PIPELINES.iter().flat_map(|pipeline| {
        WAYS.iter().map(move |way| {
            let name = format!("{}_{}", pipeline.name, way.name);
            let shows = format!("by {}: {}", way.title, pipeline.shows);
            Experiment {
                unit: Unit::MbPerS,
                table: Some(pipeline.line),
                compared_as: Some(way.title),
                runs_anywhere: true,
                ..Experiment::new(name, shows, PipelineRun { pipeline, way })
            }
        })
    });
    let shows = "pipelines of ordinary programs, run by fullbore run and by bash";
    Group::new("pipelines", shows, PARTS, rows)
}

/// One pipeline, run in one way.
#[derive(Debug)]
struct PipelineRun {
    pipeline: &'static Pipeline,
    way: &'static Way,
}

impl Work for PipelineRun {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        measure::measure(self.pipeline, self.way, bench)
    }

    fn describe(&self, outcome: &mut Outcome, settings: &Settings) {
        let bytes = self.pipeline.bytes(settings.seconds);
        outcome.mover = Some(MoverReport {
            job: self.pipeline.line.into(),
            command: self.way.typed(&self.pipeline.line_for(bytes)),
            version: self.way.program.and_then(version),
            ..MoverReport::default()
        });
    }
}
