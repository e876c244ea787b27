//! What the user has chosen to see, and what each key does. Nothing in this file draws or scans.

use fullbore::PipeIdentity;

use super::keys::Key;
use crate::top::order::{Sort, order};
use fullbore_host::text::clean;
use fullbore_observe::overview::{Overview, PipeState};

/// The keys, and what they do.
#[rustfmt::skip]
pub const KEYS: &[(&str, &str)] = &[
    ("up, down, k, j", "select a pipe; PgUp, PgDn, Home, End move farther"),
    ("s", "sort by the next column: rate, full, waits, holds, newest, name"),
    ("r", "reverse the order"),
    ("/", "show only pipelines with this text in a name or a command; Enter applies it, Esc cancels it"),
    ("+", "double the capacity of the selected pipe, if that is safe for its writer"),
    ("p, space", "pause or continue"),
    ("? or h", "show this help; any key closes it"),
    ("q, Ctrl-C", "quit (Ctrl-Z suspends)"),
];

/// What is to be done after a key, besides drawing again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Nothing,
    Leave,
    /// Stop this process until the shell continues it.
    Stop,
    /// Enlarge a pipe to `to` bytes, even if that is not safe for its writer when `force` is set.
    Grow {
        pipe: PipeIdentity,
        to: usize,
        force: bool,
    },
}

/// What the keys apply to at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Table,
    Help,
    /// The user types a filter.
    Filter,
    /// A pipe was not enlarged, and the user is asked whether to do it anyway.
    Question {
        pipe: PipeIdentity,
        to: usize,
    },
}

/// What the user sees.
#[derive(Debug, Default)]
pub struct State {
    pub overview: Overview,
    pub mode: Mode,
    pub sort: Sort,
    pub reverse: bool,
    pub filter: String,
    pub paused: bool,
    /// The result of the last key, one string per line; the text is safe to print.
    pub message: Vec<String>,
    /// The indices of the rows that are shown, in order.
    pub rows: Vec<usize>,
    /// The index of the chosen pipe in `rows`.
    pub chosen: usize,
    /// The chosen pipe, wherever it moves.
    choice: Option<PipeIdentity>,
}

impl State {
    pub fn new(overview: Overview) -> Self {
        let mut state = Self::default();
        state.update(overview);
        state
    }

    /// Shows the overview of another scan.
    pub fn update(&mut self, overview: Overview) {
        self.overview = overview;
        self.arrange();
    }

    /// Returns the chosen pipe.
    pub fn row(&self) -> Option<&PipeState> {
        let at = self.rows.get(self.chosen)?;
        Some(&self.overview.pipes[*at])
    }

    /// Handles a key, and returns what is to be done.
    pub fn key(&mut self, key: Key) -> Action {
        match key {
            Key::Ctrl('c') => return Action::Leave,
            Key::Ctrl('z') => return Action::Stop,
            Key::Ctrl(_) => return Action::Nothing,
            _ => {}
        }
        match self.mode {
            Mode::Table => return self.key_in_table(key),
            Mode::Help => self.mode = Mode::Table,
            Mode::Filter => self.key_in_filter(key),
            Mode::Question { pipe, to } => {
                self.mode = Mode::Table;
                let force = matches!(key, Key::Char('y' | 'Y'));
                if force {
                    return Action::Grow { pipe, to, force };
                }
                self.message = vec!["not changed".to_owned()];
            }
        }
        Action::Nothing
    }

    fn key_in_table(&mut self, key: Key) -> Action {
        const PAGE: isize = 10;
        self.message.clear();
        match key {
            Key::Char('q') => return Action::Leave,
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('s') => {
                self.sort = self.sort.next();
                self.arrange();
            }
            Key::Char('r') => {
                self.reverse = !self.reverse;
                self.arrange();
            }
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Char('+') => return self.grow(),
            Key::Esc => {
                self.filter.clear();
                self.arrange();
            }
            Key::Up | Key::Char('k') => self.go(-1),
            Key::Down | Key::Char('j') => self.go(1),
            Key::PageUp => self.go(-PAGE),
            Key::PageDown => self.go(PAGE),
            Key::Home => self.go(isize::MIN),
            Key::End => self.go(isize::MAX),
            _ => {}
        }
        Action::Nothing
    }

    fn key_in_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.mode = Mode::Table,
            Key::Esc => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Char(letter) => self.filter += &clean(letter.encode_utf8(&mut [0; 4])),
            _ => {}
        }
        self.arrange();
    }

    fn grow(&mut self) -> Action {
        let Some(row) = self.row() else {
            return Action::Nothing;
        };
        let Some(capacity) = row.capacity else {
            let why = row.closed.as_ref().map(|why| format!(": {why}"));
            self.message = vec!["it cannot be opened".to_owned() + &why.unwrap_or_default()];
            return Action::Nothing;
        };
        Action::Grow {
            pipe: row.identity(),
            to: capacity.saturating_mul(2),
            force: false,
        }
    }

    fn go(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(last);
        self.choice = self.row().map(PipeState::identity);
    }

    /// Puts the rows in order. The chosen pipe stays chosen, wherever it moves; until the user chooses one,
    /// it is the first.
    fn arrange(&mut self) {
        self.rows = order(&self.overview, self.sort, self.reverse, &self.filter);
        let last = self.rows.len().saturating_sub(1);
        let chosen = self.choice.and_then(|choice| {
            let mut rows = self.rows.iter();
            rows.position(|&at| self.overview.pipes[at].identity() == choice)
        });
        self.chosen = match (chosen, self.choice) {
            (Some(at), _) => at,
            (None, Some(_)) => self.chosen.min(last),
            (None, None) => 0,
        };
    }
}
