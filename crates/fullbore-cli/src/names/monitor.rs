//! `pv -M SIDE COMMAND`: a command whose input, output or both are watched. This process becomes the pv on one side of
//! it, and starts the others, so that whoever signals or waits for it does so as for any pv.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

use fullbore::Pipe;
use fullbore_host::text::{clean, error_text};
use rustix::stdio::{dup2_stdin, dup2_stdout};

use super::getopt::Parsed;
use crate::meter::manner::{NOT_TOLD, WRONG};

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    In,
    Out,
    Both,
    /// The input, by another pv than the one that watches the output.
    Before,
}

/// The processes that this one has started.
#[derive(Debug, Default)]
pub struct Started {
    command: Option<Child>,
    /// The pv before the command, if this process is the one behind it.
    before: Option<Child>,
}

impl Started {
    /// Waits for them, and returns the exit code of all pvs: that of the other one if this one ended well. As with pv,
    /// that of the command is not passed on.
    pub fn end(self, own: ExitCode) -> ExitCode {
        if self.command.is_none() {
            return own;
        }
        // The command sees that its input has ended, or that nobody reads its output any more.
        if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
            let _ = dup2_stdin(&null);
            let _ = dup2_stdout(&null);
        }
        let code = |child: Option<Child>| child?.wait().ok()?.code();
        code(self.command);
        match code(self.before).and_then(|code| u8::try_from(code).ok()) {
            Some(code) if own == ExitCode::SUCCESS => ExitCode::from(code),
            _ => own,
        }
    }
}

/// Starts the command that `-M` is about, if it was given, and becomes the pv on one side of it: what is left in
/// `parsed` is about this process.
///
/// # Errors
/// A message and an exit code, if the command line is wrong or something cannot be started.
pub fn start(who: &str, parsed: &mut Parsed) -> Result<Started, (String, u8)> {
    let given = parsed.options.iter().rev().find(|(id, _)| *id == 'M');
    let Some((_, Some(text))) = given else {
        return Ok(Started::default());
    };
    let wrong = |text: String| (text, WRONG);
    let side = side(text).ok_or_else(|| {
        let text = clean(&text.to_string_lossy());
        wrong(format!("-M: {text}: invalid side specification"))
    })?;
    let has = |id| parsed.options.iter().any(|(given, _)| *given == id);
    if has('U') {
        let text = "monitor mode cannot be used with store-and-forward";
        return Err(wrong(text.into()));
    }
    if side == Side::In && has('o') {
        return Err(wrong(
            "-o needs -M out or both: of 'in', the output is that of the command".into(),
        ));
    }
    let words = std::mem::take(&mut parsed.operands);
    let Some((program, arguments)) = words.split_first() else {
        return Err(wrong("-M: a command to run must be specified".into()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let mut started = Started::default();
    match side {
        Side::In => {
            let pipe = pipe()?;
            started.command = Some(spawn(command.stdin(pipe.reader), program)?);
            dup2_stdout(&pipe.writer).map_err(cannot("dup2 of stdout"))?;
        }
        Side::Out => {
            let pipe = pipe()?;
            started.command = Some(spawn(command.stdout(pipe.writer), program)?);
            dup2_stdin(&pipe.reader).map_err(cannot("dup2 of stdin"))?;
        }
        Side::Both | Side::Before => {
            let (first, second) = (pipe()?, pipe()?);
            command.stdin(first.reader).stdout(second.writer);
            started.command = Some(spawn(&mut command, program)?);
            let mut before = Command::new("/proc/self/exe");
            let options = options_of(&parsed.options, Side::Before);
            before.arg0(who).args(options.into_iter().map(word));
            started.before = Some(spawn(before.stdout(first.writer), OsStr::new("pv"))?);
            dup2_stdin(&second.reader).map_err(cannot("dup2 of stdin"))?;
        }
    }
    // Its pipes are held by nobody else.
    drop(command);
    parsed.options = options_of(&parsed.options, side);
    Ok(started)
}

fn side(text: &OsStr) -> Option<Side> {
    match text.to_str()? {
        "in" | "0" => Some(Side::In),
        "out" | "1" => Some(Side::Out),
        "both" | "2" => Some(Side::Both),
        _ => None,
    }
}

fn pipe() -> Result<Pipe, (String, u8)> {
    Pipe::new().map_err(cannot("create a pipe"))
}

fn cannot<E: Display>(what: &str) -> impl FnOnce(E) -> (String, u8) {
    move |error| (format!("-M: {what}: {error}"), NOT_TOLD)
}

fn spawn(command: &mut Command, program: &OsStr) -> Result<Child, (String, u8)> {
    command.spawn().map_err(|error| {
        let program = clean(&program.to_string_lossy());
        (format!("-M: {program}: {}", error_text(&error)), NOT_TOLD)
    })
}

/// Returns the options of the pv on one side. Of two formats or names, the first is that of the input; of the others, all
/// are about both sides, but only one of two pvs has the file of the output and that of the PID: the last one.
fn options_of(all: &[(char, Option<OsString>)], side: Side) -> Vec<(char, Option<OsString>)> {
    let is_before = side == Side::Before;
    let count = |id| all.iter().filter(|(given, _)| *given == id).count();
    let counts = ['F', 'N'].map(count);
    let mut seen = [0; 2];
    let is_its = |(id, _): &&(char, Option<OsString>)| match id {
        'M' => false,
        'o' | 'P' => !is_before,
        'F' | 'N' => {
            let which = usize::from(*id == 'N');
            seen[which] += 1;
            let is_first = seen[which] == 1;
            counts[which] < 2 || is_first == (is_before || side == Side::In)
        }
        _ => true,
    };
    all.iter().filter(is_its).cloned().collect()
}

/// Returns an option as one word.
fn word((id, value): (char, Option<OsString>)) -> OsString {
    let mut word = OsString::from(format!("-{id}"));
    word.push(value.unwrap_or_default());
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_formats_the_first_is_that_of_the_input() {
        let options = [
            ("c", None),
            ("F", Some("%b")),
            ("F", Some("%r")),
            ("N", Some("x")),
            ("s", Some("5")),
        ];
        let options = options
            .into_iter()
            .chain([("M", Some("both")), ("P", Some("file"))]);
        let all: Vec<(char, Option<OsString>)> = options
            .map(|(id, value)| (id.chars().next().unwrap(), value.map(OsString::from)))
            .collect();
        let words =
            |side| -> Vec<OsString> { options_of(&all, side).into_iter().map(word).collect() };
        assert_eq!(words(Side::Before), ["-c", "-F%b", "-Nx", "-s5"]);
        assert_eq!(words(Side::Both), ["-c", "-F%r", "-Nx", "-s5", "-Pfile"]);
    }
}
