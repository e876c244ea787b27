//! Which experiments a person means: patterns that are matched with names and groups.

use glob::Pattern;

use fullbore_host::refusal::Usage;

/// What means every group.
pub const ALL: &str = "all";

/// The pattern that `text` is.
pub fn pattern(text: &str) -> Result<Pattern, Usage> {
    Pattern::new(text).map_err(|error| Usage(format!("invalid pattern '{text}': {}", error.msg)))
}

/// Whether `pattern` means the experiment `name` of `group`: by its name, its group, or `group/name`.
pub fn is_meant(group: &str, name: &str, pattern: &Pattern) -> bool {
    pattern.as_str() == ALL
        || pattern.matches(name)
        || pattern.matches(group)
        || pattern.matches(&format!("{group}/{name}"))
}
