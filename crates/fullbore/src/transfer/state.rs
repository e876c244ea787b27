//! The state of a transfer, and its steps of one system call each.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::direct;
use super::options::Options;
use super::plan::{self, Kind, Method};
use super::report::Progress;
use super::sparse::{Sparse, Stretch};
use super::step::{Ends, Step, Stepped, Stop, has_flag};
use super::through::OwnPipe;
use crate::memory;
use crate::outlet::Outlet;
use crate::stage::Stage;
use fullbore_linux::error::{self, Error, Result, TransferSide};
use fullbore_linux::wait::{Waiter, uninterrupted};
use fullbore_linux::{self as linux, Calls};

/// The fds, and the bytes moved so far.
pub(super) struct State {
    pub(super) source_kind: Kind,
    pub(super) sink_kind: Kind,
    has_sockets: bool,
    ranges: Ranges,
    /// See [`plan::longest_message`].
    longest_message: usize,
    pub(super) methods: Vec<Method>,
    /// The index of the current method.
    pub(super) at: usize,
    /// The size in bytes of the initial memory.
    first: usize,
    /// Whether there are enough bytes for large memory or pipes to pay off.
    pub(super) long: bool,
    sink_grown: bool,
    pub(super) moved: Vec<(Method, u64)>,
    pub(super) bytes: u64,
    pub(super) taken: u64,
    calls: u64,
    source_offset: Option<u64>,
    sink_offset: Option<u64>,
    reader: Calls,
    pub(super) outlet: Outlet,
    /// Waits for either side of a splice.
    waiter: Waiter,
    pub(super) stage: Stage,
    /// How many bytes of the stage were sent.
    pub(super) sent: usize,
    /// Bytes to send before those of the source, which are not in the stage yet.
    pub(super) ahead: VecDeque<u8>,
    pub(super) through: Option<OwnPipe>,
    /// Whether the next pipe may get references to what is in this one: its writer does not use packet mode (pipe(7)).
    /// A packet stays a packet in the next pipe, where a read(2) without room for all of it discards the rest.
    no_packets: bool,
    sparse: Sparse,
    /// Bytes before the next hole.
    before_hole: usize,
    /// The range of the stage with the bytes of the last step.
    seen: (usize, usize),
}

/// The byte ranges that are read from the source and written to the sink.
struct Ranges {
    are_of_one_file: bool,
    /// The distance between their starts, if both are known.
    apart: Option<u64>,
}

impl Ranges {
    fn are_apart(&self, options: &Options) -> bool {
        let both = self.apart.zip(options.limit);
        both.is_some_and(|(apart, len)| apart >= len)
    }
}

