//! Passes bytes on, counts them, keeps their rate, and goes on behind those that cannot be read.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use anyhow::anyhow;
use fullbore::{
    Error, Guarantee, Pipe, PipeEnd, Transfer, TransferFailure, TransferReport, TransferSide,
};
use fullbore_host::size;
use fullbore_linux::Pace;
use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::live::Meter;
use super::skip::{Next, Skipping};
use crate::moving::{self, Input, Output, Source, Total, WriteBack};

/// How bytes are passed on.
pub struct How {
    pub guarantee: Guarantee,
    /// By read(2) and write(2) only.
    pub is_plain: bool,
    pub by_splice: bool,
    /// The most bytes to move with one system call.
    pub most: Option<usize>,
    /// How many bytes an output pipe should hold, if the user chose that.
    pub pipe_size: Option<usize>,
    /// Stop after so many bytes, or lines if they are counted, of all inputs.
    pub stop: Option<u64>,
    /// Count lines that end with this byte.
    pub lines_end_with: Option<u8>,
    /// Write zeros for what cannot be read.
    pub skip_errors: bool,
    /// The bytes to leave out at a time, if the user chose that.
    pub skip: Option<u64>,
    /// Say of each place that it was left out, not only of the first of an input.
    pub say_each: bool,
    /// Read past the page cache where that is possible.
    pub is_direct: bool,
}

/// What has passed so far.
pub struct Passing<'a> {
    meter: &'a Meter,
    how: How,
    total: Total,
    /// The lines, if they are counted and it stops after some of them.
    lines: u64,
    /// The limit to the rate in bytes per second, and what keeps it.
    pace: Option<(u64, Pace)>,
    /// Whether something could not be read, and was left out.
    pub has_skipped: bool,
    /// Reports only what is on the disk, once it has begun.
    pub write_back: WriteBack,
}

/// The most bytes at a time when a limit was taken away.
const CHUNK: usize = 1 << 20;

impl<'a> Passing<'a> {
    pub fn new(meter: &'a Meter, how: How) -> Self {
        Self {
            meter,
            how,
            total: Total::default(),
            lines: 0,
            pace: None,
            has_skipped: false,
            write_back: WriteBack::default(),
        }
    }

    /// Passes an input on; breaks off if nothing more is wanted.
    ///
    /// # Errors
    /// Those of opening the input, and of moving its bytes.
    pub fn pass(&mut self, input: &Input, output: &Output) -> anyhow::Result<ControlFlow<()>> {
        let source = Arc::new(input.open()?);
        if self.how.is_direct {
            // File systems that cannot do it say so.
            let _ = set_direct(&*source, true);
        }
        self.meter.takes_from(Some(&source));
        let passed = self.pass_source(&source, input, output);
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
        let passed = match self.how.lines_end_with {
            Some(_) => self.lines,
            None => self.total.bytes,
        };
        self.how.stop.map(|stop| stop.saturating_sub(passed))
    }

    /// Moves the bytes of a source, and goes on behind those that cannot be read if that is asked for.
    fn pass_source(
        &mut self,
        source: &Arc<Source>,
        input: &Input,
        output: &Output,
    ) -> anyhow::Result<()> {
        let mut skips = Skips::new(&self.how, input, self.meter);
        loop {
            let position = rustix::fs::tell(source).ok();
            let is_limited = self.how.stop.is_some() || self.meter.rate_limit() > 0;
            let failed = match self.how.lines_end_with {
                Some(end) if is_limited => {
                    self.pass_lines(end, source, input, output, &mut skips)?
                }
                _ => match self.pass_stretch(source, output, &mut skips)? {
                    Ok(report) => {
                        self.total.add(Ok(report), input, output)?;
                        None
                    }
                    Err(failure) => Some(failure),
                },
            };
            let Some(failure) = failed else {
                skips.say();
                return Ok(());
            };
            let is_source = matches!(
                failure.error,
                Error::Moving {
                    side: TransferSide::Source,
                    ..
                }
            );
            let was_direct = self.how.is_direct && is_source && is_invalid(&failure.error);
            if was_direct && set_direct(&**source, false) == Ok(true) {
                // What is left of the file cannot be read past the cache.
                self.total.add(Ok(failure.report), input, output)?;
                continue;
            }
            let may_go_on = self.how.skip_errors
                && is_source
                && position.is_some()
                && failure.report.taken == failure.report.bytes;
            if !may_go_on {
                skips.say();
                return self.total.add(Err(failure), input, output);
            }
            let TransferFailure { report, error, .. } = failure;
            self.total.add(Ok(report), input, output)?;
            let position = rustix::fs::tell(source)?;
            let Next::Skip(bytes) = skips.skipping.failed(position, moving::end(source)) else {
                continue;
            };
            let bytes = match (self.left(), self.how.lines_end_with) {
                // Zeros end no lines that end with anything else.
                (Some(left), None | Some(0)) => bytes.min(left),
                _ => bytes,
            };
            self.has_skipped = true;
            skips.note(position, bytes, &error);
            self.write_zeros(bytes, input, output)?;
            if self.is_enough() {
                skips.say();
                return Ok(());
            }
            rustix::fs::seek(source, SeekFrom::Start(position + bytes))
                .map_err(|errno| anyhow!("seek in {input}: {errno}"))?;
        }
    }

