//! The files, pipes and terminals that bytes come from and go to, under the names that a person gave
//! them.

use std::fmt;
use std::fs::File;
use std::io::{self, stdin, stdout};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use fullbore_host::named::descriptor_of;
use rustix::fs::{
    Access, FileType, OFlags, SeekFrom, Stat, fcntl_getfl, fstat, major, minor, tell,
};
use rustix::io::Errno;

use super::failure::{Broken, Doing, close_failed};
use super::replacement::{Replacement, directory_of};
use super::sync::{is_stored, sync_directory, sync_file};
use crate::error_text::{Failed, shown};
use crate::inherited;
use fullbore_host::text::error_text;

/// An input as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Stdin,
    File(PathBuf),
}

impl Input {
    /// Returns the inputs with these names. `-` means stdin, as do `/dev/stdin` and an empty list.
    pub fn all(names: &[PathBuf]) -> Vec<Self> {
        let is_stdin = |name: &PathBuf| name.as_os_str() == "-" || descriptor_of(name) == Some(0);
        let input = |name: &PathBuf| match is_stdin(name) {
            true => Input::Stdin,
            false => Input::File(name.clone()),
        };
        match names {
            [] => vec![Input::Stdin],
            names => names.iter().map(input).collect(),
        }
    }

    /// Opens the input. For stdin, it is a duplicate.
    ///
    /// # Errors
    /// Those of open(2), with the name of the input, and of dup(2); `EISDIR`.
    pub fn open(&self) -> anyhow::Result<Arc<File>> {
        let file = match self {
            // Rust has opened /dev/null in its place, which would be an input without bytes.
            Input::Stdin if inherited::stdin_was_closed() => {
                let why = "standard input is closed";
                bail!(Broken::new(Doing::Open, "", self, why.into()))
            }
            Input::Stdin => stdin().as_fd().try_clone_to_owned().map(File::from),
            Input::File(path) => {
                inherited::descriptor(path, OFlags::RDONLY).unwrap_or_else(|| File::open(path))
            }
        };
        let file = file.map_err(|error| self.bad(Doing::Open, "open", &error))?;
        let file = Arc::new(file);
        // Found out here, so that no output is truncated for an input that cannot be read.
        self.refuse_directory(fstat(&*file))?;
        fullbore_linux::can_be_read(file.as_fd())
            .map_err(|errno| self.bad(Doing::Read, "read from", &errno.into()))?;
        if *self == Input::Stdin && file.metadata().is_ok_and(|data| data.is_file()) {
            // To close it would release the locks that this process has on the file (fcntl_locking(2)).
            mem::forget(Arc::clone(&file));
        }
        Ok(file)
    }

    /// Returns the error that something could not be done to the input.
    fn bad(&self, doing: Doing, what: &str, error: &io::Error) -> Broken {
        Broken::new(doing, what, self, error_text(error))
    }

    /// Returns the error that what was read is damaged.
    pub fn damaged(&self, why: String) -> Broken {
        Broken::new(Doing::Read, "", self, why)
    }

    fn refuse_directory(&self, stat: rustix::io::Result<Stat>) -> Result<(), Broken> {
        let stat = stat.map_err(|errno| self.bad(Doing::Open, "stat", &errno.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Err(self.bad(Doing::Read, "read from", &Errno::ISDIR.into())),
            _ => Ok(()),
        }
    }

    /// Finds out whether the input can be read, without opening it.
    ///
    /// # Errors
    /// Those of access(2) and stat(2), with the name of the input, `EISDIR`, and that stdin is closed.
    pub fn check(&self) -> anyhow::Result<()> {
        match self {
            Input::Stdin => drop(self.open()?),
            // What the file allows does not matter for a descriptor that is open.
            Input::File(path) if descriptor_of(path).is_some() => drop(self.open()?),
            Input::File(path) => rustix::fs::access(path, Access::READ_OK)
                .map_err(|errno| self.bad(Doing::Open, "open", &errno.into()))?,
        }
        Ok(self.refuse_directory(self.stat())?)
    }

    /// Returns the sum of the sizes in bytes, if every input has a known one.
    pub fn size_of_all(inputs: &[Self]) -> Option<u64> {
        inputs.iter().map(Self::size).sum()
    }

    fn stat(&self) -> Result<Stat, Errno> {
        match self {
            Input::Stdin => fstat(stdin()),
            Input::File(path) => rustix::fs::stat(path),
        }
    }

    fn size(&self) -> Option<u64> {
        let size = size_of(&self.stat().ok()?)?;
        // Part of it may have been read before.
        let position = match self {
            Input::Stdin => tell(stdin()).unwrap_or(0),
            Input::File(path) => {
                let named = inherited::descriptor(path, OFlags::RDONLY);
                named.and_then(|file| tell(file.ok()?).ok()).unwrap_or(0)
            }
        };
        Some(size.saturating_sub(position))
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Stdin => f.write_str("stdin"),
            Input::File(path) => write!(f, "'{}'", shown(path)),
        }
    }
}

