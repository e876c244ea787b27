//! Where reports go: to stdout, or to a file that gets all of it or nothing.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use fullbore_host::named::descriptor_of;
use fullbore_host::refusal::Usage;
use rustix::fs::{OFlags, fstat, stat};

use crate::copying::directory_of;
use crate::copying::failure::is_closed_output;
use crate::error_text::shown;
use crate::inherited;

/// What writes a report.
type Writing<'a> = &'a dyn Fn(&mut dyn Write) -> Result<()>;

/// Writes all of it to stdout.
///
/// # Errors
/// If stdout was closed; those of `write`, and of writing to stdout.
pub fn print(write: Writing<'_>) -> Result<()> {
    write_to(write, &mut inherited::stdout()?.lock())
}

/// Writes all of it to `out`.
///
/// # Errors
/// Those of `write`, and of writing to `out`.
pub fn write_to(write: Writing<'_>, out: &mut dyn Write) -> Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out)?;
    // Dropping the writer would flush too, and lose the error.
    Ok(out.flush()?)
}

/// Refuses a file for what is said about the bytes if they come from it or go to it: it would take their place. Bytes
/// may go through stdin, stdout and the files of `data`.
///
/// # Errors
/// [`Usage`], with the name of the option.
pub fn refuse_shared(option: &str, path: &Path, data: &[&Path]) -> Result<(), Usage> {
    let own = stat(path);
    let is_it = |other| {
        let both = own.as_ref().ok().zip(Result::ok(other));
        both.is_some_and(|(own, other)| {
            fullbore_linux::refuse_the_same(&other, own, false).is_err()
        })
    };
    // A device, such as /dev/null, may be both.
    let is_named = |other: &&Path| (own.is_err() && path == *other) || is_it(stat(*other));
    // What is open already is written to where it stands.
    let is_shared = descriptor_of(path).is_none()
        && (is_it(fstat(io::stdin())) || is_it(fstat(io::stdout())) || data.iter().any(is_named));
    match is_shared {
        true => Err(Usage(format!(
            "{option} '{}': the bytes come from this file, or go to it",
            shown(path)
        ))),
        false => Ok(()),
    }
}

/// Writes what `write` writes to the file at `path`: all of it, or nothing. `-` is stdout.
///
/// A regular file is written beside `path` under another name, and renamed when it is complete, with the
/// permissions of any new file. If `path` is a FIFO, a terminal or a name for an open file such as
/// `/dev/stdout`, the report is written to it directly.
///
/// # Errors
///
/// Where `path` cannot be written; the error names it.
pub fn write_to_file(write: Writing<'_>, path: &Path) -> Result<()> {
    if is_stdout(path) {
        let written = write_to(write, &mut io::stdout().lock());
        return written.context("cannot write the report to stdout");
    }
    let put = match takes_bytes_as_they_come(path) {
        true => append,
        false => replace,
    };
    put(write, path).map_err(|error| {
        let what = format!("cannot write the report to '{}'", path.display());
        let is_fifo = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        match is_closed_output(&error) && !is_fifo {
            // As text: `EPIPE` of this file is no closed output.
            true => anyhow!("{what}: {error:#}"),
            false => error.context(what),
        }
    })
}

/// Whether this name of a file means stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-" || descriptor_of(path) == Some(1)
}

/// Whether the file at `path` cannot or must not be replaced by another file.
pub(super) fn takes_bytes_as_they_come(path: &Path) -> bool {
    // In /dev and /proc, a name can lead to a regular file that a process has open. If it was replaced,
    // that process would keep the old one.
    path.starts_with("/dev")
        || path.starts_with("/proc")
        || descriptor_of(path).is_some()
        || fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// Appends to the file at `path`, or writes to the descriptor that it names.
fn append(write: Writing<'_>, path: &Path) -> Result<()> {
    let named = inherited::descriptor(path, OFlags::WRONLY);
    let file = named.unwrap_or_else(|| OpenOptions::new().append(true).open(path))?;
    write_and_close(write, file)
}

/// Writes to `file`, and closes it: a file system may report only then what it could not store.
fn write_and_close(write: Writing<'_>, file: File) -> Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    let file = out.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(fullbore::close(file)?)
}

/// Replaces the file at `path` by a new one.
fn replace(write: Writing<'_>, path: &Path) -> Result<()> {
    let path = place_of(path);
    let mut file = tempfile::Builder::new();
    // open(2) applies the umask to this; tempfile's own default is 0600.
    file.prefix(".fullbore-")
        .permissions(Permissions::from_mode(0o666));
    let file = file
        .tempfile_in(directory_of(&path))
        .map_err(without_path)?;
    let (file, written) = file.into_parts();
    write_and_close(write, file)?;
    written.persist(&path)?;
    Ok(())
}

/// Removes the name of the temporary file, which tempfile adds to an error and which tells a user nothing.
pub(super) fn without_path(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|error| error.source());
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    let number = cause.and_then(io::Error::raw_os_error);
    number.map_or(error, io::Error::from_raw_os_error)
}

/// The file that `path` means: what a symbolic link points to is replaced, not the link.
pub(super) fn place_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