/// Examines the two fds, and selects the methods between them.
pub(super) fn begin(
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    options: &Options,
) -> Result<State> {
    let source_stat = stat_of(source, TransferSide::Source)?;
    let sink_stat = stat_of(sink, TransferSide::Sink)?;
    let ranges = Ranges {
        are_of_one_file: refuse_the_same(&source_stat, &sink_stat, false).is_err(),
        apart: options
            .source_offset
            .zip(options.sink_offset)
            .map(|(from, to)| from.abs_diff(to)),
    };
    refuse_the_same(&source_stat, &sink_stat, ranges.are_apart(options))?;
    if let Some(at) = options
        .sink_offset
        .filter(|_| has_flag(sink, OFlags::APPEND))
    {
        return Err(Error::Invalid(format!(
            "the sink appends (O_APPEND), so bytes cannot go to offset {at} of it"
        )));
    }
    let (source_kind, sink_kind) = (Kind::of(source, &source_stat), Kind::of(sink, &sink_stat));
    let is_socket = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    let has_sockets = is_socket(&source_stat) || is_socket(&sink_stat);
    let mut waiter = options.waiter.clone();
    if has_sockets {
        waiter.count_timeouts_of_sockets();
    }
    let calls = |fd, stat: &Stat| {
        let mut calls = Calls::with(waiter.clone());
        calls.know(fd, FileType::from_raw_mode(stat.st_mode));
        calls
    };
    let methods = plan::methods(source_kind, sink_kind, options.guarantee)
        .iter()
        .copied()
        .filter(|method| match method {
            Method::ReadWrite => true,
            _ if options.plain => false,
            Method::Fresh => options.sink_offset.is_none(),
            _ => !options.visible,
        })
        .collect();
    let size = u64::try_from(source_stat.st_size).unwrap_or(0);
    let most = options.limit.unwrap_or(u64::MAX);
    let long = source_kind == Kind::Regular && size.min(most) > memory::FIRST as u64;
    Ok(State {
        source_kind,
        sink_kind,
        has_sockets,
        ranges,
        longest_message: plan::longest_message(source, &source_stat),
        methods,
        at: 0,
        first: first_memory(source_kind, size),
        long,
        sink_grown: false,
        moved: Vec::new(),
        bytes: 0,
        taken: options.ahead.len() as u64,
        calls: 0,
        source_offset: options.source_offset,
        sink_offset: options.sink_offset,
        reader: calls(source, &source_stat),
        outlet: Outlet::new(calls(sink, &sink_stat)),
        waiter,
        stage: Stage::none(),
        sent: 0,
        ahead: options.ahead.clone().into(),
        through: None,
        no_packets: (source_kind, sink_kind) != (Kind::Pipe, Kind::Pipe),
        sparse: Sparse::of(&source_stat, &sink_stat, options),
        before_hole: usize::MAX,
        seen: (0, 0),
    })
}

/// Returns the size of the initial memory: the size of a short file, plus one byte to find its end, in whole blocks, as
/// reading with O_DIRECT requires (open(2)).
fn first_memory(source: Kind, size: u64) -> usize {
    match usize::try_from(size) {
        Ok(size) if source == Kind::Regular && size > 0 => (size + 1)
            .next_multiple_of(memory::BLOCK)
            .min(memory::FIRST),
        _ => memory::FIRST,
    }
}

pub(crate) fn stat_of(fd: BorrowedFd<'_>, side: TransferSide) -> Result<Stat> {
    rustix::fs::fstat(fd).map_err(|errno| error::moving(side, "fstat", errno, 0))
}

/// Refuses a transfer that would read the bytes that it writes, and might never end.
pub(crate) fn refuse_the_same(source: &Stat, sink: &Stat, ranges_apart: bool) -> Result<()> {
    if (source.st_dev, source.st_ino) != (sink.st_dev, sink.st_ino) {
        return Ok(());
    }
    match FileType::from_raw_mode(source.st_mode) {
        FileType::Fifo => Err(Error::Invalid("source and sink are the same pipe".into())),
        FileType::RegularFile | FileType::BlockDevice if !ranges_apart => {
            Err(Error::Invalid("source and sink are the same file".into()))
        }
        _ => Ok(()),
    }
}

impl State {
    /// Applies the settings of `waiter` to all waits from now on.
    pub(super) fn wait_as(&mut self, waiter: &Waiter) {
        for calls in [&mut self.reader, &mut self.outlet.calls] {
            calls.wait_as(waiter.clone());
        }
        self.waiter = waiter.clone();
        if self.has_sockets {
            self.waiter.count_timeouts_of_sockets();
        }
    }

    /// Removes methods that would block in the kernel, unless the options allow that.
    pub(super) fn leave_routes_that_wait(&mut self, ends: &Ends<'_>) {
        if !self.waiter.is_nonblocking() {
            return;
        }
        // splice(2) can be used only if it can be kept from blocking.
        let can_ask =
            |kind: Kind, fd| kind.splices_without_waiting() || has_flag(fd, OFlags::NONBLOCK);
        let sink = can_ask(ends.sink_kind, ends.sink);
        let both = sink && can_ask(ends.source_kind, ends.source);
        let may_take = |method| match method {
            Method::ReadWrite => true,
            // Into a socket, fresh pages are spliced.
            Method::Fresh => sink,
            _ => both,
        };
        while !may_take(self.methods[self.at]) {
            self.at += 1;
        }
        if !sink {
            self.outlet.give_no_pages_to_a_socket();
        }
    }

