//! The sizes of pipes before they were tuned, kept in a small file, so that `--revert` can restore
//! them. Pipes that have gone are left out.

use std::time::Duration;

use fullbore_linux::PipeIdentity;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::tune::state_file::StateFile;

const FILE: &str = "tuned.json";

/// How long to wait for another process that changes sizes. That takes a second or two, unless the process is
/// stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// A pipe that was tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSize {
    device: u64,
    inode: u64,
    /// Its capacity before it was tuned, in bytes.
    pub before: usize,
    /// The capacity that it was last given, in bytes.
    pub after: usize,
}

/// The contents of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TunedPipes {
    pipes: Vec<KeptSize>,
}

/// The sizes, locked so that no other process changes them.
#[derive(Debug)]
pub struct Sizes(StateFile<TunedPipes>);

impl Sizes {
    /// Opens and locks the sizes of this user.
    ///
    /// # Errors
    /// If there is no safe directory for them, or another process has locked them for some seconds.
    pub fn open() -> Result<Self, Error> {
        StateFile::open(FILE, PATIENCE).map(Self)
    }

    /// Returns the sizes of a pipe.
    pub fn of(&self, pipe: PipeIdentity) -> Option<KeptSize> {
        let mut all = self.0.value().pipes.iter();
        all.find(|tuned| tuned.identity() == pipe).copied()
    }

    /// Records that a pipe was given `after` bytes. The size that was recorded first stays the old
    /// size.
    pub fn keep(&mut self, pipe: PipeIdentity, before: usize, after: usize) {
        let all = &mut self.0.value_mut().pipes;
        match all.iter_mut().find(|tuned| tuned.identity() == pipe) {
            Some(tuned) => tuned.after = after,
            None => all.push(KeptSize {
                device: pipe.device,
                inode: pipe.inode,
                before,
                after,
            }),
        }
    }

    /// Removes a pipe that has its old size again.
    pub fn forget(&mut self, pipe: PipeIdentity) {
        let all = &mut self.0.value_mut().pipes;
        all.retain(|tuned| tuned.identity() != pipe);
    }

    /// Writes the sizes to the file, without pipes that have gone.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn save(mut self, is_there: impl Fn(PipeIdentity) -> bool) -> Result<(), Error> {
        let all = &mut self.0.value_mut().pipes;
        all.retain(|tuned| is_there(tuned.identity()));
        self.0.save("the original capacities")
    }
}

impl KeptSize {
    fn identity(&self) -> PipeIdentity {
        PipeIdentity {
            device: self.device,
            inode: self.inode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(inode: u64) -> PipeIdentity {
        PipeIdentity { device: 14, inode }
    }

    #[test]
    fn the_first_size_is_kept_until_it_is_put_back() {
        let place = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let directory = place.path().join("fullbore");
        let open =
            || Sizes(StateFile::open_at(directory.clone(), uid, FILE, Duration::MAX).unwrap());
        let mut sizes = open();
        sizes.keep(pipe(1), 1 << 16, 1 << 20);
        sizes.keep(pipe(1), 1 << 20, 1 << 21);
        sizes.keep(pipe(2), 4096, 8192);
        sizes.keep(pipe(3), 4096, 8192);
        sizes.save(|pipe| pipe.inode != 3).unwrap();
        let mut sizes = open();
        let kept = sizes.of(pipe(1)).unwrap();
        assert_eq!((kept.before, kept.after), (1 << 16, 1 << 21));
        assert_eq!(sizes.of(pipe(3)), None, "it has gone");
        sizes.forget(pipe(2));
        sizes.save(|_| true).unwrap();
        assert_eq!(open().of(pipe(2)), None);
    }
}
