//! A file that takes the place of another one once it is complete.
//!
//! Until then it has no name (`O_TMPFILE`, open(2)), so that the kernel removes it whatever ends this process. A
//! complete file gets its name by linkat(2). That call replaces nothing, so in the place of an existing file it
//! gets a temporary name first, and rename(2) replaces that file. Where a file system has no `O_TMPFILE`, the
//! file has a temporary name from the start, and a [`Guard`] removes it if this process is killed.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use fullbore_host::named::descriptor_of;
use fullbore_host::text::error_text;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, StatxAttributes,
    StatxFlags, Uid, XattrFlags,
};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::failure::close_failed;
use super::sync::{sync_directory, sync_file};
use crate::error_text::{self, Failed};
use crate::processes::guard::Guard;
use crate::processes::interrupt::Interrupt;

/// The extended attribute that holds the ACL of a file (acl(5)).
const ACL: &str = "system.posix_acl_access";

/// A file that is being written, and takes the place of another one when it is complete.
#[derive(Debug)]
pub struct Replacement {
    /// The target as it was named.
    path: PathBuf,
    /// The directory of the target, and the target's name in it.
    directory: OwnedFd,
    name: OsString,
    file: File,
    /// The temporary name, if the file has one.
    temporary: Option<Temporary>,
    /// The mode of the file that is replaced, if there is one.
    mode: Option<Mode>,
    may_replace: bool,
}

/// A temporary name, which is removed on drop.
#[derive(Debug)]
struct Temporary {
    directory: OwnedFd,
    name: OsString,
    /// Ended after the name was removed.
    guard: Option<Guard>,
}

impl Replacement {
    /// Creates a file that is to take the place of `path`: with the owner, the mode and the ACL of the file that is
    /// there, or with those of any new file. What a symbolic link points to is replaced, not the link.
    ///
    /// No other thread may have been started.
    ///
    /// # Errors
    /// If `path` cannot be replaced: it is no regular file, may not be written to, is a mount point, or exists and is
    /// not to be replaced; or its directory allows no new file.
    pub fn new(path: &Path, may_replace: bool) -> anyhow::Result<Self> {
        let shown = error_text::shown(path);
        if descriptor_of(path).is_some() {
            bail!("'{shown}' is an open descriptor, which cannot be replaced atomically");
        }
        let place = place_of(path)?;
        let existing =
            existing(&place).with_context(|| format!("'{shown}' cannot be replaced atomically"))?;
        if existing.is_some() && !may_replace {
            bail!("open '{shown}': File exists (-f replaces it)");
        }
        let parent = directory_of(&place);
        let bytes = place.as_os_str().as_bytes();
        // As open(2) with O_CREAT says it of a directory that is not there.
        let is_slash = |byte: &&u8| **byte == b'/';
        let last = bytes.len() - bytes.iter().rev().take_while(is_slash).count();
        let last = bytes[..last].rsplit(|&byte| byte == b'/').next();
        let name = match (place.file_name(), last) {
            (_, Some(b"" | b"." | b"..")) => Err(Errno::NOENT),
            (Some(name), _) if !bytes.ends_with(b"/") => Ok(name.to_owned()),
            _ => Err(Errno::ISDIR),
        };
        let name = name.failed(format_args!("open '{shown}'"))?;
        let creating = format!(
            "create a file in '{}' to replace '{shown}'",
            error_text::shown(&parent)
        );
        let of_directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, &parent, of_directory, Mode::empty());
        let directory = directory.failed(&creating)?;
        // What is to have other permissions has the fewest until then.
        let mode = Mode::from_raw_mode(if existing.is_some() { 0o600 } else { 0o666 });
        let (file, temporary) = create(&directory, mode).failed(&creating)?;
        if let Some(existing) = &existing {
            take_owner_and_acl(&file, existing, &place).failed(format_args!(
                "give the file that replaces '{shown}' its owner and its ACL"
            ))?;
        }
        Ok(Self {
            path: path.to_owned(),
            directory,
            name,
            file,
            temporary,
            mode: existing.map(|existing| Mode::from_raw_mode(existing.st_mode)),
            may_replace,
        })
    }

    /// Puts the complete file in the place of the target, and waits until both are on the disk if it `is_synced`.
    /// Without this, it is removed.
    ///
    /// # Errors
    /// Those of storing and of naming it. The target is as it was then, unless only its directory could not be synced.
    pub fn put_in_place(mut self, is_synced: bool) -> anyhow::Result<()> {
        let name = self.to_string();
        if let Some(mode) = self.mode {
            // Writing to a file takes its set-user-ID bit away (chmod(2)), so this is last.
            rustix::fs::fchmod(&self.file, mode).failed(format_args!("chmod {name}"))?;
        }
        if is_synced {
            sync_file(&self)?;
        }
        // A close(2) of a duplicate reports what the file system could not store.
        let duplicate = self.file.try_clone()?;
        fullbore::close(duplicate).map_err(|error| close_failed(&name, error))?;
        // A signal between two calls would leave a temporary name, or end this process as if the file were not in place.
        let signals = Interrupt::of(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM]);
        signals.decide();
        let named = self.name_it().failed(format_args!("put in place {name}"));
        // Removes the temporary name if there still is one.
        drop(self.temporary.take());
        if named.is_err() {
            signals.undecide();
        }
        named?;
        match is_synced {
            true => sync_directory(&self.directory, &name),
            false => Ok(()),
        }
    }

    fn name_it(&mut self) -> Result<(), Errno> {
        if self.temporary.is_none() {
            match self.link(&self.name) {
                Err(Errno::EXIST) if self.may_replace => {}
                linked => return linked,
            }
            let temporary = Temporary::new(&self.directory)?;
            self.link(&temporary.name)?;
            self.temporary = Some(temporary);
        }
        let from = &self.temporary.as_ref().expect("it was made").name;
        let (at, to) = (&self.directory, &self.name);
        if self.may_replace {
            return rustix::fs::renameat(at, from, at, to);
        }
        match rustix::fs::renameat_with(at, from, at, to, RenameFlags::NOREPLACE) {
            // The file system knows no flags (renameat2(2)).
            Err(Errno::INVAL | Errno::NOSYS) => {
                match rustix::fs::statat(at, to, AtFlags::empty()) {
                    Ok(_) => Err(Errno::EXIST),
                    Err(_) => rustix::fs::renameat(at, from, at, to),
                }
            }
            renamed => renamed,
        }
    }

    /// Gives the file a name. By /proc, this needs no privilege (open(2), `O_TMPFILE`).
    fn link(&self, name: &OsString) -> Result<(), Errno> {
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, name_in_proc(&self.file), &self.directory, name, flags)
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", error_text::shown(&self.path))
    }
}

