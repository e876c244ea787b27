//! What happens periodically while bytes are moved: the line is drawn, and samples are taken.

use std::time::Duration;

use fullbore::buffer::Level;

use super::as_mbuffer::status;
use super::history::History;
use super::opening::Ends;
use super::options::Options;
use super::status_line::{self, Reading, percent};
use crate::copying::Input;
use crate::processes::interrupt::Interrupt;
use crate::terminal::line;
use crate::terminal::lines::{Screen, say, say_line};
use crate::terminal::log_line::{Due, log_line};

/// The time between two drawings, as mbuffer has it, and between two samples.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// The line on the terminal, if there is one, and what it shows.
pub struct Show {
    screen: Option<(Screen, Interrupt)>,
    /// Whether mbuffer's line is written instead, with how many outputs, and the size of the input if it is known.
    as_mbuffer: Option<(usize, Option<u64>)>,
    /// How full the buffer was.
    pub history: History,
    /// What was last drawn.
    drawn: Level,
    /// How many bytes were taken and held at the last look.
    seen: (u64, u64),
    /// The lines of --log: when they are due, what was last told, and the size of the input if it is known.
    log: Option<(Due, Level, Option<u64>)>,
    watchdog: Option<Watchdog>,
    /// For the connection of the input.
    idle: Option<Watchdog>,
}

/// Notices that nothing is read or written any more.
struct Watchdog {
    timeout: Duration,
    /// The bytes that had been read, and when they last changed or nothing was to be read; the same for those
    /// that were written.
    sides: [(u64, Duration); 2],
}

impl Show {
    /// Draws on stderr if that is asked for, and stderr is a terminal. As with mbuffer, its line is written in any case.
    pub fn new(options: &Options, ends: &Ends) -> Self {
        let is_mbuffer = options.as_mbuffer;
        let is_ours = !options.quiet && !is_mbuffer;
        let screen = is_ours.then(|| Screen::new(false)).flatten();
        let size = || Input::size_of_all(std::slice::from_ref(&ends.input));
        // For an output, the kernel measures this time.
        let idle = options.outputs.listen.as_ref().and(options.tcptimeo);
        Self {
            as_mbuffer: (!options.quiet && is_mbuffer).then(|| (ends.sinks.len(), size())),
            screen: screen.map(|screen| (screen, Interrupt::noted())),
            history: History::new(INTERVAL),
            drawn: Level::default(),
            seen: (0, 0),
            log: (options.log_every).map(|every| (Due::every(every), Level::default(), size())),
            watchdog: options.watchdog.map(Watchdog::new),
            idle: idle.map(Watchdog::new),
        }
    }

    /// Returns the time until something is due; `None` for as soon as bytes are moved. Nothing wakes an idle buffer that
    /// shows nothing: what happens in every `period` meanwhile waits for bytes.
    pub fn due(&mut self, level: &Level, period: Option<Duration>) -> Option<Duration> {
        let seen = std::mem::replace(&mut self.seen, (level.taken, level.held));
        let has_moved = seen != self.seen;
        let is_drawn = self.screen.is_some() || self.as_mbuffer.is_some();
        let drawn = is_drawn.then(|| (self.drawn.elapsed + INTERVAL).saturating_sub(level.elapsed));
        let dogs = self.watchdog.iter().chain(&self.idle);
        let due = drawn
            .into_iter()
            .chain(self.log.iter().map(|(due, ..)| due.left()))
            .chain(dogs.map(|dog| dog.timeout / 8))
            .chain(period.filter(|_| has_moved))
            .min();
        match period {
            Some(_) => due,
            None => due.or(Some(Duration::MAX)),
        }
    }

    /// Does what is due. Returns what has stalled, if a watchdog has found that.
    pub fn tick(&mut self, level: &Level) -> Option<String> {
        self.history.note(level.elapsed, percent(level));
        let interrupt = self.screen.as_ref().map(|(_, interrupt)| interrupt);
        if let Some(interrupt) = interrupt.filter(|interrupt| interrupt.came()).cloned() {
            self.leave(level);
            interrupt.obey();
        }
        self.log(level, false);
        if level.elapsed >= self.drawn.elapsed + INTERVAL {
            self.draw(level);
        }
        if let Some(side) = self.watchdog.as_mut().and_then(|dog| dog.stalled(level)) {
            return Some(format!("watchdog: the {side} has stalled"));
        }
        let idle = "the connection of the input has moved nothing for the time of --tcptimeo";
        self.idle
            .as_mut()?
            .input_stalled(level)
            .then(|| idle.to_owned())
    }

    fn draw(&mut self, level: &Level) {
        let since = self.drawn;
        self.drawn = *level;
        if let Some((outputs, size)) = self.as_mbuffer {
            say(&format!("\r{}", status(level, &since, outputs, size)));
        }
        let Some((screen, _)) = &mut self.screen else {
            return;
        };
        let mut reading = Reading::of(level, &since);
        reading.before = self.history.samples.iter().map(|s| s.percent).collect();
        let (columns, _) = screen.size();
        screen.draw(&[status_line::line(&reading, columns)]);
    }

