//! What is known about the output of a report before it is made.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Result, anyhow};
use fullbore_results::report::table::Table;
use rustix::fs::{Access, OFlags, access};
use rustix::io::Errno;

use super::output::{is_stdout, place_of, takes_bytes_as_they_come, without_path};
use crate::copying::directory_of;
use crate::{inherited, terminal};

/// Returns a table with the width and the colours of the terminal, if `out` is one.
pub fn table_on(out: &(impl AsFd + IsTerminal)) -> Table {
    let to_terminal = out.is_terminal();
    let size = terminal::size_of(out).filter(|_| to_terminal);
    Table {
        width: size.map(|(columns, _)| columns as u16),
        color: to_terminal && terminal::may_colour(),
        ..Table::default()
    }
}

/// Checks that a report can be written to `path`, without changing what is there.
///
/// # Errors
/// If it cannot, as far as that is known before the report is written. The error names `path`.
pub fn check_path(path: &Path) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    let named = inherited::descriptor(path, OFlags::WRONLY);
    let answer = match takes_bytes_as_they_come(path) {
        _ if named.is_some() => named.transpose().map(drop),
        // Opening a FIFO would wait for its reader.
        true if path.is_dir() => Err(Errno::ISDIR.into()),
        true => access(path, Access::WRITE_OK).map_err(io::Error::from),
        false => {
            let made = tempfile::tempfile_in(directory_of(&place_of(path)));
            made.map(drop).map_err(without_path)
        }
    };
    answer.map_err(|error| anyhow!("cannot write the report to '{}': {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use anyhow::Context;

    use super::super::output::*;
    use super::*;

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
            let error = check_path(path).unwrap_err().to_string();
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
