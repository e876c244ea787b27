//! What a command line says about its last word: whether that is an option, or a value, and of what.
//!
//! It is read as clap reads it, except that nothing is an error: what does not fit is passed over.

use clap::{Arg, Command};

/// What can stand at a place of the command line.
pub enum Place<'a> {
    Option,
    /// A value of an option or argument, behind this part of the word.
    Value(Value<'a>, String),
    Nothing,
}

/// A value that is expected.
pub struct Value<'a> {
    pub of: &'a Arg,
    /// How many values it has already.
    pub before: usize,
}

/// The words after the verb that are complete.
pub struct Line<'a> {
    verb: &'a Command,
    /// The option whose values are being read.
    open: Option<Value<'a>>,
    /// Values that belong to no option.
    positionals: usize,
    /// Words after `--`, if it was given.
    escaped: Option<usize>,
}

impl<'a> Line<'a> {
    pub fn read(verb: &'a Command, words: &[String]) -> Self {
        let mut line = Self {
            verb,
            open: None,
            positionals: 0,
            escaped: None,
        };
        for word in words {
            line.pass(word);
        }
        line
    }

    fn pass(&mut self, word: &str) {
        if let Some(number) = &mut self.escaped {
            *number += 1;
            return;
        }
        if let Some(value) = self.open.take_if(|value| is_value(value, word)) {
            let value = Value {
                before: value.before + 1,
                ..value
            };
            let most = value
                .of
                .get_num_args()
                .map_or(1, |range| range.max_values());
            self.open = (value.before < most).then_some(value);
            return;
        }
        self.open = None;
        if word == "--" {
            self.escaped = Some(0);
        } else if let Some(long) = word.strip_prefix("--") {
            // With '=', its value is in the same word.
            self.open = self.long(long).and_then(opened);
        } else if let Some(shorts) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            self.open = self.last_short(shorts).and_then(opened);
        } else {
            self.positionals += 1;
        }
    }

    /// Returns what can stand in place of this word.
    pub fn place(self, typed: &str) -> Place<'a> {
        let no_prefix = String::new();
        if let Some(number) = self.escaped {
            let last = self.verb.get_positionals().find(|arg| arg.is_last_set());
            let value = |of| Value { of, before: number };
            return match last.map(value).or_else(|| self.positional()) {
                Some(value) => Place::Value(value, no_prefix),
                None => Place::Nothing,
            };
        }
        if self
            .open
            .as_ref()
            .is_some_and(|value| is_value(value, typed))
        {
            return match self.open {
                Some(value) => Place::Value(value, no_prefix),
                None => Place::Nothing,
            };
        }
        if let Some((option, _)) = typed
            .strip_prefix("--")
            .and_then(|long| long.split_once('='))
        {
            return match self.long(option).and_then(opened) {
                Some(value) => Place::Value(value, format!("--{option}=")),
                None => Place::Nothing,
            };
        }
        if typed.starts_with('-') {
            return Place::Option;
        }
        match self.positional() {
            Some(value) => Place::Value(value, no_prefix),
            None => Place::Nothing,
        }
    }

    /// Returns the positional argument that comes next; the last one takes all that follow.
    fn positional(&self) -> Option<Value<'a>> {
        let mut all = self.verb.get_positionals().filter(|arg| !arg.is_last_set());
        let all: Vec<&Arg> = all.by_ref().collect();
        let at = self.positionals.min(all.len().checked_sub(1)?);
        let of = all[at];
        let before = self.positionals - at;
        let most = of.get_num_args().map_or(1, |range| range.max_values());
        let is_repeated = matches!(of.get_action(), clap::ArgAction::Append);
        (before < most || is_repeated).then_some(Value { of, before })
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.verb.get_arguments().find(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(name) || aliases.contains(&name)
        })
    }

    /// Returns the option at the end of `-abc` whose value is the next word. What follows an option with a value
    /// within the word is its value.
    fn last_short(&self, shorts: &str) -> Option<&'a Arg> {
        let mut rest = shorts.chars();
        while let Some(short) = rest.next() {
            let mut all = self.verb.get_arguments();
            let option = all.find(|arg| arg.get_short() == Some(short))?;
            if takes_values(option) {
                return rest.as_str().is_empty().then_some(option);
            }
        }
        None
    }
}

fn takes_values(option: &Arg) -> bool {
    option
        .get_num_args()
        .is_some_and(|range| range.takes_values())
}

fn opened(of: &Arg) -> Option<Value<'_>> {
    takes_values(of).then_some(Value { of, before: 0 })
}

/// Whether the word is a value: the first that an option needs is one in any case, others end where an option
/// begins.
fn is_value(value: &Value, word: &str) -> bool {
    let least = value
        .of
        .get_num_args()
        .map_or(1, |range| range.min_values());
    value.before < least || !word.starts_with('-') || word == "-"
}
