//! `tee` of GNU coreutils 9.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;

use fullbore::tee::Policy;
use fullbore::{TeeOptions, TransferSide};
use fullbore_host::text::error_text;
use fullbore_linux::is_pipe_or_socket;
use nix::libc::SIGPIPE;
use rustix::fs::{FileType, OFlags, fstat, tell};

use super::call::{Call, lost_reader, quoted, version};
use super::getopt;
use super::tables;
use crate::command::tee::{BY_DEFAULT, Mode, ignore_interrupts};
use crate::copying::SourcePipe;
use crate::copying::failure::{side_of, words_of};
use crate::inherited::{self, was_ignored};

#[rustfmt::skip]
const MODES: [(&str, Mode, &str); 4] = [
    ("warn", Mode::Warn, "print a message, and go on with the other outputs"),
    ("warn-nopipe", Mode::WarnNopipe, "the same, without a message for a pipe that has no reader"),
    ("exit", Mode::Exit, "stop"),
    ("exit-nopipe", Mode::ExitNopipe, "stop, except for a pipe that has no reader"),
];

const STDOUT: &str = "'standard output'";

pub fn run(call: &Call) -> Result<ExitCode, ExitCode> {
    let parsed = call.parsed(&tables::tee())?;
    let (mut append, mut mode) = (false, None);
    for (id, value) in parsed.options {
        match id {
            'a' => append = true,
            'i' => {
                let ignored = ignore_interrupts();
                ignored.map_err(|error| call.failed(format!("{error:#}")))?;
            }
            'p' => mode = Some(Mode::WarnNopipe),
            'o' => {
                let named = value.as_deref().map_or(Ok(Mode::WarnNopipe), mode_named);
                mode = Some(named.map_err(|text| call.wrong(&text))?);
            }
            'h' => return Ok(call.print(&help(&call.who))),
            _ => return Ok(call.print(&version("tee", "tee of GNU coreutils 9"))),
        }
    }
    let is_plain = call.is_plain()?;
    let mut outputs: Vec<(String, OwnedFd)> = Vec::new();
    let mut is_well = true;
    let stops = matches!(mode, Some(Mode::Exit | Mode::ExitNopipe));
    let opened = (parsed.operands.iter()).map(|name| (quoted(name), create(name, append)));
    let opened = std::iter::once((STDOUT.to_owned(), stdout())).chain(opened);
    for (name, opened) in opened {
        match opened {
            Ok(fd) => outputs.push((name, fd)),
            Err(error) => {
                call.say(format!("{name}: {}", error_text(&error)));
                is_well = false;
                if stops {
                    return Err(ExitCode::FAILURE);
                }
            }
        }
    }
    if inherited::stdin_was_closed() {
        call.say("read error: Bad file descriptor");
        return Err(call.failed("standard input: Bad file descriptor"));
    }
    is_well &= copy(call, &outputs, mode, is_plain);
    for (name, fd) in outputs {
        // A duplicate of stdout stays open, and each close(2) reports the errors.
        if let Err(error) = fullbore::close(fd) {
            call.say(format!("{name}: {}", words_of(&error)));
            is_well = false;
        }
    }
    Ok(ExitCode::from(u8::from(!is_well)))
}

