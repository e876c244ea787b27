//! The report at the end of a pipeline.

use std::io::{self, Write};

use anyhow::{Context, Result};

use super::runner::Runner;
use crate::terminal::lines::say_line;
use crate::terminal::{report, size_of, stderr};

impl Runner<'_> {
    /// Reports how the pipeline performed.
    pub(super) fn report(&mut self) -> Result<()> {
        let Some(watch) = &self.watch else {
            return Ok(());
        };
        let findings = watch.findings();
        if let Some(live) = &mut self.live {
            live.end();
        }
        if self.options.report || self.options.live {
            let columns = size_of(stderr()).map_or(usize::MAX, |(columns, _)| columns);
            let (tables, verdict) = report::parts(&findings, columns);
            let text = [tables, verdict].concat().join("\n");
            say_line(text);
        }
        if let Some(mut file) = self.json.take() {
            let mut write = || -> io::Result<()> {
                serde_json::to_writer_pretty(&mut file, &findings)?;
                writeln!(file)
            };
            write().context("write the JSON")?;
            fullbore::close(file).context("close the JSON")?;
        }
        Ok(())
    }
}
