//! Where reports go: to stdout, or to a file that gets all of it or nothing.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use fullbore::linux::descriptor_of;
use rustix::fs::OFlags;

use crate::inherited;
use crate::moving::failure::is_closed_output;

/// Writes all of it to `out`.
///
/// # Errors
/// Those of `write`, and of writing to `out`.
pub fn write_to(
    write: &dyn Fn(&mut dyn io::Write) -> Result<()>,
    out: &mut dyn io::Write,
) -> Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out)?;
    // Dropping the writer would flush too, and lose the error.
    Ok(out.flush()?)
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
pub fn write_to_file(write: &dyn Fn(&mut dyn io::Write) -> Result<()>, path: &Path) -> Result<()> {
    if is_stdout(path) {
        return write_to(write, &mut io::stdout().lock())
            .context("cannot write the report to stdout");
    }
    let put = if takes_bytes_as_they_come(path) {
        append
    } else {
        replace
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
fn append(write: &dyn Fn(&mut dyn io::Write) -> Result<()>, path: &Path) -> Result<()> {
    let named = inherited::descriptor(path, OFlags::WRONLY);
    let file = named.unwrap_or_else(|| OpenOptions::new().append(true).open(path))?;
    write_and_close(write, file)
}

/// Writes to `file`, and closes it: a file system may report only then what it could not store.
fn write_and_close(write: &dyn Fn(&mut dyn io::Write) -> Result<()>, file: File) -> Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    let file = out.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(fullbore::close(file)?)
}

/// Replaces the file at `path` by a new one.
fn replace(write: &dyn Fn(&mut dyn io::Write) -> Result<()>, path: &Path) -> Result<()> {
    let path = place_of(path);
    let (file, written) = tempfile::Builder::new()
        .prefix(".fullbore-")
        // open(2) applies the umask to this; tempfile's own default is 0600.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory_of(&path))?
        .into_parts();
    write_and_close(write, file)?;
    written.persist(&path)?;
    Ok(())
}

/// The file that `path` means: what a symbolic link points to is replaced, not the link.
pub(super) fn place_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The directory that `path` is in.
pub(super) fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use tempfile::TempDir;

    use super::super::reports::check_path;
    use super::*;
    use fullbore_host::refusal::Usage;

    /// A report of a few known bytes, or of none because it fails.
    fn fixed(text: Option<&'static str>) -> impl Fn(&mut dyn io::Write) -> Result<()> {
        move |out| Ok(out.write_all(text.context("the report broke")?.as_bytes())?)
    }

    fn names_in(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_is_complete_and_has_the_permissions_of_any_new_file() {
        let directory = TempDir::new().unwrap();
        let (report, other) = (
            directory.path().join("report"),
            directory.path().join("other"),
        );
        write_to_file(&fixed(Some("all of it")), &report).unwrap();
        fs::write(&other, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(fs::read_to_string(&report).unwrap(), "all of it");
        assert_eq!(mode(&report), mode(&other));
        assert_eq!(names_in(directory.path()), ["other", "report"]);
    }

    #[test]
    fn a_report_that_breaks_leaves_the_old_file_and_nothing_else() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("report");
        fs::write(&path, "old").unwrap();
        let error = write_to_file(&fixed(None), &path).unwrap_err();
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names_in(directory.path()), ["report"]);
    }

    #[test]
    fn a_symbolic_link_stays_and_its_file_is_replaced() {
        let directory = TempDir::new().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_to_file(&fixed(Some("new")), &link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn a_name_in_dev_is_written_straight_to() {
        write_to_file(&fixed(Some("gone")), Path::new("/dev/null")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_descriptor_that_is_named_is_written_to_where_it_stands() {
        use std::io::{Read, Seek};
        use std::os::fd::AsRawFd;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"old").unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()));
        // Only what is inherited can be named.
        assert!(check_path(&path).is_err());
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        check_path(&path).unwrap();
        write_to_file(&fixed(Some("new")), &path).unwrap();
        file.write_all(b"last").unwrap();
        file.rewind().unwrap();
        let mut all = String::new();
        file.read_to_string(&mut all).unwrap();
        assert_eq!(all, "oldnewlast");
        assert!(is_stdout(Path::new("/dev/stdout")));
    }

    #[test]
    fn a_fifo_is_written_straight_to() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let directory = TempDir::new().unwrap();
        let fifo = directory.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read_to_string(fifo).unwrap()
        });
        write_to_file(&fixed(Some("through")), &fifo).unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert_eq!(names_in(directory.path()), ["fifo"]);
    }

    #[test]
    fn a_path_is_checked_without_a_trace() {
        let directory = TempDir::new().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        fs::write(&old, "old").unwrap();
        for path in [&old, &new] {
            check_path(path).unwrap();
        }
        for path in ["-", "/dev/null", "/dev/full"] {
            check_path(Path::new(path)).unwrap();
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(names_in(directory.path()), ["old"]);
        let below_a_file = old.join("new");
        for path in [
            Path::new("/no/such/directory/new"),
            directory.path(),
            &below_a_file,
            Path::new("/dev/nosuch"),
        ] {
            let Usage(error) = check_path(path).unwrap_err();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
        assert_eq!(names_in(directory.path()), ["old"]);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let path = Path::new("/no/such/directory/report");
        let error = write_to_file(&fixed(Some("")), path).unwrap_err();
        assert!(format!("{error:#}").contains("/no/such/directory/report"));
    }
}
