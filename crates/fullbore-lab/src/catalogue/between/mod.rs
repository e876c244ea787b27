//! Defines the group `between`: programs that pass bytes on, between ordinary programs.
//!
//! The lines and the programs are tables (`table.rs`), and the experiments are the pairs that people have. A line is
//! run and compared as one of the group `pipelines`.

mod stages;
mod table;

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::movers::{Mover, check_between_pipes, version};
use super::pipelines::inputs::Inputs;
use super::pipelines::measure::timed;
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::process::on_path;
use crate::program::Program;
use crate::work::{Bench, Work};
use fullbore_results::run::{MoverReport, Outcome, Settings, Unit};
use fullbore_results::soundness::Soundness;
use stages::FILTERS;
use table::{Between, LINES};

/// Returns the group: an experiment for every line and every program that is put there.
pub fn group() -> Group {
    let shows = "copy, tee, meter and buffer between ordinary programs, compared with cat, tee, pv, mbuffer and dd";
    group_of("between", shows, LINES)
}

/// Returns the group of filters, each alone and in several processes.
pub fn parallel() -> Group {
    let shows = "filters in several processes at a time, by fullbore parallel and by GNU parallel, and alone";
    group_of("parallel", shows, FILTERS)
}

fn group_of(name: &'static str, shows: &'static str, lines: &'static [Between]) -> Group {
    let rows = lines.iter().flat_map(|line| {
        line.middles.iter().map(move |middle| {
            let name = format!("{}_{}", line.pipeline.name, middle.name);
            let words = match middle.words {
                "" => "no program in the middle",
                words => words,
            };
            Experiment {
                unit: Unit::MbPerS,
                table: Some(line.table.unwrap_or(line.pipeline.line)),
                compared_as: Some(words),
                runs_anywhere: true,
                ..Experiment::new(
                    name,
                    format!("{words}: {}", line.pipeline.shows),
                    Placed { line, middle },
                )
            }
        })
    });
    Group::new(name, shows, &[], rows)
}

/// A program in its place.
#[derive(Debug)]
struct Placed {
    line: &'static Between,
    middle: &'static Mover,
}

/// The inputs of this group, and what was found to be right.
struct Own {
    inputs: Inputs,
    /// Lines that print nothing, and programs in them, that have passed the right bytes.
    right: BTreeSet<(&'static str, &'static str)>,
}

/// Returns the same line with a reader that prints what it got.
fn checked(line: &str) -> String {
    // Where the streams of several compressors begin cannot be seen behind a decompressor.
    let reader = match line.contains("| gzip -6 |") || line.contains("\"gzip -6\"") {
        true => "gzip -dc | cksum",
        false => "cksum",
    };
    line.replace("cat > /dev/null", reader)
}

impl Placed {
    /// Returns a line as a shell runs it: with the path of this program.
    fn runnable(&self, program: &Program, line: &str) -> String {
        // In the shell, this name of the executable would be that of the shell.
        let path = match program.path().to_string_lossy() {
            own if own == "/proc/self/exe" => format!("/proc/{}/exe", std::process::id()),
            path => path.replace('\'', r"'\''"),
        };
        line.replace("fullbore ", &format!("'{path}' "))
    }
}

impl Work for Placed {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let (program, settings) = (bench.program, bench.settings);
        if let Some(missing) = self.middle.program().filter(|name| on_path(name).is_none()) {
            bail!(Stop::Skipped(format!("{missing} is not on PATH")));
        }
        let pipelines = LINES.iter().chain(FILTERS).map(|line| &line.pipeline);
        let own = bench.store.of(|| {
            let (inputs, right) = (Inputs::make(program, settings, pipelines)?, BTreeSet::new());
            Ok(Own { inputs, right })
        });
        let Own { inputs, right } = own.map_err(Stop::skipped)?;
        let (first, pipeline) = (&self.line.middles[0], &self.line.pipeline);
        let expected = |bytes| checked(&self.line.line(first, bytes));
        let made = inputs.of(program, pipeline, expected, settings)?;
        let line = self.line.line(self.middle, made.bytes);
        let timed = |line: &str, title| {
            let line = self.runnable(program, line);
            timed(program, line, self.line.way, title, made, settings)
        };
        let title = Some(self.middle.words);
        if checked(&line) == line {
            return timed(&line, title);
        }
        // The line prints nothing, so one that prints what passed is run first.
        if right.insert((pipeline.name, self.middle.name)) {
            timed(&checked(&line), title)?;
        }
        timed(&line, None)
    }

    fn describe(&self, outcome: &mut Outcome, settings: &Settings) {
        let bytes = self.line.pipeline.bytes(settings.seconds);
        let line = self.line.line(self.middle, bytes);
        outcome.mover = Some(MoverReport {
            job: self.line.pipeline.line.into(),
            command: self.line.way.typed(&line),
            version: self.middle.program().and_then(version),
            ..MoverReport::default()
        });
    }

    /// Only the first line is checked: the answer is that of the program, whatever its ends are.
    fn check(&self, bench: &Bench<'_>) -> Result<Option<Soundness>> {
        let words = self.middle.words;
        let is_first = self.line.pipeline.name == LINES[0].pipeline.name;
        match is_first && !words.is_empty() && !words.contains('=') {
            true => check_between_pipes(self.middle, bench),
            false => Ok(None),
        }
    }
}
