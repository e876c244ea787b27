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

/// What is known of programs, by the names of their executables, without the version at their end: how they send, and why.
#[rustfmt::skip]
const PROGRAMS: &[(Sends, &str, &[&str])] = &[
    (Sends::Safely, "it writes by write(2), which copies", &[
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
        // `my_write` in ds_stdout.cc, fwrite(3) in pg_basebackup's own streamers.
        "mariabackup", "mariadb-backup", "pg_basebackup",
        "ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "yash", "zsh",
    ]),
    // `write_buf` in fs/btrfs/send.c, zfs_file_write in ZFS's dump; `lzc_send_wrapper` of libzfs_core.
    (Sends::Safely, "the kernel copies the stream into a pipe, and the program passes the copies on", &["btrfs", "zfs"]),
    (Sends::Safely, "it is written in Go, whose library uses write(2) and splice(2), and no vmsplice(2)", &[
        "age", "docker", "kubectl", "mongodump", "podman", "rclone", "restic",
    ]),
    (Sends::Safely, "its language writes by write(2), or passes on a file by sendfile(2) or splice(2)", &[
        "borg", "deno", "java", "lua", "luajit", "node", "perl", "php", "pypy", "python", "ruby", "tclsh",
    ]),
    (Sends::Safely, "it writes by write(2), or passes on pages that it never modifies", &[
        "busybox", "cat", "coreutils", "head", "pv", "tail", "tee", "toybox", "yes",
    ]),
    (Sends::Unknown, "its source declares vmsplice(2), and it is not documented what it gives to it", &["bun"]),
];

/// Returns how a program sends and why, given its executable's path and its arguments; `None` if it is not known.
pub fn known(executable: &str, words: &[String]) -> Option<(Sends, &'static str)> {
    let file = executable
        .strip_suffix(" (deleted)")
        .unwrap_or(executable)
        .rsplit('/')
        .next()?;
    if file == "fullbore" {
        return our_own(words);
    }
    let name = without_version(file);
    let row = PROGRAMS
        .iter()
        .find(|(_, _, names)| names.contains(&file) || names.contains(&name));
    row.map(|&(sends, because, _)| (sends, because))
}

/// Returns the name without a version at its end: `python3.11` is python.
fn without_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'))
}

/// Returns how the subcommands of this command send.
fn our_own(words: &[String]) -> Option<(Sends, &'static str)> {
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
        "write" if has("--write-with-vmsplice") && !waits => Some((
            Sends::Pages,
            "--write-with-vmsplice writes again to pages that it has sent",
        )),
        "bench" | "buffer" | "cat" | "copy" | "doctor" | "explain" | "mbuffer" | "meter"
        | "parallel" | "pv" | "read" | "run" | "tee" | "top" | "tune" | "write" => {
            Some((Sends::Safely, "it works with any capacity"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(executable: &str, line: &str) -> Option<Sends> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        super::known(executable, &words).map(|(sends, _)| sends)
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
            assert_eq!(
                known(executable, "a b"),
                Some(Sends::Safely),
                "{executable}"
            );
        }
        for executable in ["/usr/bin/fizzbuzz", "/home/me/tar-like", "", "/usr/bin/"] {
            assert_eq!(known(executable, "cat"), None, "{executable}");
        }
        let bun = super::known("/home/me/.bun/bin/bun", &[]).unwrap();
        assert!(
            bun.0 == Sends::Unknown && bun.1.contains("vmsplice"),
            "{bun:?}"
        );
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
        let mut names: Vec<&str> = PROGRAMS.iter().flat_map(|row| row.2).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
