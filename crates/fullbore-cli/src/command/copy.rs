//! `fullbore copy`: what cat is for.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fullbore::Transfer;

use crate::exit;
use crate::moving::{self, Bar, Input, Output, Total, join};
use fullbore_host::size;

/// Copy files, or stdin, to stdout or into a file
///
/// The reader gets the bytes as they were when they were copied, even if the source changes
/// afterwards. With --by-reference, references to pages are passed on instead. That is faster, and
/// correct only if the source does not change.
///
/// When bytes are copied from a pipe into a file and the file stalls (on a slow disk, or on NFS),
/// the process that writes into the pipe waits too, even if the pipe has space, because the kernel
/// holds the pipe's lock meanwhile. With --by-reference it does not wait.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fullbore copy access.log | wc -l
  tar c src | fullbore copy -o src.tar --report
  fullbore copy header.csv - footer.csv < rows.csv > all.csv
  fullbore copy --by-reference --bytes 1G /dev/zero | wc -c

Exit codes: 0 done, even if the reader of the output closed it early; 1 a file could not be read \
or written; 2 the command line is invalid, or an input is also the output.")]
pub struct Copy {
    /// Files to copy, in order; '-' means stdin [default: stdin]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Append to the output file instead of replacing its contents
    #[arg(short, long, requires = "output")]
    append: bool,

    /// Pass references to pages instead of copying, where possible (correct only if the source does
    /// not change)
    #[arg(long)]
    by_reference: bool,

    /// Stop after SIZE bytes
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = size::parse)]
    bytes: Option<u64>,

    /// Print on stderr how many bytes were copied, how fast, and by which methods
    #[arg(long)]
    report: bool,

    /// Show progress if stderr is a terminal
    #[arg(long)]
    progress: bool,
}

impl Copy {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let inputs = Input::all(&self.files);
        let mut output = Output::new(self.output.clone(), self.append);
        let mut total = Total::default();
        let bar = self.progress.then(|| Bar::new(self.size(&inputs)));
        let copied = join(
            &inputs,
            &mut output,
            |error| exit::say("fullbore copy", error),
            |input, output| self.copy(input, &inputs, output, &mut total, bar.as_ref()),
        );
        drop(bar);
        let closed = output.close();
        if self.report {
            total.print();
        }
        let code = copied?;
        closed?;
        Ok(code)
    }

    fn copy(
        &self,
        input: &Input,
        inputs: &[Input],
        output: &mut Output,
        total: &mut Total,
        bar: Option<&Bar>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let source = input.open()?;
        output.open(inputs)?;
        let mut transfer =
            Transfer::new(&source, &*output).guarantee(moving::guarantee(self.by_reference));
        if let Some(bytes) = self.bytes {
            transfer = transfer.limit(bytes - total.bytes);
        }
        let ran = transfer.run_with(|progress| {
            if let Some(bar) = bar {
                bar.add(progress.step);
            }
            ControlFlow::Continue(())
        });
        total.tried = transfer.tried().or(total.tried);
        total.add(ran, input, output)?;
        Ok(match self.bytes == Some(total.bytes) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    /// Bytes there are to copy, where that is known.
    fn size(&self, inputs: &[Input]) -> Option<u64> {
        match (Input::size_of_all(inputs), self.bytes) {
            (Some(size), Some(limit)) => Some(size.min(limit)),
            (size, limit) => size.or(limit),
        }
    }
}
