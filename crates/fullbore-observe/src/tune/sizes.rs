//! The sizes of pipes before they were tuned, kept in a small file, so that `--revert` can restore
//! them.
//!
//! The file is in a directory that is emptied at the next boot at the latest:
//! $XDG_RUNTIME_DIR/fullbore, or /tmp/fullbore-UID if that variable is not set. The directory must
//! belong to this user, and no other user may have write permission. A process that changes the file
//! holds a lock and replaces the file by a new one; pipes that have gone are left out.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use fullbore::pipe::PipeIdentity;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::super::error::Error;

const FILE: &str = "tuned.json";

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
struct Kept {
    /// The id of the boot, because inode numbers of pipes are not valid after another boot.
    boot: String,
    pipes: Vec<KeptSize>,
}

/// The sizes, locked so that no other process changes them.
#[derive(Debug)]
pub struct Sizes {
    directory: PathBuf,
    kept: Kept,
    /// The lock, which is held until this file is closed.
    _lock: File,
}

impl Sizes {
    /// Opens and locks the sizes of this user.
    ///
    /// # Errors
    /// If there is no safe directory for them.
    pub fn open() -> Result<Self, Error> {
        let uid = rustix::process::geteuid().as_raw();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR")
            .map(|directory| Path::new(&directory).join("fullbore"));
        let temporary = PathBuf::from(format!("/tmp/fullbore-{uid}"));
        match runtime.map(|directory| Self::open_at(directory, uid)) {
            Some(Ok(sizes)) => Ok(sizes),
            _ => Self::open_at(temporary, uid),
        }
    }

    fn open_at(directory: PathBuf, uid: u32) -> Result<Self, Error> {
        let shown = directory.display();
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::system(format!("make '{shown}'"))(error));
            }
            _ => {}
        }
        // A symbolic link, which another user may have created, is not followed.
        let found = fs::symlink_metadata(&directory)
            .map_err(Error::system(format!("inspect '{shown}'")))?;
        if !found.is_dir() || found.uid() != uid || found.mode() & 0o022 != 0 {
            return Err(Error::UnsafeFolder(format!(
                "'{shown}' must be a directory that only this user may write to"
            )));
        }
        let lock = File::open(&directory).map_err(Error::system(format!("open '{shown}'")))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(Error::system(format!("lock '{shown}'")))?;
        let boot = boot();
        // A file that cannot be read is treated as empty.
        let kept = fs::read(directory.join(FILE))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .filter(|kept: &Kept| kept.boot == boot)
            .unwrap_or(Kept {
                boot,
                pipes: Vec::new(),
            });
        Ok(Self {
            directory,
            kept,
            _lock: lock,
        })
    }

    /// Returns the sizes of a pipe.
    pub fn of(&self, pipe: PipeIdentity) -> Option<KeptSize> {
        let mut all = self.kept.pipes.iter();
        all.find(|tuned| tuned.identity() == pipe).copied()
    }

    /// Records that a pipe was given `after` bytes. The size that was recorded first stays the old
    /// size.
    pub fn keep(&mut self, pipe: PipeIdentity, before: usize, after: usize) {
        let all = &mut self.kept.pipes;
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
        self.kept.pipes.retain(|tuned| tuned.identity() != pipe);
    }

    /// Writes the sizes to the file, without pipes that have gone.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn save(mut self, is_there: impl Fn(PipeIdentity) -> bool) -> Result<(), Error> {
        self.kept.pipes.retain(|tuned| is_there(tuned.identity()));
        let shown = self.directory.display();
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            serde_json::to_writer(&mut file, &self.kept)?;
            file.persist(self.directory.join(FILE))?;
            Ok(())
        };
        write().map_err(Error::system(format!(
            "save the original capacities in '{shown}'"
        )))
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

/// Returns the id of this boot (random(4)).
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn pipe(inode: u64) -> PipeIdentity {
        PipeIdentity { device: 14, inode }
    }

    #[test]
    fn the_first_size_is_kept_until_it_is_put_back() {
        let place = tempfile::tempdir().unwrap();
        let open = || Sizes::open_at(place.path().join("fullbore"), uid()).unwrap();
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

    #[test]
    fn what_was_kept_before_another_boot_or_makes_no_sense_is_nothing() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("fullbore");
        let mut sizes = Sizes::open_at(at.clone(), uid()).unwrap();
        sizes.kept.boot = "another".into();
        sizes.keep(pipe(1), 1, 2);
        sizes.save(|_| true).unwrap();
        assert_eq!(Sizes::open_at(at.clone(), uid()).unwrap().of(pipe(1)), None);
        fs::write(at.join(FILE), "{\"boot\": 7").unwrap();
        assert_eq!(Sizes::open_at(at, uid()).unwrap().of(pipe(1)), None);
    }

    #[test]
    fn a_place_that_others_could_write_to_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().join("real");
        fs::create_dir(&real).unwrap();
        symlink(&real, place.path().join("link")).unwrap();
        assert!(Sizes::open_at(place.path().join("link"), uid()).is_err());
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Sizes::open_at(real.clone(), uid()).is_err());
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Sizes::open_at(real.clone(), uid() + 1).is_err());
        assert!(Sizes::open_at(real, uid()).is_ok());
    }
}