/// Where the bytes go. A file is opened and truncated only after the first input has been opened.
pub enum Output {
    Stdout,
    Named(PathBuf, Existing),
    File(PathBuf, File),
    /// A file that takes the place of the named one when it is complete.
    Replacement(Box<Replacement>),
}

/// What becomes of a regular file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Its contents are replaced.
    Replace,
    /// It is appended to.
    Append,
    /// It is left as it is, and not written to.
    Refuse,
}

impl Existing {
    /// Returns `Append` if bytes are to be appended, and `Replace` otherwise.
    pub fn appended(is_appended: bool) -> Self {
        match is_appended {
            true => Existing::Append,
            false => Existing::Replace,
        }
    }
}

impl Output {
    /// Returns the file of this name, or one that takes its place when it is complete if that is to be `atomic`. No other
    /// thread may have been started then.
    ///
    /// # Errors
    /// If no file can take that place.
    pub fn of(path: &Path, existing: Existing, atomic: bool) -> anyhow::Result<Self> {
        if !atomic {
            return Ok(Self::named(path.to_owned(), existing));
        }
        let replacement = Replacement::new(path, existing != Existing::Refuse)?;
        Ok(Output::Replacement(Box::new(replacement)))
    }

    pub fn is_stdout(&self) -> bool {
        matches!(self, Output::Stdout)
    }

    /// Returns the file of this name. `/dev/stdout` means stdout. Such a descriptor is written to where it stands,
    /// whatever is to become of an existing file.
    pub fn named(path: PathBuf, existing: Existing) -> Self {
        match descriptor_of(&path) {
            Some(1) => Output::Stdout,
            _ => Output::Named(path, existing),
        }
    }

    /// Refuses inputs that are the same file, before anything is opened or written.
    ///
    /// # Errors
    /// [`Usage`].
    pub fn refuse(&self, inputs: &[Input]) -> Result<(), SameFile> {
        let found = match self {
            Output::Named(path, _) => rustix::fs::stat(path),
            _ => fstat(self),
        };
        // If there is an error, the file does not exist yet.
        found.map_or(Ok(()), |stat| refuse_the_same(&stat, inputs))
    }

    /// Opens the output unless it is open.
    ///
    /// # Errors
    /// [`Usage`] if an input is the same file, which is then left unchanged. An error if stdout is closed:
    /// Rust has opened /dev/null in its place, which would accept every byte.
    pub fn open(&mut self, inputs: &[Input]) -> anyhow::Result<()> {
        if self.is_stdout() {
            inherited::stdout()?;
        }
        if let Output::Named(path, existing) = self {
            let file = open_output(path, *existing, inputs)?;
            *self = Output::File(std::mem::take(path), file);
        }
        Ok(())
    }

    /// Closes a file, and puts one that replaces another in its place if it is complete. Stdout is closed when the
    /// verb has ended (`exit::close_stdout`). If it `is_synced`, waits until the bytes, and the name of a file, are on
    /// the disk.
    ///
    /// # Errors
    /// Those of fsync(2) and close(2), with the name of the file: some file systems report only now that they could
    /// not store what was written (NFS, FUSE, quotas).
    pub fn close(self, is_complete: bool, is_synced: bool) -> anyhow::Result<()> {
        let name = self.to_string();
        if is_synced && !matches!(self, Output::Replacement(_) | Output::Named(..)) {
            sync_file(&self)?;
        }
        match self {
            Output::Replacement(replacement) => match is_complete {
                true => replacement.put_in_place(is_synced),
                false => Ok(()),
            },
            Output::File(path, file) => {
                let is_named = descriptor_of(&path).is_none() && is_stored(&file);
                fullbore::close(file).map_err(|error| close_failed(&name, error))?;
                match is_synced && is_named {
                    true => sync_names_beside(&path, &name),
                    false => Ok(()),
                }
            }
            Output::Stdout | Output::Named(..) => Ok(()),
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Output::File(_, file) => file.as_fd(),
            Output::Replacement(replacement) => replacement.as_fd(),
            Output::Stdout => rustix::stdio::stdout(),
            Output::Named(..) => unreachable!("an output is opened before it is written to"),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Output::Stdout => f.write_str("stdout"),
            Output::Named(path, _) | Output::File(path, _) => write!(f, "'{}'", shown(path)),
            Output::Replacement(replacement) => replacement.fmt(f),
        }
    }
}

