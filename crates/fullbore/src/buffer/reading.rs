//! The thread that reads.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use crate::error::{Error, Result, Side};
use crate::linux::Calls;
use crate::produce::store::{Filler, Store};
use crate::wait::Pace;

/// The side that reads.
pub(super) struct Reading<'a> {
    pub(super) store: &'a Store,
    pub(super) filler: Filler<'a>,
    pub(super) calls: Calls,
    pub(super) source: BorrowedFd<'a>,
    pub(super) chunk: usize,
    pub(super) pace: Option<Pace>,
}

impl Reading<'_> {
    /// Reads until the source ends, or nobody needs more.
    pub(super) fn run(mut self) -> Result<()> {
        let chunk = self.chunk;
        let most = self.pace.as_ref().map_or(chunk, |p| p.chunk().min(chunk));
        let mut taken = 0;
        loop {
            let (calls, source) = (&mut self.calls, self.source);
            match self.filler.fill(most, |room| calls.read(source, room)) {
                None | Some(Ok(0)) => return Ok(()),
                Some(Ok(n)) => {
                    taken += n as u64;
                    if let Some(pace) = &mut self.pace {
                        self.store.pause(pace.wait_after(n as u64, Instant::now()));
                    }
                }
                Some(Err(_)) if self.calls.stopped().is_some() => return Ok(()),
                Some(Err(errno)) => {
                    return Err(Error::moving(Side::Source, "read", errno, taken));
                }
            }
        }
    }
}
