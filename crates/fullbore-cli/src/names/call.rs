//! How a program was called, and what all of them say and do.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command};
use fullbore_host::text::clean;
use nix::libc::SIGPIPE;

use super::getopt::{self, Parsed, Spec};
use crate::copying::is_plain;
use crate::exit;
use crate::inherited;
use crate::processes::interrupt::die_of;
use crate::terminal::lines::say_line;

/// A call of a program.
pub struct Call {
    /// The name or path that it was called by, as it is printed.
    pub who: String,
    pub args: Vec<OsString>,
}

impl Call {
    pub fn new(who: &OsStr, args: Vec<OsString>) -> Self {
        Self {
            who: clean(&who.to_string_lossy()),
            args,
        }
    }

    /// Reads the command line of one of GNU's programs; prints what is wrong with it.
    ///
    /// # Errors
    /// If it is wrong: the exit code.
    pub fn parsed(&self, specs: &[Spec<'_>]) -> Result<Parsed, ExitCode> {
        getopt::parse(specs, &self.args).map_err(|text| self.wrong(&text))
    }

    /// Whether bytes are to be moved by read(2) and write(2) only; prints what is wrong with the variable.
    ///
    /// # Errors
    /// The exit code.
    pub fn is_plain(&self) -> Result<bool, ExitCode> {
        is_plain().map_err(|error| self.failed(error))
    }

    /// Prints a line on stderr.
    pub fn say(&self, text: impl Display) {
        say_line(format_args!("{}: {text}", self.who));
    }

    /// Prints why the program ends.
    pub fn failed(&self, text: impl Display) -> ExitCode {
        self.say(text);
        ExitCode::FAILURE
    }

    /// Prints what is wrong with the command line, as GNU's programs do.
    pub fn wrong(&self, text: &str) -> ExitCode {
        self.say(text);
        say_line(format_args!(
            "Try '{} --help' for more information.",
            self.who
        ));
        ExitCode::FAILURE
    }

    /// Prints help or the version on stdout.
    pub fn print(&self, text: &str) -> ExitCode {
        let printed = inherited::stdout()
            .and_then(|out| out.lock().write_all(text.as_bytes()))
            .map_err(anyhow::Error::from)
            .and_then(|()| exit::close_stdout());
        match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => self.failed(format!("write error: {error:#}")),
        }
    }
}

/// Reads a command line of a verb.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn options_of<Verb: Args>(words: Vec<OsString>) -> Result<Verb, String> {
    let command = Verb::augment_args(Command::new("fullbore").no_binary_name(true));
    command
        .args_override_self(true)
        .try_get_matches_from(words)
        .and_then(|mut matches| Verb::from_arg_matches_mut(&mut matches))
        .map_err(|error| exit::first_line(&error))
}

/// Returns what `--version` prints: whose program this is, and which one it stands for.
pub fn version(name: &str, original: &str) -> String {
    format!(
        "{name} (fullbore) {}\nIt stands for {original}, and has its options. \
         See docs/install.md of fullbore.\n",
        env!("FULLBORE_VERSION")
    )
}

/// Ends this process by SIGPIPE, as a program in C ends whose output has lost its reader. Returns if SIGPIPE was
/// ignored when it was started.
pub fn lost_reader() {
    if !inherited::was_ignored(SIGPIPE) {
        die_of(SIGPIPE);
    }
}

/// Returns the name of a file as GNU's programs print it: quoted for the shell where that needs it.
pub fn quoted(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let is_special = |c: char| c.is_control() || " !\"$&'()*;<=>?[\\]^`|:".contains(c);
    let starts = name.starts_with(['~', '#']);
    if !name.is_empty() && !starts && !name.contains(is_special) {
        return name.into_owned();
    }
    if name.contains('\'') && !name.contains(|c: char| c.is_control() || "\"$`\\!".contains(c)) {
        return format!("\"{name}\"");
    }
    let mut text = String::from("'");
    for c in name.chars() {
        match c {
            '\'' => text += "'\\''",
            '\t' => text += "'$'\\t''",
            '\n' => text += "'$'\\n''",
            '\r' => text += "'$'\\r''",
            c if c.is_control() => text += &format!("'$'\\{:03o}''", u32::from(c)),
            c => text.push(c),
        }
    }
    text + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_gnu_quotes_them() {
        for (name, expected) in [
            ("a-b_c.d/\u{e9}~{}", "a-b_c.d/\u{e9}~{}"),
            ("", "''"),
            ("a b", "'a b'"),
            ("a'b", "\"a'b\""),
            ("$x", "'$x'"),
            ("~a", "'~a'"),
            ("a#", "a#"),
            ("a\tb", "'a'$'\\t''b'"),
            ("a'$", "'a'\\''$'"),
        ] {
            assert_eq!(quoted(OsStr::new(name)), expected);
        }
    }
}
