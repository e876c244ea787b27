//! The state of a transfer, and its steps of one system call each.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::direct;
use super::held::Held;
use super::options::TransferOptions;
use super::report::Progress;
use super::route::Route;
use super::sparse::{Holes, Stretch};
use super::step::{Ends, Step, Stepped, Stop, stepped};
use crate::kind::Kind;
use crate::memory;
use crate::outlet::Outlet;
use crate::own_pipe::OwnPipe;
use crate::stage::Stage;
use crate::way::Way;
use fullbore_linux::error::{self, Error, Result, TransferSide};
use fullbore_linux::messages::{self, longest_message};
use fullbore_linux::pipe;
use fullbore_linux::place::{self, Place};
use fullbore_linux::wait::{Waiter, uninterrupted};
use fullbore_linux::{Aligned, Calls, refuse_the_same, stat_of};

/// A transfer between two steps.
pub(super) struct State {
    pub(super) route: Route,
    pub(super) tally: Tally,
    pub(super) held: Held,
    holes: Holes,
    /// Whether both are one file, of which the ranges have to be apart.
    is_one_file: bool,
    reader: Calls,
    pub(super) outlet: Outlet,
    /// Waits for either side of a splice.
    waiter: Waiter,
    has_sockets: bool,
}

/// The bytes moved so far, and the offsets of the next ones.
#[derive(Default)]
pub(super) struct Tally {
    /// Bytes that arrived.
    pub(super) bytes: u64,
    /// Bytes that were taken from the source.
    pub(super) taken: u64,
    pub(super) moved: Vec<(Way, u64)>,
    calls: u64,
    source: Place,
    sink: Place,
}

impl Tally {
    /// Records that `n` bytes were taken from the source.
    fn took(&mut self, n: usize) {
        self.taken += n as u64;
        self.source.passed(n as u64);
    }

    /// Records that `n` bytes arrived.
    fn arrived(&mut self, method: Way, n: u64) {
        self.bytes += n;
        self.sink.passed(n);
        match self.moved.iter_mut().find(|(moved, _)| *moved == method) {
            Some((_, bytes)) => *bytes += n,
            None => self.moved.push((method, n)),
        }
    }

    /// Records that the last `n` bytes, which were a hole, have not arrived after all.
    fn lost(&mut self, n: u64) {
        self.bytes -= n;
        self.taken -= n;
        if let Some((_, bytes)) = self.moved.last_mut() {
            *bytes = bytes.saturating_sub(n);
        }
    }

    /// Returns the number of bytes in flight: taken, but not arrived.
    pub(super) fn under_way(&self) -> u64 {
        self.taken - self.bytes
    }
}

/// Examines the two fds, and selects the methods between them.
pub(super) fn begin(
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    options: &TransferOptions,
) -> Result<State> {
    let source_stat = stat_of(source, TransferSide::Source)?;
    let sink_stat = stat_of(sink, TransferSide::Sink)?;
    refuse_the_same(&source_stat, &sink_stat, options.has_ranges_apart())?;
    let offset = options.own.sink_offset;
    if let Some(at) = offset.filter(|_| direct::appends(sink)) {
        return Err(Error::Invalid(format!(
            "the sink appends (O_APPEND), so bytes cannot go to offset {at} of it"
        )));
    }
    let (source_kind, sink_kind) = (Kind::of(source, &source_stat), Kind::of(sink, &sink_stat));
    let is_socket = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    let calls = |fd, stat: &Stat| {
        let mut calls = Calls::with(options.waiter.clone());
        calls.know(fd, FileType::from_raw_mode(stat.st_mode));
        calls
    };
    let size = u64::try_from(source_stat.st_size).unwrap_or(0);
    let most = options.limit.unwrap_or(u64::MAX);
    let long = source_kind == Kind::Regular && size.min(most) > memory::FIRST as u64;
    let mut state = State {
        route: Route::new(source_kind, sink_kind, options, long),
        tally: Tally {
            taken: options.own.ahead.len() as u64,
            source: Place::of(options.own.source_offset),
            sink: Place::of(offset),
            ..Tally::default()
        },
        held: Held {
            stage: Stage::default(),
            sent: 0,
            ahead: options.own.ahead.clone().into(),
            through: None,
            no_packets: (source_kind, sink_kind) != (Kind::Pipe, Kind::Pipe),
            longest_message: longest_message(source, &source_stat),
            first: first_memory(source_kind, size),
            seen: (0, 0),
        },
        holes: Holes::of(&source_stat, &sink_stat, options),
        is_one_file: refuse_the_same(&source_stat, &sink_stat, false).is_err(),
        reader: calls(source, &source_stat),
        outlet: Outlet::new(calls(sink, &sink_stat)),
        waiter: Waiter::default(),
        has_sockets: is_socket(&source_stat) || is_socket(&sink_stat),
    };
    state.outlet.whole_messages = state.held.longest_message == memory::MESSAGE;
    state.wait_as(&options.waiter);
    Ok(state)
}