    fn write_zeros(&mut self, bytes: u64, input: &Input, output: &Output) -> anyhow::Result<()> {
        let zeros = File::open("/dev/zero").map_err(|error| anyhow!("open /dev/zero: {error}"))?;
        let wrote = Transfer::new(&zeros, output)
            .visible(true)
            .plain(self.how.is_plain)
            .limit(bytes)
            .run();
        self.total.add(wrote, input, output)?;
        if matches!(self.how.lines_end_with, None | Some(0)) {
            self.meter.add(self.write_back.wrote(bytes, bytes)?);
            self.lines += bytes;
        }
        Ok(())
    }

    /// Moves lines up to the end, the next byte that cannot be read, or the last one that is wanted.
    ///
    /// Only the bytes of lines that are wanted may be written, and which these are is known when they have
    /// been read: a pipe holds them until then. Returns how reading failed, if that ended it.
    fn pass_lines(
        &mut self,
        end: u8,
        source: &Arc<Source>,
        input: &Input,
        output: &Output,
        skips: &mut Skips<'_>,
    ) -> anyhow::Result<Option<TransferFailure>> {
        let pipe = Pipe::new()?;
        let room = PipeEnd::new(pipe.writer.as_fd())?.capacity()?;
        let looks_at = self.meter.looks_at();
        let mut onward = Transfer::new(&pipe.reader, output)
            .visible(true)
            .plain(self.how.is_plain);
        if let Some(bytes) = self.how.pipe_size {
            onward = onward.pipe_size(bytes);
        }
        let (mut sent, mut written) = (0, None);
        let ended = loop {
            if self.is_enough() {
                // What is left in the pipe is not wanted.
                break None;
            }
            let most = self.chunk(skips).map_or(room, |chunk| chunk.min(room));
            let left = self.left().unwrap_or(u64::MAX);
            // The lines that are wanted, in pieces that the limit to the rate allows at a time.
            let piece = self.lines_at_a_time();
            let (mut pieces, mut last) = (Vec::new(), Vec::new());
            let read = Transfer::new(Arc::clone(source), &pipe.writer)
                .visible(true)
                .plain(self.how.is_plain)
                .chunk(most)
                .limit(most as u64)
                .run_with(|progress| {
                    pieces = pieces_of(progress.seen, end, left, piece);
                    if looks_at.is_some() {
                        let wanted: u64 = pieces.iter().map(|&(bytes, _)| bytes).sum();
                        last.extend_from_slice(&progress.seen[..wanted as usize]);
                    }
                    ControlFlow::Break(())
                });
            match read {
                Ok(report) if report.bytes > 0 => {}
                Ok(_) => break None,
                Err(failure) => break Some(failure),
            }
            for (wanted, lines) in pieces {
                sent += wanted;
                onward = onward.limit(sent);
                match onward.run() {
                    Ok(report) => written = Some(report),
                    Err(failure) => {
                        self.total.add(Err(failure), input, output)?;
                        return Ok(None);
                    }
                }
                self.lines += lines;
                self.meter.add(self.write_back.wrote(wanted, lines)?);
                self.keep_pace(lines);
            }
            if let Some(most) = looks_at {
                self.meter.saw(&last, most);
            }
            skips.went_well(rustix::fs::tell(source).unwrap_or(0));
        };
        if let Some(report) = written {
            self.total.add(Ok(report), input, output)?;
        }
        Ok(ended)
    }

    /// Moves bytes up to the end, or the next byte that cannot be read.
    ///
    /// # Errors
    /// What the disk could not store; the result in it is that of moving bytes.
    fn pass_stretch(
        &mut self,
        source: &Arc<Source>,
        output: &Output,
        skips: &mut Skips<'_>,
    ) -> anyhow::Result<Result<TransferReport, TransferFailure>> {
        let meter = self.meter;
        let mut position = rustix::fs::tell(source).unwrap_or(0);
        let mut transfer = Transfer::new(Arc::clone(source), output)
            .guarantee(self.how.guarantee)
            .plain(self.how.is_plain);
        if let Some(bytes) = self.how.pipe_size {
            transfer = transfer.pipe_size(bytes);
        }
        if let Some(left) = self.left() {
            transfer = transfer.limit(left);
        }
        let looks_at = meter.looks_at();
        if self.how.lines_end_with.is_some()
            || !self.how.by_splice
            || self.how.most.is_some()
            || self.how.skip_errors
            || looks_at.is_some()
            || self.how.is_direct
        {
            transfer = transfer.visible(true);
        }
        let mut chunk = self.chunk(skips);
        if let Some(bytes) = chunk {
            transfer = transfer.chunk(bytes);
        }
        loop {
            let (mut other, mut synced) = (None, Ok(()));
            let report = transfer.run_with(|progress| {
                let count = match self.how.lines_end_with {
                    Some(end) => memchr::memchr_iter(end, progress.seen).count() as u64,
                    None => progress.step,
                };
                match self.write_back.wrote(progress.step, count) {
                    Ok(done) => meter.add(done),
                    Err(error) => {
                        synced = Err(error);
                        return ControlFlow::Break(());
                    }
                }
                if let Some(most) = looks_at {
                    meter.saw(progress.seen, most);
                }
                position += progress.step;
                skips.went_well(position);
                self.keep_pace(count);
                let wanted = self.chunk(skips);
                match wanted == chunk {
                    true => ControlFlow::Continue(()),
                    false => {
                        other = Some(wanted);
                        ControlFlow::Break(())
                    }
                }
            });
            synced?;
            match other {
                None => return Ok(report),
                // What was set cannot be unset.
                Some(wanted) => {
                    transfer = transfer.chunk(wanted.unwrap_or(CHUNK));
                    chunk = wanted;
                }
            }
        }
    }

