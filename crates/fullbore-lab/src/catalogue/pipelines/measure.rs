//! Measures a command line, and checks that it prints the same as under bash.

use std::fs::File;
use std::io::{self, Read, Seek};

use anyhow::{Result, bail};

use super::inputs::Inputs;
use super::once::{Made, run};
use super::table::{PIPELINES, Pipeline, WAYS, Way};
use crate::measurement::{Measured, Stop};
use crate::memory::memory_file;
use crate::program::Program;
use crate::work::Bench;
use fullbore_results::run::Settings;

/// Measures once.
///
/// # Errors
/// Fails if a process cannot be started or waited for.
pub fn measure(
    pipeline: &'static Pipeline,
    way: &'static Way,
    bench: &mut Bench<'_>,
) -> Result<Measured> {
    let (program, settings) = (bench.program, bench.settings);
    let inputs = bench
        .store
        .of(|| Inputs::make(program, settings, PIPELINES));
    let inputs = inputs.map_err(Stop::skipped)?;
    let line = |bytes| pipeline.line_for(bytes);
    let made = inputs.of(program, pipeline, line, settings)?;
    timed(
        program,
        line(made.bytes),
        way,
        Some(way.title),
        made,
        settings,
    )
}

/// Measures a line once, and compares what it prints with what was expected if it has a title.
///
/// # Errors
/// Fails if a process cannot be started or waited for, or if it prints anything else.
pub fn timed(
    program: &Program,
    line: String,
    way: &'static Way,
    title: Option<&str>,
    made: &Made,
    settings: &Settings,
) -> Result<Measured> {
    let mut printed = memory_file()?;
    let stdout = printed.try_clone()?;
    let ran = run(program, line, way, made, stdout, settings)?;
    if let Some(title) = title {
        let mut expected = made.expected.try_clone()?;
        if let Some(at) = first_difference(&mut printed, &mut expected)? {
            let (len, expected) = (printed.metadata()?.len(), expected.metadata()?.len());
            bail!(Stop::Failed(format!(
                "the output of {title} differs from that of {}: they differ at byte {at}; their lengths are {len} and \
             {expected} bytes",
                WAYS[0].title
            )));
        }
    }
    Ok(Measured {
        figure: made.bytes as f64 / 1e6 / ran.seconds,
        arrived: Some(made.bytes),
        spent: Some(ran.spent),
        into_file: Some((made.bytes, ran.seconds)),
        ..Measured::default()
    })
}

/// Returns the position of the first difference of two files, which are read from their beginning; `None` means
/// that they are equal.
fn first_difference(printed: &mut File, expected: &mut File) -> Result<Option<u64>> {
    let mut position = 0;
    printed.rewind()?;
    expected.rewind()?;
    loop {
        let (ours, theirs) = (next(printed)?, next(expected)?);
        if ours != theirs {
            let both = ours.iter().zip(&theirs);
            let same = both.take_while(|(a, b)| a == b).count();
            return Ok(Some(position + same as u64));
        }
        if ours.is_empty() {
            return Ok(None);
        }
        position += ours.len() as u64;
    }
}

/// Reads the next bytes of a file, fewer only at its end.
fn next(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(1 << 20).read_to_end(&mut bytes)?;
    Ok(bytes)
}