/// Returns the size of the initial memory: the size of a short file, plus one byte to find its end, in whole blocks, as
/// reading with O_DIRECT requires (open(2)).
fn first_memory(source: Kind, size: u64) -> usize {
    match usize::try_from(size) {
        Ok(size) if source == Kind::Regular && size > 0 => (size + 1)
            .next_multiple_of(Aligned::BLOCK)
            .min(memory::FIRST),
        _ => memory::FIRST,
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
        if self.waiter.is_nonblocking() && !self.route.leave_those_that_wait(ends) {
            self.outlet.give_no_pages_to_a_socket();
        }
    }

    /// Checks options that may have changed since the last run.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(super) fn check(&self, options: &TransferOptions) -> Result<()> {
        match self.is_one_file && !options.has_ranges_apart() {
            true => Err(Error::Invalid("source and sink are the same file".into())),
            false => Ok(()),
        }
    }

    /// Returns the way of the next step.
    pub(super) fn method(&self) -> Way {
        let splices_on = self.route.best() == Way::SpliceThrough && self.held.no_packets;
        let has_bytes_to_write = self.held.has_read() || !splices_on && self.held.in_pipe() > 0;
        self.route.next(has_bytes_to_write)
    }

    pub(super) fn step(&mut self, method: Way, ends: &Ends<'_>) -> Stepped {
        if self.route.long {
            self.outlet.make_roomy(ends.sink, ends.options.roomy());
        }
        if let Some(hole) = self.pass_hole(method, ends)? {
            return Ok(Step::Passed(hole));
        }
        match method {
            Way::CopyFileRange | Way::Splice | Way::Sendfile => self.move_directly(method, ends),
            Way::SpliceThrough => self.splice_through(ends),
            _ if self.held.stage.len() > 0 => self.write(ends),
            _ => self.fill(method, ends),
        }
    }

    /// Skips the next hole, if holes are kept, or finds its start.
    fn pass_hole(&mut self, method: Way, ends: &Ends<'_>) -> Result<Option<usize>, Stop> {
        let by_position = matches!(method, Way::CopyFileRange | Way::Copy);
        if !self.route.long || !by_position || self.held.has_read() || ends.options.own.visible {
            self.holes.before = usize::MAX;
            return Ok(None);
        }
        if self.tally.source.at().or(self.tally.sink.at()).is_some() {
            return Ok(None);
        }
        // A hole costs a few calls, whatever its size.
        let most = ends.options.most(self.tally.taken, isize::MAX as usize);
        match self.holes.next(ends.source, ends.sink, most as u64)? {
            Stretch::Bytes => Ok(None),
            Stretch::Hole(len) => {
                self.tally.took(len as usize);
                Ok(Some(len as usize))
            }
        }
    }

    /// Makes one call that moves bytes from the source to the sink.
    fn move_directly(&mut self, method: Way, ends: &Ends<'_>) -> Stepped {
        let most = match method {
            Way::CopyFileRange => direct::RANGE,
            Way::Sendfile => direct::SENDFILE,
            _ => ends.sink_kind.splice_at_once(),
        };
        let Some(most) = self.claim(ends, self.most(ends, most))? else {
            return Ok(Step::Doubtful);
        };
        let offsets = (self.tally.source.at(), self.tally.sink.at());
        self.tally.calls += 1;
        let step = direct::move_once(method, &mut self.waiter, ends, offsets, most)?;
        if let Step::Moved(n) = step {
            self.tally.took(n);
        }
        Ok(step)
    }

    /// Claims what the next call of at most `most` bytes reads and writes, and returns how many bytes it may move: no more
    /// than there are into a file, whose position would otherwise be past what was written. `None` if there may be none.
    fn claim(&mut self, ends: &Ends<'_>, mut most: usize) -> Result<Option<usize>, Stop> {
        if !direct::claim(&mut self.tally.source, ends, most) {
            return Ok(None);
        }
        let (source, sink) = (&mut self.tally.source, &mut self.tally.sink);
        if ends.sink_kind.has_position() {
            let there_are = match sink.at() {
                None => place::left_in(ends.source, source.at())
                    .map_err(|errno| Stop::At(TransferSide::Source, "fstat", errno))?,
                Some(_) => usize::MAX,
            };
            if there_are == 0 {
                return Ok(None);
            }
            most = most.min(there_are);
            // write(2) says what is wrong.
            let claimed = sink.claim(ends.sink, most);
            claimed.map_err(|errno| Stop::Refused(TransferSide::Sink, "lseek", errno))?;
        }
        Ok(Some(source.most(sink.most(most))))
    }

    /// Makes one call between the private pipe and the source or the sink.
    fn splice_through(&mut self, ends: &Ends<'_>) -> Stepped {
        let most = self.most(ends, usize::MAX);
        let own = match &mut self.held.through {
            Some(own) => own,
            none => {
                let packets = ends.sink_kind == Kind::Pipe && pipe::keeps_packets(ends.sink);
                let own = (!packets).then(|| OwnPipe::new(ends.options.roomy()).ok());
                match own.flatten() {
                    Some(own) => none.insert(own),
                    // The sink takes no pages, or no pipe can be made (EMFILE): another method may not need one.
                    None => {
                        let (side, errno) = (TransferSide::Source, Errno::OPNOTSUPP);
                        return Err(Stop::Refused(side, "pipe2", errno));
                    }
                }
            }
        };
        self.tally.calls += 1;
        let (source, sink) = (&mut self.tally.source, &mut self.tally.sink);
        if own.held > 0 {
            if ends.sink_kind.has_position() {
                let claimed = sink.claim(ends.sink, own.held);
                claimed.map_err(|errno| Stop::Refused(TransferSide::Sink, "lseek", errno))?;
            }
            let most = sink.most(ends.sink_kind.splice_at_once());
            let to = (ends.sink, ends.sink_kind.end(), sink.at());
            let outcome = own.send_on(&mut self.waiter, to, most)?;
            return stepped("splice", outcome, Errno::INVAL, || TransferSide::Sink);
        }
        let most = most.min(own.capacity);
        if !direct::claim(source, ends, most) {
            return Ok(Step::Doubtful);
        }
        let from = (ends.source, ends.source_kind.end(), source.at());
        let outcome = own.fill(&mut self.waiter, from, source.most(most))?;
        match stepped("splice", outcome, Errno::INVAL, || TransferSide::Source)? {
            Step::Moved(n) => {
                self.tally.took(n);
                Ok(Step::Taken)
            }
            step => Ok(step),
        }
    }

    /// Makes one write of bytes that were read.
    fn write(&mut self, ends: &Ends<'_>) -> Stepped {
        let (from, at) = (self.held.sent, self.tally.sink.at());
        let most = self.tally.sink.most(ends.options.most_at_once());
        let sent = (self.held.stage).send(&mut self.outlet, ends.sink, from, most, at);
        let n = sent.map_err(|(operation, errno)| {
            let stopped = self.outlet.calls.waiter.stopped().map(Stop::from);
            stopped.unwrap_or(Stop::At(TransferSide::Sink, operation, errno))
        })?;
        self.held.seen = (from, from + n);
        self.held.sent += n;
        Ok(Step::Moved(n))
    }

    /// Fills the stage, which is empty, by one call.
    fn fill(&mut self, method: Way, ends: &Ends<'_>) -> Stepped {
        self.held.begin();
        if self.route.long && !self.route.doubtful && self.held.stage.is_small() {
            self.grow_stage(method, ends);
        }
        match self.held.refill(ends.options)? {
            None => self.read(ends),
            Some((0, _)) => Ok(Step::End),
            Some((_, is_packet)) => {
                if is_packet {
                    self.route.splice_no_more();
                }
                Ok(Step::Taken)
            }
        }
    }

    /// Makes one read from the source.
    fn read(&mut self, ends: &Ends<'_>) -> Stepped {
        let longest = self.held.longest_message;
        let most = ends.options.most_to_read(self.tally.taken, longest);
        let most = self.tally.source.most(most.min(self.holes.before));
        let room = self.held.stage.room(most)?;
        let (reader, at) = (&mut self.reader, self.tally.source.at());
        let outcome = messages::read(ends.source, longest, room, |room| match at {
            None => reader.read(ends.source, room),
            Some(at) => {
                reader.also_made(1);
                uninterrupted(|| rustix::io::pread(ends.source, &mut *room, at))
            }
        });
        match (
            stepped("read", outcome, Errno::INVAL, || TransferSide::Source),
            reader.waiter.stopped(),
        ) {
            (Ok(Step::Moved(n)), _) => {
                self.tally.took(n);
                self.held.filled(n);
                self.route.has_read();
                Ok(Step::Taken)
            }
            (_, Some(stopped)) => Err(stopped.into()),
            (step, _) => step,
        }
    }

    /// Allocates full-size memory, and gives its pages to the sink from now on, if that pays off.
    fn grow_stage(&mut self, method: Way, ends: &Ends<'_>) {
        let takes_pages = method == Way::Fresh
            && (self.outlet).take_pages(ends.sink, ends.sink_kind, ends.options.roomy());
        let (from_file, sink) = (self.route.source == Kind::Regular, self.route.sink);
        let written = match sink {
            Kind::UnixStream => Some(memory::suits_a_socket(ends.sink)),
            Kind::Pipe if !from_file => Some(memory::suits_copying()),
            _ => None,
        };
        let suits = match (sink, self.route.source) {
            _ if takes_pages => None,
            (Kind::UnixStream, _) => written,
            // Each read drains the pipe, so that its writer works while these bytes are written.
            (_, Kind::Pipe) => Some(memory::suits_a_pipe()),
            _ => None,
        };
        let chunk = ends.options.read_chunk(self.held.longest_message).or(suits);
        // After vmsplice(2) into a pipe, a write(2) that must not wait is limited to PIPE_BUF bytes (docs/guarantees.md).
        let written = written.filter(|_| !self.waiter.is_nonblocking());
        self.held.stage.grow(chunk, takes_pages, written);
    }

    /// Empties the stage once all of its bytes were sent and shown.
    pub(super) fn after_sending(&mut self) {
        self.held.after_sending();
        self.route.long |= self.tally.bytes >= memory::FIRST as u64;
    }

    /// Returns how many bytes the next call may take from the source, at most `otherwise`.
    fn most(&self, ends: &Ends<'_>, otherwise: usize) -> usize {
        ends.options
            .most(self.tally.taken, otherwise.min(self.holes.before))
    }

    /// Records that `n` bytes arrived, and returns the progress for the callback.
    pub(super) fn arrived(&mut self, method: Way, n: usize, ends: &Ends<'_>) -> Progress<'_> {
        let step = n as u64;
        self.tally.arrived(method, step);
        Progress {
            bytes: self.tally.bytes,
            step,
            way: method,
            seen: self.held.seen(ends.options),
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.tally.calls + self.reader.made() + self.outlet.calls.made()
    }

    /// Returns whether another way can follow `method`, which was refused.
    pub(super) fn try_another(&mut self, method: Way, ends: &Ends<'_>) -> bool {
        // pwrite(2) appends to such a file, whatever the offset (see BUGS there).
        let appends = direct::appends(ends.sink);
        if appends && !self.tally.sink.is_given() {
            self.tally.sink.give_back(ends.sink);
        }
        let loses_offset = self.tally.sink.is_given() && appends;
        !loses_offset && self.route.try_another(method)
    }

    /// Leaves the files at the positions behind the bytes that were moved.
    pub(super) fn give_back(&mut self, ends: &Ends<'_>) {
        self.tally.source.give_back(ends.source);
        self.tally.sink.give_back(ends.sink);
    }

    /// Gives the sink the length of the holes that were skipped at its end.
    pub(super) fn extend(&mut self, ends: &Ends<'_>) -> Result<()> {
        let extended = self.holes.extend(ends.source, ends.sink);
        extended.map_err(|(errno, missing)| {
            self.tally.lost(missing);
            error::moving(TransferSide::Sink, "fallocate", errno, self.tally.bytes)
        })
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
