//! The clock by which processes time what passes from one to another.

use rustix::time::{ClockId, clock_gettime};

/// Returns nanoseconds of a clock that is the same on all CPUs and in all processes.
#[inline]
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
