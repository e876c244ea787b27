//! Implements `fullbore read`: reads or splices from stdin, and measures. With `--way ring` it reads memory
//! that it shares with the writer where it lies, which is right because that writer is one of this library.

#![allow(unsafe_code)]

use std::io::{BufRead, stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use anyhow::{Context, bail};
use fullbore::{ConsumerOptions, Pipe, PipeEnd};
use fullbore_linux::{Aligned, Calls, Ready, Waiter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::options::{Options, WayName};
use super::progress::{EndpointProgress, Role};
use super::{by_reference, prepare};
use crate::backed_by::backed_by;
use fullbore_bytes::pattern;
use fullbore_host::refusal::{Unsupported, Usage};
use fullbore_results::run::EndpointReport;

/// Reads until the limit, or until the writer has closed the pipe.
pub fn run(options: &Options) -> anyhow::Result<EndpointReport> {
    options.check_reader()?;
    prepare::process(options.cpu, &options.parent)?;
    let stdin = stdin();
    let source = stdin.as_fd();
    let pipe = fullbore_linux::pipe::of(&source)?;
    if options.read_with_splice && pipe.is_none() && !options.through_pipe {
        bail!(Usage("--read-with-splice needs a pipe on stdin".into()));
    }
    let mut calls = Calls::new(options.wait());
    let mut report = if options.consumes() {
        consume(options, source)?
    } else if options.splices_through_a_pipe() {
        splice_through_a_pipe(options, source, &mut calls)?
    } else if options.read_with_splice {
        splice_all(options, source, &mut calls)?
    } else {
        read_all(options, source, &mut calls)?
    };
    report.verified = options.verify.then_some(true);
    report.pipe_capacity = pipe.and_then(|pipe| pipe.capacity().ok());
    Ok(report)
}

/// Takes bytes with `take` until the limit, or until it takes none. `take` gets how many it may take, and how many were
/// taken before; it returns how many it has taken, and the calls that were made for all of them.
#[inline]
fn take_all(
    options: &Options,
    source: BorrowedFd<'_>,
    mut take: impl FnMut(usize, u64) -> anyhow::Result<(usize, u64)>,
) -> anyhow::Result<EndpointReport> {
    let mut progress = begin_with_the_first_bytes(options, source)?;
    let mut calls = 0;
    while let Some(most) = progress.next(options.chunk()) {
        let (n, made) = take(most, progress.moved())?;
        calls = made;
        if n == 0 {
            break;
        }
        progress.add(n, calls);
        if let Some(pause) = options.pause {
            thread::sleep(pause);
        }
    }
    Ok(progress.report(options, calls))
}

fn read_all(
    options: &Options,
    source: BorrowedFd<'_>,
    calls: &mut Calls,
) -> anyhow::Result<EndpointReport> {
    let mut buffer = prepare::buffer(options, options.chunk())?;
    let backing = backed_by(buffer.as_ptr_range());
    let mut sum = 0u64;
    let mut report = take_all(options, source, |most, moved| {
        let n = calls.read(source, &mut buffer[..most]);
        let n = n.with_context(|| at("read from stdin", moved))?;
        look(options, &buffer[..n], moved, &mut sum)?;
        Ok((n, calls.made()))
    })?;
    report.backing = Some(backing.to_string());
    report.sum = options.sum.then_some(sum);
    Ok(report)
}

/// Reads with the library's consumer.
fn consume(options: &Options, source: BorrowedFd<'_>) -> anyhow::Result<EndpointReport> {
    let consumer = ConsumerOptions::new().buffer(options.chunk());
    let consumer = consumer.wait(options.wait());
    let consumer = consumer.open(source)?;
    let mut consumer = match options.way {
        // SAFETY: a writer of the laboratory is one of this library.
        Some(WayName::Ring) => unsafe {
            let consumer = fullbore_ring::Consumer::new(consumer, Waiter::new(options.wait()));
            consumer.buffer_size(options.chunk()).in_place()
        },
        _ => consumer.into(),
    };
    let (mut sum, mut shared) = (0u64, false);
    let mut report = take_all(options, source, |most, moved| {
        let bytes = consumer.fill_buf();
        let bytes = bytes.with_context(|| at("read from stdin", moved))?;
        let bytes = &bytes[..bytes.len().min(most)];
        look(options, bytes, moved, &mut sum)?;
        let n = bytes.len();
        shared |= n > 0 && consumer.is_sharing();
        consumer.consume(n);
        Ok((n, consumer.calls()))
    })?;
    if options.way == Some(WayName::Ring) && !shared && options.seconds.is_some() {
        return Err(by_reference::did_not_meet().into());
    }
    report.sum = options.sum.then_some(sum);
    Ok(report)
}

fn splice_all(
    options: &Options,
    source: BorrowedFd<'_>,
    calls: &mut Calls,
) -> anyhow::Result<EndpointReport> {
    let null = prepare::dev_null()?;
    let flags = if options.gift {
        SpliceFlags::MOVE
    } else {
        SpliceFlags::empty()
    };
    let mut copy = Copy::new(options, source)?;
    take_all(options, source, |most, moved| {
        let most = match &mut copy {
            None => most,
            Some(copy) => match copy.check(options, calls, source, most, moved)? {
                0 => return Ok((0, calls.made())),
                n => n,
            },
        };
        match calls.splice(source, null.as_fd(), most, flags, Ready::ToRead) {
            Ok(n) => Ok((n, calls.made())),
            Err(Errno::NOSYS | Errno::PERM) => {
                bail!(Unsupported("this machine refuses splice(2)".into()))
            }
            Err(errno) => Err(errno).with_context(|| at("splice from stdin", moved)),
        }
    })
}

/// Does the same as [`splice_all`], from a source that cannot be spliced to /dev/null directly.
fn splice_through_a_pipe(
    options: &Options,
    source: BorrowedFd<'_>,
    calls: &mut Calls,
) -> anyhow::Result<EndpointReport> {
    let null = prepare::dev_null()?;
    let none = SpliceFlags::empty();
    let (own, _) = fullbore_linux::pipe::with_capacity(options.chunk())?;
    take_all(options, source, |most, moved| {
        let n = calls.splice(source, own.writer.as_fd(), most, none, Ready::ToRead);
        let n = n.with_context(|| at("splice from stdin", moved))?;
        prepare::splice_all(calls, own.reader.as_fd(), null.as_fd(), n, Ready::ToRead)
            .context("splice from an internal pipe")?;
        Ok((n, calls.made()))
    })
}

/// The copy that --verify checks with --read-with-splice. The contents of the pipe are duplicated
/// with tee(2) and checked *before* they are spliced away, because a writer that reuses its pages
/// may do so from then on.
struct Copy {
    pipe: Pipe,
    buffer: Aligned,
}

impl Copy {
    fn new(options: &Options, source: BorrowedFd<'_>) -> anyhow::Result<Option<Self>> {
        if !options.verify {
            return Ok(None);
        }
        let capacity = PipeEnd::new(source)?.capacity()?;
        Ok(Some(Self {
            pipe: fullbore_linux::pipe::with_capacity(capacity)?.0,
            buffer: Aligned::new(options.chunk()),
        }))
    }

    fn check(
        &mut self,
        options: &Options,
        calls: &mut Calls,
        source: BorrowedFd<'_>,
        most: usize,
        position: u64,
    ) -> anyhow::Result<usize> {
        let n = calls
            .tee(source, self.pipe.writer.as_fd(), most, Ready::ToRead)
            .context("tee from stdin")?;
        let mut read = 0;
        while read < n {
            let more = rustix::io::read(&self.pipe.reader, &mut self.buffer[..n - read])
                .context("read from an internal pipe")?;
            check(options, &self.buffer[..more], position + read as u64)?;
            read += more;
        }
        Ok(n)
    }
}

/// Waits for the first bytes, so that the writer's preparations are not measured.
fn begin_with_the_first_bytes(
    options: &Options,
    source: BorrowedFd<'_>,
) -> anyhow::Result<EndpointProgress> {
    let mut fds = [PollFd::from_borrowed_fd(source, PollFlags::IN)];
    // A reader with a time limit must not wait longer for an idle writer.
    let patience = options
        .seconds
        .and_then(|time| Timespec::try_from(time).ok());
    let can_be = fullbore_linux::can_be_read(source).is_ok();
    while can_be && poll(&mut fds, patience.as_ref()) == Err(Errno::INTR) {}
    Ok(EndpointProgress::begin(options, Role::Reader))
}

/// Checks bytes and adds up their words, as far as the options ask for it.
#[inline]
fn look(options: &Options, bytes: &[u8], position: u64, sum: &mut u64) -> anyhow::Result<()> {
    if options.verify {
        check(options, bytes, position)?;
    }
    if options.sum {
        *sum = sum.wrapping_add(pattern::sum(bytes, position));
    }
    Ok(())
}

fn check(options: &Options, bytes: &[u8], position: u64) -> anyhow::Result<()> {
    match pattern::first_wrong_of_period(bytes, position, options.period) {
        None => Ok(()),
        Some(at) => bail!("wrong byte at position {at} of the stream"),
    }
}

fn at(what: &str, moved: u64) -> String {
    format!("{what} (after {moved} bytes)")
}
