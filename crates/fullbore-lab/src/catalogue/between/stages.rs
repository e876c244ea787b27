//! Lists the filters that run alone and in several processes at a time, as a table: the group `parallel`.

use super::table::{Between, Middle, row};
use crate::catalogue::pipelines::table::Input;

const SCRIPTS: &[(&str, &str)] = &[(
    "filter.py",
    "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(b' '.join(line.split(b' ')[:4]) + b'\\n')\n",
)];

/// Returns a line with a filter: alone, by GNU parallel, and by this command with one process, with two, and with one
/// for each CPU.
macro_rules! filter {
    ($name:literal, $shows:literal, $mb_per_s:literal, $programs:expr, $command:literal) => {
        row(
            concat!("parallel_", $name),
            concat!("cat big | X | cat > /dev/null, where X is ", $command),
            $shows,
            Input::Lines("big"),
            $mb_per_s,
            $programs,
            &[
                Middle {
                    name: "alone",
                    words: $command,
                },
                Middle {
                    name: "gnu",
                    words: concat!("parallel --pipe -k --block 4M ", "\"", $command, "\""),
                },
                Middle {
                    name: "one",
                    words: concat!("fullbore parallel --accept 1 -j 1 \"", $command, "\""),
                },
                Middle {
                    name: "two",
                    words: concat!("fullbore parallel --accept 1 -j 2 \"", $command, "\""),
                },
                Middle {
                    name: "all",
                    words: concat!("fullbore parallel --accept 1 \"", $command, "\""),
                },
            ],
            SCRIPTS,
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
