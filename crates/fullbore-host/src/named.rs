//! The names of open descriptors: `/dev/stdin`, `/dev/fd/3`.
//!
//! open(2) of such a name opens the *file* again: with its own position, at the start of the file, and not at all if
//! the file is a socket (`ENXIO`). A user means the descriptor, as in gawk.

use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// The number of symbolic links that the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Returns the number of the descriptor that `path` names: `/dev/stdin`, `/dev/stdout`, `/dev/stderr`,
/// `/dev/fd/N`, `/proc/self/fd/N`, `/proc/thread-self/fd/N`, `/proc/PID/fd/N` with the process id of the caller, and
/// symbolic links to these. The descriptor need not be open.
///
/// ```
/// use fullbore_host::named::descriptor_of;
/// assert_eq!(descriptor_of("/dev/stderr"), Some(2));
/// assert_eq!(descriptor_of("/proc/self/fd/17"), Some(17));
/// assert_eq!(descriptor_of("/dev/null"), None);
/// ```
pub fn descriptor_of(path: impl AsRef<Path>) -> Option<RawFd> {
    let mut path = path.as_ref().to_owned();
    for _ in 0..MOST_LINKS {
        if let Some(number) = named(&path) {
            return Some(number);
        }
        // Anything but a symbolic link is a file.
        let target = fs::read_link(&path).ok()?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    None
}

fn named(path: &Path) -> Option<RawFd> {
    match path.to_str()? {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let directory = path.parent()?;
    let name = path.file_name()?.to_str()?;
    let number: RawFd = name.parse().ok()?;
    // The kernel accepts no other spelling of a number.
    let is_number = number >= 0 && number.to_string() == name;
    let of_this_process = || {
        let own = fs::read_link("/proc/self").ok()?;
        Some(directory == Path::new("/proc").join(own).join("fd"))
    };
    let names = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"].map(PathBuf::from);
    let is_ours = names.iter().any(|name| name == directory)
        || directory.starts_with("/proc") && of_this_process() == Some(true);
    (is_number && is_ours).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_own_descriptors_are_known() {
        let own = format!("/proc/{}/fd/5", std::process::id());
        let five = [
            "/dev/fd/5",
            "//dev/./fd//5",
            "/proc/self/fd/5",
            "/proc/thread-self/fd/5",
            &own,
        ];
        for name in five {
            assert_eq!(descriptor_of(name), Some(5), "{name}");
        }
        let none = [
            "/dev/fd",
            "/dev/fd/",
            "/dev/fd/05",
            "/dev/fd/-5",
            "/dev/fd/+5",
            "/dev/fd/5x",
            "/dev/fd/5/6",
            "/dev/fd/4294967296",
            "/proc/1/fd/5",
            "dev/fd/5",
            "stdin",
            "-",
            "",
            "/no/such/file",
        ];
        for name in none {
            assert_eq!(descriptor_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_symbolic_link_to_a_descriptor_names_it_too() {
        let directory = tempfile::tempdir().unwrap();
        let link = |name: &str, to: &str| {
            let path = directory.path().join(name);
            std::os::unix::fs::symlink(to, &path).unwrap();
            path
        };
        let first = link("log", "/dev/stderr");
        assert_eq!(descriptor_of(&first), Some(2));
        assert_eq!(descriptor_of(link("again", "log")), Some(2));
        assert_eq!(descriptor_of(link("round", "round")), None);
        assert_eq!(descriptor_of(link("file", "/dev/null")), None);
    }
}
