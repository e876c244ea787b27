//! The report at the end of a pipeline.

use std::io::{self, Write};

use anyhow::{Context, Result};
use rustix::termios::tcgetwinsize;

use super::runner::Runner;
use crate::terminal::report;
use crate::terminal::stderr;

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
            let columns = tcgetwinsize(stderr()).map_or(0, |size| size.ws_col.into());
            let (tables, verdict) = report::parts(
                &findings,
                match columns {
                    0 => usize::MAX,
                    columns => columns,
                },
            );
            let text = [tables, verdict].concat().join("\n");
            // An error is ignored, because stderr may be closed.
            let _ = writeln!(stderr(), "{text}");
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
