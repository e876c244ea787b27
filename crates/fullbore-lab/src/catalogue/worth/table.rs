//! The ways to bring bytes to a reader, and the readers, as tables.

use serde::{Deserialize, Serialize};

/// A way to bring bytes from a producer to a reader.
#[derive(Debug)]
pub struct Way {
    /// Which one it is.
    pub is: WayName,
    /// Its name in experiments.
    pub name: &'static str,
    /// What it is, in words.
    pub shows: &'static str,
    /// The capacity of the pipe; `None` for the default.
    pub pipe_size: Option<usize>,
}

/// The names of the ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WayName {
    /// write(2) into a pipe of the default capacity.
    Write,
    /// write(2) into a pipe of 1 MiB.
    Roomy,
    /// Through a socket of the producer.
    Socket,
    /// Fresh pages.
    Fresh,
    /// Recycled pages.
    Recycle,
    /// A ring in shared memory, read where it lies.
    Shared,
    /// The library's ring, met through the pipe and read where it lies.
    Ring,
}

/// The capacity of a pipe that has another than the default one.
const MIB: Option<usize> = Some(1 << 20);

/// The ways. Ratios are to the first.
#[rustfmt::skip]
pub static WAYS: [Way; 7] = [
    Way { is: WayName::Write, name: "write", shows: "write(2) into a default pipe", pipe_size: None },
    Way { is: WayName::Roomy, name: "roomy", shows: "write(2) into a pipe of 1 MiB", pipe_size: MIB },
    Way { is: WayName::Socket, name: "socket", shows: "a socket of the producer, spliced into a pipe of 1 MiB", pipe_size: MIB },
    Way { is: WayName::Fresh, name: "fresh", shows: "fresh pages, given to a pipe of 1 MiB", pipe_size: MIB },
    Way { is: WayName::Recycle, name: "recycle", shows: "recycled pages, lent to a pipe of 1 MiB", pipe_size: MIB },
    Way { is: WayName::Ring, name: "ring", shows: "the library's ring, met through a default pipe, read in place", pipe_size: None },
    Way { is: WayName::Shared, name: "shared", shows: "a ring in shared memory, used in place", pipe_size: None },
];

/// A reader.
#[derive(Debug)]
pub struct Reader {
    /// What it does.
    pub is: Use,
    /// Its name in experiments.
    pub name: &'static str,
    /// What it does, in words.
    pub title: &'static str,
}

/// What a reader does with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Use {
    /// Nothing: splice(2) to /dev/null.
    Drop,
    /// Adds up every word.
    Sum,
    /// SHA-256.
    Sha256,
    /// CRC-32.
    Crc32,
    /// Counts lines.
    Lines,
    /// Decompresses frames of zstd.
    Zstd,
    /// Writes to a file.
    File,
    /// Sends over TCP.
    Tcp,
    /// `cat`.
    Cat,
    /// `grep`.
    Grep,
    /// `wc`.
    Wc,
}

impl WayName {
    /// Returns whether the reader is at the end of a pipe, and need not know of the way.
    pub fn is_a_pipe(self) -> bool {
        !matches!(self, WayName::Shared | WayName::Ring)
    }
}

impl Use {
    /// Returns the command line of the reader, if it is a program that people have.
    pub fn program(self) -> Option<&'static str> {
        match self {
            Use::Cat => Some("cat"),
            Use::Grep => Some("grep -c curl"),
            Use::Wc => Some("wc -l"),
            _ => None,
        }
    }

    /// Returns whether the reader passes the bytes on, or drops them, without looking at them.
    pub fn passes_on(self) -> bool {
        matches!(self, Use::Drop | Use::File | Use::Tcp)
    }
}

/// The readers. Programs read from pipes only.
#[rustfmt::skip]
pub static READERS: [Reader; 11] = [
    Reader { is: Use::Drop, name: "drop", title: "a reader that drops every byte" },
    Reader { is: Use::Sum, name: "sum", title: "a reader that adds up every word" },
    Reader { is: Use::Sha256, name: "sha256", title: "a reader that hashes (SHA-256)" },
    Reader { is: Use::Crc32, name: "crc32", title: "a reader that computes a checksum (CRC-32)" },
    Reader { is: Use::Lines, name: "lines", title: "a reader that counts lines" },
    Reader { is: Use::Zstd, name: "zstd", title: "a reader that decompresses (zstd)" },
    Reader { is: Use::File, name: "file", title: "a reader that writes to a file in memory" },
    Reader { is: Use::Tcp, name: "tcp", title: "a reader that sends over TCP" },
    Reader { is: Use::Cat, name: "cat", title: "the program cat > /dev/null" },
    Reader { is: Use::Grep, name: "grep", title: "the program grep -c" },
    Reader { is: Use::Wc, name: "wc", title: "the program wc -l" },
];