impl AsFd for Replacement {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Temporary {
    /// Returns a name in this directory that nothing has: nobody draws the same 64 bits.
    fn new(directory: &OwnedFd) -> Result<Self, Errno> {
        Ok(Self {
            directory: rustix::io::fcntl_dupfd_cloexec(directory, 0)?,
            name: format!(".fullbore-{:016x}", fastrand::u64(..)).into(),
            guard: None,
        })
    }

    /// Removes the name also if this process is killed.
    fn guarded(mut self) -> Result<Self, Errno> {
        let (directory, name) = (self.directory.try_clone(), self.name.clone());
        let started = directory.and_then(|directory| {
            Guard::start(move || {
                let _ = rustix::fs::unlinkat(&directory, &name, AtFlags::empty());
            })
        });
        let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
        self.guard = Some(started.map_err(errno)?);
        Ok(self)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename(2) there is no such name.
        let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
    }
}

/// Creates a file in this directory, without a name if the file system can do that.
fn create(directory: &OwnedFd, mode: Mode) -> Result<(File, Option<Temporary>), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let nameless = rustix::fs::openat(directory, ".", flags | OFlags::TMPFILE, mode);
    match nameless {
        Ok(file) if fs::metadata(name_in_proc(&file)).is_ok() => return Ok((file.into(), None)),
        _ => {}
    }
    // Any other reason why it cannot be created is found again here.
    let temporary = Temporary::new(directory)?.guarded()?;
    let flags = flags | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::openat(directory, &temporary.name, flags, mode)?;
    Ok((file.into(), Some(temporary)))
}

fn name_in_proc(file: &impl AsFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// Returns what a symbolic link points to, or the path itself if it is none.
fn place_of(path: &Path) -> anyhow::Result<PathBuf> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink());
    if !is_link {
        return Ok(path.to_owned());
    }
    let shown = error_text::shown(path);
    fs::canonicalize(path).failed(format_args!(
        "'{shown}' is a symbolic link that leads nowhere"
    ))
}

/// Returns the directory that a file is in.
pub fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns the file that is to be replaced, if there is one.
fn existing(place: &Path) -> anyhow::Result<Option<Stat>> {
    let why = |errno: Errno| anyhow!(error_text(&errno.into()));
    let stat = match rustix::fs::stat(place) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat.map_err(why)?,
    };
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Fifo => Some("a FIFO"),
        FileType::Socket => Some("a socket"),
        FileType::BlockDevice | FileType::CharacterDevice => Some("a device"),
        _ => Some("a file of another kind"),
    };
    if let Some(kind) = kind {
        bail!("it is {kind}, and no regular file");
    }
    // What may not be written to is not replaced either, though rename(2) would do it.
    rustix::fs::accessat(CWD, place, Access::WRITE_OK, AtFlags::EACCESS).map_err(why)?;
    // rename(2) would fail for these, when everything has been copied. An old kernel knows fewer attributes.
    let flags = AtFlags::empty();
    let found = rustix::fs::statx(CWD, place, flags, StatxFlags::BASIC_STATS);
    let has = |attribute| found.is_ok_and(|found| found.stx_attributes.contains(attribute));
    if has(StatxAttributes::MOUNT_ROOT) {
        bail!("it is a mount point");
    }
    if has(StatxAttributes::APPEND) {
        bail!("it can only be appended to (chattr +a)");
    }
    Ok(Some(stat))
}

/// Gives the file the owner and the ACL of another one. Both have to be the same, or a reader could be locked out, or
/// let in.
fn take_owner_and_acl(file: &File, other: &Stat, path: &Path) -> Result<(), Errno> {
    let made = rustix::fs::fstat(file)?;
    if (made.st_uid, made.st_gid) != (other.st_uid, other.st_gid) {
        let owner = Uid::from_raw(other.st_uid);
        rustix::fs::fchown(file, Some(owner), Some(Gid::from_raw(other.st_gid)))?;
    }
    // The kernel allows no longer values (XATTR_SIZE_MAX).
    let mut acl = vec![0; 64 << 10];
    match rustix::fs::getxattr(path, ACL, &mut acl) {
        Ok(len) => rustix::fs::fsetxattr(file, ACL, &acl[..len], XattrFlags::empty()),
        // The directory may have given it one (acl(5), default ACLs).
        Err(Errno::NODATA) => match rustix::fs::fremovexattr(file, ACL) {
            Err(Errno::NODATA) => Ok(()),
            removed => removed,
        },
        Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno),
    }
}
