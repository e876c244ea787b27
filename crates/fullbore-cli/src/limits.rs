//! Which limit a system call has hit: its name, as a person finds it in a manual page or in sysctl(8).

use std::fs;
use std::path::Path;

use procfs::{Current, LoadAverage};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use fullbore_linux::cgroup_directories;

/// Returns the limit behind the error of a call that opens a file or creates a pipe, with its value; `None` for errors
/// that come from no such limit.
pub fn limit_of_files(errno: Errno) -> Option<String> {
    match errno {
        Errno::MFILE => {
            let limit = getrlimit(Resource::Nofile).current;
            Some(format!("'ulimit -n' is {}", limit?))
        }
        // pipe2(2) has this error for both limits. That of all files prevents every other file, too.
        Errno::NFILE if opens() => {
            let pages =
                number_in("/proc/sys/fs/pipe-user-pages-hard").filter(|&pages| pages > 0)?;
            Some(format!(
                "fs.pipe-user-pages-hard is {pages} pages for all pipes of this user"
            ))
        }
        Errno::NFILE => Some(sysctl("fs.file-max")),
        _ => None,
    }
}

/// Returns the number of processes that this process's cgroup or an ancestor of it may have, if it has as many
/// (`pids.max`).
fn reached_processes() -> Option<u64> {
    let mut directories = cgroup_directories("pids").into_iter();
    directories.find_map(|directory| {
        let most = number_in(directory.join("pids.max"))?;
        (number_in(directory.join("pids.current"))? >= most).then_some(most)
    })
}

fn number_in(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the limit behind the error of a call that starts a process or a thread, with its value.
pub fn limit_of_processes(errno: Errno) -> Option<String> {
    if errno != Errno::AGAIN {
        return limit_of_files(errno);
    }
    if let Some(most) = reached_processes() {
        return Some(format!("pids.max of the control group is {most}"));
    }
    let threads = LoadAverage::current().map_or(0, |load| u64::from(load.max));
    for (name, path) in [
        ("kernel.threads-max", "/proc/sys/kernel/threads-max"),
        ("kernel.pid_max", "/proc/sys/kernel/pid_max"),
    ] {
        if number_in(path).is_some_and(|most| threads >= most) {
            return Some(sysctl(name));
        }
    }
    let limit = getrlimit(Resource::Nproc).current;
    Some(format!("'ulimit -u' is {}", limit?))
}

fn opens() -> bool {
    let opened = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    opened.err() != Some(Errno::NFILE)
}

fn sysctl(name: &str) -> String {
    let value = number_in(format!("/proc/sys/{}", name.replace('.', "/")));
    match value {
        Some(value) => format!("{name} is {value}"),
        None => format!("{name} is reached"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_by_its_own_name() {
        let files = limit_of_files(Errno::MFILE);
        assert!(files.is_none_or(|text| text.starts_with("'ulimit -n' is ")));
        assert_eq!(limit_of_files(Errno::ACCESS), None);
        assert_eq!(limit_of_processes(Errno::ACCESS), None);
        assert_eq!(
            limit_of_processes(Errno::MFILE),
            limit_of_files(Errno::MFILE)
        );
        // Files can be opened here, so only the pipes of the user can be too many.
        let pipes = limit_of_files(Errno::NFILE);
        assert!(pipes.is_none_or(|text| text.starts_with("fs.pipe-user-pages-hard is ")));
        assert!(sysctl("fs.file-max").starts_with("fs.file-max is "));
    }
}
