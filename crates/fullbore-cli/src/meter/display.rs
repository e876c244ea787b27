//! Where a meter draws: the terminal on stderr, alone or together with other meters.

use crate::terminal::group::Group;
use crate::terminal::lines::{Screen, say};

/// Where lines are drawn.
#[derive(Debug)]
pub struct Display {
    screen: Screen,
    /// The other meters on this terminal, if they share it.
    group: Option<Group>,
}

impl Display {
    /// Returns the place on stderr, if that is a terminal or lines are to be shown `anyway`; below those of
    /// other meters if this one is one of `several`. As with pv, a single line may have all columns.
    pub fn new(anyway: bool, several: bool, as_pv: bool) -> Option<Self> {
        Screen::new(anyway).map(|screen| Self {
            screen: match as_pv && !several {
                true => screen.with_all_columns(),
                false => screen,
            },
            group: several.then(Group::new).flatten(),
        })
    }

    /// Uses at most this many rows.
    pub fn set_height(&mut self, rows: Option<usize>) {
        self.screen.set_height(rows);
    }

    /// Draws these lines over the last ones.
    pub fn draw(&mut self, lines: Vec<String>) {
        match &mut self.group {
            Some(group) => group.show(&mut self.screen, lines),
            None => self.screen.draw(&lines),
        }
    }

    /// Draws these lines over the last ones, and leaves them there for good.
    pub fn leave(&mut self, lines: Vec<String>) {
        match self.group.take() {
            Some(group) => group.finish(&mut self.screen, lines),
            None => self.screen.leave(&lines),
        }
    }

    /// Returns the columns that a line may have.
    pub fn columns(&self) -> usize {
        self.screen.size().0
    }

    /// Returns a text in lines that fit, broken between words.
    pub fn wrapped(&self, text: &str) -> Vec<String> {
        self.screen.wrapped(text)
    }

    /// Prints a line above those that are drawn.
    pub fn say(&mut self, line: String) {
        match &mut self.group {
            Some(group) => group.say(&mut self.screen, line),
            None => {
                self.screen.clear();
                say(&format!("{line}\n"));
            }
        }
    }

    /// Draws what other meters have told this one.
    pub fn turn(&mut self) {
        if let Some(group) = &mut self.group {
            group.turn(&mut self.screen);
        }
    }
}
