//! Where a meter draws: the terminal on stderr, alone or together with other meters.

use super::line_options::LineOptions;
use crate::terminal::group::Group;
use crate::terminal::line::Reading;
use crate::terminal::lines::{Screen, say_line};

/// Shows a reading: on the display, or as numbers for a script where there is none.
pub fn show(
    display: Option<&mut Display>,
    options: &LineOptions,
    reading: &Reading,
    below: Option<String>,
) {
    match display {
        Some(display) => display.show(options, reading, below),
        None if options.numeric && !options.quiet => say_line(options.line(reading, 0)),
        None => {}
    }
}

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

    /// Draws the line about a reading over the last lines, with `below` in lines that fit. The last ones stay there for
    /// good.
    fn show(&mut self, options: &LineOptions, reading: &Reading, below: Option<String>) {
        self.screen.height = options.height.map(usize::from);
        let (columns, _) = self.screen.size();
        let mut lines = vec![options.line(reading, columns)];
        lines.extend(below.iter().flat_map(|text| self.screen.wrapped(text)));
        match (self.group.take_if(|_| reading.ended), &mut self.group) {
            (Some(group), _) => group.finish(&mut self.screen, lines),
            (None, Some(group)) => group.show(&mut self.screen, lines),
            (None, None) if reading.ended => self.screen.leave(&lines),
            (None, None) => self.screen.draw(&lines),
        }
        if let Some(extra) = &options.extra_display {
            extra.show(&options.look(), reading, columns);
        }
    }

    /// Prints a line above those that are drawn.
    pub fn say(&mut self, line: String) {
        match &mut self.group {
            Some(group) => group.say(&mut self.screen, line),
            None => {
                self.screen.clear();
                say_line(line);
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
