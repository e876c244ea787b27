//! Lists the jobs, and the programs that can do them, as tables.
//!
//! A mover finds its source on stdin and its sink on stdout, as in a shell, and further sinks as files
//! named on its command line. Programs other than this one run with the options that a user would give
//! them, and otherwise with their defaults.

use std::process::{Command, Stdio};

use anyhow::Result;
use fullbore::Pipe;

use crate::endpoint::prepare;
use crate::process::{self, on_path};
use crate::program::Program;
use fullbore_results::run::MoverReport;

/// A source or a sink of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A regular file in memory: a memfd, which is a file of tmpfs without a name.
    File,
    /// A pipe.
    Pipe,
    /// A Unix stream socket.
    Socket,
}

/// A job of a mover.
#[derive(Debug, PartialEq, Eq)]
pub struct Job {
    /// The prefix of its experiments' names.
    pub name: &'static str,
    /// Its description.
    pub title: &'static str,
    /// The source of the mover's stdin.
    pub source: End,
    /// The sink of the mover's stdout.
    pub sink: End,
    /// The number of further pipes that the mover writes to, each spliced away by its own reader.
    pub branches: usize,
    /// The movers that can do it.
    pub movers: &'static [Mover],
    /// What is particular about its ends, if anything is.
    ends: Option<Ends>,
}

/// Ends of a job that are not the usual ones.
#[derive(Debug, PartialEq, Eq)]
struct Ends {
    /// The options of the writer.
    writer: &'static str,
    /// The options of the reader.
    reader: &'static str,
    /// The capacity of the pipes before and behind the mover, in bytes, if it is not the default.
    capacity: Option<usize>,
}

/// The jobs, in the order of display.
#[rustfmt::skip]
pub const JOBS: &[Job] = {
    use End::{File, Pipe, Socket};
    &[
        Job { name: "file_pipe",   title: "file → pipe",        source: File,   sink: Pipe,   branches: 0, movers: COPIERS, ends: None },
        Job { name: "pipe_pipe",   title: "pipe → pipe",        source: Pipe,   sink: Pipe,   branches: 0, movers: COPIERS, ends: None },
        Job { name: "pipe_file",   title: "pipe → file",        source: Pipe,   sink: File,   branches: 0, movers: COPIERS, ends: None },
        Job { name: "file_file",   title: "file → file",        source: File,   sink: File,   branches: 0, movers: COPIERS, ends: None },
        Job { name: "pipe_socket", title: "pipe → Unix socket", source: Pipe,   sink: Socket, branches: 0, movers: COPIERS, ends: None },
        Job { name: "socket_pipe", title: "Unix socket → pipe", source: Socket, sink: Pipe,   branches: 0, movers: COPIERS, ends: None },
        Job { name: "one_three",   title: "pipe → three pipes", source: Pipe,   sink: Pipe,   branches: 2, movers: SPLITTERS, ends: None },
    ]
};

/// The jobs of a large memory, in the order of display: between programs that write and read as most do,
/// between some that have pipes of 1 MiB, and between some that do not copy themselves.
#[rustfmt::skip]
pub const BUFFER_JOBS: &[Job] = {
    use End::Pipe;
    const USUAL: Ends = Ends { writer: "--way copy --chunk 128K", reader: "--chunk 128K", capacity: None };
    const ROOMY: Ends = Ends { writer: "--way copy --chunk 1M", reader: "--chunk 1M", capacity: Some(1 << 20) };
    &[
        Job { name: "usual", title: "buffer between usual ends", source: Pipe, sink: Pipe, branches: 0, movers: BUFFERS, ends: Some(USUAL) },
        Job { name: "roomy", title: "buffer between pipes of 1 MiB", source: Pipe, sink: Pipe, branches: 0, movers: BUFFERS, ends: Some(ROOMY) },
        Job { name: "lean", title: "buffer between ends that do not copy", source: Pipe, sink: Pipe, branches: 0, movers: BUFFERS, ends: None },
    ]
};

/// A program that does the job, with its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mover {
    /// The suffix of its experiments' names.
    pub name: &'static str,
    /// Its command line, without the names of further sinks.
    pub words: &'static str,
    /// A description of what it shows.
    pub shows: &'static str,
    /// The option before the name of each further sink.
    sink_option: Option<&'static str>,
}

/// The name of this program; every other one is looked for on PATH.
const OWN: &str = "fullbore";

const fn own(name: &'static str, words: &'static str, shows: &'static str) -> Mover {
    Mover {
        name,
        words,
        shows,
        sink_option: None,
    }
}

pub const fn peer(name: &'static str, words: &'static str) -> Mover {
    own(name, words, words)
}

/// Movers from one source to one sink. The others are compared with the first one, which is available
/// on every machine.
#[rustfmt::skip]
const COPIERS: &[Mover] = &[
    own("std", "fullbore middleman --die-with-parent std-copy", "Rust's std::io::copy"),
    peer("cat", "cat"),
    peer("uutils", "coreutils cat"),
    peer("dd", "dd bs=1M status=none"),
    peer("pv", "pv -q"),
    peer("mbuffer", "mbuffer -q"),
    peer("socat", "socat -u STDIN STDOUT"),
    own("snapshot", "fullbore copy", "fullbore copy"),
    own("reference", "fullbore copy --by-reference", "fullbore copy --by-reference"),
];

