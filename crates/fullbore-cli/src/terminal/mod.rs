//! Output that more than one subcommand draws on a terminal or prints for people.

pub mod footer;
pub mod group;
pub mod lines;
pub mod live;
pub mod report;

use std::ffi::OsStr;

/// Returns whether output on a terminal may have colours: NO_COLOR is unset or empty (no-color.org).
pub fn may_colour() -> bool {
    allows_colour(std::env::var_os("NO_COLOR").as_deref())
}

fn allows_colour(no_color: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_value_that_is_not_empty_forbids_colours() {
        for (no_color, allowed) in [
            (None, true),
            (Some(""), true),
            (Some("0"), false),
            (Some("1"), false),
        ] {
            assert_eq!(
                allows_colour(no_color.map(OsStr::new)),
                allowed,
                "{no_color:?}"
            );
        }
    }
}
