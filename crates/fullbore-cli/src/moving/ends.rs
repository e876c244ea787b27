//! The files, pipes and terminals that bytes come from and go to, under the names that a person gave
//! them.

use std::fmt;
use std::fs::File;
use std::io::{self, Stdin, Stdout, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use fullbore_linux::descriptor_of;
use rustix::fs::{Access, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::failure::{BadInput, close_failed};
use super::replacement::{Replacement, directory_of};
use super::sync::{is_stored, sync_directory, sync_file};
use crate::inherited;
use fullbore_host::refusal::Usage;
use fullbore_host::text::clean;
use fullbore_host::text::error_text;

/// What is done to an input that is open.
const READ: &str = "read from";

/// An input as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Stdin,
    File(PathBuf),
}

/// An input that is open.
pub enum Source {
    Stdin(Stdin),
    File(File),
}

impl Input {
    /// Returns the inputs with these names. `-` means stdin, as do `/dev/stdin` and an empty list.
    pub fn all(names: &[PathBuf]) -> Vec<Self> {
        if names.is_empty() {
            return vec![Input::Stdin];
        }
        names
            .iter()
            .map(
                |name| match name.as_os_str() == "-" || descriptor_of(name) == Some(0) {
                    true => Input::Stdin,
                    false => Input::File(name.clone()),
                },
            )
            .collect()
    }

    /// Opens the input.
    ///
    /// # Errors
    /// Those of open(2), with the name of the input.
    pub fn open(&self) -> anyhow::Result<Source> {
        match self {
            // Rust has opened /dev/null in its place, which would be an input without bytes.
            Input::Stdin if inherited::stdin_was_closed() => Err(BadInput {
                what: self.to_string(),
                name: self.to_string(),
                why: "standard input is closed".into(),
                is_about_reading: false,
            }
            .into()),
            Input::Stdin => Ok(Source::Stdin(stdin())),
            Input::File(path) => {
                let file = inherited::descriptor(path, OFlags::RDONLY)
                    .unwrap_or_else(|| File::open(path))
                    .map_err(|error| self.bad("open", error))?;
                // Found out here, so that no output is truncated for a directory.
                self.refuse_directory(rustix::fs::fstat(&file))?;
                Ok(Source::File(file))
            }
        }
    }

    fn bad(&self, what: &str, error: io::Error) -> BadInput {
        BadInput {
            what: format!("{what} {self}"),
            name: self.to_string(),
            why: error_text(&error),
            is_about_reading: what == READ,
        }
    }

    fn refuse_directory(&self, stat: rustix::io::Result<Stat>) -> Result<(), BadInput> {
        let stat = stat.map_err(|errno| self.bad("stat", errno.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Err(self.bad(READ, Errno::ISDIR.into())),
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
                .map_err(|errno| self.bad("open", errno.into()))?,
        }
        Ok(self.refuse_directory(self.stat())?)
    }

    /// Returns the sum of the sizes in bytes, if every input has a known one.
    pub fn size_of_all(inputs: &[Self]) -> Option<u64> {
        inputs.iter().map(Self::size).sum()
    }

    fn stat(&self) -> Result<Stat, Errno> {
        match self {
            Input::Stdin => rustix::fs::fstat(stdin()),
            Input::File(path) => rustix::fs::stat(path),
        }
    }

    fn size(&self) -> Option<u64> {
        let stat = self.stat().ok()?;
        let size = u64::try_from(stat.st_size)
            .ok()
            .filter(|_| is_regular(&stat))
            .or_else(|| size_of_device(&stat))?;
        // Part of it may have been read before.
        let position = match self {
            Input::Stdin => rustix::fs::tell(stdin()).unwrap_or(0),
            Input::File(path) => inherited::descriptor(path, OFlags::RDONLY)
                .and_then(|file| rustix::fs::tell(file.ok()?).ok())
                .unwrap_or(0),
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

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Source::Stdin(stdin) => stdin.as_fd(),
            Source::File(file) => file.as_fd(),
        }
    }
}

/// Where the bytes go. A file is opened and truncated only after the first input has been opened.
pub enum Output {
    Stdout(Stdout),
    Named {
        path: PathBuf,
        existing: Existing,
    },
    File {
        path: PathBuf,
        file: File,
    },
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

impl Output {
    /// Returns stdout.
    pub fn stdout() -> Self {
        Output::Stdout(stdout())
    }

    /// Returns the file of this name. `/dev/stdout` means stdout. Such a descriptor is written to where it stands,
    /// whatever is to become of an existing file.
    pub fn named(path: PathBuf, existing: Existing) -> Self {
        match descriptor_of(&path) {
            Some(1) => Output::stdout(),
            _ => Output::Named { path, existing },
        }
    }

    /// Returns what is open already under this name.
    pub fn opened(path: PathBuf, file: File) -> Self {
        Output::File { path, file }
    }

    /// Returns a file that takes the place of the one of this name when it is complete. No other thread may have been
    /// started.
    ///
    /// # Errors
    /// If no file can take that place.
    pub fn replacing(path: &Path, existing: Existing) -> anyhow::Result<Self> {
        let may_replace = existing != Existing::Refuse;
        let replacement = Replacement::new(path, may_replace)?;
        Ok(Output::Replacement(Box::new(replacement)))
    }

    /// Refuses inputs that are the same file, before anything is opened or written.
    ///
    /// # Errors
    /// [`Usage`].
    pub fn refuse(&self, inputs: &[Input]) -> Result<(), Usage> {
        let found = match self {
            Output::Named { path, .. } => rustix::fs::stat(path),
            _ => rustix::fs::fstat(self),
        };
        match found {
            Ok(stat) => refuse_the_same(&stat, inputs),
            // The file does not exist yet.
            Err(_) => Ok(()),
        }
    }

    /// Opens the output unless it is open.
    ///
    /// # Errors
    /// [`Usage`] if an input is the same file, which is then left unchanged. An error if stdout is closed:
    /// Rust has opened /dev/null in its place, which would accept every byte.
    pub fn open(&mut self, inputs: &[Input]) -> anyhow::Result<()> {
        if matches!(self, Output::Stdout(_)) {
            inherited::stdout()?;
        }
        if let Output::Named { path, existing } = self {
            let file = open_output(path, *existing, inputs)?;
            *self = Output::File {
                path: std::mem::take(path),
                file,
            };
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
        if is_synced && !matches!(self, Output::Replacement(_) | Output::Named { .. }) {
            sync_file(&self)?;
        }
        match self {
            Output::Replacement(replacement) => match is_complete {
                true => replacement.put_in_place(is_synced),
                false => Ok(()),
            },
            Output::File { path, file } => {
                let is_named = descriptor_of(&path).is_none() && is_stored(&file);
                fullbore::close(file).map_err(|error| close_failed(&name, error))?;
                match is_synced && is_named {
                    true => sync_names_beside(&path, &name),
                    false => Ok(()),
                }
            }
            Output::Stdout(_) | Output::Named { .. } => Ok(()),
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Output::File { file, .. } => file.as_fd(),
            Output::Replacement(replacement) => replacement.as_fd(),
            Output::Stdout(stdout) => stdout.as_fd(),
            Output::Named { .. } => unreachable!("an output is opened before it is written to"),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Output::Stdout(_) => f.write_str("stdout"),
            Output::Named { path, .. } | Output::File { path, .. } => {
                write!(f, "'{}'", shown(path))
            }
            Output::Replacement(replacement) => replacement.fmt(f),
        }
    }
}

fn open_output(path: &Path, existing: Existing, inputs: &[Input]) -> anyhow::Result<File> {
    let cannot = |error: io::Error| anyhow!("open '{}': {}", shown(path), error_text(&error));
    if let Some(file) = inherited::descriptor(path, OFlags::WRONLY) {
        let file = file.map_err(cannot)?;
        if let Ok(stat) = rustix::fs::fstat(&file) {
            refuse_the_same(&stat, inputs)?;
        }
        return Ok(file);
    }
    let append = existing == Existing::Append;
    let mut options = File::options();
    options.write(!append).append(append);
    if existing == Existing::Refuse {
        match options.clone().create_new(true).open(path) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    let file = options.create(true).truncate(false).open(path);
    let file = file.map_err(cannot)?;
    let stat = rustix::fs::fstat(&file)
        .map_err(|errno| anyhow!("fstat '{}': {}", shown(path), error_text(&errno.into())))?;
    // Checked again: another file may have been put in its place meanwhile.
    refuse_the_same(&stat, inputs)?;
    if existing == Existing::Refuse && is_regular(&stat) {
        return Err(anyhow!(
            "open '{}': File exists (-f replaces it, --append before -o appends to it)",
            shown(path)
        ));
    }
    if is_regular(&stat) && !append && stat.st_size > 0 {
        file.set_len(0)
            .map_err(|error| anyhow!("truncate '{}': {}", shown(path), error_text(&error)))?;
    }
    Ok(file)
}

/// Waits until the names in the directory of a file are on the disk. What a symbolic link points to has its name in
/// another one.
fn sync_names_beside(path: &Path, shown: &str) -> anyhow::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = File::open(directory_of(&path))
        .map_err(|error| anyhow!("sync the directory of {shown}: {}", error_text(&error)))?;
    sync_directory(&directory, shown)
}

fn refuse_the_same(output: &Stat, inputs: &[Input]) -> Result<(), Usage> {
    let kind = FileType::from_raw_mode(output.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Fifo) {
        return Ok(());
    }
    let same = |input: &&Input| {
        input
            .stat()
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (output.st_dev, output.st_ino))
    };
    match inputs.iter().find(same) {
        Some(input) => Err(both_ends(input)),
        None => Ok(()),
    }
}

/// Returns the size in bytes of a block device, which sysfs(5) has in sectors of 512 bytes.
fn size_of_device(stat: &Stat) -> Option<u64> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return None;
    }
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    sectors.trim().parse::<u64>().ok()?.checked_mul(512)
}

/// Returns the size in bytes if `fd` is a block device.
pub fn block_size(fd: impl AsFd) -> Option<u64> {
    size_of_device(&rustix::fs::fstat(fd).ok()?)
}

/// Returns where the bytes of a file or a block device end, if that is known.
pub fn end(fd: impl AsFd) -> Option<u64> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let size = u64::try_from(stat.st_size)
        .ok()
        .filter(|&size| size > 0 && is_regular(&stat));
    size.or_else(|| size_of_device(&stat))
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn shown(path: &Path) -> String {
    clean(&path.to_string_lossy())
}

/// What [`both_ends`] says of the input.
const BOTH_ENDS: &str = " is both input and output";

/// Returns the error for an input that is also the output.
pub fn both_ends(input: &Input) -> Usage {
    Usage(format!("{input}{BOTH_ENDS}"))
}

/// Returns the name of the input if this error is that it is also the output.
pub fn same_file(error: &Usage) -> Option<&str> {
    error.0.strip_suffix(BOTH_ENDS)
}