/// Movers with a large memory. The first one has none.
#[rustfmt::skip]
const BUFFERS: &[Mover] = &[
    own("copy", "fullbore copy", "fullbore copy, without a large memory"),
    peer("mbuffer", "mbuffer -q -m 64M"),
    own("buffer", "fullbore buffer -q -m 64M", "fullbore buffer"),
    own("buffer_keep", "fullbore buffer -q -m 64M --keep-input", "fullbore buffer, which leaves the pipe before it as it is"),
];

/// Movers from one source to several sinks.
#[rustfmt::skip]
const SPLITTERS: &[Mover] = &[
    own("std", "fullbore middleman --die-with-parent std-copy", "Rust's std::io::copy into a writer that writes to every output"),
    peer("tee", "tee"),
    peer("uutils", "coreutils tee"),
    Mover { sink_option: Some("-o"), ..peer("mbuffer", "mbuffer -q -o -") },
    own("snapshot", "fullbore tee", "fullbore tee"),
];

/// The writer of a source that is a pipe: the fastest source that another program can be and that
/// sleeps while its pipe is full. It is the article's writer, with huge pages and 1 MiB at a time,
/// into a pipe of 1 MiB. Jumbo slots (`--way repeat`) would be faster still, but only movers that
/// splice would benefit, and few programs write this way.
const PIPE_WRITER: &str = "--write-with-vmsplice --huge-page --buf-size 2M";

/// The writer of a source that is a socket: it sends references to the pages, not copies.
const SOCKET_WRITER: &str = "--write-with-vmsplice --through-pipe --huge-page --buf-size 2M";

/// A reader with almost no cost, so that the mover is measured.
pub const PIPE_READER: &str = "--read-with-splice --chunk 1M";

/// The same reader, for a socket.
const SOCKET_READER: &str = "--read-with-splice --through-pipe --chunk 1M";

impl Job {
    /// Returns the options of `fullbore write` for the source; there are none if it is a file.
    pub fn writer(&self) -> &'static str {
        let careless = self.careless_writer();
        self.ends.as_ref().map_or(careless, |ends| ends.writer)
    }

    /// Returns the options of a writer of this source that reuses its pages.
    pub fn careless_writer(&self) -> &'static str {
        match self.source {
            End::File => "",
            End::Pipe => PIPE_WRITER,
            End::Socket => SOCKET_WRITER,
        }
    }

    /// Returns the options of `fullbore read` for the sink; there are none if it is a file.
    pub fn reader(&self) -> &'static str {
        let lean = match self.sink {
            End::File => "",
            End::Pipe => PIPE_READER,
            End::Socket => SOCKET_READER,
        };
        self.ends.as_ref().map_or(lean, |ends| ends.reader)
    }

    /// Makes a pipe of the job.
    ///
    /// # Errors
    /// Fails if the process has too many fds, or this user may not have a pipe of the job's capacity.
    pub fn pipe(&self) -> Result<Pipe> {
        prepare::pipe(self.ends.as_ref().and_then(|ends| ends.capacity))
    }
}

impl Mover {
    /// Returns its command with these further sinks, or `None` if it is not on PATH.
    pub fn command(&self, program: &Program, sinks: &[String]) -> Option<Command> {
        let mut words = self.words.split_whitespace();
        let mut command = match words.next()? {
            OWN => program.command(),
            name => Command::new(on_path(name)?),
        };
        command.args(words);
        for sink in sinks {
            command.args(self.sink_option).arg(sink);
        }
        Some(command)
    }

    /// Returns the program that has to be on PATH, if it is not this one.
    pub fn program(&self) -> Option<&'static str> {
        let first = self.words.split(' ').find(|word| !word.contains('='));
        first.filter(|&word| word != OWN && !word.is_empty())
    }

    /// Returns its report before it has moved anything.
    pub fn report(&self, job: &Job) -> MoverReport {
        MoverReport {
            job: job.title.into(),
            command: self.words.into(),
            version: self.program().and_then(version),
            ..MoverReport::default()
        }
    }
}

/// Returns the line with the version that a program on PATH prints.
pub fn version(program: &str) -> Option<String> {
    let mut command = Command::new(on_path(program)?);
    let option = match program {
        "socat" => "-V",
        _ => "--version",
    };
    command.arg(option).stdin(Stdio::null());
    let (_, text) = process::printed(&mut command).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text
        .lines()
        .find(|line| line.contains(|c: char| c.is_ascii_digit()));
    line.map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_the_three_movers_that_need_nothing_installed() {
        for job in JOBS {
            for name in ["std", "snapshot", "reference"] {
                // A tee always copies.
                let is_there = job.movers.iter().any(|mover| mover.name == name);
                assert_eq!(is_there, (job.name, name) != ("one_three", "reference"));
            }
            assert_eq!(job.movers[0].program(), None, "ratios need a base");
        }
    }

    #[test]
    fn a_mover_is_given_the_names_of_further_sinks_in_its_own_way() {
        let words = |mover: &Mover| -> Vec<String> {
            let command = mover
                .command(&Program::at("fullbore"), &["a".into(), "b".into()])
                .unwrap();
            let words = command.get_args();
            words.map(|word| word.to_string_lossy().into()).collect()
        };
        let by_name = |name: &str| SPLITTERS.iter().find(|mover| mover.name == name).unwrap();
        assert_eq!(words(by_name("snapshot")), ["tee", "a", "b"]);
        let mbuffer = Mover {
            words: "fullbore -q -o -",
            ..*by_name("mbuffer")
        };
        assert_eq!(
            words(&mbuffer)[1..],
            ["-o", "-", "-o", "a", "-o", "b"].map(String::from)
        );
    }
}
