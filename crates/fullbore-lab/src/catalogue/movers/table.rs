//! The jobs, and the programs that can do them, as tables.
//!
//! A mover finds its source on stdin and its sink on stdout, as in a shell, and further sinks as files
//! named on its command line. Programs other than this one run with the options that a person would
//! give them, and with their own defaults for the rest.

use std::process::{Command, Stdio};

use crate::process::{self, on_path};
use crate::program::Program;
use fullbore_results::run::MoverReport;

/// What bytes come from or go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A regular file in memory: a memfd, which is a file of tmpfs without a name.
    File,
    /// A pipe.
    Pipe,
    /// A Unix stream socket.
    Socket,
}

/// What a mover has to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Job {
    /// How the names of its experiments begin.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// Where the mover's stdin comes from.
    pub source: End,
    /// Where its stdout goes to.
    pub sink: End,
    /// Pipes that it writes to besides, each spliced away by a reader of its own.
    pub branches: usize,
    /// The movers that can do it.
    pub movers: &'static [Mover],
}

/// The jobs, in the order they are shown.
#[rustfmt::skip]
pub const JOBS: &[Job] = {
    use End::{File, Pipe, Socket};
    &[
        Job { name: "file_pipe",   title: "file → pipe",        source: File,   sink: Pipe,   branches: 0, movers: COPIERS },
        Job { name: "pipe_pipe",   title: "pipe → pipe",        source: Pipe,   sink: Pipe,   branches: 0, movers: COPIERS },
        Job { name: "pipe_file",   title: "pipe → file",        source: Pipe,   sink: File,   branches: 0, movers: COPIERS },
        Job { name: "file_file",   title: "file → file",        source: File,   sink: File,   branches: 0, movers: COPIERS },
        Job { name: "pipe_socket", title: "pipe → Unix socket", source: Pipe,   sink: Socket, branches: 0, movers: COPIERS },
        Job { name: "socket_pipe", title: "Unix socket → pipe", source: Socket, sink: Pipe,   branches: 0, movers: COPIERS },
        Job { name: "one_three",   title: "pipe → three pipes", source: Pipe,   sink: Pipe,   branches: 2, movers: SPLITTERS },
    ]
};

/// A program that does the job, with its options.
#[derive(Debug, PartialEq, Eq)]
pub struct Mover {
    /// How the names of its experiments end.
    pub name: &'static str,
    /// Whose it is.
    pub of: Of,
    /// Its command line, without the names of further sinks.
    pub words: &'static str,
    /// What it is, for people.
    pub shows: &'static str,
    /// The option that goes before the name of each further sink.
    sink_option: Option<&'static str>,
}

/// Whose program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// A verb of this one.
    Fullbore,
    /// One that is looked for on PATH.
    Path,
}

const fn own(name: &'static str, words: &'static str, shows: &'static str) -> Mover {
    Mover {
        name,
        of: Of::Fullbore,
        words,
        shows,
        sink_option: None,
    }
}

const fn peer(name: &'static str, words: &'static str) -> Mover {
    Mover {
        name,
        of: Of::Path,
        words,
        shows: words,
        sink_option: None,
    }
}

/// Movers from one source to one sink. The first is what the others are compared with: it is
/// there on every machine.
#[rustfmt::skip]
const COPIERS: &[Mover] = &[
    own("std", "middleman --die-with-parent std-copy", "Rust's std::io::copy"),
    peer("cat", "cat"),
    peer("uutils", "coreutils cat"),
    peer("dd", "dd bs=1M status=none"),
    peer("pv", "pv -q"),
    peer("mbuffer", "mbuffer -q"),
    peer("socat", "socat -u STDIN STDOUT"),
    own("snapshot", "copy", "fullbore copy"),
    own("reference", "copy --by-reference", "fullbore copy --by-reference"),
];

