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

/// Programs that work with any capacity, by the names of their executables, without the version at their end.
#[rustfmt::skip]
const SAFE: &[&str] = &[
    // They write by write(2), which copies.
    "awk", "b2sum", "base32", "base64", "basenc", "cksum", "comm", "csplit", "cut", "date", "dd", "df",
    "diff", "du", "echo", "egrep", "env", "expand", "factor", "fgrep", "find", "fmt", "fold", "gawk",
    "grep", "hexdump", "join", "ls", "lsof", "mawk", "md5sum", "nawk", "nl", "numfmt", "od",
    "original-awk", "paste", "pr", "printf", "ps", "ptx", "rev", "rg", "sed", "seq", "sha1sum",
    "sha224sum", "sha256sum", "sha384sum", "sha512sum", "shuf", "sleep", "sort", "split", "stat",
    "stdbuf", "strings", "sum", "tac", "timeout", "tr", "tsort", "unexpand", "uniq", "wc",
    "xargs", "xxd",
    "7z", "7za", "7zr", "brotli", "bsdcpio", "bsdtar", "bzip", "compress", "cpio", "gzip", "lbzip",
    "lz", "lzip", "lzop", "pbzip", "pigz", "pixz", "pxz", "pzstd", "tar", "unzip", "xz", "zip", "zstd",
    "buffer", "curl", "ffmpeg", "git", "gpg", "gpgv", "jq", "journalctl", "make", "mariadb",
    "mariadb-dump", "mbuffer", "mysql", "mysqldump", "nc", "nc.openbsd", "nc.traditional", "ncat",
    "openssl", "pg_dump", "pg_restore", "psql", "rsync", "scp", "sftp", "socat", "sox", "sqlite",
    "ssh", "sshd", "strace", "tcpdump", "wget",
    // The kernel writes the stream into a pipe by a call that copies (`write_buf` in fs/btrfs/send.c; ZFS's dump through
    // zfs_file_write), and what the programs put between that pipe and the output is splice(2) of the copies
    // (`lzc_send_wrapper` of libzfs_core) or write(2).
    "btrfs", "zfs",
    // Go: its library writes by write(2), or splices what comes from sockets and files; it has no vmsplice(2).
    "age", "docker", "kubectl", "mongodump", "podman", "rclone", "restic",
    // They write by write(2): `my_write` in ds_stdout.cc, fwrite(3) in pg_basebackup's own streamers.
    "mariabackup", "mariadb-backup", "pg_basebackup",
    // Python in one file, and languages whose runtimes write by write(2), or pass on a file with sendfile(2) or
    // splice(2).
    "borg", "deno", "java",
    // Shells, which use write(2).
    "ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "yash", "zsh",
    // Languages whose standard library uses write(2).
    "lua", "luajit", "node", "perl", "php", "pypy", "python", "ruby", "tclsh",
    // They use write(2), or pass on pages that they never modify.
    "cat", "head", "pv", "tail", "tee",
    // It never modifies what it has sent.
    "yes",
    // Their programs write by write(2), or never write again to what they have sent.
    "busybox", "coreutils", "toybox",
];

/// Returns how a program sends, given its executable's path and its arguments; `None` if it is not known.
pub fn known(executable: &str, words: &[String]) -> Option<Sends> {
    let file = executable
        .strip_suffix(" (deleted)")
        .unwrap_or(executable)
        .rsplit('/')
        .next()?;
    if file == "fullbore" {
        return our_own(words);
    }
    let name = without_version(file);
    let is_safe = SAFE.contains(&file) || SAFE.contains(&name);
    is_safe.then_some(Sends::Safely)
}

/// Returns the name without a version at its end: `python3.11` is python.
fn without_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'))
}

/// Returns how the subcommands of this command send.
fn our_own(words: &[String]) -> Option<Sends> {
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
    // These wait until the pipe has released a page before they use it again, whatever the capacity.
    let waits = has("--way") || has("--memory");
    match verb {
        // It fills one half of a buffer while the other half is in the pipe.
        "write" if has("--write-with-vmsplice") && !waits => Some(Sends::Pages),
        "bench" | "buffer" | "cat" | "copy" | "doctor" | "explain" | "mbuffer" | "meter"
        | "parallel" | "pv" | "read" | "run" | "tee" | "top" | "tune" | "write" => {
            Some(Sends::Safely)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(executable: &str, line: &str) -> Option<Sends> {
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
            "/usr/sbin/zfs",
            "/usr/bin/restic",
            "/usr/lib/jvm/java-21-openjdk-amd64/bin/java",
            "/usr/bin/mariadb-backup",
            "/usr/lib/postgresql/17/bin/pg_basebackup",
        ] {
            assert!(known(executable, "a b").is_some(), "{executable}");
        }
        for executable in [
            "/usr/bin/fizzbuzz",
            "/usr/bin/bun",
            "/home/me/tar-like",
            "",
            "/usr/bin/",
        ] {
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
            assert_eq!(ours(line), Some(Sends::Pages), "{line}");
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
            assert_eq!(ours(line), Some(Sends::Safely), "{line}");
        }
        assert_eq!(ours("fullbore part x"), None);
        assert_eq!(ours("fullbore"), None);
    }

    #[test]
    fn no_program_is_in_the_table_twice() {
        let mut names = SAFE.to_vec();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
