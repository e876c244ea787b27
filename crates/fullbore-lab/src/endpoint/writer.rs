//! Implements `fullbore write`: writes to stdout, in one of three ways, until the limit or until
//! the reader has closed the pipe.

use std::io::{BufWriter, IsTerminal, stdout};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, bail};
use fullbore::{PipeEnd, ProducerOptions};
use rustix::fs::{FileType, fstat};

use super::lines::write_lines;
use super::options::{Data, Options, WayName};
use super::progress::{EndpointProgress, Role, reader_has_gone};
use super::{by_reference, prepare};
use fullbore_bytes::pattern;
use fullbore_host::refusal::{Unsupported, Usage};
use fullbore_host::size;
use fullbore_results::run::EndpointReport;

/// Writes until the limit, or until the reader has closed the pipe.
pub fn run(options: &Options) -> anyhow::Result<EndpointReport> {
    options.check_writer()?;
    prepare::process(options.cpu, &options.parent)?;
    let stdout = stdout();
    if stdout.is_terminal() {
        bail!(Usage(
            "stdout is a terminal: connect it to a reader, such as 'fullbore read'".into()
        ));
    }
    let sink = stdout.as_fd();
    let pipe = fullbore_linux::pipe::of(&sink)?;
    let capacity = match &pipe {
        Some(_) if options.double_buffers_through_a_pipe() => bail!(Usage(
            "--through-pipe is for a socket on stdout; leave it out for a pipe".into()
        )),
        Some(pipe) => Some(set_capacity(options, pipe)?),
        None => {
            check_without_pipe(options)?;
            check_file(options, sink)?;
            None
        }
    };
    let mut report = match options.way() {
        Some(WayName::Repeat) => repeat(options, sink)?,
        Some(way) => by_reference::produce(options, way, sink)?,
        None if options.double_buffers_through_a_pipe() => {
            by_reference::through_a_pipe(options, sink)?
        }
        None if options.write_with_vmsplice => by_reference::double_buffering(options, sink)?,
        None => match options.lines {
            Some(len) => write_lines(options, len, &mut BufWriter::new(std::io::stdout()))?,
            None => by_reference::write_all(options, sink)?,
        },
    };
    report.pipe_capacity = capacity;
    Ok(report)
}

fn check_without_pipe(options: &Options) -> Result<(), Usage> {
    use WayName::{Fresh, Recycle, Ring, Socket};
    let what = match options.way {
        _ if options.memory.is_some() => "--memory",
        Some(Socket | Fresh | Recycle | Ring) => "the chosen --way",
        _ if options.write_with_vmsplice && !options.through_pipe => "--write-with-vmsplice",
        _ if options.pipe_size != 0 => "--pipe-size",
        _ => return Ok(()),
    };
    Err(Usage(format!("{what} needs a pipe on stdout")))
}

/// Refuses to fill a file without a limit that was asked for.
fn check_file(options: &Options, sink: BorrowedFd<'_>) -> anyhow::Result<()> {
    let is_limited = options.bytes_to_pipe.is_some() || options.seconds.is_some();
    if !is_limited && FileType::from_raw_mode(fstat(sink)?.st_mode) == FileType::RegularFile {
        bail!(Usage(
            "stdout is a file, and would get 10 GiB: give --bytes-to-pipe, or connect stdout to a reader, such as \
             'fullbore read'"
                .into()
        ));
    }
    Ok(())
}

/// Gives the pipe the capacity that the options ask for, and returns the capacity that it has.
fn set_capacity(options: &Options, pipe: &PipeEnd<'_>) -> anyhow::Result<usize> {
    let wanted = if options.double_buffers() {
        options.chunk() / 2
    } else {
        options.pipe_size
    };
    if wanted == 0 || pipe.capacity()? == wanted {
        return Ok(pipe.capacity()?);
    }
    let got = prepare::resize(pipe, wanted)?;
    if options.double_buffers() && got != wanted {
        bail!(Unsupported(format!(
            "a pipe with a capacity of {} is needed, and the kernel gave one of {}",
            size::format(wanted as u64),
            size::format(got as u64)
        )));
    }
    Ok(got)
}

/// The default period: longer than a slot, and short enough that a master pipe holds many of them.
const PERIOD: usize = 64 * 1024;

fn repeat(options: &Options, sink: BorrowedFd<'_>) -> anyhow::Result<EndpointReport> {
    let mut pattern = match options.data() {
        Data::Constant => b"y\n".to_vec(),
        Data::Words => vec![0; options.period.unwrap_or(PERIOD)],
    };
    if options.data() == Data::Words {
        pattern::fill(&mut pattern, 0);
    }
    let mut repeat = ProducerOptions::new()
        .pipe_size(0)
        .wait(options.wait())
        .repeat(sink, &pattern)?;
    let mut progress = EndpointProgress::begin(options, Role::Writer);
    while let Some(most) = progress.next(usize::MAX) {
        match repeat.send_some(most as u64) {
            Ok(n) => progress.add(n as usize, repeat.report().calls),
            Err(error) if reader_has_gone(error.kind()) => break,
            Err(error) => return Err(error).context("write to stdout"),
        }
    }
    Ok(progress.report(options, repeat.report().calls))
}
