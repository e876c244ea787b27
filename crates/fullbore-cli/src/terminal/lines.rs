//! Lines on stderr that are redrawn in place.
//!
//! Each drawing is one write, so that the output of other programs does not split it. If stderr is no
//! terminal and lines are shown nevertheless, a single line is followed by a carriage return, as in other
//! tools, and several lines are written one below the other. On a terminal that obeys no escape sequences, a single
//! line is drawn in the same way, and several lines only when they stay.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};

use fullbore_host::text::{columns, padded, without_escapes, wrapped};

/// The numbers of columns and rows of a terminal that does not know them.
const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// The number of columns that are left free. Terminals differ in what they do after a character in the last
/// column; and if a `^C` that the terminal echoes made a line wrap, there would be one row more than was
/// drawn.
const SPARE: usize = 3;

/// The place where lines are drawn.
#[derive(Debug, Default)]
pub struct Screen {
    terminal: bool,
    /// Whether it is a terminal on which the cursor can be moved.
    moves: bool,
    /// Whether lines are drawn also while another job has the terminal.
    anyway: bool,
    /// Whether a line may have all columns, and is followed by a carriage return.
    fills: bool,
    /// The number of rows, if it is not to be asked for.
    pub height: Option<usize>,
    /// The columns of each line of the last drawing, perhaps of another process, which the next one overwrites.
    pub drawn: Vec<usize>,
    /// The width of the last line, which the next one has to cover if stderr is no terminal.
    columns: usize,
}

impl Screen {
    /// Returns the place on stderr, if stderr is a terminal or if lines are to be shown `anyway`.
    pub fn new(anyway: bool) -> Option<Self> {
        let terminal = stderr().is_terminal();
        (terminal || anyway).then_some(Self {
            terminal,
            moves: terminal && !super::is_dumb(),
            anyway,
            ..Self::default()
        })
    }

    /// Lets a single line have all columns. It is followed by a carriage return, and nothing is erased: in the last
    /// column, that would erase the last character.
    pub fn with_all_columns(mut self) -> Self {
        (self.fills, self.moves) = (true, false);
        self
    }

    /// Whether another job has the terminal.
    fn is_in_the_background(&self) -> bool {
        self.terminal && !self.anyway && super::is_in_the_background()
    }

    /// Returns the columns that a line may have, and the number of rows.
    pub fn size(&self) -> (usize, usize) {
        let (columns, rows) = of_terminal();
        let (spare, rows) = match (self.terminal, self.fills) {
            (true, false) => (SPARE, rows),
            (true, true) => (0, rows),
            (false, _) => (0, usize::MAX),
        };
        (columns.saturating_sub(spare), self.height.unwrap_or(rows))
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
            let above = above.iter().flat_map(|line| [line.as_str(), "\n"]);
            return say(&above.collect::<String>());
        }
        let mut text = String::new();
        if self.moves {
            // Without lines, the next drawing begins in the row below those that stay.
            let lines_or_row = match lines {
                [] => &[String::new()],
                lines => lines,
            };
            text += &self.over(&[above, lines_or_row].concat());
            self.drawn = lines.iter().map(|line| columns(line)).collect();
            return say(&text);
        }
        for line in above {
            text += &self.covering(line);
            text.push('\n');
        }
        if let [line] = lines {
            text += &self.covering(line);
            text.push('\r');
            self.columns = columns(line);
        } else if !self.terminal {
            lines.iter().for_each(|line| text += &format!("{line}\n"));
        }
        say(&text);
    }

    /// Returns a line that covers the last one, where the cursor cannot be moved but to the start of its row.
    fn covering(&mut self, line: &str) -> String {
        let covered = std::mem::take(&mut self.columns);
        match self.terminal && !self.fills {
            true => padded(&without_escapes(line), covered),
            false => padded(line, covered),
        }
    }

    /// Draws these lines over the last ones, and leaves them there for good.
    pub fn leave(&mut self, lines: &[String]) {
        let mut text = String::new();
        if self.moves {
            text += &self.over(lines);
            text.push('\n');
        } else {
            for line in lines {
                text += &self.covering(line);
                text.push_str(if self.fills { "\r\n" } else { "\n" });
            }
        }
        self.drawn.clear();
        say(&text);
    }

    /// Removes the lines from the screen.
    pub fn clear(&mut self) {
        if self.moves {
            say(&self.over(&[]));
        } else if self.terminal && self.columns > 0 {
            say(&format!("{}\r", self.covering("")));
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
        let (columns, _) = of_terminal();
        // A line that became too long when the terminal became narrower has more than one row.
        let rows: usize = (self.drawn.iter())
            .map(|&line| line.div_ceil(columns).max(1))
            .sum();
        let up = match rows {
            0 | 1 => String::new(),
            rows => format!("\x1b[{}A", rows - 1),
        };
        // A terminal that remembers which rows are one line would join them with others when it gets wider.
        let clear = match rows > self.drawn.len() {
            true => "\x1b[J",
            false => "",
        };
        format!("\r{up}{clear}{}\x1b[J", lines.join("\x1b[K\r\n"))
    }
}

/// Returns the columns and the rows of the terminal on stderr, and those of an old one where it does not know them.
fn of_terminal() -> (usize, usize) {
    match super::size_of(stderr()) {
        Some((columns, 0)) => (columns, ROWS),
        Some((columns, rows)) => (columns, rows.max(2)),
        None => (COLUMNS, ROWS),
    }
}

/// Writes a line to stderr, as [`say`] does.
pub fn say_line(line: impl Display) {
    say(&format!("{line}\n"));
}

/// Writes to stderr, which may be closed. An error is ignored, because there is no other place to report it.
pub fn say(text: &str) {
    let _ = super::stderr().write_all(text.as_bytes());
}
