//! The idle time of the CPUs that given processes may run on, and the CPU time of the calling thread.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The idle time of CPUs since it was last asked for.
#[derive(Debug, Default)]
pub struct Cpus(Option<Reading>);

/// The time that each CPU has been idle (proc_stat(5)), by its number.
#[derive(Debug, Clone)]
pub struct Reading {
    at: Instant,
    idle: Vec<(usize, Duration)>,
}

/// The CPU time that was available to processes in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Offer {
    /// Time of all of them together.
    pub time: Duration,
    /// The part of it in which they had nothing to do.
    pub idle: Duration,
    /// The time that passed meanwhile.
    pub passed: Duration,
}

impl Offer {
    /// Returns the number of CPUs, if the time of any is known.
    pub fn cpus(&self) -> Option<f64> {
        let cpus = self.time.as_secs_f64() / self.passed.as_secs_f64();
        (!self.time.is_zero() && cpus.is_finite()).then_some(cpus)
    }
}

impl Cpus {
    /// Returns the time of the CPUs that one of these processes may run on, from the last reading to this one.
    /// Returns `None` the first time.
    pub fn until(
        &mut self,
        now: &Reading,
        processes: impl IntoIterator<Item = u32>,
    ) -> Option<Offer> {
        let before = self.0.replace(now.clone())?;
        let allowed: Vec<CpuSet> = (processes.into_iter())
            .filter_map(|pid| sched_getaffinity(Pid::from_raw(pid as i32)).ok())
            .collect();
        let mut offer = Offer {
            passed: now.at - before.at,
            ..Offer::default()
        };
        for (cpu, idle) in &now.idle {
            let allowed = allowed
                .iter()
                .any(|set| *cpu < CpuSet::MAX_CPU && set.is_set(*cpu));
            let Some((_, then)) = before.idle.iter().find(|(number, _)| number == cpu) else {
                continue;
            };
            if allowed {
                let time = now.at - before.at;
                offer.time += time;
                offer.idle += idle.saturating_sub(*then).min(time);
            }
        }
        (!offer.time.is_zero()).then_some(offer)
    }
}

impl Reading {
    /// Reads the idle times now; returns `None` if they are not known.
    pub fn now() -> Option<Self> {
        let at = Instant::now();
        let stat = fs::read_to_string("/proc/stat").ok()?;
        Some(Self {
            at,
            idle: parse(&stat),
        })
    }
}

/// Returns for each CPU the time that it was idle, including the time in which a task waited for a
/// disk.
fn parse(stat: &str) -> Vec<(usize, Duration)> {
    let tick = 1.0 / procfs::ticks_per_second() as f64;
    let of = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu = words.next()?.parse().ok()?;
        // user, nice, system; idle, iowait
        let ticks: u64 = words
            .skip(3)
            .take(2)
            .filter_map(|word| word.parse::<u64>().ok())
            .sum();
        Some((cpu, Duration::from_secs_f64(ticks as f64 * tick)))
    };
    stat.lines().filter_map(of).collect()
}

/// Returns the CPU time that this thread has used.
pub fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_that_of_each_cpu_by_its_number() {
        let tick = Duration::from_secs_f64(1.0 / procfs::ticks_per_second() as f64);
        let stat = "cpu  9 9 9 9 9 9\ncpu0 1 2 3 40 5 6 7\ncpu3 1 2 3 50 0 6 7\nintr 1 2\n";
        assert_eq!(parse(stat), [(0, tick * 45), (3, tick * 50)]);
    }

    #[test]
    fn what_cpus_offer_is_as_much_as_time_has_passed() {
        let mut cpus = Cpus::default();
        let own = std::process::id();
        let mut since = |processes| cpus.until(&Reading::now().unwrap(), processes);
        assert_eq!(since(Some(own)), None);
        std::thread::sleep(Duration::from_millis(50));
        let offer = since(Some(own)).unwrap();
        assert!(offer.time >= Duration::from_millis(50) && offer.idle <= offer.time);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(since(None), None);
    }
}
