//! Writes lines, one call per line, to any writer.

use std::io::Write;

use anyhow::Context;

use super::options::{Data, Options};
use super::prepare;
use super::progress::{EndpointProgress, Role, reader_has_gone};
use fullbore_bytes::pattern;
use fullbore_results::run::EndpointReport;

/// Writes lines of `len` bytes, one call per line, as a program that prints does.
pub fn write_lines(
    options: &Options,
    len: usize,
    out: &mut impl Write,
) -> anyhow::Result<EndpointReport> {
    /// The number of lines that are filled at a time, because filling them is not what is
    /// measured.
    const AT_ONCE: usize = 256;
    let mut lines = vec![prepare::CONSTANT; len * AT_ONCE];
    let mut progress = EndpointProgress::begin(options, Role::Writer);
    'stream: while let Some(most) = progress.next(lines.len()) {
        if options.data() == Data::Words {
            pattern::fill(&mut lines[..most], progress.moved());
        }
        for line in lines[..most].chunks(len) {
            match out.write_all(line) {
                Ok(()) => {}
                Err(error) if reader_has_gone(error.kind()) => break 'stream,
                Err(error) => return Err(error).context("write to stdout"),
            }
        }
        progress.add(most, 0);
    }
    match out.flush() {
        Err(error) if !reader_has_gone(error.kind()) => Err(error).context("write to stdout"),
        _ => Ok(progress.report(options, 0)),
    }
}