/// Movers from one source to several sinks.
#[rustfmt::skip]
const SPLITTERS: &[Mover] = &[
    own("std", "middleman --die-with-parent std-copy", "Rust's std::io::copy into a writer that writes to every output"),
    peer("tee", "tee"),
    peer("uutils", "coreutils tee"),
    Mover { sink_option: Some("-o"), ..peer("mbuffer", "mbuffer -q -o -") },
    own("snapshot", "tee", "fullbore tee"),
    own("reference", "tee --by-reference", "fullbore tee --by-reference"),
];

/// The fastest source that any program can be for another, and that sleeps while its pipe is full:
/// the article's writer, with huge pages and 1 MiB at a time, into a pipe of 1 MiB. Jumbo slots
/// (`--way repeat`) would be faster still, but only movers that splice would gain by them, and few
/// programs write so.
const PIPE_WRITER: &str = "--write-with-vmsplice --huge-page --buf-size 2M";

/// The same for a socket: the pages themselves, not copies of them.
const SOCKET_WRITER: &str = "--write-with-vmsplice --through-pipe --huge-page --buf-size 2M";

/// A reader that costs next to nothing, so that the mover is what is measured.
pub const PIPE_READER: &str = "--read-with-splice --chunk 1M";

/// The same from a socket.
const SOCKET_READER: &str = "--read-with-splice --through-pipe --chunk 1M";

impl Job {
    /// Options of `fullbore write` for the source; none where that is a file.
    pub fn writer(&self) -> &'static str {
        match self.source {
            End::File => "",
            End::Pipe => PIPE_WRITER,
            End::Socket => SOCKET_WRITER,
        }
    }

    /// Options of `fullbore read` for the sink; none where that is a file.
    pub fn reader(&self) -> &'static str {
        match self.sink {
            End::File => "",
            End::Pipe => PIPE_READER,
            End::Socket => SOCKET_READER,
        }
    }
}

impl Mover {
    /// Its command with these further sinks; `None` where it is not on PATH.
    pub fn command(&self, program: &Program, sinks: &[String]) -> Option<Command> {
        let mut words = self.words.split_whitespace();
        let mut command = match self.of {
            Of::Fullbore => program.command(),
            Of::Path => Command::new(on_path(words.next()?)?),
        };
        command.args(words);
        for sink in sinks {
            command.args(self.sink_option).arg(sink);
        }
        Some(command)
    }

    /// The program's name.
    pub fn program(&self) -> &'static str {
        match self.of {
            Of::Fullbore => "fullbore",
            Of::Path => self.words.split(' ').next().unwrap_or_default(),
        }
    }

    /// Its command line for people.
    pub fn line(&self) -> String {
        match self.of {
            Of::Fullbore => format!("fullbore {}", self.words),
            Of::Path => self.words.to_owned(),
        }
    }

    /// What there is to report of it before it has moved anything.
    pub fn report(&self, job: &Job) -> MoverReport {
        MoverReport {
            job: job.title.into(),
            command: self.line(),
            version: match self.of {
                Of::Fullbore => None,
                Of::Path => version(self.program()),
            },
            bytes: None,
            seconds: None,
        }
    }
}

/// What a program on PATH says of its version.
pub fn version(program: &str) -> Option<String> {
    let option = if program == "socat" {
        "-V"
    } else {
        "--version"
    };
    let mut command = Command::new(on_path(program)?);
    command.arg(option).stdin(Stdio::null());
    let output = process::output(command).ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    // Socat says its authors first.
    let line = text
        .lines()
        .find(|line| line.chars().any(|c| c.is_ascii_digit()));
    line.map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_the_three_movers_that_need_nothing_installed() {
        for job in JOBS {
            for name in ["std", "snapshot", "reference"] {
                assert!(job.movers.iter().any(|mover| mover.name == name));
            }
            assert_eq!(job.movers[0].of, Of::Fullbore, "ratios need a base");
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
        assert_eq!(
            words(by_name("reference")),
            ["tee", "--by-reference", "a", "b"]
        );
        let mbuffer = Mover {
            of: Of::Fullbore,
            ..*by_name("mbuffer")
        };
        assert_eq!(
            words(&mbuffer)[2..],
            ["-o", "-", "-o", "a", "-o", "b"].map(String::from)
        );
    }
}
