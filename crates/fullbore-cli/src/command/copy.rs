//! `fullbore copy`: what cat is for.

use std::io::{IsTerminal, Write, stdout};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::terminal::stderr;
use anyhow::Context;
use clap::{ArgGroup, Args};
use fullbore::TransferOptions;

use crate::copying::hash::{Algorithm, Digest};
use crate::copying::{
    self, AtLeast, Existing, Input, Output, Sealing, SourcePipe, Total, WriteBack, join,
};
use crate::error_text::shown;
use crate::exit;
use crate::inherited;
use crate::meter::expected;
use crate::terminal::bar::Bar;
use fullbore_host::named::descriptor_of;
use fullbore_host::refusal::Usage;
use fullbore_host::{seconds, size};

/// Copy files, or stdin, to stdout or into a file
///
/// The reader gets the bytes as they were when they were copied, even if the source changes
/// afterwards. With --by-reference, references to pages are passed on instead. That is faster, and
/// correct only if the source does not change.
#[derive(Args)]
#[command(group(ArgGroup::new("shows").args(["progress", "log"]).multiple(true)))]
#[command(after_help = "\
Examples:
  fullbore copy disk.img -o copy.img --progress
  sort access.log | fullbore copy --atomic --at-least 1 -o access.log
  fullbore copy access.log | wc -l
  fullbore copy header.csv - footer.csv < rows.csv > all.csv
  tar c src | fullbore copy --seal | fullbore copy --unseal --atomic -o src.tar
  fullbore copy disk.img -o copy.img --hash sha256 | sha256sum --check
  tar c src | fullbore copy -o src.tar --report
  fullbore copy --by-reference disk.img | sha256sum

Exit codes: 0 done, even if the reader of the output closed it early; 1 a file could not be read \
or written, or a stream has no seal; 2 the command line is invalid, or an input is also the output.")]
pub struct Copy {
    /// Files to copy, in order; '-' means stdin [default: stdin]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write to FILE instead of stdout. In a directory, the copy of one named file gets its name, as with cp(1)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Append to the output file instead of replacing its contents
    #[arg(short, long, requires = "output", conflicts_with = "at_least")]
    append: bool,

    /// Replace the output file in one step when it is complete; until then, and after any failure, it is as it was. An
    /// input may be the output. An empty input is complete, unless --at-least 1 is given
    #[arg(long, requires = "output", conflicts_with = "append")]
    atomic: bool,

    #[command(flatten)]
    at_least: AtLeast,

    /// Wait until the bytes are on the disk: --progress counts only bytes that are on the disk, and at the end the file and its directory are
    /// synced. The output has to be a file or a block device
    #[arg(long)]
    sync: bool,

    /// Pass references to pages instead of copying, where possible (correct only if the source does
    /// not change)
    #[arg(long)]
    by_reference: bool,

    /// Write a sealed stream, which ends with a seal only if all inputs were read: see docs/seal.md
    #[arg(long, conflicts_with_all = ["unseal", "by_reference", "hash"])]
    seal: bool,

    /// Read sealed streams and write their content; fail if a seal is missing or does not match
    #[arg(long, conflicts_with_all = ["by_reference", "bytes"])]
    unseal: bool,

    /// Stop after SIZE bytes
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = size::parse)]
    bytes: Option<u64>,

    /// Capacity of the output pipe, within the user's limits, once more than 64 KiB are to be copied; 0 leaves it, and
    /// the pipe that is read, as it is, and none is ever shrunk [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_in_memory, conflicts_with_all = ["seal", "unseal"])]
    pipe_size: Option<usize>,

    /// Print the digest of what was written, as sha256sum prints it: on stdout, or on stderr if the
    /// bytes go to stdout; nothing if the copy is incomplete. Not with --append, because the digest
    /// would not be that of the file
    #[arg(long, value_name = "ALGORITHM", conflicts_with_all = ["append", "by_reference"])]
    hash: Option<Algorithm>,

    /// Print on stderr how many bytes were copied, how fast, and by which methods
    #[arg(long)]
    report: bool,

    /// Show progress if stderr is a terminal
    #[arg(long)]
    progress: bool,

    /// Expected number of bytes, for --progress and --log; @FILE is the size of that file or device, or of all files
    /// below that directory [default: the sum of the files' sizes]
    #[arg(short, long, value_name = "SIZE|@FILE", value_parser = expected, requires = "shows")]
    size: Option<u64>,

    /// Print a plain line about the progress on stderr each SECONDS and at the end, with the time of day, for a log
    #[arg(long, value_name = "SECONDS", value_parser = seconds::within(0.1..=86_400.0))]
    log: Option<Duration>,
}

/// What was copied so far, and what is done with it besides.
struct Copying {
    total: Total,
    digest: Option<Digest>,
    bar: Option<Bar>,
    write_back: WriteBack,
    /// Once it has begun.
    sealing: Option<Sealing>,
    is_plain: bool,
    source_pipe: SourcePipe,
}