    /// Checks options that may have changed since the last run.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(super) fn check(&self, options: &Options) -> Result<()> {
        options.check()?;
        match self.ranges.are_of_one_file && !self.ranges.are_apart(options) {
            true => Err(Error::Invalid("source and sink are the same file".into())),
            false => Ok(()),
        }
    }

    /// Returns the way of the next step.
    pub(super) fn method(&self) -> Method {
        let method = self.methods[self.at];
        // Bytes that were read have to be written, and bytes in the private pipe have to be read back if its method was
        // refused.
        let under_way = self.stage.len() > 0
            || !self.ahead.is_empty()
            || (method != Method::SpliceThrough || !self.no_packets)
                && self.through.as_ref().is_some_and(|own| own.held > 0);
        // For a few bytes, setting up memory or a pipe costs more than it saves.
        let too_short = !self.long && method != Method::Splice;
        match method {
            Method::Fresh => Method::Fresh,
            _ if under_way || too_short => Method::ReadWrite,
            method => method,
        }
    }

    pub(super) fn step(&mut self, method: Method, ends: &Ends<'_>, options: &Options) -> Stepped {
        if self.long && !self.sink_grown && ends.sink_kind == Kind::Pipe {
            self.sink_grown = true;
            options.make_roomy(ends.sink);
        }
        if let Some(hole) = self.pass_hole(method, ends, options)? {
            return Ok(Step::Passed(hole));
        }
        match method {
            Method::CopyFileRange | Method::Splice | Method::Sendfile => {
                self.move_directly(method, ends, options)
            }
            Method::SpliceThrough => self.splice_through(ends, options),
            Method::Fresh | Method::Socket | Method::ReadWrite => {
                self.read_or_write(method, ends, options)
            }
        }
    }

    /// Skips the next hole, if holes are kept, or finds its start.
    fn pass_hole(
        &mut self,
        method: Method,
        ends: &Ends<'_>,
        options: &Options,
    ) -> Result<Option<usize>, Stop> {
        self.before_hole = usize::MAX;
        let by_position = matches!(method, Method::CopyFileRange | Method::ReadWrite);
        let has_read = self.stage.len() > 0 || !self.ahead.is_empty();
        if !self.long || !by_position || has_read || options.visible {
            return Ok(None);
        }
        // A hole costs one ftruncate(2), whatever its size.
        let most = self.most(options, isize::MAX as usize);
        match self.sparse.next(ends.source, ends.sink, most as u64)? {
            Stretch::Bytes(len) => {
                self.before_hole = usize::try_from(len).unwrap_or(usize::MAX);
                Ok(None)
            }
            Stretch::Hole(len) => {
                self.took(len as usize);
                Ok(Some(len as usize))
            }
        }
    }

    /// Makes one call that moves bytes from the source to the sink.
    fn move_directly(&mut self, method: Method, ends: &Ends<'_>, options: &Options) -> Stepped {
        let (from, to) = (self.source_offset, self.sink_offset);
        self.calls += 1;
        let n = match method {
            Method::CopyFileRange => {
                direct::copy_file_range(ends, from, to, self.most(options, direct::RANGE))
            }
            Method::Sendfile => {
                let most = self.most(options, direct::SENDFILE);
                direct::sendfile(&mut self.waiter, ends, from, most)
            }
            _ => {
                let most = self.most(options, ends.sink_kind.splice_at_once());
                direct::splice(&mut self.waiter, ends, from, to, most)
            }
        }?;
        self.took(n);
        Ok(match n {
            0 => Step::Ambiguous,
            n => Step::Moved(n),
        })
    }

    /// Makes one call between the private pipe and the source or the sink.
    fn splice_through(&mut self, ends: &Ends<'_>, options: &Options) -> Stepped {
        let own = match &mut self.through {
            Some(own) => own,
            none => match OwnPipe::new(options.pipe_size()) {
                Ok(own) => none.insert(own),
                // No pipe can be made (EMFILE): another method may not need one.
                Err(_) => return Err(Stop::At(TransferSide::Source, "pipe2", Errno::OPNOTSUPP)),
            },
        };
        self.calls += 1;
        if own.held > 0 {
            let sink = (ends.sink, ends.sink_kind);
            let n = own.send_on(&mut self.waiter, sink, self.sink_offset)?;
            return Ok(match n {
                // write(2) either writes the bytes to the sink, or returns the reason why not.
                0 => Step::Ambiguous,
                n => Step::Moved(n),
            });
        }
        let most = options.most(self.taken, own.capacity.min(self.before_hole));
        let source = (ends.source, ends.source_kind);
        let n = own.fill(&mut self.waiter, source, self.source_offset, most)?;
        self.took(n);
        Ok(match n {
            // Reading a terminal again after its end of file would wait for more input.
            0 if ends.source_kind == Kind::Char => Step::End,
            0 => Step::Ambiguous,
            _ => Step::Taken,
        })
    }

    /// Makes one read from the source, or one write of bytes that were read.
    fn read_or_write(&mut self, method: Method, ends: &Ends<'_>, options: &Options) -> Stepped {
        if self.stage.len() > 0 {
            let (from, at, most) = (self.sent, self.sink_offset, options.most_at_once());
            let n = self
                .stage
                .send(&mut self.outlet, ends.sink, from, most, at)
                .map_err(|(operation, errno)| {
                    Stop::of_call(
                        self.outlet.calls.stopped(),
                        TransferSide::Sink,
                        operation,
                        errno,
                    )
                })?;
            self.seen = (self.sent, self.sent + n);
            self.sent += n;
            return Ok(Step::Moved(n));
        }
        if self.stage.is_none() {
            self.stage = match self.longest_message {
                memory::MESSAGE => Stage::for_messages(),
                _ => Stage::small(self.first),
            };
        }
        if self.long && self.stage.is_small() {
            let capacity = options.pipe_size();
            let takes_pages = match (method, ends.sink_kind) {
                (Method::Fresh, Kind::Pipe) => self.outlet.take_pages(ends.sink, capacity),
                (Method::Fresh, _) => self.outlet.take_pages_for_a_socket(capacity),
                _ => false,
            };
            // Giving base pages to a pipe is slower than copying them.
            let can_be_given = takes_pages && linux::has_huge_pages();
            // Each read drains the pipe, so that its writer works while these bytes are written.
            let copied_from_a_pipe = self.source_kind == Kind::Pipe && !takes_pages;
            let chunk = options
                .read_chunk(self.longest_message)
                .or_else(|| copied_from_a_pipe.then(memory::suits_a_pipe));
            self.stage.grow(chunk, can_be_given);
        }
        let most = options.most_to_read(self.taken, self.longest_message);
        let most = most.min(self.before_hole);
        let keeps_messages = self.longest_message == memory::MESSAGE;
        let n = match &mut self.through {
            // These bytes were taken by a method that was refused later, or may be packets.
            Some(through) if through.held > 0 => {
                let room = self.stage.room(through.held)?;
                let most = room.len();
                let n = through
                    .take_back(room)
                    .map_err(|errno| Stop::At(TransferSide::Source, "read", errno))?;
                if !self.no_packets && n < most {
                    // A read(2) returns one packet at a time.
                    self.methods.retain(|&m| m != Method::SpliceThrough);
                }
                // No packet is longer than a page.
                self.no_packets |= n == most && n > linux::page_size();
                n
            }
            _ if !self.ahead.is_empty() => {
                let room = self.stage.room(options.most_at_once())?;
                Read::read(&mut self.ahead, room).unwrap_or(0)
            }
            _ => {
                let room = self.stage.room(most)?;
                let n = match self.source_offset {
                    None => self.reader.read(ends.source, room),
                    Some(at) => {
                        self.reader.also_made(1);
                        uninterrupted(|| rustix::io::pread(ends.source, &mut *room, at))
                    }
                }
                .map_err(|errno| {
                    Stop::of_call(self.reader.stopped(), TransferSide::Source, "read", errno)
                })?;
                if keeps_messages && n == memory::MESSAGE {
                    // The message was truncated, or is exactly this long.
                    return Err(Stop::At(TransferSide::Source, "read", Errno::MSGSIZE));
                }
                self.took(n);
                n
            }
        };
        match n {
            0 if keeps_messages && plan::was_empty_message(ends.source) => return Ok(Step::Taken),
            0 => return Ok(Step::End),
            n => self.stage.filled(n),
        }
        self.sent = 0;
        Ok(Step::Taken)
    }

    /// Empties the stage once all of its bytes were sent and shown.
    pub(super) fn after_sending(&mut self) {
        if self.stage.len() > 0 && self.sent == self.stage.len() {
            self.sent = 0;
            self.stage.let_go();
        }
        if !self.long && self.bytes >= memory::FIRST as u64 {
            self.long = true;
        }
    }

    /// Returns the bytes of the last step, if the callback is to see them.
    fn seen(&self, options: &Options) -> &[u8] {
        if options.visible {
            &self.stage.bytes()[self.seen.0..self.seen.1]
        } else {
            &[]
        }
    }

    /// Returns how many bytes the next call may take from the source, at most `otherwise`.
    fn most(&self, options: &Options, otherwise: usize) -> usize {
        options.most(self.taken, otherwise.min(self.before_hole))
    }

    /// Records that `n` bytes were taken from the source.
    fn took(&mut self, n: usize) {
        self.taken += n as u64;
        if let Some(at) = &mut self.source_offset {
            *at += n as u64;
        }
    }

    /// Records that `n` bytes arrived, and returns the progress for the callback.
    pub(super) fn arrived(&mut self, method: Method, n: usize, options: &Options) -> Progress<'_> {
        let step = n as u64;
        self.bytes += step;
        if let Some(at) = &mut self.sink_offset {
            *at += step;
        }
        match self.moved.iter_mut().find(|(moved, _)| *moved == method) {
            Some((_, bytes)) => *bytes += step,
            None => self.moved.push((method, step)),
        }
        Progress {
            bytes: self.bytes,
            step,
            method,
            seen: self.seen(options),
        }
    }

    /// Returns the number of bytes in flight: taken, but not arrived.
    pub(super) fn under_way(&self) -> u64 {
        self.taken - self.bytes
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls + self.reader.made() + self.outlet.calls.made()
    }

    /// Returns whether the method was refused rather than failed, and there is another one.
    ///
    /// A method can be refused after it has moved bytes: another process that shares the open file description may have
    /// set O_APPEND, as GNU make does. A refused call has moved no byte. If it was a failure after all, read(2) and
    /// write(2) report it.
    pub(super) fn may_try_another(&self, method: Method, errno: Errno, ends: &Ends<'_>) -> bool {
        // pwrite(2) appends to such a file, whatever the offset (see BUGS there).
        let loses_offset = || self.sink_offset.is_some() && direct::appends(ends.sink);
        method == self.methods[self.at]
            && self.at + 1 < self.methods.len()
            && direct::is_refused(method, errno)
            && !loses_offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_memory_for_a_short_file_is_whole_blocks_of_every_disk() {
        for size in [1, 512, 4095, 4096, 5000, 65_535, 65_536, 1 << 30] {
            let len = first_memory(Kind::Regular, size);
            assert_eq!(len % 4096, 0, "{size}");
            assert!(len as u64 > size || len == memory::FIRST, "{size}");
        }
    }
}
