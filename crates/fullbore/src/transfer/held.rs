//! The bytes that were taken from the source and have not arrived at the sink, wherever they are.

use std::collections::VecDeque;
use std::io::Read;

use rustix::io::Errno;

use super::options::TransferOptions;
use super::step::Stop;
use crate::own_pipe::OwnPipe;
use crate::stage::Stage;
use fullbore_linux::{self as linux, TransferSide, pipe};

/// The bytes in flight: those of the private pipe were taken first, then come those of the stage, and last those ahead.
pub(super) struct Held {
    pub(super) stage: Stage,
    /// How many bytes of the stage were sent.
    pub(super) sent: usize,
    /// Bytes to send before those of the source, which are not in the stage yet.
    pub(super) ahead: VecDeque<u8>,
    pub(super) through: Option<OwnPipe>,
    /// Whether the next pipe may get references to what is in this one: its writer does not use packet mode (pipe(7)).
    /// A packet stays a packet in the next pipe, where a read(2) without room for all of it discards the rest.
    pub(super) no_packets: bool,
    /// See [`longest_message`](fullbore_linux::messages::longest_message).
    pub(super) longest_message: usize,
    /// The size in bytes of the initial memory.
    pub(super) first: usize,
    /// The range of the stage with the bytes of the last step.
    pub(super) seen: (usize, usize),
}

impl Held {
    /// Returns whether bytes were read.
    pub(super) fn has_read(&self) -> bool {
        self.stage.len() > 0 || !self.ahead.is_empty()
    }

    /// Returns the number of bytes in the private pipe.
    pub(super) fn in_pipe(&self) -> usize {
        self.through.as_ref().map_or(0, |own| own.held)
    }

    /// Creates the initial memory.
    pub(super) fn begin(&mut self) {
        self.stage.begin(self.longest_message, self.first);
    }

    /// Fills the empty stage with bytes that were taken before: by a method that was refused later, as packets, or by
    /// the caller. Returns how many there were, and whether they are a packet; `None` if there are none.
    pub(super) fn refill(
        &mut self,
        options: &TransferOptions,
    ) -> Result<Option<(usize, bool)>, Stop> {
        let (n, is_packet) = match &mut self.through {
            Some(through) if through.held > 0 => {
                let room = self.stage.room(through.held)?;
                let most = room.len();
                let n = through
                    .take_back(room)
                    .map_err(|errno| Stop::At(TransferSide::Source, "read", errno))?;
                // A read(2) returns one packet at a time, and no packet is longer than a page.
                let is_packet = !self.no_packets && n < most;
                self.no_packets |= n == most && n > linux::page_size();
                (n, is_packet)
            }
            _ if !self.ahead.is_empty() => {
                let room = self.stage.room(options.most_at_once())?;
                (Read::read(&mut self.ahead, room).unwrap_or(0), false)
            }
            _ => return Ok(None),
        };
        self.filled(n);
        Ok(Some((n, is_packet)))
    }

    /// Records that the stage has `n` new bytes.
    pub(super) fn filled(&mut self, n: usize) {
        self.stage.filled(n);
        self.sent = 0;
    }

    /// Empties the stage once all of its bytes were sent and shown.
    pub(super) fn after_sending(&mut self) {
        if self.stage.len() > 0 && self.sent == self.stage.len() {
            self.sent = 0;
            self.stage.let_go();
        }
    }

    /// Returns the bytes of the last step, if the callback is to see them.
    pub(super) fn seen(&self, options: &TransferOptions) -> &[u8] {
        match options.own.visible {
            true => &self.stage.bytes()[self.seen.0..self.seen.1],
            false => &[],
        }
    }

    /// Removes and returns all bytes, in order.
    ///
    /// # Errors
    /// As read(2) from the private pipe.
    pub(super) fn into_bytes(self) -> Result<Vec<u8>, Errno> {
        let mut bytes = self.stage.bytes()[self.sent..].to_vec();
        if let Some(mut own) = self.through {
            pipe::take_back(&own.pipe.reader, &mut own.held, &mut bytes)?;
        }
        bytes.extend(self.ahead);
        Ok(bytes)
    }
}
