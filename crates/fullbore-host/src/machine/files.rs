//! Reading `/proc` and `/sys`: the files themselves, and the formats that several of them share.
//!
//! All files are found through a [`Root`], so that tests can describe machines that are not there.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The directory that `/proc` and `/sys` are looked for in: `/`, except in tests.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// Returns the root of the machine that this program runs on.
    pub fn system() -> Root {
        Root(PathBuf::from("/"))
    }

    /// Returns the root of a machine whose `/proc` and `/sys` have been copied to `directory`.
    pub fn at(directory: impl Into<PathBuf>) -> Root {
        Root(directory.into())
    }

    /// Reads the file at `path` (relative, such as `proc/meminfo`) without the spaces, newlines
    /// and NULs around its text; `None` where it cannot be read or is empty.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.0.join(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Returns whether there is a directory at `path`.
    pub fn has_directory(&self, path: impl AsRef<Path>) -> bool {
        self.0.join(path).is_dir()
    }

    /// Reads the number in the file at `path`.
    pub fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Reads the CPUs in the file at `path`, which holds a list such as `0-3,8`.
    pub fn cpu_list(&self, path: impl AsRef<Path>) -> Option<Vec<usize>> {
        parse_cpu_list(&self.text(path)?)
    }
}

/// Returns the CPUs in a list in the kernel's format, such as `0-3,8` (cpuset(7), "List format"),
/// in ascending order; `None` where `text` is not such a list.
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    // No kernel is built for more CPUs than this (Linux's largest NR_CPUS is 8192), so a range
    // that goes further is a damaged file and not worth the memory.
    const CPUS_AT_MOST: usize = 1 << 16;
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CPUS_AT_MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Returns CPUs in the kernel's list format: `[0, 1, 2, 3, 8]` is `0-3,8`.
pub fn format_cpu_list(cpus: &[usize]) -> String {
    let run = |run: &[usize]| match run {
        [only] => only.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    let runs = cpus.chunk_by(|a, b| a + 1 == *b).map(run);
    runs.collect::<Vec<_>>().join(",")
}

/// Returns the value of `key` in lines of `key : value`; `None` where it is missing or empty.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.trim() == key)?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

/// Returns whether an fd reads, writes or both, by the text of its file in /proc/PID/fdinfo; `None` if it only names a
/// file (`O_PATH`).
pub fn access_mode(fdinfo: &str) -> Option<OFlags> {
    let flags = u32::from_str_radix(field(fdinfo, "flags")?, 8).ok()?;
    let flags = OFlags::from_bits_retain(flags);
    (!flags.contains(OFlags::PATH)).then_some(flags & OFlags::RWMODE)
}

/// Returns the word in brackets, which in sysfs is the current setting: `always [madvise] never`.
pub fn bracketed_word(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_as_the_kernel_writes_them() {
        let cases: [(&str, Option<&[usize]>); 9] = [
            ("0", Some(&[0])),
            ("0-3", Some(&[0, 1, 2, 3])),
            ("0-3,8", Some(&[0, 1, 2, 3, 8])),
            ("8,0-1\n", Some(&[0, 1, 8])),
            ("", Some(&[])),
            ("3-1", None),
            ("a", None),
            ("-1", None),
            ("0-99999999999", None),
        ];
        for (text, cpus) in cases {
            assert_eq!(parse_cpu_list(text).as_deref(), cpus, "{text:?}");
        }
    }

    #[test]
    fn cpu_lists_are_written_as_they_are_read() {
        for list in ["0", "0-3", "0-3,8", "0,4", "1-2,4-5,9"] {
            assert_eq!(format_cpu_list(&parse_cpu_list(list).unwrap()), list);
        }
    }
}
