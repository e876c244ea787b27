//! Reads bytes once into fresh memory, which is given to every pipe and written to every other sink. Memory that a pipe
//! refers to is never written to again.

use rustix::io::Errno;

use super::splitting::{Branch, Broken, Splitting};
use crate::memory;
use crate::stage::Stage;
use crate::transfer::{EndReason, Kind};
use fullbore_linux::messages;
use fullbore_linux::outcome::Outcome;

impl Splitting<'_> {
    pub(super) fn copy(&mut self) -> Result<EndReason, Broken> {
        let mut stage = std::mem::take(&mut self.state.stage);
        let ended = self.copy_through(&mut stage);
        self.state.stage = stage;
        ended
    }

    fn copy_through(&mut self, stage: &mut Stage) -> Result<EndReason, Broken> {
        loop {
            self.check_stopped()?;
            if stage.len() > 0 {
                self.hand_out(stage)?;
                stage.let_go();
                self.state.long |= self.state.taken >= memory::FIRST as u64;
            }
            if !self.state.branches.iter().any(Branch::is_alive) {
                return Ok(EndReason::AtEnd);
            }
            if self.is_at_limit() {
                return Ok(EndReason::AtLimit);
            }
            if self.state.long {
                self.grow_sinks();
                if stage.is_small() {
                    self.get_roomy(stage);
                }
            }
            let longest = self.state.longest_message;
            let room = stage.room(self.options.most_to_read(self.state.taken, longest))?;
            // The tee must not block in read(2) while it watches the readers of its sinks.
            let is_file = matches!(self.state.source_kind, Kind::Regular | Kind::Block);
            let watches = !is_file && self.all_may_go();
            let (source, reader) = (self.source, &mut self.state.reader);
            let outcome = messages::read(source, longest, room, |room| match watches {
                true => reader.try_read(source, room),
                false => reader.read(source, room),
            });
            match (outcome, self.state.reader.waiter.stopped()) {
                (Outcome::Moved(n), _) => {
                    self.state.nap.was_not_vain();
                    stage.filled(n);
                }
                (Outcome::End, _) => return Ok(EndReason::AtEnd),
                (_, Some(stopped)) => return Err(Broken::EndReason(stopped.into())),
                (Outcome::WouldBlock(_) | Outcome::InVain(_), _)
                    if watches || self.options.waiter.never =>
                {
                    self.wait_for(&[None])?;
                    continue;
                }
                (Outcome::WouldBlock(_) | Outcome::InVain(_), _) => {
                    return Err(self.source_failed(Errno::AGAIN));
                }
                (Outcome::Failed(_, errno), _) => return Err(self.source_failed(errno)),
                _ => continue,
            }
            self.state.taken += stage.len() as u64;
            for branch in &mut self.state.branches {
                branch.at = 0;
            }
        }
    }

    /// Allocates full-size memory that pipes may refer to.
    fn get_roomy(&mut self, stage: &mut Stage) {
        let (mut any, capacity) = (false, self.options.roomy());
        for (branch, sink) in self.state.branches.iter_mut().zip(&self.sinks) {
            let may_give = branch.kind == Kind::Pipe && !self.options.plain;
            any |= may_give && branch.outlet.take_pages(*sink, branch.kind, capacity);
        }
        let chunk = self.options.read_chunk(self.state.longest_message);
        let [branch] = &mut *self.state.branches else {
            return stage.grow(chunk, any, false);
        };
        // As in a transfer.
        let waits = branch.kind == Kind::Pipe
            && self.state.source_kind != Kind::Regular
            && !branch.outlet.calls.waiter.is_nonblocking();
        stage.grow(chunk, any, waits);
    }

    /// Sends all bytes of the stage to every sink.
    fn hand_out(&mut self, stage: &mut Stage) -> Result<(), Broken> {
        loop {
            let mut progress = false;
            for i in 0..self.sinks.len() {
                let branch = &mut self.state.branches[i];
                if !branch.wants(stage) {
                    continue;
                }
                let (from, most) = (branch.at, self.options.most_at_once());
                match stage.send(&mut branch.outlet, self.sinks[i], from, most, None) {
                    Ok(n) => {
                        branch.at += n;
                        branch.bytes += n as u64;
                        progress = true;
                        self.state.nap.was_not_vain();
                    }
                    Err((_, Errno::AGAIN)) => {}
                    Err((operation, errno)) => match branch.outlet.calls.waiter.stopped() {
                        Some(stopped) => return Err(Broken::EndReason(stopped.into())),
                        None => self.failed(i, operation, errno)?,
                    },
                }
            }
            if !self.state.branches.iter().any(|branch| branch.wants(stage)) {
                return Ok(());
            }
            if !progress {
                let waiting: Vec<_> = (0..self.sinks.len())
                    .filter(|&i| self.state.branches[i].wants(stage))
                    .map(Some)
                    .collect();
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
