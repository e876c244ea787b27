//! Which programs send their bytes without depending on a pipe's capacity: one table.
//!
//! A program that gives the pages of its buffers to a pipe (vmsplice(2)) and writes to them again has to
//! know when the pipe no longer refers to them. Programs that derive this from the pipe's capacity send
//! wrong bytes once the capacity is larger than they assume. write(2) copies, and splice(2) and tee(2)
//! forward pages that came from elsewhere: programs that only use these calls work with any capacity.

use serde::{Deserialize, Serialize};

/// How a program sends its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sends {
    /// It sends pages of its own, which it may write to again.
    Pages,
    /// It is not known how it sends.
    Unknown,
    /// It works with any capacity.
    Safely,
}

/// How a program sends, and how that is known.
pub type Known = (Sends, &'static str);

/// Programs that send in the same way.
struct Programs {
    /// Names of executables, without the version at their end.
    names: &'static [&'static str],
    because: &'static str,
}

const WRITES: &str = "it writes by write(2), which copies";

/// The table of programs.
#[rustfmt::skip]
const SAFE: &[Programs] = &[
    Programs {
        names: &[
            "awk", "b2sum", "base32", "base64", "basenc", "cksum", "comm", "csplit", "cut", "date", "dd", "df",
            "diff", "du", "echo", "egrep", "env", "expand", "factor", "fgrep", "find", "fmt", "fold", "gawk",
            "grep", "hexdump", "join", "ls", "lsof", "mawk", "md5sum", "nawk", "nl", "numfmt", "od",
            "original-awk", "paste", "pr", "printf", "ps", "ptx", "rev", "rg", "sed", "seq", "sha1sum",
            "sha224sum", "sha256sum", "sha384sum", "sha512sum", "shuf", "sleep", "sort", "split", "stat",
            "stdbuf", "strings", "sum", "tac", "timeout", "tr", "tsort", "unexpand", "uniq", "wc",
            "xargs", "xxd",
        ],
        because: WRITES,
    },
    Programs {
        names: &[
            "7z", "7za", "7zr", "brotli", "bsdcpio", "bsdtar", "bzip", "compress", "cpio", "gzip", "lbzip",
            "lz", "lzip", "lzop", "pbzip", "pigz", "pixz", "pxz", "pzstd", "tar", "unzip", "xz", "zip", "zstd",
        ],
        because: WRITES,
    },
    Programs {
        names: &[
            "buffer", "curl", "ffmpeg", "git", "gpg", "gpgv", "jq", "journalctl", "make", "mariadb",
            "mariadb-dump", "mbuffer", "mysql", "mysqldump", "nc", "nc.openbsd", "nc.traditional", "ncat",
            "openssl", "pg_dump", "pg_restore", "psql", "rsync", "scp", "sftp", "socat", "sox", "sqlite",
            "ssh", "sshd", "strace", "tcpdump", "wget",
        ],
        because: WRITES,
    },
    Programs {
        names: &["ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "yash", "zsh"],
        because: "it is a shell, which uses write(2)",
    },
    Programs {
        names: &["lua", "luajit", "node", "perl", "php", "pypy", "python", "ruby", "tclsh"],
        because: "the standard library of this language uses write(2)",
    },
    Programs {
        names: &["cat", "head", "pv", "tail", "tee"],
        because: "it uses write(2), or passes on pages that it never modifies",
    },
    Programs {
        names: &["yes"],
        because: "it never modifies what it has sent",
    },
    Programs {
        names: &["busybox", "coreutils", "toybox"],
        because: "its programs write by write(2), or never write again to what they have sent",
    },
];

/// Returns what is known about a program, given its executable's path and its arguments.
pub fn known(executable: &str, words: &[String]) -> Option<Known> {
    let file = executable
        .strip_suffix(" (deleted)")
        .unwrap_or(executable)
        .rsplit('/')
        .next()?;
    if file == "fullbore" {
        return our_own(words);
    }
    let name = without_version(file);
    SAFE.iter()
        .find(|one| one.names.contains(&file) || one.names.contains(&name))
        .map(|one| (Sends::Safely, one.because))
}

/// Returns the name without a version at its end: `python3.11` is python.
fn without_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'))
}

/// Returns how the subcommands of this command send.
fn our_own(words: &[String]) -> Option<Known> {
    // These are the forms that clap accepts: `--memory 1M`, `--memory=1M`, and the names with
    // underscores.
    let has = |option: &str| {
        words.iter().any(|word| {
            let name = word.split('=').next().unwrap_or(word);
            name.replace('_', "-") == option
        })
    };
    let name = words.first()?.rsplit('/').next()?;
    // A link of this name is that program.
    let verb = match name {
        "cat" | "mbuffer" | "pv" | "tee" => name,
        _ => words.get(1)?,
    };
    Some(match verb {
        "write" if has("--way") || has("--memory") => (
            Sends::Safely,
            "it does not reuse a page before the pipe has released it, whatever the capacity",
        ),
        "write" if has("--write-with-vmsplice") => (
            Sends::Pages,
            "--write-with-vmsplice fills one half of a buffer while the other half is in the pipe",
        ),
        "buffer" | "cat" | "copy" | "mbuffer" | "meter" | "pv" | "tee" => {
            (Sends::Safely, "it never modifies what it has sent")
        }
        "bench" | "doctor" | "explain" | "read" | "run" | "top" | "tune" | "write" => {
            (Sends::Safely, WRITES)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(executable: &str, line: &str) -> Option<Known> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        super::known(executable, &words)
    }

    #[test]
    fn programs_are_known_by_their_executables_whatever_they_are_called() {
        for executable in [
            "/usr/bin/tar",
            "/usr/bin/python3.11",
            "/usr/bin/tar (deleted)",
            "/bin/bzip2",
            "/usr/bin/7z",
            "/usr/bin/sha256sum",
            "/usr/bin/busybox",
        ] {
            assert!(known(executable, "a b").is_some(), "{executable}");
        }
        for executable in ["/usr/bin/fizzbuzz", "/home/me/tar-like", "", "/usr/bin/"] {
            assert_eq!(known(executable, "cat"), None, "{executable}");
        }
    }

    #[test]
    fn our_own_writers_are_known_by_how_they_were_told_to_send() {
        let ours = |line| known("/usr/local/bin/fullbore", line);
        for line in [
            "fullbore write --write-with-vmsplice",
            "fullbore write --buf-size 1M --write_with_vmsplice",
        ] {
            assert!(matches!(ours(line), Some((Sends::Pages, _))), "{line}");
        }
        for line in [
            "fullbore write",
            "fullbore write --memory 2M --chunk 512K",
            "fullbore write --way=recycle",
            "fullbore copy",
            "fullbore copy --by-reference",
            "fullbore meter x",
            "fullbore buffer -m 1M",
            "cat access.log",
            "/usr/lib/fullbore/names/pv -q access.log",
            "mbuffer -q",
        ] {
            assert!(matches!(ours(line), Some((Sends::Safely, _))), "{line}");
        }
        assert_eq!(ours("fullbore part x"), None);
        assert_eq!(ours("fullbore"), None);
    }

    #[test]
    fn no_program_is_in_the_table_twice() {
        let mut names: Vec<&str> = SAFE.iter().flat_map(|one| one.names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
