//! Tests of parsers of what comes from outside, with a few hundred inputs that are the same in every run.

use std::time::Duration;

use crate::common::fuzzed::{ALL, check};

#[test]
fn every_property_of_a_parser_holds_for_its_corpus_and_for_changed_files() {
    for (name, property) in ALL {
        // Each line is given to two shells.
        let most = if name == "command_line" { 100 } else { 400 };
        check(name, property, 1, most, Duration::MAX);
    }
}
