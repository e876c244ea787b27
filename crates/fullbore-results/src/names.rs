//! Which experiments are meant: patterns that are matched with names and groups.

use glob::Pattern;

use fullbore_host::refusal::Usage;

/// The pattern that means every group.
pub const ALL: &str = "all";

/// Glob patterns, each with its text, and whether it has meant any experiment so far.
pub struct Patterns<'a>(Vec<(&'a str, Pattern, bool)>);

impl<'a> Patterns<'a> {
    /// Parses the patterns.
    ///
    /// # Errors
    ///
    /// Where one is not valid.
    pub fn of(texts: &'a [String]) -> Result<Self, Usage> {
        let parsed = texts.iter().map(|text| match Pattern::new(text) {
            Ok(pattern) => Ok((text.as_str(), pattern, false)),
            Err(error) => Err(Usage(format!("invalid pattern '{text}': {}", error.msg))),
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether any of them means the experiment `name` of `group`: by its name, its group, or `group/name`.
    pub fn mean(&mut self, group: &str, name: &str) -> bool {
        let both = format!("{group}/{name}");
        let mut any = false;
        for (text, pattern, found) in &mut self.0 {
            let is_it = |name: &&str| pattern.matches(name);
            if *text == ALL || [name, group, &both].iter().any(is_it) {
                (any, *found) = (true, true);
            }
        }
        any
    }

    /// Returns the first that has meant no experiment.
    pub fn unused(&self) -> Option<&'a str> {
        let mut unused = self.0.iter().filter(|(.., found)| !found);
        unused.next().map(|(text, ..)| *text)
    }
}
