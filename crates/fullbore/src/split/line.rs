//! How one sink gets its bytes by reference: directly, or through a pipe of its own. From that pipe
//! the bytes are spliced into the sink, or written if the sink cannot be spliced to.

use rustix::io::Errno;

use super::splitting::{Broken, Splitting};
use crate::memory;
use crate::produce::stage::Stage;
use crate::transfer::through::OwnPipe;
use crate::transfer::{Route, Stop, direct};
use fullbore_linux::error::{Error, Side};
use fullbore_linux::wait::Waiter;

/// How one sink gets its bytes.
pub(super) struct Line {
    /// Bytes beyond the head that the sink, or its own pipe, has got.
    pub(super) ahead: usize,
    /// The pipe through which a sink that is not a pipe itself gets its bytes.
    pub(super) own: Option<OwnPipe>,
    /// Memory for what is read from that pipe if the sink cannot be spliced to, and how much of it
    /// was sent.
    stage: Option<(Stage, usize)>,
}

impl Line {
    /// Creates a line that has got nothing yet. `by_writing` means that the sink cannot be spliced
    /// to.
    pub(super) fn new(own: Option<OwnPipe>, by_writing: bool) -> Self {
        let stage = own.as_ref().filter(|_| by_writing).map(|_| small_stage());
        Self {
            ahead: 0,
            own,
            stage,
        }
    }

    /// Returns whether its own pipe is empty.
    pub(super) fn is_drained(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.held == 0)
            && self
                .stage
                .as_ref()
                .is_none_or(|(stage, _)| stage.len() == 0)
    }
}

/// Returns memory for bytes that are written instead of spliced, of which none have been sent yet.
fn small_stage() -> (Stage, usize) {
    (Stage::small(memory::FIRST), 0)
}

impl Splitting<'_> {
    pub(super) fn own_pipe(&self) -> Result<OwnPipe, Error> {
        OwnPipe::new(self.options.pipe_size())
    }

    /// Switches a sink that was spliced to directly over to write(2).
    pub(super) fn write_from_now_on(&self, line: &mut Line) -> Result<(), Error> {
        line.own = Some(self.own_pipe()?);
        line.stage = Some(small_stage());
        Ok(())
    }

    /// Sends what the pipe of sink `i` holds to that sink, and returns whether any byte moved.
    pub(super) fn send_on(
        &mut self,
        i: usize,
        line: &mut Line,
        waiter: &mut Waiter,
    ) -> Result<bool, Broken> {
        let mut moved = false;
        while self.state.branches[i].is_alive() && !line.is_drained() {
            let sent = match &mut line.stage {
                Some((stage, sent)) => self.write_on(i, line.own.as_mut(), stage, sent),
                None => self.splice_on(i, line.own.as_mut(), waiter),
            };
            match sent {
                // The sink may not support splice(2): a write(2) shows whether it is that.
                Ok(0) if line.stage.is_none() => line.stage = Some(small_stage()),
                Ok(n) => {
                    self.state.branches[i].bytes += n as u64;
                    moved = true;
                }
                Err(Stop::At(_, _, Errno::AGAIN)) => break,
                // The kernel may refuse it at any time: another process may have set O_APPEND on the sink.
                Err(Stop::At(_, _, errno))
                    if direct::is_refused(Route::Splice, errno) && line.stage.is_none() =>
                {
                    line.stage = Some(small_stage());
                }
                Err(Stop::At(_, operation, errno)) => self.failed(i, operation, errno)?,
                Err(stop) => return Err(stop.into()),
            }
        }
        Ok(moved)
    }

    fn splice_on(
        &self,
        i: usize,
        own: Option<&mut OwnPipe>,
        waiter: &mut Waiter,
    ) -> Result<usize, Stop> {
        let Some(own) = own else { return Ok(0) };
        own.send_on(waiter, (self.sinks[i], self.state.branches[i].kind), None)
    }

    fn write_on(
        &mut self,
        i: usize,
        own: Option<&mut OwnPipe>,
        stage: &mut Stage,
        sent: &mut usize,
    ) -> Result<usize, Stop> {
        if let (0, Some(own)) = (stage.len(), own) {
            let room = stage.room(own.held)?;
            let n = own
                .take_back(room)
                .map_err(|errno| Stop::At(Side::Sink, "read", errno))?;
            stage.filled(n);
            *sent = 0;
        }
        let outlet = &mut self.state.branches[i].outlet;
        let n = stage
            .send(outlet, self.sinks[i], *sent, usize::MAX, None)
            .map_err(|(operation, errno)| {
                Stop::of_call(outlet.calls.stopped(), Side::Sink, operation, errno)
            })?;
        if n == 0 {
            return Err(Stop::At(Side::Sink, "write", Errno::IO));
        }
        *sent += n;
        if *sent == stage.len() {
            stage.let_go();
        }
        Ok(n)
    }
}
