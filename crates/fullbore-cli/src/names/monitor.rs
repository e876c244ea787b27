//! `pv -M SIDE COMMAND`: a command whose input, output or both are watched. This process becomes the pv on one side of
//! it, and starts the others, so that a caller that signals or waits for it does so as for any pv.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

use anyhow::bail;
use fullbore::Pipe;
use fullbore_host::refusal::Usage;
use rustix::stdio::{dup2_stdin, dup2_stdout};

use super::getopt::{Parsed, word};
use crate::error_text::{Failed, shown};

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
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
/// [`Usage`] if the command line is wrong; and if something cannot be started.
pub fn start(who: &str, parsed: &mut Parsed) -> anyhow::Result<Started> {
    let given = parsed.options.iter().rev().find(|(id, _)| *id == 'M');
    let Some((_, Some(text))) = given else {
        return Ok(Started::default());
    };
    let Some(side) = side(text) else {
        let text = shown(text);
        bail!(Usage(format!("-M: {text}: invalid side specification")));
    };
    let has = |id| parsed.options.iter().any(|(given, _)| *given == id);
    let words = std::mem::take(&mut parsed.operands);
    let wrong = |text: &str| Usage(text.into());
    if has('U') {
        bail!(wrong("monitor mode cannot be used with store-and-forward"));
    }
    if side == Watched::In && has('o') {
        bail!(wrong(
            "-o needs -M out or both: of 'in', the output is that of the command"
        ));
    }
    let Some((program, arguments)) = words.split_first() else {
        bail!(wrong("-M: a command to run must be specified"));
    };
    let of_program = format!("-M: {}", shown(program));
    let pipe = || Pipe::new().failed("-M: create a pipe");
    let mut command = Command::new(program);
    command.args(arguments);
    let mut started = Started::default();
    match side {
        Watched::In => {
            let pipe = pipe()?;
            started.command = Some(command.stdin(pipe.reader).spawn().failed(of_program)?);
            dup2_stdout(&pipe.writer).failed("-M: dup2 of stdout")?;
        }
        Watched::Out => {
            let pipe = pipe()?;
            started.command = Some(command.stdout(pipe.writer).spawn().failed(of_program)?);
            dup2_stdin(&pipe.reader).failed("-M: dup2 of stdin")?;
        }
        Watched::Both | Watched::Before => {
            let (first, second) = (pipe()?, pipe()?);
            command.stdin(first.reader).stdout(second.writer);
            started.command = Some(command.spawn().failed(of_program)?);
            let mut before = Command::new("/proc/self/exe");
            let options = options_of(&parsed.options, Watched::Before);
            before.arg0(who).args(options.into_iter().map(word_of));
            started.before = Some(before.stdout(first.writer).spawn().failed("-M: pv")?);
            dup2_stdin(&second.reader).failed("-M: dup2 of stdin")?;
        }
    }
    // Its pipes are held by nobody else.
    drop(command);
    parsed.options = options_of(&parsed.options, side);
    Ok(started)
}

fn side(text: &OsStr) -> Option<Watched> {
    match text.to_str()? {
        "in" | "0" => Some(Watched::In),
        "out" | "1" => Some(Watched::Out),
        "both" | "2" => Some(Watched::Both),
        _ => None,
    }
}

/// Returns the options of the pv on one side. Of two formats or names, the first is that of the input; of the others, all
/// are about both sides, but only one of two pvs has the file of the output and that of the PID: the last one.
fn options_of(all: &[(char, Option<OsString>)], side: Watched) -> Vec<(char, Option<OsString>)> {
    let is_before = side == Watched::Before;
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
            counts[which] < 2 || is_first == (is_before || side == Watched::In)
        }
        _ => true,
    };
    all.iter().filter(is_its).cloned().collect()
}

fn word_of((id, value): (char, Option<OsString>)) -> OsString {
    word(format!("-{id}"), value.unwrap_or_default())
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
            |side| -> Vec<OsString> { options_of(&all, side).into_iter().map(word_of).collect() };
        assert_eq!(words(Watched::Before), ["-c", "-F%b", "-Nx", "-s5"]);
        assert_eq!(words(Watched::Both), ["-c", "-F%r", "-Nx", "-s5", "-Pfile"]);
    }
}
