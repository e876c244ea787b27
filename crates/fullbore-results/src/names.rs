//! Which experiments are meant: patterns that are matched with names and groups.

use glob::Pattern;

use fullbore_host::refusal::Usage;

/// The pattern that means every group.
pub const ALL: &str = "all";

/// Returns `text` as a glob pattern.
///
/// # Errors
///
/// Where `text` is not a valid pattern.
pub fn pattern(text: &str) -> Result<Pattern, Usage> {
    Pattern::new(text).map_err(|error| Usage(format!("invalid pattern '{text}': {}", error.msg)))
}

/// Returns whether `pattern` means the experiment `name` of `group`: by its name, its group, or
/// `group/name`.
pub fn is_meant(group: &str, name: &str, pattern: &Pattern) -> bool {
    pattern.as_str() == ALL
        || pattern.matches(name)
        || pattern.matches(group)
        || pattern.matches(&format!("{group}/{name}"))
}
