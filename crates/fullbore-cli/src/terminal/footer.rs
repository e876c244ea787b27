//! The last rows of the terminal, kept for what is drawn over and over, while programs write above them.
//!
//! Nothing tells that a program has written to the terminal, or where its cursor is. So the terminal itself
//! is told to scroll only the rows above (DECSTBM in console_codes(4)), as apt does for its progress, and the
//! cursor is put back after each drawing. What programs write stays where it would have been without, and
//! scrolls as ever. A drawing is one write, which the kernel mixes with no other (`tty_write_lock` in
//! drivers/tty/tty_io.c).

use std::io::{IsTerminal, stderr};

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp, tcgetwinsize};

use super::lines::say;

/// The cursor is saved, with its colours, and put back (DECSC, DECRC).
const SAVE: &str = "\x1b7";
const BACK: &str = "\x1b8";

/// All rows scroll again. The cursor jumps, and so it is put back.
const SCROLL_ALL: &str = "\x1b7\x1b[r\x1b8";

/// All below the cursor's row is erased; there is at least one row, by the first two: IND and CUU, which
/// both leave the column as it is.
const ERASE_BELOW: &str = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[J\x1b8";

/// Rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    rows: usize,
    columns: usize,
}

/// The last rows of the terminal that stderr is.
#[derive(Debug)]
pub struct Footer {
    /// How many; none as long as nothing is drawn.
    rows: usize,
    /// What the terminal was when they were taken.
    of: Size,
}

impl Footer {
    /// None where stderr is no terminal, or one whose cursor cannot be moved.
    pub fn new() -> Option<Self> {
        let of = size()?;
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        (!is_dumb).then_some(Self { rows: 0, of })
    }

    /// Columns that a line may take, and how many lines there may be: two thirds of the rows, and the rest
    /// is for the programs.
    pub fn room(&self) -> (usize, usize) {
        let size = size().unwrap_or(self.of);
        // In the last column terminals differ in what comes next.
        (size.columns.saturating_sub(1), size.rows * 2 / 3)
    }

    /// Whether the terminal is for somebody else just now: for another job, or for a program that has
    /// taken it out of its usual mode to draw or to read keys.
    pub fn is_in_the_way(&self) -> bool {
        // It fails where this is not the terminal of this process's session: nobody has jobs there.
        tcgetpgrp(stderr()).is_ok_and(|foreground| foreground != getpgrp())
            || tcgetattr(stderr())
                .is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ICANON))
    }

    /// Draws these lines, no more than there is [room](Self::room) for.
    pub fn draw(&mut self, lines: &[String]) {
        let Some(size) = size() else {
            return;
        };
        let mut text = String::new();
        if self.rows > 0 && size != self.of {
            // The terminal may have moved all its rows. What was drawn is below the cursor still.
            text += SCROLL_ALL;
            text += ERASE_BELOW;
            self.rows = 0;
        }
        self.of = size;
        if lines.len() > self.rows {
            // Where the cursor would be among the rows to be taken, it moves up together with what is there.
            let more = lines.len() - self.rows;
            text += &format!("{}\x1b[{more}A", "\x1bD".repeat(more));
            self.rows = lines.len();
        }
        let above = size.rows.saturating_sub(self.rows).max(1);
        text += &format!("{SAVE}\x1b[1;{above}r\x1b[m");
        for row in 0..self.rows {
            let line = lines.get(row).map_or("", String::as_str);
            text += &format!("\x1b[{};1H\x1b[K{line}", above + 1 + row);
        }
        text += BACK;
        say(&text);
    }

    /// Gives the rows back, empty.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.rows) > 0 {
            give_back();
        }
    }

    /// Takes the cursor to the start of a line, wherever it is: blanks go on to the next line unless they
    /// just fill this one.
    pub fn begin_a_line(&self) {
        let columns = size().unwrap_or(self.of).columns;
        say(&format!("{:columns$}\r\x1b[K", ""));
    }
}

impl Drop for Footer {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Gives the rows back that another process has taken and left, if stderr is a terminal.
pub fn give_back() {
    if stderr().is_terminal() {
        say(&format!("{SCROLL_ALL}{ERASE_BELOW}"));
    }
}

fn size() -> Option<Size> {
    let size = tcgetwinsize(stderr()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(Size {
        rows: size.ws_row.into(),
        columns: size.ws_col.into(),
    })
}
