//! Tests of parsers of what comes from outside, with other inputs in each run, for a minute each.

use std::time::Duration;

use crate::common::fuzzed::{ALL, check};
use crate::common::is_quick;

#[test]
fn under_load_every_property_of_a_parser_holds_for_a_minute() {
    let seconds = if is_quick() { 5 } else { 60 };
    for (name, property) in ALL {
        let seed = fastrand::u64(..);
        check(
            name,
            property,
            seed,
            usize::MAX,
            Duration::from_secs(seconds),
        );
    }
}
