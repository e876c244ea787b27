//! How far apart the two CPUs are: the time that one cache line takes from one to the other and back.
//!
//! The CPUs of a virtual machine are threads of its host, which may move them at any time. When it puts
//! two of them on cores that share no cache, everything that passes from one to the other becomes
//! several times slower. Nothing else inside the machine shows this. The distance is measured around
//! every measurement of the laboratory, which repeats those that were made while the CPUs were apart.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::machine::CpuPair;

/// How long one measurement takes.
const TIME: Duration = Duration::from_millis(1);

/// The CPUs are apart where a cache line takes more than so many times as long as when they are near.
///
/// Typical times are 30 ns between two threads of one core, 60 ns between two cores that share a
/// cache, and 300 ns between two that share none.
pub const APART: f64 = 2.2;

/// Measures once, adds the nanoseconds to those that were measured before, and returns whether the CPUs are about as near
/// as they usually are. Where the distance cannot be measured, they count as near.
pub fn are_near(seen: &mut Vec<f64>, cpus: &CpuPair) -> bool {
    let Some(now) = line_round_trip_ns(cpus) else {
        return true;
    };
    seen.push(now);
    now <= near(seen) * APART
}

/// Returns the distance that counts as near: a tenth of all measurements were below it. The
/// smallest would not do, because the host may put both CPUs on one core of its own for a moment.
fn near(seen: &[f64]) -> f64 {
    let mut sorted = seen.to_vec();
    sorted.sort_by(f64::total_cmp);
    let near = sorted.get(sorted.len() / 10).copied();
    near.unwrap_or(f64::INFINITY)
}

/// The word that is passed, alone on its cache lines: another word on them would slow it down.
#[repr(align(256))]
struct CacheLine(AtomicU32);

/// Says that the answering side may end. It is not in the word that is passed, because an answer that
/// was under way when the asking side gave up would overwrite it.
#[repr(align(256))]
struct End(AtomicBool);

/// Measures how many nanoseconds a cache line takes from the writer's CPU to the reader's and
/// back.
///
/// The result is the best of several series of 500 round trips, made within 1 ms. It is `None`
/// where the two CPUs are one, or where threads cannot be pinned to them.
pub fn line_round_trip_ns(cpus: &CpuPair) -> Option<f64> {
    if cpus.writer == cpus.reader {
        return None;
    }
    let (line, end) = (CacheLine(AtomicU32::new(0)), End(AtomicBool::new(false)));
    thread::scope(|scope| {
        let answering = scope.spawn(|| pinned_to(cpus.reader, || answer(&line, &end)));
        let asking = scope.spawn(|| {
            let took = pinned_to(cpus.writer, || ask(&line));
            end.0.store(true, Ordering::Release);
            took
        });
        // A thread that panicked or could not be pinned leaves no figure.
        answering.join().ok()??;
        asking.join().ok()?.filter(|ns| ns.is_finite())
    })
}

/// Runs `work` on one CPU; returns `None` where this thread may not run there. The affinity is not restored, so this is
/// for a thread that ends after it.
pub fn pinned_to<T>(cpu: usize, work: impl FnOnce() -> T) -> Option<T> {
    if cpu >= CpuSet::MAX_CPU {
        return None;
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).ok()?;
    Some(work())
}

/// Sets the word back to 0 whenever it is 1, until `end` says that nobody asks any more.
fn answer(line: &CacheLine, end: &End) {
    let mut loads = 0u32;
    loop {
        loads = loads.wrapping_add(1);
        match line.0.load(Ordering::Acquire) {
            1 => line.0.store(0, Ordering::Release),
            _ if end.0.load(Ordering::Relaxed) => return,
            // The asking thread may be waiting for this CPU.
            _ if loads % (1 << 12) == 0 => thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Sets the word to 1 and waits until it is 0 again, for [`TIME`]; returns the nanoseconds of one round
/// trip in the fastest series, or infinity where nobody answered.
fn ask(line: &CacheLine) -> f64 {
    const TURNS: u32 = 500;
    let began = Instant::now();
    let mut best = f64::INFINITY;
    while began.elapsed() < TIME {
        let stretch = Instant::now();
        for _ in 0..TURNS {
            line.0.store(1, Ordering::Release);
            let mut loads = 0u32;
            while line.0.load(Ordering::Acquire) != 0 {
                loads = loads.wrapping_add(1);
                // The answering thread may not have started, or may never start, so there is a time
                // limit. The clock is read rarely, so that reading it is not what is measured.
                if loads % (1 << 12) == 0 {
                    if began.elapsed() > TIME * 100 {
                        return f64::INFINITY;
                    }
                    thread::yield_now();
                }
            }
        }
        best = best.min(stretch.elapsed().as_secs_f64() * 1e9 / f64::from(TURNS));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::machine::Topology;
    use super::*;

    #[test]
    fn a_rare_moment_of_unusual_nearness_sets_no_standard() {
        assert_eq!(near(&[60.0]), 60.0);
        let mut seen = vec![60.0; 30];
        seen.extend([39.0, 39.0, 340.0, 340.0]);
        assert_eq!(near(&seen), 60.0);
        // Where the CPUs are apart most of the time, near is still what is near.
        seen.extend([340.0; 200]);
        assert_eq!(near(&seen), 60.0);
    }

    #[test]
    fn a_line_takes_some_time_between_two_cpus_and_none_is_said_of_one() {
        let topology = Topology::read();
        let pair = CpuPair::choose(&topology);
        // On a busy machine a look may find the other side not running.
        let time = (0..50).find_map(|_| line_round_trip_ns(&pair));
        assert_eq!(time.is_some(), pair.writer != pair.reader);
        assert!(time.is_none_or(|ns| ns > 1.0));
        let one = CpuPair::of(pair.writer, pair.writer, &topology).unwrap();
        assert_eq!(line_round_trip_ns(&one), None);
    }
}
