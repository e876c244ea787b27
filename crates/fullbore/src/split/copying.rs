//! *snapshot*: bytes are read once into memory that is never written to again once a pipe was given
//! it, and that memory is given to every pipe, and written to every other sink.

use rustix::io::Errno;

use super::{Branch, Broken, Splitting};
use crate::linux::{self, Calls};
use crate::memory;
use crate::produce::stage::Stage;
use crate::transfer::{Ended, Kind};
use crate::wait::Ready;

impl Splitting<'_> {
    pub(super) fn copy(&mut self) -> Result<Ended, Broken> {
        let mut reader = Calls::with(self.waiter.clone());
        let mut stage = Stage::small(self.most(memory::FIRST));
        while self.branches.iter().any(|branch| branch.is_alive()) {
            self.check_cancelled()?;
            if self.is_at_limit() {
                return Ok(Ended::AtLimit);
            }
            if self.long && stage.is_small() {
                self.get_roomy(&mut stage);
            }
            let room = stage.room(self.most(usize::MAX))?;
            match reader.read(self.source, room) {
                Ok(0) => break,
                Ok(n) => stage.filled(n),
                Err(Errno::CANCELED) => return Err(Broken::Cancelled),
                Err(errno) => return Err(Broken::Source("read", errno)),
            }
            self.taken += stage.len() as u64;
            self.hand_out(&mut stage)?;
            stage.let_go()?;
            self.long |= self.taken >= memory::FIRST as u64;
        }
        Ok(Ended::AtEnd)
    }

    /// Gets memory of full size, which pipes can be given.
    fn get_roomy(&mut self, stage: &mut Stage) {
        self.grow_sinks();
        let mut any = false;
        for branch in &mut self.branches {
            any |= branch.kind == Kind::Pipe && branch.outlet.take_pages(branch.fd);
        }
        stage.grow(self.options.chunk, any && linux::has_huge_pages());
    }

    /// Gives every sink all that the stage holds.
    fn hand_out(&mut self, stage: &mut Stage) -> Result<(), Broken> {
        for branch in &mut self.branches {
            branch.at = 0;
        }
        loop {
            let mut progress = false;
            for i in 0..self.branches.len() {
                let branch = &mut self.branches[i];
                if !branch.wants(stage) {
                    continue;
                }
                match stage.send(&mut branch.outlet, branch.fd, branch.at, None) {
                    Ok(0) => self.failed(i, "write", Errno::IO)?,
                    Ok(n) => {
                        branch.at += n;
                        branch.bytes += n as u64;
                        progress = true;
                    }
                    Err((_, Errno::AGAIN)) => {}
                    Err((_, Errno::CANCELED)) => return Err(Broken::Cancelled),
                    Err((operation, errno)) => self.failed(i, operation, errno)?,
                }
            }
            if !self.branches.iter().any(|branch| branch.wants(stage)) {
                return Ok(());
            }
            if !progress {
                let waiting: Vec<_> = self
                    .branches
                    .iter()
                    .filter(|branch| branch.wants(stage))
                    .map(|branch| (branch.fd, Ready::ToWrite))
                    .collect();
                self.wait_for(&waiting)?;
            }
        }
    }
}

impl Branch<'_> {
    /// Whether it has not got all that the stage holds.
    fn wants(&self, stage: &Stage) -> bool {
        self.is_alive() && self.at < stage.len()
    }
}