/// Copies stdin to the outputs. Returns whether nothing went wrong.
fn copy(call: &Call, outputs: &[(String, OwnedFd)], mode: Option<Mode>, is_plain: bool) -> bool {
    if outputs.is_empty() {
        return false;
    }
    let mut sinks = Vec::new();
    let policy = match mode {
        Some(mode) => mode.policy(),
        // Where SIGPIPE is ignored, GNU's tee goes on without a word.
        None if was_ignored(SIGPIPE) => Policy::IGNORE_CLOSED,
        None => BY_DEFAULT,
    };
    for (name, fd) in outputs {
        match is_input(fd) {
            None => sinks.push((fd, policy)),
            // It was truncated when it was opened.
            Some(true) => return true,
            Some(false) => {
                call.say(format!("{name}: input file is output file"));
                return false;
            }
        }
    }
    let options = TeeOptions::new().plain(is_plain);
    let options = options.fail_without_readers(mode.is_some());
    let mut source_pipe = SourcePipe::new(is_plain);
    let mut tee = options.open(io::stdin(), sinks);
    let (report, failure) = match tee
        .run_with(|bytes| source_pipe.gave(io::stdin(), Some(rustix::stdio::stdout()), bytes))
    {
        Ok(report) => (report, None),
        Err(failure) => (*failure.report, Some((failure.sink, failure.error))),
    };
    let mut is_well = true;
    for (sink, (name, _)) in report.sinks.iter().zip(outputs) {
        if let Some(error) = sink.error.as_ref().filter(|_| !sink.ignored) {
            call.say(format!("{name}: {}", words_of(error)));
            is_well = false;
        }
    }
    let Some((at, error)) = failure else {
        return is_well;
    };
    if side_of(&error) == Some(TransferSide::Source) {
        call.say(format!("read error: {}", words_of(&error)));
        return false;
    }
    // A file may answer EPIPE too.
    let is_broken = error.kind() == io::ErrorKind::BrokenPipe
        && at.is_none_or(|at| is_pipe_or_socket(&outputs[at].1));
    if is_broken && mode.is_none() {
        lost_reader();
    }
    if is_broken && !matches!(mode, Some(Mode::Warn | Mode::Exit)) {
        return is_well;
    }
    let name = at.map_or(STDOUT, |at| &outputs[at].0);
    call.say(format!("{name}: {}", words_of(&error)));
    false
}

/// Returns a duplicate of stdout. If stdout is closed, only a write fails, as in GNU's tee, which so ends with 0 if there
/// is nothing to write: a descriptor that is open only for reading fails with the same EBADF.
fn stdout() -> io::Result<OwnedFd> {
    match inherited::stdout() {
        Ok(stdout) => rustix::io::fcntl_dupfd_cloexec(stdout, 3).map_err(Into::into),
        Err(_) => Ok(File::open("/dev/null")?.into()),
    }
}

/// Opens a file. What is open already, such as `/dev/stderr`, is written to where it stands: GNU's tee would empty it.
fn create(name: &OsStr, append: bool) -> io::Result<OwnedFd> {
    let open = || {
        let mut options = File::options();
        options.create(true).append(append).truncate(!append);
        options.write(!append).open(name)
    };
    let file = inherited::descriptor(Path::new(name), OFlags::WRONLY).unwrap_or_else(open)?;
    Ok(file.into())
}

/// Returns `None` if the output is no regular file that is the input too; otherwise whether nothing is left to read.
fn is_input(output: &OwnedFd) -> Option<bool> {
    let (from, to) = (fstat(io::stdin()).ok()?, fstat(output).ok()?);
    let is_file = FileType::from_raw_mode(to.st_mode) == FileType::RegularFile;
    let is_same = (from.st_dev, from.st_ino) == (to.st_dev, to.st_ino);
    let position = tell(io::stdin()).unwrap_or(0);
    (is_file && is_same).then(|| position >= to.st_size.unsigned_abs())
}

/// Returns the mode with this name, or the only one that begins with it.
fn mode_named(name: &OsStr) -> Result<Mode, String> {
    let name = name.to_string_lossy();
    let begins = |(full, ..): &(&str, Mode, &str)| full.starts_with(&*name);
    let found: Vec<_> = MODES.into_iter().filter(begins).collect();
    let exact = found.iter().find(|(full, ..)| *full == name);
    let what = match (exact, found.as_slice()) {
        (Some((_, mode, _)), _) | (None, [(_, mode, _)]) => return Ok(*mode),
        (None, []) => "invalid",
        (None, _) => "ambiguous",
    };
    let valid = MODES.map(|(full, ..)| format!("\n  - \u{2018}{full}\u{2019}"));
    let valid = valid.concat();
    Err(format!(
        "{what} argument \u{2018}{name}\u{2019} for \u{2018}--output-error\u{2019}\nValid arguments are:{valid}"
    ))
}

fn help(who: &str) -> String {
    let modes: String = (MODES.iter())
        .map(|(name, _, about)| format!("  {name:<30}{about}\n"))
        .collect();
    format!(
        "Usage: {who} [OPTION]... [FILE]...\n\
         Copy standard input to standard output and to each FILE.\n\n\
         {}\nMODE is one of:\n{modes}\n\
         Without --output-error, it ends by SIGPIPE if a pipe has no reader, and prints a message for other outputs \
         that fail.\n\
         This is 'fullbore tee' under the name of tee.\n",
        getopt::help(&tables::tee())
    )
}
