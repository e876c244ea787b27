//! How much CPU time went to other processes, or to other guests of the host, while this one measured.

use procfs::process::Process;
use procfs::{CurrentSI, KernelStats};

/// The CPU time at the start of a measurement; `None` if /proc does not show it.
#[derive(Debug, Clone, Copy)]
pub struct OtherWork(Option<Reading>);

impl OtherWork {
    /// Begins to count.
    pub fn begin() -> Self {
        Self(Reading::now())
    }

    /// Returns the share of the CPU time since then that others have used, from 0 to 1.
    pub fn share(self) -> Option<f64> {
        Reading::now()?.of_others(self.0?)
    }
}

/// CPU time since the start of the machine, in clock ticks (proc_stat(5), proc_pid_stat(5)).
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Of all CPUs.
    all: u64,
    /// The part in which they were not idle.
    busy: u64,
    /// Of this process and of those that it has waited for.
    own: u64,
}

impl Reading {
    fn now() -> Option<Self> {
        let cpus = KernelStats::current().ok()?.total;
        let own = Process::myself().ok()?.stat().ok()?;
        let busy = cpus.user + cpus.nice + cpus.system + cpus.steal.unwrap_or(0);
        // What network connections of this process cause is among the interrupts.
        let interrupts = cpus.irq.unwrap_or(0) + cpus.softirq.unwrap_or(0);
        let children = u64::try_from(own.cutime + own.cstime).unwrap_or(0);
        Some(Self {
            all: busy + interrupts + cpus.idle + cpus.iowait.unwrap_or(0),
            busy,
            own: own.utime + own.stime + children,
        })
    }

    fn of_others(self, before: Self) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        let own = self.own.saturating_sub(before.own);
        let others = self.busy.saturating_sub(before.busy).saturating_sub(own);
        (all > 0).then(|| (others as f64 / all as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_time_and_idle_time_are_not_that_of_others() {
        let before = Reading {
            all: 1000,
            busy: 500,
            own: 50,
        };
        let after = |busy: u64, own: u64| Reading {
            all: 1200,
            busy: 500 + busy,
            own: 50 + own,
        };
        assert_eq!(after(150, 50).of_others(before), Some(0.5));
        assert_eq!(after(50, 60).of_others(before), Some(0.0));
        assert_eq!(before.of_others(before), None);
        assert!(Reading::now().is_some());
    }
}
