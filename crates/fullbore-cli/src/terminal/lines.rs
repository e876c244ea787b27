//! Lines on stderr that are drawn again and again in the same place.
//!
//! Each drawing is one write, so that the output of other programs does not split it. If stderr is no
//! terminal and lines are shown nevertheless, a single line is followed by a carriage return, as in other
//! tools, and several lines are written one below the other.

use std::io::{IsTerminal, Write, stderr};

/// The number of columns if the real number is unknown.
const COLUMNS: usize = 80;

/// The number of columns that are left free. Terminals differ in what they do after a character in the last
/// column; and if a `^C` that the terminal echoes made a line wrap, there would be one row more than was
/// drawn.
const SPARE: usize = 3;

/// The place where lines are drawn.
#[derive(Debug)]
pub struct Screen {
    terminal: bool,
    /// The number of lines of the last drawing that the next one overwrites.
    rows: usize,
    /// The width of the last line, which the next one has to cover if stderr is no terminal.
    columns: usize,
}

impl Screen {
    /// Returns the place on stderr, if stderr is a terminal or if lines are to be shown `anyway`.
    pub fn new(anyway: bool) -> Option<Self> {
        let terminal = stderr().is_terminal();
        (terminal || anyway).then_some(Self {
            terminal,
            rows: 0,
            columns: 0,
        })
    }

    /// Returns the columns that a line may have, and the number of rows.
    pub fn size(&self) -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(stderr());
        let size = size.ok().filter(|size| size.ws_col > 0);
        let columns = size.map_or(COLUMNS, |size| size.ws_col.into());
        let rows = size.map_or(usize::MAX, |size| size.ws_row.max(2).into());
        (columns.saturating_sub(SPARE), rows)
    }

    /// Draws these lines over the last ones.
    pub fn draw(&mut self, lines: &[String]) {
        let mut text = String::new();
        if self.terminal {
            text += &self.erase();
            text += &lines.join("\r\n");
            self.rows = lines.len();
        } else if let [line] = lines {
            let columns = self.columns;
            text = format!("{line:<columns$}\r");
            self.columns = line.chars().count();
        } else {
            for line in lines {
                text += line;
                text.push('\n');
            }
        }
        say(&text);
    }

    /// Draws these lines over the last ones, and leaves them there for good.
    pub fn leave(&mut self, lines: &[String]) {
        let mut text = String::new();
        if self.terminal {
            text += &self.erase();
        }
        for line in lines {
            let columns = std::mem::take(&mut self.columns);
            text += &format!("{line:<columns$}\n");
        }
        self.rows = 0;
        say(&text);
    }

    /// Removes the lines from the screen.
    pub fn clear(&mut self) {
        if self.terminal {
            say(&self.erase());
        } else if self.columns > 0 {
            say("\n");
        }
        (self.rows, self.columns) = (0, 0);
    }

    /// Returns the sequence that moves the cursor to the start of the first row and erases everything below
    /// (console_codes(4): CUU, and ED with its default).
    fn erase(&self) -> String {
        match self.rows {
            0 | 1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }
}

/// Writes to stderr. An error is ignored, because there is no other place to report it.
pub fn say(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}