    /// Returns how many lines to pass at a time because of the limit to the rate.
    fn lines_at_a_time(&self) -> u64 {
        match self.meter.rate_limit() {
            0 => u64::MAX,
            limit => Pace::new(limit, Instant::now()).chunk() as u64,
        }
    }

    /// Waits as long as the limit to the rate requires after so many bytes, or lines if they are counted.
    fn keep_pace(&mut self, count: u64) {
        let limit = self.meter.rate_limit();
        if limit == 0 {
            return;
        }
        let now = Instant::now();
        let kept = self.pace.take().filter(|(kept, _)| *kept == limit);
        let (_, pace) = self
            .pace
            .insert(kept.unwrap_or_else(|| (limit, Pace::new(limit, now))));
        self.meter.hold(pace.wait_after(count, now));
    }

    /// Returns the most bytes to move at a time, if that is limited.
    fn chunk(&self, skips: &Skips<'_>) -> Option<usize> {
        let paced = match self.meter.rate_limit() {
            0 => None,
            // A limit in lines per second says nothing about bytes.
            _ if self.how.lines_end_with.is_some() => None,
            limit => Some(Pace::new(limit, Instant::now()).chunk()),
        };
        let reach = skips.skipping.reach.map(|bytes| bytes as usize);
        [paced, reach, self.how.most].into_iter().flatten().min()
    }
}

/// Returns the lengths of pieces of at most so many lines, and how many lines each has; all together at most `left`
/// lines. The last one may be without its end, if more are wanted.
fn pieces_of(seen: &[u8], end: u8, left: u64, most: u64) -> Vec<(u64, u64)> {
    let (mut pieces, mut begin) = (Vec::new(), 0);
    let mut lines = 0;
    let mut ends = memchr::memchr_iter(end, seen);
    while lines < left {
        let wanted = most.min(left - lines);
        // The end of the last of these lines, or how many there are.
        let (mut found, mut last) = (0, None);
        while found < wanted {
            match ends.next() {
                None => break,
                at => (found, last) = (found + 1, at),
            }
        }
        let until = match last {
            Some(at) if found == wanted => at + 1,
            _ => seen.len(),
        };
        if until == begin {
            break;
        }
        pieces.push(((until - begin) as u64, found));
        (begin, lines) = (until, lines + found);
        if until == seen.len() {
            break;
        }
    }
    pieces
}

/// Returns the number of lines in these inputs, if all of them are regular files that can be read.
pub fn lines_of_all(inputs: &[Input], end: u8) -> Option<u64> {
    let mut lines = 0;
    for input in inputs {
        let Input::File(path) = input else {
            return None;
        };
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let mut file = BufReader::with_capacity(CHUNK, File::open(path).ok()?);
        loop {
            let bytes = file.fill_buf().ok()?;
            if bytes.is_empty() {
                break;
            }
            lines += memchr::memchr_iter(end, bytes).count() as u64;
            let length = bytes.len();
            file.consume(length);
        }
    }
    Some(lines)
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

/// Whether a call was refused because of its arguments.
fn is_invalid(error: &Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
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
    fn new(how: &How, input: &'a Input, meter: &'a Meter) -> Self {
        Self {
            skipping: Skipping::new(how.skip),
            meter,
            input,
            each: how.say_each,
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
                let why = match error {
                    Error::Moving { errno, .. } => fullbore_host::text::error_text(errno),
                    error => error.to_string(),
                };
                self.range = Some((position, position + bytes, why));
            }
        }
    }

    fn say(&mut self) {
        let Some((begin, end, why)) = self.range.take() else {
            return;
        };
        if self.each || !self.said {
            let input = self.input;
            let what = match self.each {
                true => format!(
                    "wrote zeros for bytes {begin} to {} ({})",
                    end - 1,
                    size::format(end - begin)
                ),
                false => "wrote zeros for what cannot be read".to_owned(),
            };
            let error = anyhow!("read from {input}: {why}: {what}");
            self.meter.say(self.meter.manner.line(&error));
        }
        self.said = true;
    }
}
