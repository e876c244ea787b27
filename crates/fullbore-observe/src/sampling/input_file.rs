//! How far a stage is in the file that it reads.
//!
//! The kernel tells the position of each descriptor (proc_pid_fdinfo(5)). It is that of the stage's input if the
//! stage has the file as its stdin, or was given the file's name: any other file that it reads may be a table, a
//! library or one of thousands.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fullbore_host::machine::{access_mode, field};
use procfs::process::{FDInfo, FDTarget, Process};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, Statx, StatxFlags, statx};

use crate::census::descendants::descendants;

/// A position in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The bytes that have been read.
    pub read: u64,
    /// The bytes in all files of the input.
    pub total: u64,
}

/// Returns how far a process, or one of its descendants, is in its input; `None` if that is not known.
pub fn position(pid: u32) -> Option<Position> {
    let all = [pid].into_iter().chain(descendants(pid));
    all.into_iter().find_map(of_process)
}

fn of_process(pid: u32) -> Option<Position> {
    let process = Process::new(pid as i32).ok()?;
    let root = PathBuf::from(format!("/proc/{pid}"));
    let words = words(&process);
    let fds = process.fd().ok()?.flatten();
    // Paths are only resolved if an open file has the name of one: a server of a file system that hangs would hold
    // this process up.
    let is_named = |fd: &FDInfo| match &fd.target {
        FDTarget::Path(path) => words.iter().any(|word| file_name(word) == path.file_name()),
        _ => false,
    };
    let open: Vec<_> = fds
        .filter(is_named)
        .filter_map(|fd| open_file(&root, fd.fd))
        .collect();
    let named = match open.is_empty() {
        true => Vec::new(),
        false => named_files(&words, &root),
    };
    let of_named = open.into_iter().find_map(|(file, read)| {
        let is_it = |named: &Statx| identity(named) == identity(&file);
        Some((named.iter().position(is_it)?, read))
    });
    let size = |files: &[Statx]| files.iter().map(|file| file.stx_size).sum::<u64>();
    match of_named {
        Some((index, read)) => Some(Position {
            read: size(&named[..index]) + read,
            total: size(&named),
        }),
        None => open_file(&root, 0).map(|(file, read)| Position {
            read,
            total: file.stx_size,
        }),
    }
}

/// Returns the words of a command line that may name files, also after an equals sign as in `if=FILE`.
fn words(process: &Process) -> Vec<String> {
    let words = process.cmdline().unwrap_or_default();
    let both = words.iter().skip(1).flat_map(|word| {
        let value = word.split_once('=').map(|(_, value)| value);
        [Some(word.as_str()), value].into_iter().flatten()
    });
    both.map(str::to_owned).collect()
}

fn file_name(word: &str) -> Option<&OsStr> {
    Path::new(word).file_name()
}

fn identity(file: &Statx) -> (u32, u32, u64) {
    (file.stx_dev_major, file.stx_dev_minor, file.stx_ino)
}

/// Returns a regular file that a process has open for reading, and its position in it.
fn open_file(root: &Path, fd: i32) -> Option<(Statx, u64)> {
    let file = regular(&root.join(format!("fd/{fd}")))?;
    let text = std::fs::read_to_string(root.join(format!("fdinfo/{fd}"))).ok()?;
    let read = field(&text, "pos")?.parse().ok()?;
    (access_mode(&text)? != OFlags::WRONLY).then_some((file, read))
}

/// Returns the regular files that these words name, each once.
fn named_files(words: &[String], root: &Path) -> Vec<Statx> {
    let directory = root.join("cwd");
    let mut files: Vec<Statx> = Vec::new();
    for word in words {
        // An absolute path takes the place of the directory.
        let found = regular(&directory.join(word));
        let is_new = |file: &Statx| !files.iter().any(|known| identity(known) == identity(file));
        files.extend(found.filter(is_new));
    }
    files
}

/// Returns the metadata of a regular file that is not empty, as far as the kernel knows it (`AT_STATX_DONT_SYNC`).
fn regular(path: &Path) -> Option<Statx> {
    if path.as_os_str().as_bytes().contains(&0) {
        return None;
    }
    let asked = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE;
    let file = statx(CWD, path, AtFlags::STATX_DONT_SYNC, asked).ok()?;
    let kind = FileType::from_raw_mode(file.stx_mode.into());
    (kind == FileType::RegularFile && file.stx_size > 0).then_some(file)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read, Seek, SeekFrom};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_position_is_that_in_the_files_that_a_program_was_given() {
        let directory = tempfile::tempdir().unwrap();
        for (name, size) in [("a", 100), ("b", 50), ("other", 70)] {
            fs::write(directory.path().join(name), "x\n".repeat(size / 2)).unwrap();
        }
        let mut stdin = File::open(directory.path().join("a")).unwrap();
        stdin.seek(SeekFrom::Start(40)).unwrap();
        let position_of = |script: &str, words: &[&str], stdin: Stdio| {
            let mut child = Command::new("sh")
                .args(["-c", &format!("{script}; echo; kill -STOP $$"), "sh"])
                .args(words)
                .current_dir(directory.path())
                .stdin(stdin)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdout = child.stdout.take().unwrap();
            stdout.read_exact(&mut [0]).unwrap();
            let found = position(child.id());
            child.kill().unwrap();
            child.wait().unwrap();
            found.map(|found| (found.read, found.total))
        };
        let (pipe, _keeper) = std::io::pipe().unwrap();
        let idle = || Stdio::from(pipe.try_clone().unwrap());
        let read = |file: &str| format!("exec 3<{file}; read line <&3");
        assert_eq!(
            position_of(&read("b"), &["a", "b"], idle()),
            Some((102, 150))
        );
        assert_eq!(position_of(&read("a"), &["if=a"], idle()), Some((2, 100)));
        assert_eq!(position_of(&read("other"), &["a", "b"], idle()), None);
        assert_eq!(position_of(":", &["a"], idle()), None);
        // As stdin.
        assert_eq!(position_of(":", &[], stdin.into()), Some((40, 100)));
    }
}
