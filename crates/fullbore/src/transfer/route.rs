//! Which way the next bytes take: the ways between the two kinds of fd that have not been refused, best first.

use rustix::fs::OFlags;

use super::options::TransferOptions;
use super::plan;
use super::step::{Ends, has_flag};
use crate::kind::Kind;
use crate::way::Way;

/// The kinds of the two fds, and the ways between them.
pub(super) struct Route {
    pub(super) source: Kind,
    pub(super) sink: Kind,
    methods: Vec<Way>,
    /// The index of the current method.
    at: usize,
    /// Whether there are enough bytes for large memory or pipes to pay off.
    pub(super) long: bool,
    /// Whether the last call has moved nothing, so that the next one has to be a read(2), which shows why.
    pub(super) doubtful: bool,
}

impl Route {
    /// Selects the ways from `source` to `sink` that the options allow.
    pub(super) fn new(source: Kind, sink: Kind, options: &TransferOptions, long: bool) -> Self {
        let allowed = |method: &Way| match method {
            Way::Copy => true,
            _ if options.plain => false,
            Way::Fresh => options.own.sink_offset.is_none(),
            _ => !options.own.visible,
        };
        let methods = plan::ways(source, sink, options.own.guarantee).iter();
        Self {
            source,
            sink,
            methods: methods.copied().filter(allowed).collect(),
            at: 0,
            long,
            doubtful: false,
        }
    }

    /// Removes methods that would block in the kernel. Returns whether the sink can be kept from it.
    pub(super) fn leave_those_that_wait(&mut self, ends: &Ends<'_>) -> bool {
        // splice(2) can be used only if it can be kept from blocking.
        let can_ask =
            |kind: Kind, fd| kind.splices_without_waiting() || has_flag(fd, OFlags::NONBLOCK);
        let sink = can_ask(self.sink, ends.sink);
        let both = sink && can_ask(self.source, ends.source);
        let may_take = |method| match method {
            Way::Copy => true,
            // Into a socket, fresh pages are spliced.
            Way::Fresh => sink,
            _ => both,
        };
        while !may_take(self.methods[self.at]) {
            self.at += 1;
        }
        sink
    }

    /// Returns the best way that was not refused.
    pub(super) fn best(&self) -> Way {
        self.methods[self.at]
    }

    /// Returns the way of the next step. Bytes that were read have to be written, as have those that a refused method
    /// has left in the private pipe.
    pub(super) fn next(&self, has_bytes_to_write: bool) -> Way {
        // For a few bytes, setting up memory or a pipe, or a part of a file, costs more than it saves.
        let too_short = |method| !self.long && method != Way::Splice;
        match self.best() {
            Way::Fresh => Way::Fresh,
            method if has_bytes_to_write || self.doubtful || too_short(method) => Way::Copy,
            method => method,
        }
    }

    /// Moves on to the next way after `method` was refused; returns whether there is one.
    ///
    /// A method can be refused after it has moved bytes: another process that shares the open file description may have
    /// set O_APPEND, as GNU make does. A refused call has moved no byte. If it was a failure after all, read(2) and
    /// write(2) report it.
    pub(super) fn try_another(&mut self, method: Way) -> bool {
        let has_another = method == self.best() && self.at + 1 < self.methods.len();
        self.at += usize::from(has_another);
        has_another
    }

    /// Never splices from now on.
    pub(super) fn splice_no_more(&mut self) {
        self.methods.retain(|&m| m != Way::SpliceThrough);
    }

    /// Records that read(2) has returned bytes. If the last call had moved nothing, these were behind the mark of
    /// urgent data in a socket, or have just come into a pipe, or read(2) only can read this file.
    pub(super) fn has_read(&mut self) {
        if std::mem::take(&mut self.doubtful)
            && !matches!(self.source, Kind::Tcp | Kind::UnixStream | Kind::Pipe)
        {
            self.at = self.methods.len() - 1;
        }
    }
}