impl Copying {
    /// Counts bytes that have arrived, of which `seen` can be seen. Breaks off if the disk could not store them.
    fn arrived(
        &mut self,
        (source, sink): (impl AsFd, Option<BorrowedFd<'_>>),
        seen: &[u8],
        bytes: u64,
        synced: &mut anyhow::Result<()>,
    ) -> ControlFlow<()> {
        if let Some(digest) = &mut self.digest {
            digest.add(seen);
        }
        let _ = self.source_pipe.gave(source, sink, bytes);
        let done = self.write_back.wrote(bytes, bytes);
        *synced = done.map(|done| self.bar.iter().for_each(|bar| bar.add(done)));
        match synced {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl Copy {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let is_plain = copying::is_plain()?;
        let target = self.target()?;
        let inputs = Input::all(&self.files);
        let is_atomic = self.atomic || self.at_least.is_given();
        let mut output = match &target {
            None => Output::Stdout,
            Some(path) => Output::of(path, Existing::appended(self.append), is_atomic)?,
        };
        let is_stdout_free = !output.is_stdout();
        if self.hash.is_some() && is_stdout_free {
            inherited::stdout()?;
        }
        let named = target.unwrap_or_else(|| "-".into());
        let size = || {
            let sizes = [Input::size_of_all(&inputs), self.bytes];
            self.size.or(sizes.into_iter().flatten().min())
        };
        let is_shown = self.progress || self.log.is_some();
        let mut copying = Copying {
            total: Total::default(),
            digest: self.hash.map(Digest::new),
            bar: is_shown.then(|| Bar::new(size(), self.progress, self.log)),
            write_back: WriteBack::default(),
            sealing: None,
            is_plain,
            source_pipe: SourcePipe::new(is_plain || self.pipe_size == Some(0)),
        };
        let say = |error: &anyhow::Error| exit::say("fullbore copy", error);
        let copied = join(&inputs, &mut output, say, |input, output| {
            self.copy(input, &inputs, output, &mut copying)
        });
        // Anything else than success leaves the stream without its seal.
        let copied = copied.and_then(|code| {
            if code == ExitCode::SUCCESS {
                self.at_least.check(copying.total.bytes)?;
            }
            if let Some(sealing) = copying.sealing.filter(|_| code == ExitCode::SUCCESS) {
                sealing.finish(&inputs[0], &output)?;
            }
            Ok(code)
        });
        drop(copying.bar);
        let is_complete = matches!(copied, Ok(ExitCode::SUCCESS));
        let closed = output.close(is_complete, self.sync);
        if self.report {
            copying.total.print();
        }
        let code = copied?;
        closed?;
        // An incomplete copy has no digest that anybody could ask for.
        if let Some(digest) = copying.digest.filter(|_| code == ExitCode::SUCCESS) {
            let line = digest.line(named.as_os_str());
            match is_stdout_free {
                true => inherited::stdout()?
                    .write_all(&line)
                    .context("write to stdout")?,
                false => stderr().write_all(&line).context("write to stderr")?,
            }
        }
        Ok(code)
    }

    /// Returns the file that -o names: in a directory, the one with the name of the input, if that is one named file.
    fn target(&self) -> Result<Option<PathBuf>, Usage> {
        let Some(path) = &self.output else {
            let why = "stdout is a terminal, and several files would be printed on it, as by cat: \
                       'fullbore copy FILE -o COPY' copies a file, and -o /dev/stdout prints them";
            return match self.files.len() > 1 && stdout().is_terminal() {
                true => Err(Usage(why.into())),
                false => Ok(None),
            };
        };
        let refused = |why: &str| Err(Usage(format!("-o '{}': {why}", shown(path))));
        if descriptor_of(path).is_some() {
            return Ok(Some(path.clone()));
        }
        if !path.is_dir() {
            return match path.as_os_str().as_bytes().ends_with(b"/") {
                true => refused("there is no such directory"),
                false => Ok(Some(path.clone())),
            };
        }
        let inputs = Input::all(&self.files);
        let name = match &inputs[..] {
            [Input::File(file)] if descriptor_of(file).is_none() => file.file_name(),
            _ => None,
        };
        match name.map(|name| path.join(name)) {
            Some(file) if file.is_dir() => refused("a directory in it has the name of the input"),
            Some(file) => Ok(Some(file)),
            None => refused(
                "it is a directory, in which only the copy of one named file has a name: give the name of a file",
            ),
        }
    }

    fn copy(
        &self,
        input: &Input,
        inputs: &[Input],
        output: &mut Output,
        copying: &mut Copying,
    ) -> anyhow::Result<ControlFlow<()>> {
        let source = input.open()?;
        output.open(inputs)?;
        if self.sync {
            copying.write_back.begin(&*output)?;
        }
        let most = self.bytes.map(|bytes| bytes - copying.total.bytes);
        let mut synced = Ok(());
        if self.seal || self.unseal {
            let mut sealing = match copying.sealing.take() {
                Some(sealing) => sealing,
                None => Sealing::begin(output, copying.is_plain, self.seal)?,
            };
            let began = Instant::now();
            let copied = sealing.copy((input, &source), output, most, |content| {
                copying.total.bytes += content.len() as u64;
                copying.arrived((&source, None), content, content.len() as u64, &mut synced)
            });
            copying.sealing = Some(sealing);
            copying.total.elapsed += began.elapsed();
            copied?;
        } else {
            let mut transfer = TransferOptions::new()
                .guarantee(copying::guarantee(self.by_reference))
                .plain(copying.is_plain)
                .visible(copying.digest.is_some())
                .limit(most)
                .pipe_size(self.pipe_size)
                .open(&source, &*output);
            let ends = (&source, Some(output.as_fd()));
            let ran = transfer.run_with(|progress| {
                copying.arrived(ends, progress.seen, progress.step, &mut synced)
            });
            copying.total.add(ran, input, output)?;
        }
        synced?;
        Ok(match self.bytes == Some(copying.total.bytes) {
            // No more bytes are wanted.
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}
