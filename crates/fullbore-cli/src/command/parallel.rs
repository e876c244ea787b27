//! `fullbore parallel`: runs one stage of a pipeline in several processes.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use super::{json, line_or_words};
use crate::parallel::{GRACE, Options, run};
use crate::run::{Failure, Plan, called, keep};

/// Run a filter of lines on all CPUs, with its output in the order of its input
///
/// stdin is cut into blocks that end at the end of a line, or of another record. Each block is the
/// input of a new process of LINE, which sh runs as 'fullbore run' runs a stage. The outputs go to
/// stdout in the order of the blocks. It is right for commands that treat every line alone, such
/// as grep, cut, and awk without END; it is wrong for sort, uniq, wc and tail.
#[derive(Args)]
#[command(after_help = "\
Examples:
  zcat access.log.gz | fullbore parallel --accept 1 'grep -E \" 50[0-9] \"' > errors
  fullbore parallel -j 4 gzip < disk.img > disk.img.gz
  fullbore run 'cat access.log | fullbore parallel \"cut -d \\\" \\\" -f 1\" | sort -u'
  fullbore parallel --csv --header 1 -- sed 1d < rows.csv
  fullbore parallel 'wc -l' < access.log | awk '{ lines += $1 } END { print lines }'

Exit codes: 0 all blocks succeeded, or the reader of the output closed it early; otherwise the \
exit code of the first block that failed (128 plus the signal number if a signal ended its \
process). Also: 1 if reading or writing failed; 2 for an invalid command line; 3 if this machine \
does not allow it; 126 if the command cannot be run; 127 if it is not found.")]
pub struct Parallel {
    /// The command, as one argument in quotes
    #[arg(value_name = "LINE")]
    line: Vec<OsString>,

    /// The command and its arguments, without a shell
    #[arg(last = true, value_name = "WORD", value_hint = clap::ValueHint::CommandName)]
    words: Vec<OsString>,

    #[command(flatten)]
    options: Options,
}

impl Parallel {
    pub fn run(mut self) -> anyhow::Result<ExitCode> {
        json::check(&self.options.shown.json, "the command", &[])?;
        let sizes = self.options.sizes()?;
        let example = ["grep -F x", "grep -F x"];
        let line = line_or_words(&self.line, &self.words, "command", example)?;
        let command = || match line {
            Some(line) => Plan::one_of_line(line),
            None => Ok(Plan::one_of_words(&self.words)?),
        };
        called("parallel");
        self.options.shown.open_fifo()?;
        let progress = self.options.shown.progress;
        let ran = keep(progress, GRACE, false, None, |keeper, signals, _, _| {
            run(keeper, signals, command, &self.options, sizes)
        });
        Failure::said("fullbore parallel", ran)
    }
}
