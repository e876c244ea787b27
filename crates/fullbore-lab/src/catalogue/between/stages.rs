//! Lists the filters that run alone and in several processes at a time, as a table: the group `parallel`.

use super::table::{Between, between};
use crate::catalogue::movers::peer as x;
use crate::catalogue::pipelines::table::Input;

/// Returns a line with a filter: alone, by GNU parallel, and by this command with one process, with two, and with one
/// for each CPU.
macro_rules! filter {
    ($name:literal, $shows:literal, $mb_per_s:literal, $programs:expr, $command:literal) => {
        between(
            concat!("parallel_", $name),
            concat!("cat big | X | cat > /dev/null, where X is ", $command),
            $shows,
            Input::Lines("big"),
            $mb_per_s,
            $programs,
            &[
                x("alone", $command),
                x(
                    "gnu",
                    concat!("parallel --pipe -k --block 4M ", "\"", $command, "\""),
                ),
                x(
                    "one",
                    concat!("fullbore parallel --accept 1 -j 1 \"", $command, "\""),
                ),
                x(
                    "two",
                    concat!("fullbore parallel --accept 1 -j 2 \"", $command, "\""),
                ),
                x(
                    "all",
                    concat!("fullbore parallel --accept 1 \"", $command, "\""),
                ),
            ],
        )
    };
}

/// The filters, in the order of display.
#[rustfmt::skip]
pub const FILTERS: &[Between] = &[
    filter!("cat", "nothing to gain: the cost of splitting and joining", 1000.0, &["cat"], "cat"),
    filter!("grep", "a log, searched", 250.0, &["cat", "grep"], "grep -E '(404|500) [0-9]+5'"),
    filter!("awk", "columns of a log", 100.0, &["cat", "awk"], "awk '{ print NF, length }'"),
    filter!("jq", "lines made JSON", 10.0, &["cat", "jq"], "jq -cR '{ line: . }'"),
    filter!("gzip", "a compressor, which is slow", 30.0, &["cat", "gzip"], "gzip -6"),
    filter!("python", "a filter in Python", 60.0, &["cat", "python3"], "python3 filter.py"),
];