fn open_output(path: &Path, existing: Existing, inputs: &[Input]) -> anyhow::Result<File> {
    let shown = shown(path);
    let opening = format!("open '{shown}'");
    if let Some(file) = inherited::descriptor(path, OFlags::WRONLY) {
        let file = file.failed(&opening)?;
        if let Ok(stat) = fstat(&file) {
            refuse_the_same(&stat, inputs)?;
        }
        return Ok(file);
    }
    let append = existing == Existing::Append;
    let mut options = File::options();
    options.write(!append).append(append);
    if existing == Existing::Refuse {
        match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.failed(&opening),
        }
    }
    let file = options.create(true).truncate(false).open(path);
    let file = file.failed(&opening)?;
    let stat = fstat(&file).failed(format_args!("fstat '{shown}'"))?;
    // Checked again: another file may have been put in its place meanwhile.
    refuse_the_same(&stat, inputs)?;
    if existing == Existing::Refuse && is_regular(&stat) {
        bail!("{opening}: File exists (-f replaces it, --append before -o appends to it)");
    }
    if is_regular(&stat) && !append && stat.st_size > 0 {
        let truncated = file.set_len(0);
        truncated.failed(format_args!("truncate '{shown}'"))?;
    }
    Ok(file)
}

/// Waits until the names in the directory of a file are on the disk. What a symbolic link points to has its name in
/// another one.
fn sync_names_beside(path: &Path, shown: &str) -> anyhow::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = File::open(directory_of(&path));
    let directory = directory.failed(format_args!("sync the directory of {shown}"))?;
    sync_directory(&directory, shown)
}

fn refuse_the_same(output: &Stat, inputs: &[Input]) -> Result<(), SameFile> {
    let is_output = |stat: Stat| fullbore_linux::refuse_the_same(&stat, output, false).is_err();
    let mut inputs = inputs.iter();
    let same = inputs.find(|input| input.stat().is_ok_and(is_output));
    same.map_or(Ok(()), |input| Err(SameFile(input.clone())))
}

/// Returns the size in bytes of a block device, which sysfs(5) has in sectors of 512 bytes.
fn size_of_device(stat: &Stat) -> Option<u64> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return None;
    }
    let (major, minor) = (major(stat.st_rdev), minor(stat.st_rdev));
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    sectors.trim().parse::<u64>().ok()?.checked_mul(512)
}

/// Returns the size in bytes if `fd` is a block device.
pub fn block_size(fd: impl AsFd) -> Option<u64> {
    size_of_device(&fstat(fd).ok()?)
}

/// Sets an input that can seek back to where it was passed on from, if more of it has been read: whatever has the same
/// open file goes on there.
pub fn set_back(source: impl AsFd, to: Option<u64>) {
    let position = tell(&source).ok();
    if let Some(to) = to.filter(|&to| position.is_some_and(|position| position > to)) {
        // What could tell its position can seek.
        let _ = rustix::fs::seek(&source, SeekFrom::Start(to));
    }
}

/// Returns where the bytes of a file or a block device end, if that is known.
pub fn end(fd: impl AsFd) -> Option<u64> {
    let stat = fstat(fd).ok()?;
    size_of(&stat).filter(|&size| size > 0 || !is_regular(&stat))
}

/// Returns the size in bytes of a regular file or a block device.
fn size_of(stat: &Stat) -> Option<u64> {
    match is_regular(stat) {
        true => u64::try_from(stat.st_size).ok(),
        false => size_of_device(stat),
    }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// How an input is related to stdout.
#[derive(Debug, PartialEq, Eq)]
pub enum Same {
    /// It is another file.
    No,
    /// The file that would be read is written behind the place that is read: what is written would be read.
    WouldGrow,
    /// It is read at or behind the place that is written.
    Behind,
}

impl Same {
    /// Returns how this input is related to stdout.
    pub fn as_stdout(source: impl AsFd) -> Self {
        let (Ok(from), Ok(to)) = (fstat(&source), fstat(stdout())) else {
            return Same::No;
        };
        let is_same = (from.st_dev, from.st_ino) == (to.st_dev, to.st_ino);
        let appends = fcntl_getfl(stdout()).is_ok_and(|flags| flags.contains(OFlags::APPEND));
        let written = match appends {
            true => Ok(to.st_size.unsigned_abs()),
            false => tell(stdout()),
        };
        // No stream can tell its position.
        match (tell(&source), written) {
            (Ok(read), Ok(written)) if is_same && read < written => Same::WouldGrow,
            (Ok(_), Ok(_)) if is_same => Same::Behind,
            _ => Same::No,
        }
    }
}

/// This input is also the output: the command line is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0} is both input and output")]
pub struct SameFile(pub Input);
