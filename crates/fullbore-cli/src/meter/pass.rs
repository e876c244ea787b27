//! Passes bytes on, counts them, keeps their rate, and goes on behind those that cannot be read.

use std::fs::File;
use std::io::{BufRead, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use anyhow::anyhow;
use fullbore::{ConsumerOptions, Error, ProducerOptions, TransferFailure, TransferSide, Way};
use fullbore_host::size;
use fullbore_linux::Pace;
use fullbore_linux::error::of_io;
use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::lines::pieces_of;
use super::live::Meter;
use super::skip::Skipping;
use super::transfer_options::TransferOptions;
use crate::copying::failure::{side_of, words_of};
use crate::copying::{self, Input, Output, SourcePipe, WriteBack, named};
use crate::error_text::Failed;

/// What has passed so far.
pub struct Passing<'a> {
    meter: &'a Meter,
    how: &'a TransferOptions,
    /// By read(2) and write(2) only.
    is_plain: bool,
    /// Stop after so many bytes, or lines if they are counted, of all inputs.
    stop: Option<u64>,
    /// Count lines that end with this byte.
    pub lines_end_with: Option<u8>,
    /// The bytes that have passed.
    pub bytes: u64,
    /// The lines, if they are counted and it stops after some of them.
    lines: u64,
    /// The limit to the rate in bytes per second, and what keeps it.
    pace: Option<(u64, Pace)>,
    /// Whether something could not be read, and was left out.
    pub has_skipped: bool,
    /// Reports only what is on the disk, once it has begun.
    pub write_back: WriteBack,
    source_pipe: SourcePipe,
}

/// The way of one input.
struct Route<'a> {
    source: Arc<File>,
    input: &'a Input,
    output: &'a Output,
    skips: Skips<'a>,
}

/// The most bytes at a time when a limit was taken away.
const CHUNK: usize = 1 << 20;

/// The most bytes at a time of lines that are limited.
const ROOM: usize = 64 << 10;

impl<'a> Passing<'a> {
    pub fn new(
        meter: &'a Meter,
        how: &'a TransferOptions,
        stop: Option<u64>,
        is_plain: bool,
    ) -> Self {
        Self {
            meter,
            how,
            is_plain,
            stop,
            lines_end_with: None,
            bytes: 0,
            lines: 0,
            pace: None,
            has_skipped: false,
            write_back: WriteBack::default(),
            source_pipe: SourcePipe::new(is_plain || how.pipe_buffer_size == Some(0)),
        }
    }

