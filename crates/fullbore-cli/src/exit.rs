//! Exit codes, and the errors that choose one.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; also if the reader of the output closed it early |
//! | 1 | something failed: an I/O error, wrong bytes, an experiment that failed |
//! | 2 | the command line is invalid or contradicts itself |
//! | 3 | this machine does not allow it, or this user lacks permission |

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Once;

use anyhow::Context;

use crate::copying::SameFile;
use crate::copying::failure::{close_failed, is_closed_output};
use crate::limits::{limit_of_files, limit_of_processes};
use crate::terminal::lines::say_line;
use fullbore_host::refusal::{UNSUPPORTED, Unsupported, Usage};
use fullbore_host::text::{clean, error_text};
use fullbore_linux::error::errno;
use fullbore_observe::Error;
use rustix::io::Errno;

/// Prefix of the exit-code section.
pub const PREFIX: &str = "Exit codes: ";

/// The exit codes, for the help.
pub const CODES: &str = "Exit codes: 0 done; 1 something failed; 2 the command line is invalid; 3 \
    this machine does not allow it, or this user lacks permission.";

/// Prints an error of `who`, such as `fullbore copy`, on stderr. Unlike eprintln!, it does not panic if stderr
/// is closed.
pub fn say(who: &str, error: &anyhow::Error) {
    say_line(line(who, error));
}

/// Returns the line about an error of `who`.
pub fn line(who: &str, error: &anyhow::Error) -> String {
    // The text can contain names that others chose: files, arguments, programs.
    format!("{who}: {}", clean(&text(error)))
}

/// Returns what failed and why, with the limit that was hit, if one was.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = without_numbers(&format!("{error:#}"));
    if let Some(limit) = error.chain().find_map(limit_of) {
        text += &format!(" ({limit})");
    }
    text
}

/// Returns the limit of open files or pipes that is the cause of an error.
fn limit_of(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    let number = |error: &io::Error| error.raw_os_error().map(Errno::from_raw_os_error);
    let of_nix = |errno: &nix::errno::Errno| Errno::from_raw_os_error(*errno as i32);
    if let Some(fullbore::Error::System {
        operation: "start a thread",
        errno,
    }) = cause.downcast_ref()
    {
        return limit_of_processes(number(errno)?);
    }
    let errno = (cause.downcast_ref::<Errno>().copied())
        .or_else(|| cause.downcast_ref().map(of_nix))
        .or_else(|| cause.downcast_ref().and_then(number))
        .or_else(|| cause.downcast_ref().and_then(errno));
    limit_of_files(errno?)
}

/// Removes the numbers of errors, such as ' (os error 2)', which Rust appends to the kernel's words.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next();
    let rest = parts.map(|part| part.split_once(')').map_or("", |(_, rest)| rest));
    first.into_iter().chain(rest).collect()
}

/// Ends the process with one line of `who` and code 1 where a thread cannot be started and std panics: in
/// `thread::spawn`, and in the new thread itself, where the memory for its signal stack cannot be mapped, and where a
/// panic would abort the process (`stack_overflow`, library/std/src/sys). Every other panic stays what it is.
pub fn end_where_no_thread_starts(who: String) {
    static FIRST: Once = Once::new();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.to_string();
        let is_start = ["alternative stack", "spawn thread", "spawn worker thread"];
        if !is_start.iter().any(|words| said.contains(words)) {
            return before(panic);
        }
        let numbers = ["os error ", "code: "].iter();
        let number = numbers.filter_map(|before| said.split_once(before)).next();
        let number = number.and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
        let number = number.and_then(|digits| digits.parse().ok());
        let errno = Errno::from_raw_os_error(number.unwrap_or(Errno::NOMEM.raw_os_error()));
        // Another thread that fails as well waits in `call_once` for the end.
        FIRST.call_once(|| {
            // An `anyhow::Error` would take memory for a backtrace, and none may be left.
            let limit = limit_of_processes(errno).map(|limit| format!(" ({limit})"));
            let (why, limit) = (error_text(&errno.into()), limit.unwrap_or_default());
            say_line(format_args!("{who}: start a thread: {why}{limit}"));
            std::process::exit(1);
        });
    }));
}

/// Flushes stdout, and closes it so that the file system reports its errors: the last thing that a verb
/// does.
///
/// A duplicate is closed: close(2) reports the errors each time, and stdout stays open for threads that
/// still print.
///
/// # Errors
/// Those of write(2) and close(2).
pub fn close_stdout() -> anyhow::Result<()> {
    let stdout = io::stdout();
    stdout.lock().flush().context("write to stdout")?;
    let duplicate = stdout.as_fd().try_clone_to_owned().context("dup stdout")?;
    fullbore::close(duplicate).map_err(|error| close_failed("stdout", error))
}

/// Returns how a verb has ended, after stdout was closed if it has not failed.
///
/// # Errors
/// Those of the verb, and of [`close_stdout`].
pub fn closed(outcome: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    outcome.and_then(|code| close_stdout().map(|()| code))
}

/// Returns what clap says about a wrong command line, without its advice, in one line.
pub fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().map(str::trim);
    let first: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    first.join(" ")
}

/// Returns whether an error is that the command line is wrong.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<Usage>() || error.is::<SameFile>()
}

/// Returns the exit code for an error that is to be printed; `None` if the output was only closed early,
/// which is not an error.
pub fn code(error: &anyhow::Error) -> Option<ExitCode> {
    let of_observe = matches!(error.downcast_ref(), Some(Error::Unsupported(_)));
    let code = match is_usage(error) {
        true => 2,
        false if of_observe || error.is::<Unsupported>() => UNSUPPORTED,
        false => 1,
    };
    (!is_closed_output(error)).then(|| ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_numbers_of_errors() {
        let of = |number| anyhow::Error::new(io::Error::from_raw_os_error(number));
        let error = of(2).context("read 'a'");
        assert_eq!(
            line("who", &error),
            "who: read 'a': No such file or directory"
        );
        let both = anyhow::anyhow!("{} and {}", of(2), of(13));
        let expected = "who: No such file or directory and Permission denied";
        assert_eq!(line("who", &both), expected);
        let files = anyhow::Error::new(Errno::MFILE).context("create pipe 1 of 2");
        let text = line("who", &files);
        let limit = limit_of_files(Errno::MFILE).unwrap();
        assert_eq!(
            text,
            format!("who: create pipe 1 of 2: Too many open files ({limit})")
        );
    }
}
