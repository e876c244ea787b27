//! CPU time: of this process, and of the processes that it has started.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use fullbore_results::run::Cost;
use fullbore_results::statistics::Spread;

const GIB: f64 = (1u64 << 30) as f64;

/// CPU seconds in user mode and in the kernel. The kernel knows their sum exactly, and estimates how it is divided
/// (`cputime_adjust` in kernel/sched/cputime.c).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Seconds in user mode.
    pub user: f64,
    /// Seconds in the kernel.
    pub system: f64,
}

impl CpuTime {
    /// Returns what this process has used.
    pub fn of_this_process() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    /// Returns what all processes have used that this process has waited for, and those that they have waited for.
    pub fn of_children() -> Self {
        Self::of(UsageWho::RUSAGE_CHILDREN)
    }

    fn of(who: UsageWho) -> Self {
        // getrusage(2) fails only for an invalid argument.
        let seconds = |time: fn(&Usage) -> nix::sys::time::TimeVal| {
            getrusage(who).map_or(0.0, |usage| time(&usage).num_microseconds() as f64 / 1e6)
        };
        Self {
            user: seconds(Usage::user_time),
            system: seconds(Usage::system_time),
        }
    }

    /// Returns what was used since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }

    /// Returns the seconds in user mode and in the kernel together.
    pub fn total(self) -> f64 {
        self.user + self.system
    }
}

/// Returns the most bytes of memory that one of the processes had which this process has waited for.
pub fn largest_child() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
    usage.map_or(0, |usage| usage.max_rss().unsigned_abs() * 1024)
}

/// Returns the cost of a GiB, given the bytes and the CPU time of each round; `None` without rounds, or if nothing
/// arrived in one.
pub fn cost(rounds: &[(u64, CpuTime)]) -> Option<Cost> {
    let spread = |of: fn(CpuTime) -> f64| {
        let per_gib = |&(bytes, spent): &(u64, CpuTime)| of(spent) / (bytes as f64 / GIB);
        Spread::of(&rounds.iter().map(per_gib).collect::<Vec<_>>())
    };
    Some(Cost {
        total: spread(CpuTime::total)?,
        user: spread(|time| time.user)?,
        system: spread(|time| time.system)?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_cost_is_the_median_of_the_rounds_costs() {
        let round = |gib: u64, user, system| (gib << 30, CpuTime { user, system });
        let cost = cost(&[round(1, 1.0, 2.0), round(2, 1.0, 1.0), round(4, 40.0, 0.0)]).unwrap();
        assert_eq!(cost.total.rounds, [3.0, 1.0, 10.0]);
        assert_eq!(cost.total.median, 3.0);
        assert_eq!(cost.user.median, 1.0);
        assert_eq!(cost.system.median, 0.5);
        assert_eq!(super::cost(&[]), None);
        assert_eq!(super::cost(&[round(0, 1.0, 1.0)]), None);
    }

    #[test]
    fn what_a_child_is_known_to_have_used_is_counted_once_it_was_waited_for() {
        // `times` prints the CPU time of the shell's own children in its second line (POSIX, times).
        let line = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done'; times";
        let before = CpuTime::of_children();
        let began = Instant::now();
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        let spent = CpuTime::of_children().since(before);
        let elapsed = began.elapsed() + Duration::from_millis(100);
        let text = String::from_utf8(output.stdout).unwrap();
        let known: f64 = text
            .lines()
            .nth(1)
            .unwrap()
            .split(' ')
            .map(|time| {
                let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
                minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
            })
            .sum();
        assert!(known > 0.0, "{text}");
        // Other tests of this process may wait for children of their own meanwhile, so this is only a lower bound.
        assert!(spent.total() >= known - 0.02, "{spent:?}, {known}");
        assert!(known <= elapsed.as_secs_f64() * 2.0);
    }
}
