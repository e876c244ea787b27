//! Lines on stderr that are drawn again and again in the same place.
//!
//! Each drawing is one write, so that the output of other programs does not split it. If stderr is no
//! terminal and lines are shown nevertheless, a single line is followed by a carriage return, as in other
//! tools, and several lines are written one below the other.

use std::io::{IsTerminal, Write, stderr};

use fullbore_host::text::wrapped;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

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
    /// Whether lines are drawn also while another job has the terminal.
    anyway: bool,
    /// The number of rows, if it is not to be asked for.
    height: Option<usize>,
    /// The columns of each line of the last drawing, which the next one overwrites.
    drawn: Vec<usize>,
    /// The width of the last line, which the next one has to cover if stderr is no terminal.
    columns: usize,
}

impl Screen {
    /// Returns the place on stderr, if stderr is a terminal or if lines are to be shown `anyway`.
    pub fn new(anyway: bool) -> Option<Self> {
        let terminal = stderr().is_terminal();
        (terminal || anyway).then_some(Self {
            terminal,
            anyway,
            height: None,
            drawn: Vec::new(),
            columns: 0,
        })
    }

    /// Uses at most this many rows.
    pub fn set_height(&mut self, rows: Option<usize>) {
        self.height = rows;
    }

    /// Whether another job has the terminal. tcgetpgrp(3) fails if it is not that of this session.
    fn is_in_the_background(&self) -> bool {
        self.terminal
            && !self.anyway
            && tcgetpgrp(stderr()).is_ok_and(|foreground| foreground != getpgrp())
    }

    /// Returns the columns of each line of the last drawing.
    pub fn drawn(&self) -> Vec<usize> {
        self.drawn.clone()
    }

    /// Draws over the lines that another process has drawn from now on.
    pub fn continue_after(&mut self, drawn: Vec<usize>) {
        self.drawn = drawn;
    }

    /// Returns the columns that a line may have, and the number of rows.
    pub fn size(&self) -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(stderr());
        let size = size.ok().filter(|size| size.ws_col > 0);
        let columns = size.map_or(COLUMNS, |size| size.ws_col.into());
        let rows = size.map_or(usize::MAX, |size| size.ws_row.max(2).into());
        let rows = self.height.unwrap_or(rows);
        let spare = if self.terminal { SPARE } else { 0 };
        (columns.saturating_sub(spare), rows)
    }

    /// Returns a text in lines that fit, broken between words; in one line if stderr is no terminal.
    pub fn wrapped(&self, text: &str) -> Vec<String> {
        match self.terminal {
            true => wrapped(text, self.size().0),
            false => vec![text.to_owned()],
        }
    }

    /// Draws these lines over the last ones.
    pub fn draw(&mut self, lines: &[String]) {
        self.draw_below(&[], lines);
    }

    /// Draws these lines over the last ones, below lines that stay.
    pub fn draw_below(&mut self, above: &[String], lines: &[String]) {
        if self.is_in_the_background() {
            let above = above.iter().map(|line| format!("{line}\n"));
            return say(&above.collect::<String>());
        }
        let mut text = String::new();
        if self.terminal {
            // Without lines, the next drawing begins in the row below those that stay.
            let lines_or_row = match lines {
                [] => &[String::new()],
                lines => lines,
            };
            text += &self.over(&[above, lines_or_row].concat());
            self.drawn = lines.iter().map(|line| line.chars().count()).collect();
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
            text += &self.over(lines);
            text.push('\n');
        } else {
            for line in lines {
                let columns = std::mem::take(&mut self.columns);
                text += &format!("{line:<columns$}\n");
            }
        }
        self.drawn.clear();
        say(&text);
    }

    /// Removes the lines from the screen.
    pub fn clear(&mut self) {
        if self.terminal {
            say(&self.over(&[]));
        } else if self.columns > 0 {
            say("\n");
        }
        self.drawn.clear();
        self.columns = 0;
    }

    /// Returns the sequences that move the cursor to the start of the first row, write these lines over the
    /// last ones, and erase what is left of those (console_codes(4): CUU, EL, and ED with their defaults).
    /// Nothing is erased before it is written again, so that nothing flickers.
    fn over(&self, lines: &[String]) -> String {
        let columns = rustix::termios::tcgetwinsize(stderr())
            .map_or(COLUMNS, |size| usize::from(size.ws_col).max(1));
        // A line that became too long when the terminal became narrower has more than one row.
        let rows: usize = (self.drawn.iter())
            .map(|&line| line.div_ceil(columns).max(1))
            .sum();
        let up = match rows {
            0 | 1 => String::new(),
            rows => format!("\x1b[{}A", rows - 1),
        };
        // A terminal that remembers which rows are one line would join them with others when it gets wider.
        let clear = if rows > self.drawn.len() {
            "\x1b[J"
        } else {
            ""
        };
        format!("\r{up}{clear}{}\x1b[J", lines.join("\x1b[K\r\n"))
    }
}

/// Writes to stderr. An error is ignored, because there is no other place to report it.
pub fn say(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}
