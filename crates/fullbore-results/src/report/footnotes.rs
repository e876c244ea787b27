//! The notes of a group's experiments, as footnotes with numbers.

use super::one_line;
use crate::run::Outcome;

/// The notes of a group, each once, in the order in which they come up.
pub struct Footnotes(pub Vec<String>);

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

    /// Returns the numbers of an outcome's notes, which count from 1 on.
    pub fn numbers(&self, outcome: &Outcome) -> Vec<usize> {
        let notes: Vec<String> = outcome.notes.iter().map(|note| one_line(note)).collect();
        let numbered = self.0.iter().zip(1..);
        let numbered = numbered.filter(|(note, _)| notes.contains(note));
        numbered.map(|(_, number)| number).collect()
    }

    /// Returns the marks of an outcome's notes, such as `¹ ³`; empty where it has none.
    pub fn marks(&self, outcome: &Outcome) -> String {
        let numbers = self.numbers(outcome).into_iter();
        numbers.map(superscript).collect::<Vec<_>>().join(" ")
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
