//! How far a stage is in the file that it reads.
//!
//! The kernel tells the position of each descriptor (proc_pid_fdinfo(5)). It is that of the stage's input if the
//! stage has the file as its stdin, or was given the file's name: any other file that it reads may be a table, a
//! library or one of thousands.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use procfs::process::Process;
use rustix::fs::{FileType, OFlags, Stat};

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
    let named = named_files(&process, &root);
    let fds = process.fd().ok()?.flatten();
    let of_named = fds
        .filter_map(|fd| open_file(&root, fd.fd))
        .find_map(|(file, read)| {
            let is_it = |named: &Stat| (named.st_dev, named.st_ino) == (file.st_dev, file.st_ino);
            Some((named.iter().position(is_it)?, read))
        });
    let size = |files: &[Stat]| files.iter().map(|file| file.st_size as u64).sum::<u64>();
    match of_named {
        Some((index, read)) => Some(Position {
            read: size(&named[..index]) + read,
            total: size(&named),
        }),
        None => open_file(&root, 0).map(|(file, read)| Position {
            read,
            total: file.st_size as u64,
        }),
    }
}

/// Returns a regular file that a process has open for reading, and its position in it.
fn open_file(root: &Path, fd: i32) -> Option<(Stat, u64)> {
    let file = regular(&root.join(format!("fd/{fd}")))?;
    let text = std::fs::read_to_string(root.join(format!("fdinfo/{fd}"))).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let flags = u32::from_str_radix(field("flags:")?.trim(), 8).ok()?;
    let mode = OFlags::from_bits_retain(flags) & OFlags::RWMODE;
    let read = field("pos:")?.trim().parse().ok()?;
    (mode != OFlags::WRONLY).then_some((file, read))
}

/// Returns the regular files that the words of a command line name, also after an equals sign as in `if=FILE`.
fn named_files(process: &Process, root: &Path) -> Vec<Stat> {
    let words = process.cmdline().unwrap_or_default();
    let directory = root.join("cwd");
    let mut files: Vec<Stat> = Vec::new();
    for word in words.iter().skip(1) {
        let value = word.split_once('=').map(|(_, value)| value);
        // An absolute path takes the place of the directory.
        let mut paths = [Some(word.as_str()), value].into_iter().flatten();
        let found = paths.find_map(|path| regular(&directory.join(path)));
        let is_new = |file: &Stat| {
            !files
                .iter()
                .any(|known| (known.st_dev, known.st_ino) == (file.st_dev, file.st_ino))
        };
        files.extend(found.filter(is_new));
    }
    files
}

/// Returns the metadata of a regular file that is not empty.
fn regular(path: &Path) -> Option<Stat> {
    if path.as_os_str().as_bytes().contains(&0) {
        return None;
    }
    let file = rustix::fs::stat(path).ok()?;
    let is_regular = FileType::from_raw_mode(file.st_mode) == FileType::RegularFile;
    (is_regular && file.st_size > 0).then_some(file)
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
