//! Output that more than one subcommand draws on a terminal or prints for people.

pub mod bar;
pub mod footer;
pub mod group;
pub mod line;
pub mod lines;
pub mod live;
pub mod log_line;
pub mod progress;
pub mod report;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// stderr, for lines that people read. A job in the background is not stopped by them, whatever the terminal is set to
/// (`stty tostop`).
#[derive(Debug, Clone, Copy)]
pub struct Stderr;

/// Returns stderr, for lines that people read.
pub fn stderr() -> Stderr {
    Stderr
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // While the signal is blocked, the terminal takes the bytes (`__tty_check_change`, drivers/tty/tty_jobctrl.c).
        let before = SigSet::from(Signal::SIGTTOU).thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let written = io::stderr().write(bytes);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stderr {
    fn as_fd(&self) -> BorrowedFd<'_> {
        rustix::stdio::stderr()
    }
}

/// Returns the columns and the rows of a terminal that knows its columns. One that does not know its rows has 0.
pub fn size_of(terminal: impl AsFd) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    let known = (size.ws_col.into(), size.ws_row.into());
    Some(known).filter(|&(columns, _)| columns > 0)
}

/// Returns whether another job has the terminal on stderr. tcgetpgrp(3) fails if it is not that of this session, which
/// has no jobs there then.
fn is_in_the_background() -> bool {
    let foreground = rustix::termios::tcgetpgrp(stderr());
    foreground.is_ok_and(|foreground| foreground != rustix::process::getpgrp())
}

/// Returns whether output on a terminal may have colours: NO_COLOR is unset or empty (no-color.org), and
/// the terminal obeys sequences.
pub fn may_colour() -> bool {
    !is_dumb() && allows_colour(std::env::var_os("NO_COLOR").as_deref())
}

/// Returns whether the terminal obeys no sequences that move the cursor: TERM is unset, empty or `dumb`.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

fn allows_colour(no_color: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_value_that_is_not_empty_forbids_colours() {
        for (no_color, allowed) in [
            (None, true),
            (Some(""), true),
            (Some("0"), false),
            (Some("1"), false),
        ] {
            assert_eq!(
                allows_colour(no_color.map(OsStr::new)),
                allowed,
                "{no_color:?}"
            );
        }
    }
}
