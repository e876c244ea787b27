//! Reads bytes once into fresh memory, which is given to every pipe and written to every other sink. Memory that a pipe
//! refers to is never written to again.

use std::ops::ControlFlow;

use rustix::io::Errno;

use super::splitting::{Branch, Broken, Splitting};
use crate::memory;
use crate::stage::Stage;
use crate::transfer::{EndReason, Kind};
use fullbore_linux::messages;
use fullbore_linux::outcome::Outcome;

impl Splitting<'_> {
    pub(super) fn copy(
        &mut self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<EndReason, Broken> {
        loop {
            if let Some(stopped) = self.options.waiter.due() {
                return Ok(stopped.into());
            }
            let step = self.state.stage.len() as u64;
            if step > 0 {
                self.hand_out()?;
                self.state.stage.let_go();
                self.state.long |= self.state.taken >= memory::FIRST as u64;
                if progress(step).is_break() {
                    return Ok(EndReason::Cancelled);
                }
            }
            if !self.state.branches.iter().any(Branch::is_alive) {
                return Ok(EndReason::AtEnd);
            }
            if self.options.left(self.state.taken) == 0 {
                return Ok(EndReason::AtLimit);
            }
            if self.state.long {
                self.grow();
            }
            // The tee must not block in read(2) while it watches the readers of its sinks.
            let is_file = matches!(self.state.source_kind, Kind::Regular | Kind::Block);
            let watches = !is_file && self.all_may_go();
            let (longest, taken) = (self.state.longest_message, self.state.taken);
            let room = (self.state.stage).room(self.options.most_to_read(taken, longest))?;
            let (source, reader) = (self.source, &mut self.state.reader);
            let outcome = messages::read(source, longest, room, |room| match watches {
                true => reader.try_read(source, room),
                false => reader.read(source, room),
            });
            match (outcome, self.state.reader.waiter.stopped()) {
                (Outcome::Moved(n), _) => {
                    self.state.nap.was_not_vain();
                    self.state.stage.filled(n);
                    self.state.taken += n as u64;
                    self.state.waiter.moved(n);
                }
                (Outcome::End, _) => return Ok(EndReason::AtEnd),
                (_, Some(stopped)) => return Ok(stopped.into()),
                (Outcome::WouldBlock(_), _) if watches || self.options.waiter.never => {
                    self.wait_for(&[None])?;
                    continue;
                }
                (Outcome::WouldBlock(_), _) => return Err(self.source_failed(Errno::AGAIN)),
                (Outcome::Failed(_, errno), _) => return Err(self.source_failed(errno)),
                _ => continue,
            }
            for branch in &mut self.state.branches {
                branch.at = 0;
            }
        }
    }

    /// Grows the sinks that are pipes, as far as the user's limits allow, and allocates full-size memory that pipes may
    /// refer to.
    fn grow(&mut self) {
        let state = &mut *self.state;
        let (mut any, capacity) = (false, self.options.roomy());
        let is_small = state.stage.is_small();
        for (branch, &sink) in state.branches.iter_mut().zip(&self.sinks) {
            branch.outlet.make_roomy(sink, capacity);
            let may_give = is_small && branch.kind == Kind::Pipe && !self.options.plain;
            any |= may_give && branch.outlet.take_pages(sink, branch.kind, capacity);
        }
        if is_small {
            let sinks = state.branches.iter().zip(&self.sinks);
            let socket = sinks.filter(|(branch, _)| branch.kind == Kind::UnixStream && !any);
            let suits = socket.map(|(_, &sink)| memory::suits_a_socket(sink)).min();
            let chunk = self.options.read_chunk(state.longest_message).or(suits);
            // As in a transfer.
            let waits = state.source_kind != Kind::Regular
                && matches!(&state.branches[..], [only] if only.kind == Kind::Pipe
                    && !only.outlet.calls.waiter.is_nonblocking());
            let written = waits.then(memory::suits_copying);
            state.stage.grow(chunk, any, written);
        }
    }

    /// Sends all bytes of the stage to every sink.
    fn hand_out(&mut self) -> Result<(), Broken> {
        loop {
            let mut progress = false;
            for i in 0..self.sinks.len() {
                let state = &mut *self.state;
                let branch = &mut state.branches[i];
                if !branch.wants(&state.stage) {
                    continue;
                }
                let (from, most) = (branch.at, self.options.most_at_once());
                let (stage, outlet) = (&mut state.stage, &mut branch.outlet);
                match stage.send(outlet, self.sinks[i], from, most, None) {
                    Ok(n) => {
                        branch.at += n;
                        branch.bytes += n as u64;
                        progress = true;
                        state.nap.was_not_vain();
                    }
                    Err((_, Errno::AGAIN)) => {}
                    Err((operation, errno)) => match branch.outlet.calls.waiter.stopped() {
                        Some(stopped) => return Err(Broken::EndReason(stopped.into())),
                        None => self.failed(i, operation, errno)?,
                    },
                }
            }
            let wants = |i: &usize| self.state.branches[*i].wants(&self.state.stage);
            let mut waiting = (0..self.sinks.len()).filter(wants).map(Some).peekable();
            if waiting.peek().is_none() {
                return Ok(());
            }
            if !progress {
                let waiting: Vec<_> = waiting.collect();
                self.wait_for(&waiting)?;
            }
        }
    }
}

impl Branch {
    /// Returns whether the sink still lacks bytes of the stage.
    fn wants(&self, stage: &Stage) -> bool {
        self.is_alive() && self.at < stage.len()
    }
}
