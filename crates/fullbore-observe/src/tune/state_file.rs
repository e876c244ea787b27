//! A small file of this user that lasts until the next boot, such as for what `--revert` restores.
//!
//! The file is in a directory that is emptied at the next boot at the latest:
//! $XDG_RUNTIME_DIR/fullbore, or /tmp/fullbore-UID if that variable is not set. The directory must
//! belong to this user, and no other user may have write permission. A process that changes the file
//! replaces it by a new one. Meanwhile it holds a lock on another file, which stays.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The interval at which a lock is tried that another process holds.
const INTERVAL: Duration = Duration::from_millis(10);

/// The contents of a file, locked so that no other process changes them.
#[derive(Debug)]
pub struct StateFile<T> {
    directory: PathBuf,
    name: &'static str,
    contents: Contents<T>,
    /// The lock, which is held until this file is closed.
    _lock: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct Contents<T> {
    /// The id of the boot, because inode numbers of pipes and process ids are not valid after another
    /// boot.
    boot: String,
    #[serde(flatten)]
    value: T,
}

impl<T: Default + Serialize + DeserializeOwned> StateFile<T> {
    /// Opens and locks the file of this name, which may take this long while another process has locked it.
    ///
    /// # Errors
    /// If there is no safe directory for it, or if another process still has locked it.
    pub fn open(name: &'static str, patience: Duration) -> Result<Self, Error> {
        let uid = rustix::process::geteuid().as_raw();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR")
            .map(|directory| Path::new(&directory).join("fullbore"));
        let temporary = PathBuf::from(format!("/tmp/fullbore-{uid}"));
        match runtime.map(|directory| Self::open_at(directory, uid, name, patience)) {
            Some(Ok(kept)) => Ok(kept),
            Some(Err(error)) if error.is_busy() => Err(error),
            _ => Self::open_at(temporary, uid, name, patience),
        }
    }

    /// Opens and locks the file of this name in a directory, which must be safe for this user.
    ///
    /// # Errors
    /// If the directory cannot be made, or is not safe, or if another process still has locked the file.
    pub fn open_at(
        directory: PathBuf,
        uid: u32,
        name: &'static str,
        patience: Duration,
    ) -> Result<Self, Error> {
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
        let path = directory.join(format!("{name}.lock"));
        let of_lock = path.display();
        let lock = File::options().append(true).create(true).open(&path);
        let lock = lock.map_err(Error::system(format!("open '{of_lock}'")))?;
        take(&lock, patience).map_err(Error::system(format!("lock '{of_lock}'")))?;
        let boot = boot();
        // A file that cannot be read is treated as empty.
        let contents = fs::read(directory.join(name))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .filter(|contents: &Contents<T>| contents.boot == boot)
            .unwrap_or_else(|| Contents {
                boot,
                value: T::default(),
            });
        Ok(Self {
            directory,
            name,
            contents,
            _lock: lock,
        })
    }

    /// Returns what is in the file.
    pub fn value(&self) -> &T {
        &self.contents.value
    }

    /// Returns what is in the file, to be changed and then [saved](Self::save).
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.contents.value
    }

    /// Writes the file; `what` names the contents in the error.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(self, what: &str) -> Result<(), Error> {
        let shown = self.directory.display();
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            serde_json::to_writer(&mut file, &self.contents)?;
            file.persist(self.directory.join(self.name))?;
            Ok(())
        };
        write().map_err(Error::system(format!("save {what} in '{shown}'")))
    }
}

/// Takes a lock, within this time.
fn take(lock: &File, patience: Duration) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < patience => thread::sleep(INTERVAL),
            Err(Errno::WOULDBLOCK) => {
                let why = "another process of fullbore holds it";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
            }
            taken => return Ok(taken?),
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

    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Numbers {
        numbers: Vec<u64>,
    }

    const NAME: &str = "numbers.json";

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn open(directory: PathBuf, uid: u32) -> Result<StateFile<Numbers>, Error> {
        // A process that another test is starting may still hold a lock that was released here.
        StateFile::open_at(directory, uid, NAME, Duration::MAX)
    }

    #[test]
    fn a_file_that_another_process_has_locked_is_waited_for_no_longer_than_was_said() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("fullbore");
        let mut held = open(at.clone(), uid()).unwrap();
        let try_to_open = |name| {
            StateFile::<Numbers>::open_at(at.clone(), uid(), name, Duration::from_millis(30))
        };
        let error = try_to_open(NAME).unwrap_err();
        assert!(error.is_busy(), "{error}");
        let text = error.to_string();
        assert!(
            text.ends_with("another process of fullbore holds it"),
            "{text}"
        );
        // Another file has another lock.
        assert!(try_to_open("others.json").is_ok());
        // The lock is held until the new file is in place of the old one.
        held.value_mut().numbers.push(1);
        held.save("numbers").unwrap();
        assert_eq!(open(at, uid()).unwrap().value().numbers, [1]);
    }

    #[test]
    fn what_was_kept_before_another_boot_or_makes_no_sense_is_nothing() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("fullbore");
        let mut kept = open(at.clone(), uid()).unwrap();
        kept.value_mut().numbers.push(1);
        kept.save("numbers").unwrap();
        let mut kept = open(at.clone(), uid()).unwrap();
        assert_eq!(kept.value().numbers, [1]);
        kept.contents.boot = "another".into();
        kept.save("numbers").unwrap();
        assert!(open(at.clone(), uid()).unwrap().value().numbers.is_empty());
        fs::write(at.join(NAME), "{\"boot\": 7").unwrap();
        assert!(open(at, uid()).unwrap().value().numbers.is_empty());
    }

    #[test]
    fn a_place_that_others_could_write_to_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().join("real");
        fs::create_dir(&real).unwrap();
        symlink(&real, place.path().join("link")).unwrap();
        assert!(open(place.path().join("link"), uid()).is_err());
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(open(real.clone(), uid()).is_err());
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open(real.clone(), uid() + 1).is_err());
        assert!(open(real, uid()).is_ok());
    }
}