    /// Passes an input on; breaks off if nothing more is wanted.
    ///
    /// # Errors
    /// Those of opening the input, and of moving its bytes.
    pub fn pass(&mut self, input: &Input, output: &Output) -> anyhow::Result<ControlFlow<()>> {
        let source = input.open()?;
        if self.how.direct_io {
            // File systems that cannot do it say so.
            let _ = set_direct(&*source, true);
        }
        self.meter.takes_from(Some(&source));
        let mut route = Route {
            source,
            input,
            output,
            skips: Skips::new(self.how, input, self.meter),
        };
        let passed = self.pass_source(&mut route);
        self.meter.takes_from(None);
        passed?;
        Ok(match self.is_enough() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    fn is_enough(&self) -> bool {
        self.left() == Some(0)
    }

    /// Returns how many more bytes, or lines if they are counted, are to pass, if it stops after some of them.
    fn left(&self) -> Option<u64> {
        let passed = match self.lines_end_with {
            Some(_) => self.lines,
            None => self.bytes,
        };
        self.stop.map(|stop| stop.saturating_sub(passed))
    }

    /// Moves the bytes of a source, and goes on behind those that cannot be read if that is asked for.
    fn pass_source(&mut self, route: &mut Route<'_>) -> anyhow::Result<()> {
        let (input, output) = (route.input, route.output);
        let passed = loop {
            let position = rustix::fs::tell(&route.source).ok();
            let is_limited = self.stop.is_some() || self.meter.rate_limit() > 0;
            let failed = match self.lines_end_with {
                Some(end) if is_limited => self.pass_lines(end, route)?,
                _ => self.pass_stretch(route)?,
            };
            let Some(error) = failed else {
                break Ok(());
            };
            let is_source = side_of(&error) == Some(TransferSide::Source);
            // A call was refused because of its arguments.
            let is_refused = error.raw_os_error() == Some(Errno::INVAL.raw_os_error());
            let was_direct = self.how.direct_io && is_source && is_refused;
            if was_direct && set_direct(&*route.source, false) == Ok(true) {
                // What is left of the file cannot be read past the cache.
                continue;
            }
            if self.how.skip_errors == 0 || !is_source || position.is_none() {
                break Err(named(error, input, output));
            }
            self.skip(route, &error)?;
            if self.is_enough() {
                break Ok(());
            }
        };
        route.skips.say();
        passed
    }

    /// Goes on behind bytes that cannot be read, if it is clear which they are: writes zeros in their place.
    fn skip(&mut self, route: &mut Route<'_>, error: &Error) -> anyhow::Result<()> {
        let Route { source, skips, .. } = route;
        let position = rustix::fs::tell(&*source)?;
        let Some(bytes) = skips.skipping.failed(position, copying::end(&*source)) else {
            return Ok(());
        };
        let bytes = match (self.left(), self.lines_end_with) {
            // Zeros end no lines that end with anything else.
            (Some(left), None | Some(0)) => bytes.min(left),
            _ => bytes,
        };
        self.has_skipped = true;
        skips.note(position, bytes, error);
        self.write_zeros(bytes, route)?;
        if !self.is_enough() {
            let behind = rustix::fs::seek(&route.source, SeekFrom::Start(position + bytes));
            behind.failed(format_args!("seek in {}", route.input))?;
        }
        Ok(())
    }

    fn write_zeros(&mut self, bytes: u64, route: &Route<'_>) -> anyhow::Result<()> {
        let zeros = File::open("/dev/zero").failed("open /dev/zero")?;
        let options = fullbore::TransferOptions::new().visible(true);
        let options = options.plain(self.is_plain).limit(bytes);
        let wrote = options.open(&zeros, route.output).run();
        let failed = |failure: TransferFailure| named(failure.error, route.input, route.output);
        self.bytes += wrote.map_err(failed)?.bytes;
        if matches!(self.lines_end_with, None | Some(0)) {
            self.meter.add(self.write_back.wrote(bytes, bytes)?);
            self.lines += bytes;
        }
        Ok(())
    }

    /// Moves lines up to the end, the next byte that cannot be read, or the last one that is wanted. Returns how reading
    /// failed, if that ended it. Only the bytes of lines that are wanted may be written, and which these are is known
    /// when they have been read.
    fn pass_lines(&mut self, end: u8, route: &mut Route<'_>) -> anyhow::Result<Option<Error>> {
        let (source, input, output) = (Arc::clone(&route.source), route.input, route.output);
        let options = ProducerOptions::new().way(Way::Copy);
        let mut onward = options.pipe_size(self.how.pipe_buffer_size).open(output)?;
        let (looks_at, mut sent) = (self.meter.looks_at(), 0);
        let began = rustix::fs::tell(&source).ok();
        while !self.is_enough() {
            let most = self.chunk(&route.skips).unwrap_or(ROOM).min(ROOM);
            let mut consumer = ConsumerOptions::new().buffer(most).open(&*source)?;
            let mut seen = match consumer.fill_buf() {
                Ok([]) => break,
                Ok(seen) => seen,
                Err(error) => return Ok(Some(of_io(error, TransferSide::Source, sent))),
            };
            let left = self.left().unwrap_or(u64::MAX);
            // The lines that are wanted, in pieces that the limit to the rate allows at a time.
            let piece = self.paced().map_or(u64::MAX, |lines| lines as u64);
            for (bytes, lines) in pieces_of(seen, end, left, piece) {
                let (wanted, behind) = seen.split_at(bytes as usize);
                seen = behind;
                let wrote = onward.write_all(wanted).and_then(|()| onward.flush());
                let failed = |error| of_io(error, TransferSide::Sink, sent);
                wrote.map_err(|error| named(failed(error), input, output))?;
                if let Some(most) = looks_at {
                    self.meter.saw(wanted, most);
                }
                sent += bytes;
                self.bytes += bytes;
                self.lines += lines;
                self.meter.add(self.write_back.wrote(bytes, lines)?);
                self.keep_pace(lines);
            }
            let position = rustix::fs::tell(&source);
            route.skips.went_well(position.unwrap_or(0));
        }
        copying::set_back(&source, began.map(|began| began + sent));
        Ok(None)
    }

    /// Moves bytes up to the end, or the next byte that cannot be read. Returns how reading failed, if that ended it.
    fn pass_stretch(&mut self, route: &mut Route<'_>) -> anyhow::Result<Option<Error>> {
        let meter = self.meter;
        let Route {
            source,
            output,
            skips,
            ..
        } = route;
        let shared = Arc::clone(source);
        let mut position = rustix::fs::tell(&*source).unwrap_or(0);
        let looks_at = meter.looks_at();
        let is_visible = self.lines_end_with.is_some()
            || self.how.no_splice
            || self.how.buffer_size.is_some()
            || self.how.skip_errors > 0
            || looks_at.is_some()
            || self.how.direct_io;
        let mut chunk = self.chunk(skips);
        let mut transfer = fullbore::TransferOptions::new()
            .plain(self.is_plain)
            .guarantee(copying::guarantee(self.how.by_reference))
            .visible(is_visible)
            .pipe_size(self.how.pipe_buffer_size)
            .limit(self.left())
            .chunk(chunk)
            .open(Arc::clone(source), *output);
        loop {
            let (mut other, mut synced) = (None, Ok(()));
            let ran = transfer.run_with(|progress| {
                let count = match self.lines_end_with {
                    Some(end) => memchr::memchr_iter(end, progress.seen).count() as u64,
                    None => progress.step,
                };
                synced = self
                    .write_back
                    .wrote(progress.step, count)
                    .map(|done| meter.add(done));
                if synced.is_err() {
                    return ControlFlow::Break(());
                }
                if let Some(most) = looks_at {
                    meter.saw(progress.seen, most);
                }
                let _ = self
                    .source_pipe
                    .gave(&shared, Some(output.as_fd()), progress.step);
                position += progress.step;
                skips.went_well(position);
                self.keep_pace(count);
                other = Some(self.chunk(skips)).filter(|wanted| *wanted != chunk);
                match other {
                    None => ControlFlow::Continue(()),
                    Some(_) => ControlFlow::Break(()),
                }
            });
            synced?;
            let Some(wanted) = other else {
                let (report, error) = match ran {
                    Ok(report) => (report, None),
                    Err(failure) => (*failure.report, Some(failure.error)),
                };
                self.bytes += report.bytes;
                return Ok(error);
            };
            transfer.set_chunk(wanted.unwrap_or(CHUNK));
            chunk = wanted;
        }
    }

    /// Returns how much to pass at a time because of the limit to the rate, in its unit.
    fn paced(&self) -> Option<usize> {
        let limit = self.meter.rate_limit();
        (limit > 0).then(|| Pace::new(limit, Instant::now()).chunk())
    }

    /// Waits as long as the limit to the rate requires after so many bytes, or lines if they are counted.
    fn keep_pace(&mut self, count: u64) {
        let limit = self.meter.rate_limit();
        if limit == 0 {
            return;
        }
        let now = Instant::now();
        self.pace.take_if(|(kept, _)| *kept != limit);
        let new = || (limit, Pace::new(limit, now));
        let (_, pace) = self.pace.get_or_insert_with(new);
        self.meter.hold(pace.wait_after(count, now));
    }

    /// Returns the most bytes to move at a time, if that is limited.
    fn chunk(&self, skips: &Skips<'_>) -> Option<usize> {
        // A limit in lines per second says nothing about bytes.
        let paced = self.paced().filter(|_| self.lines_end_with.is_none());
        let reach = skips.skipping.reach.map(|bytes| bytes as usize);
        let most = [paced, reach, self.how.buffer_size];
        most.into_iter().flatten().min()
    }
}

/// Makes a file read past the page cache, or through it. Returns whether anything changed; pipes are left alone, for
/// which the flag means something else (pipe(2)).
fn set_direct(file: impl AsFd, yes: bool) -> rustix::io::Result<bool> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    let flags = fcntl_getfl(&file)?;
    if !matches!(kind, FileType::RegularFile | FileType::BlockDevice)
        || flags.contains(OFlags::DIRECT) == yes
    {
        return Ok(false);
    }
    let mut wanted = flags;
    wanted.set(OFlags::DIRECT, yes);
    fcntl_setfl(&file, wanted).map(|()| true)
}

/// What was left out of one input.
struct Skips<'a> {
    skipping: Skipping,
    meter: &'a Meter,
    input: &'a Input,
    /// Say each of them, not only the first.
    each: bool,
    said: bool,
    /// The last ones, which are said when it is clear where they end.
    range: Option<(u64, u64, String)>,
}

impl<'a> Skips<'a> {
    fn new(how: &TransferOptions, input: &'a Input, meter: &'a Meter) -> Self {
        Self {
            skipping: Skipping::new(how.error_skip_block.map(|bytes| bytes as u64)),
            meter,
            input,
            each: how.skip_errors < 2,
            said: false,
            range: None,
        }
    }

    fn went_well(&mut self, position: u64) {
        self.skipping.well(position);
        self.say();
    }

    fn note(&mut self, position: u64, bytes: u64, error: &Error) {
        match &mut self.range {
            Some((_, end, _)) if *end == position => *end += bytes,
            _ => {
                self.say();
                self.range = Some((position, position + bytes, words_of(error)));
            }
        }
    }

    fn say(&mut self) {
        let Some((begin, end, why)) = self.range.take() else {
            return;
        };
        if self.each || !self.said {
            let input = self.input;
            let (last, size) = (end - 1, size::format(end - begin));
            let what = match self.each {
                true => format!("wrote zeros for bytes {begin} to {last} ({size})"),
                false => "wrote zeros for what cannot be read".to_owned(),
            };
            let error = anyhow!("read from {input}: {why}: {what}");
            self.meter.say(self.meter.manner.line(&error));
        }
        self.said = true;
    }
}
