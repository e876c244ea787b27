//! Tests what `fullbore top` reports about a stage that computes.

use crate::common::top::the_slow_side_is_named;
use fullbore_observe::overview::Slow;

/// Whether a stage that computes is slow, or all stages lack CPUs, depends on the other load of this
/// machine.
#[test]
fn under_load_a_stage_that_computes_is_named_as_the_slow_side_of_both_its_pipes() {
    the_slow_side_is_named(&[(
        // What cannot be compressed takes gzip more than ten times as long as its writer, so that this has its turn on a
        // CPU before the pipe is empty.
        "cat /dev/urandom | gzip -9 | cat >/dev/null",
        &[("cat", "gzip", Slow::Reader), ("gzip", "cat", Slow::Writer)],
    )]);
}