    /// Prints the line of --log, if it is due or the buffer has ended.
    pub fn log(&mut self, level: &Level, ended: bool) {
        let Some((due, before, size)) = &mut self.log else {
            return;
        };
        if !(due.is_due() || ended) {
            return;
        }
        let now = Reading::of(level, &std::mem::replace(before, *level));
        let reading = line::Reading {
            passed: now.sent,
            total: *size,
            now: now.goes,
            average: now.sent as f64 / level.elapsed.as_secs_f64().max(1e-3),
            elapsed: level.elapsed,
            ended,
            ..line::Reading::default()
        };
        let after = match ended {
            true => String::new(),
            false => format!("{:.0}% full {}", now.percent, now.hint),
        };
        say_line(log_line(&reading, after.trim_end()));
    }

    /// Draws once more, and leaves the line on the screen.
    fn leave(&mut self, level: &Level) {
        self.draw(level);
        if let Some((screen, _)) = &mut self.screen {
            screen.leave(&[]);
            say("\n");
        }
    }

    /// Removes the line from the screen.
    pub fn clear(&mut self) {
        if self.as_mbuffer.is_some() && !self.drawn.elapsed.is_zero() {
            say("\n");
        }
        // With the interrupt: what follows may wait, and a signal then has its usual effect.
        if let Some((mut screen, _)) = self.screen.take() {
            screen.clear();
        }
    }
}

impl Watchdog {
    fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            sides: [(0, Duration::ZERO); 2],
        }
    }

    /// Returns whether the input has stalled, whatever the output does.
    fn input_stalled(&mut self, level: &Level) -> bool {
        let mut seen = *level;
        // The other side never has to do anything.
        seen.waits_for_bytes = true;
        self.stalled(&seen).is_some()
    }

    fn stalled(&mut self, level: &Level) -> Option<&'static str> {
        // A side that has nothing to do, or may not do anything, has not stalled.
        let now = [
            (level.taken, level.has_ended || level.waits_for_room),
            (level.taken - level.held, level.waits_for_bytes),
        ];
        for (side, (bytes, is_idle)) in self.sides.iter_mut().zip(now) {
            if side.0 != bytes || is_idle {
                *side = (bytes, level.elapsed);
            }
        }
        let is_over = |side: usize| level.elapsed - self.sides[side].1 >= self.timeout;
        match (is_over(0), is_over(1)) {
            (true, _) => Some("input"),
            (false, true) => Some("output"),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks each second at a buffer that stands still, and returns when the watchdog found that, and where.
    fn standing_still(set: impl Fn(&mut Level, u64)) -> Option<(u64, &'static str)> {
        let mut watchdog = Watchdog::new(3 * SECOND);
        (0..10).find_map(|second| {
            let mut level = Level::default();
            (level.taken, level.held) = (100, 50);
            level.elapsed = second as u32 * SECOND;
            set(&mut level, second);
            watchdog.stalled(&level).map(|side| (second, side))
        })
    }

    #[test]
    fn the_watchdog_leaves_a_side_alone_that_has_nothing_to_do() {
        for flags in 0..8 {
            let [ended, room, bytes] = [1, 2, 4].map(|flag| flags & flag != 0);
            let found = standing_still(|level, _| {
                (level.has_ended, level.waits_for_room) = (ended, room);
                level.waits_for_bytes = bytes;
            });
            let side = match (ended || room, bytes) {
                (false, _) => Some((3, "input")),
                (true, false) => Some((3, "output")),
                (true, true) => None,
            };
            assert_eq!(found, side, "{ended} {room} {bytes}");
        }
    }

    #[test]
    fn only_an_input_that_has_something_to_do_is_idle() {
        let seen = |set: fn(&mut Level, u64)| {
            let mut idle = Watchdog::new(3 * SECOND);
            (0..10).any(|second| {
                let mut level = Level::default();
                (level.taken, level.held) = (100, 50);
                level.elapsed = second as u32 * SECOND;
                set(&mut level, second);
                idle.input_stalled(&level)
            })
        };
        assert!(seen(|_, _| {}));
        assert!(!seen(|level, _| level.waits_for_room = true));
        assert!(!seen(|level, _| level.has_ended = true));
        assert!(!seen(|level, second| level.taken += second));
    }

    #[test]
    fn the_time_counts_from_when_there_is_something_to_do() {
        let found = standing_still(|level, second| {
            (level.has_ended, level.waits_for_bytes) = (true, second < 4);
        });
        assert_eq!(found, Some((6, "output")));
        let found = standing_still(|level, second| level.taken = 100 + second.min(5));
        assert_eq!(found, Some((8, "input")));
    }
}
