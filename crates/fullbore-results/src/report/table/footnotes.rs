//! The notes of a group's experiments, as footnotes with numbers.

use crate::report::one_line;
use crate::run::Outcome;

/// The notes of a group, each once, in the order in which they come up.
pub struct Footnotes(Vec<String>);

impl Footnotes {
    pub fn of(outcomes: &[&Outcome]) -> Footnotes {
        let mut notes: Vec<String> = Vec::new();
        for note in outcomes.iter().flat_map(|outcome| &outcome.notes) {
            let note = one_line(note);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        Footnotes(notes)
    }

    /// Returns the notes in the order of their numbers, from 1 on.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }

    /// Returns the marks of an outcome's notes, such as `¹ ³`; empty where it has none.
    pub fn marks(&self, outcome: &Outcome) -> String {
        let mut numbers: Vec<usize> = outcome
            .notes
            .iter()
            .filter_map(|note| self.0.iter().position(|known| *known == one_line(note)))
            .map(|index| index + 1)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let marks: Vec<String> = numbers.into_iter().map(superscript).collect();
        marks.join(" ")
    }
}

/// Returns a number in superscript digits.
pub fn superscript(number: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number
        .to_string()
        .bytes()
        .map(|digit| DIGITS[usize::from(digit - b'0')])
        .collect()
}
