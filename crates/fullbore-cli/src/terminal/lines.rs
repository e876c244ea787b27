//! Lines on stderr that are drawn over and over in the same place.
//!
//! Each drawing is one write, so that what other programs say at the same time is not torn. Where
//! stderr is no terminal and lines are shown all the same, a single one is followed by a carriage
//! return, as other tools do it, and several are written one below the other.

use std::io::{IsTerminal, Write, stderr};

/// Columns where nothing tells how many there are.
const COLUMNS: usize = 80;

/// Columns that are left free: in the last one terminals differ in what comes next, and where a `^C`
/// that the terminal echoes made a line wrap, the rows would be one more than were drawn.
const SPARE: usize = 3;

/// Where lines are drawn.
#[derive(Debug)]
pub struct Screen {
    terminal: bool,
    /// Lines of the last drawing that are still there to be drawn over.
    rows: usize,
    /// Columns of the last line, where no terminal clears it.
    columns: usize,
}

impl Screen {
    /// Stderr, if it is a terminal, or if lines are to be shown `anyway`.
    pub fn new(anyway: bool) -> Option<Self> {
        let terminal = stderr().is_terminal();
        (terminal || anyway).then_some(Self {
            terminal,
            rows: 0,
            columns: 0,
        })
    }

    /// Columns that a line may take, and rows that there are.
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

    /// Takes the lines off the screen.
    pub fn clear(&mut self) {
        if self.terminal {
            say(&self.erase());
        } else if self.columns > 0 {
            say("\n");
        }
        (self.rows, self.columns) = (0, 0);
    }

    /// What takes the cursor to the start of the first row, and all that is below away
    /// (console_codes(4): CUU, and ED with its default).
    fn erase(&self) -> String {
        match self.rows {
            0 | 1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }
}

/// Nobody is told if stderr is closed: there is no place where one could.
pub fn say(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}
