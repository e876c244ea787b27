//! The last rows of the terminal, reserved for lines that are redrawn while programs write
//! above them.
//!
//! Nothing reports that a program has written to the terminal, or where its cursor is. So the terminal itself
//! is set to scroll only the rows above (DECSTBM in console_codes(4)), as apt does for its progress, and the
//! cursor is restored after each drawing. The output of programs appears where it would appear without the
//! reserved rows, and scrolls as usual. A drawing is one write, which the kernel mixes with no other
//! (`tty_write_lock` in drivers/tty/tty_io.c).

use std::io::{IsTerminal, stderr};

use rustix::termios::{LocalModes, tcgetattr};

use super::lines::say;

/// `SAVE` saves the cursor with its colours (DECSC), and `BACK` restores it (DECRC).
const SAVE: &str = "\x1b7";
const BACK: &str = "\x1b8";

/// Makes all rows scroll again. This moves the cursor, so the cursor is saved and restored.
const SCROLL_ALL: &str = "\x1b7\x1b[r\x1b8";

/// Erases everything below the cursor's row. The first two sequences, IND and CUU, make sure that there is a
/// row below; both leave the column as it is.
const ERASE_BELOW: &str = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[J\x1b8";

/// The reserved last rows of the terminal on stderr.
#[derive(Debug)]
pub struct Footer {
    /// The number of reserved rows; 0 as long as nothing is drawn.
    rows: usize,
    /// The columns and the rows of the terminal when the rows were reserved.
    of: (usize, usize),
}

impl Footer {
    /// Returns the footer of the terminal on stderr, or `None` if stderr is no terminal or one whose cursor
    /// cannot be moved.
    pub fn new() -> Option<Self> {
        let of = size()?;
        (!super::is_dumb()).then_some(Self { rows: 0, of })
    }

    /// Returns the columns that a line may have, and how many lines there may be: two thirds of the rows,
    /// because the rest is for the programs.
    pub fn room(&self) -> (usize, usize) {
        let (columns, rows) = size().unwrap_or(self.of);
        // Terminals differ in what they do after a character in the last column.
        (columns.saturating_sub(1), rows * 2 / 3)
    }

    /// Returns whether the terminal is in use by another job, or by a program that has changed its mode to
    /// draw or to read keys.
    pub fn is_in_the_way(&self) -> bool {
        super::is_in_the_background()
            || tcgetattr(stderr())
                .is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ICANON))
    }

    /// Draws these lines, of which there must be no more than [`room`](Self::room) allows.
    pub fn draw(&mut self, lines: &[String]) {
        let Some(size) = size() else {
            return;
        };
        let mut text = String::new();
        if self.rows > 0 && size != self.of {
            // The terminal may have moved all its rows, but the last drawing is still below the cursor.
            text += SCROLL_ALL;
            text += ERASE_BELOW;
            self.rows = 0;
        }
        self.of = size;
        if lines.len() > self.rows {
            // If the cursor is in the rows to be reserved, it moves up together with their text.
            let more = lines.len() - self.rows;
            text += &format!("{}\x1b[{more}A", "\x1bD".repeat(more));
            self.rows = lines.len();
        }
        let above = size.1.saturating_sub(self.rows).max(1);
        text += &format!("{SAVE}\x1b[1;{above}r\x1b[m");
        for row in 0..self.rows {
            let line = lines.get(row).map_or("", String::as_str);
            text += &format!("\x1b[{};1H\x1b[K{line}", above + 1 + row);
        }
        text += BACK;
        say(&text);
    }

    /// Releases the rows, and leaves them empty. Returns whether there were any.
    pub fn clear(&mut self) -> bool {
        let were_any = std::mem::take(&mut self.rows) > 0;
        if were_any {
            give_back();
        }
        were_any
    }

    /// Moves the cursor to the start of a line, wherever it is: the blanks continue on the next line unless
    /// they exactly fill this one.
    pub fn begin_a_line(&self) {
        let (columns, _) = size().unwrap_or(self.of);
        say(&format!("{:columns$}\r\x1b[K", ""));
    }
}

impl Drop for Footer {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Releases the rows that another process has reserved and left, if stderr is a terminal.
pub fn give_back() {
    if stderr().is_terminal() {
        say(&format!("{SCROLL_ALL}{ERASE_BELOW}"));
    }
}

fn size() -> Option<(usize, usize)> {
    super::size_of(stderr()).filter(|&(_, rows)| rows > 0)
}
