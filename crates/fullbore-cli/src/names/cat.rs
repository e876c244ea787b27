//! `cat` of GNU coreutils 9.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use fullbore::{Producer, ProducerOptions, TransferOptions, TransferSide, Way};
use fullbore_host::text::error_text;
use fullbore_linux::messages::{MESSAGE, keeps_messages};
use fullbore_linux::{Aligned, is_pipe_or_socket};

use super::call::{Call, lost_reader, quoted, version};
use super::getopt;
use super::lines::{Lines, Options};
use super::tables;
use crate::copying::failure::{side_of, words_of};
use crate::copying::{Same, SourcePipe};
use crate::exit;
use crate::inherited;

/// The bytes that are read at a time where lines are changed.
const CHUNK: usize = 128 << 10;

pub fn run(call: &Call) -> Result<ExitCode, ExitCode> {
    let parsed = call.parsed(&tables::cat())?;
    let mut options = Options::default();
    for (id, _) in parsed.options {
        match id {
            'b' => options.number_nonblank = true,
            'n' => options.number = true,
            's' => options.squeeze = true,
            'v' => options.nonprinting = true,
            'E' => options.ends = true,
            'T' => options.tabs = true,
            'A' | 'e' | 't' => {
                options.nonprinting = true;
                options.ends |= id != 't';
                options.tabs |= id != 'e';
            }
            'u' => {}
            'h' => return Ok(call.print(&help(&call.who))),
            _ => return Ok(call.print(&version("cat", "cat of GNU coreutils 9"))),
        }
    }
    let is_plain = call.is_plain()?;
    if inherited::stdout().is_err() {
        return Err(call.failed("standard output: Bad file descriptor"));
    }
    let to = ProducerOptions::new().way(Way::Copy).open(io::stdout());
    let mut cat = Cat {
        call,
        to: to.map_err(|error| call.failed(error))?,
        lines: Lines::new(options),
        changes: options != Options::default(),
        is_plain,
        source_pipe: SourcePipe::new(is_plain),
        is_well: true,
    };
    let files = match parsed.operands.is_empty() {
        true => vec!["-".into()],
        false => parsed.operands,
    };
    let written = (files.iter())
        .try_for_each(|name| cat.file(name))
        .and_then(|()| cat.finish());
    if let Err(text) = written {
        return Err(call.failed(format!("write error: {text}")));
    }
    Ok(ExitCode::from(u8::from(!cat.is_well)))
}

/// What is copied. Its methods fail, with the reason, if nothing more can be written.
struct Cat<'a> {
    call: &'a Call,
    /// Where changed lines go.
    to: Producer<io::Stdout>,
    lines: Lines,
    /// Whether lines are changed.
    changes: bool,
    is_plain: bool,
    source_pipe: SourcePipe,
    is_well: bool,
}

impl Cat<'_> {
    fn file(&mut self, name: &OsStr) -> Result<(), String> {
        let is_stdin = name == "-";
        if is_stdin && inherited::stdin_was_closed() {
            self.failed(name, "Bad file descriptor");
            self.call.say("closing standard input: Bad file descriptor");
            return Ok(());
        }
        if is_stdin {
            return self.copy(name, io::stdin());
        }
        match inherited::open(Path::new(name)) {
            Ok(file) => return self.copy(name, file),
            Err(error) => self.failed(name, &error_text(&error)),
        }
        Ok(())
    }

    fn failed(&mut self, name: &OsStr, text: &str) {
        self.call.say(format!("{}: {text}", quoted(name)));
        self.is_well = false;
    }

    fn copy(&mut self, name: &OsStr, source: impl Read + AsFd) -> Result<(), String> {
        let same = Same::as_stdout(&source);
        if same == Same::WouldGrow {
            self.failed(name, "input file is output file");
            return Ok(());
        }
        // Nothing but read(2) and write(2) moves bytes inside of a file.
        if self.changes || same == Same::Behind {
            return self.change(name, source);
        }
        let ran = TransferOptions::new()
            .plain(self.is_plain)
            .open(&source, io::stdout())
            .run_with(|progress| {
                self.source_pipe
                    .gave(&source, Some(rustix::stdio::stdout()), progress.step)
            });
        match ran {
            Ok(_) => Ok(()),
            Err(failure) if side_of(&failure.error) == Some(TransferSide::Sink) => {
                Err(unwritable(failure.error.kind(), words_of(&failure.error)))
            }
            Err(failure) => {
                self.failed(name, &words_of(&failure.error));
                Ok(())
            }
        }
    }

    /// Copies, and changes lines.
    fn change(&mut self, name: &OsStr, mut source: impl Read + AsFd) -> Result<(), String> {
        let chunk = match keeps_messages(source.as_fd()) {
            true => MESSAGE,
            false => CHUNK,
        };
        let (mut bytes, mut out) = (Aligned::new(chunk), Vec::new());
        loop {
            match source.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => self.lines.add(&bytes[..count], &mut out),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed(name, &error_text(&error));
                    return Ok(());
                }
            }
            self.write(&mut out)?;
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        let mut out = Vec::new();
        self.lines.finish(&mut out);
        self.write(&mut out)?;
        exit::close_stdout().map_err(|error| format!("{error:#}"))
    }

    /// Writes to stdout, past the buffer of lines that Rust has there.
    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let written = self.to.write_all(out).and_then(|()| self.to.flush());
        out.clear();
        written.map_err(|error| unwritable(error.kind(), error_text(&error)))
    }
}

/// Ends this process by SIGPIPE if stdout has lost its reader; a file may answer EPIPE too.
fn unwritable(kind: io::ErrorKind, text: String) -> String {
    if kind == io::ErrorKind::BrokenPipe && is_pipe_or_socket(io::stdout()) {
        lost_reader();
    }
    text
}

fn help(who: &str) -> String {
    format!(
        "Usage: {who} [OPTION]... [FILE]...\n\
         Copy each FILE to standard output, one after the other. Without FILE, or for '-', copy standard input.\n\n\
         {}\n\
         This is 'fullbore copy' under the name of cat.\n",
        getopt::help(&tables::cat())
    )
}
