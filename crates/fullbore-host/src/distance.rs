//! How far apart the two CPUs are: the time that one cache line takes from one to the other and back.
//!
//! A virtual machine's CPUs are threads of its host, which moves them as it likes. When it puts
//! two of them on cores that share no cache, everything that passes from one to the other becomes
//! several times slower, and nothing inside the machine says so; but this figure shows it. It is
//! taken around every measurement, and one that was made while the CPUs were apart is repeated.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::machine::CpuPair;

/// How long one look takes.
const TIME: Duration = Duration::from_millis(2);

/// What is seen of the distance over a run.
#[derive(Debug, Default)]
pub struct Distances {
    seen: Vec<f64>,
}

impl Distances {
    /// A line that takes so many times longer than what is near goes another way. Two threads of one core
    /// have 30 ns where two cores that share a cache have 60, and two that share none 300.
    pub const APART: f64 = 2.2;

    /// Takes a few looks, to know what is usual.
    pub fn first_looks(cpus: &CpuPair) -> Self {
        let mut distances = Self::default();
        for _ in 0..5 {
            distances.are_near(cpus);
        }
        distances
    }

    /// Looks, and says whether the CPUs are as near as they have been seen to be.
    pub fn are_near(&mut self, cpus: &CpuPair) -> bool {
        let Some(now) = line_round_trip_ns(cpus) else {
            return true;
        };
        self.seen.push(now);
        now <= near(&self.seen) * Self::APART
    }

    /// All that was seen, in nanoseconds; nothing where nothing could be.
    pub fn seen(&self) -> &[f64] {
        &self.seen
    }
}

/// The distance that counts as near: one that a tenth of all looks went below. The nearest of all would
/// not do, because the host may for a moment put both CPUs on one core of its own.
fn near(seen: &[f64]) -> f64 {
    let mut sorted = seen.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(sorted.len() / 10)
        .copied()
        .unwrap_or(f64::INFINITY)
}

/// Alone on its cache lines: a neighbour would be fetched and lost with it.
#[repr(align(256))]
struct CacheLine(AtomicU32);

/// Says that the answering side may end. On lines of its own, because an answer that was under way
/// when the asking side gave up would write over it.
#[repr(align(256))]
struct End(AtomicBool);

/// Nanoseconds for a cache line to go from the writer's CPU to the reader's and back, as the
/// best of several stretches; `None` where the two are one, or threads cannot be pinned.
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

/// Runs `work` on one CPU; the thread ends with it, and so its affinity need not be put back.
fn pinned_to<T>(cpu: usize, work: impl FnOnce() -> T) -> Option<T> {
    let allowed = sched_getaffinity(None).ok()?;
    if cpu >= CpuSet::MAX_CPU || !allowed.is_set(cpu) {
        return None;
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).ok()?;
    Some(work())
}

fn answer(line: &CacheLine, end: &End) {
    loop {
        match line.0.load(Ordering::Acquire) {
            1 => line.0.store(0, Ordering::Release),
            _ if end.0.load(Ordering::Relaxed) => return,
            _ => std::hint::spin_loop(),
        }
    }
}

fn ask(line: &CacheLine) -> f64 {
    const TURNS: u32 = 500;
    let began = Instant::now();
    let mut best = f64::INFINITY;
    while began.elapsed() < TIME {
        let stretch = Instant::now();
        for _ in 0..TURNS {
            line.0.store(1, Ordering::Release);
            let mut looks = 0u32;
            while line.0.load(Ordering::Acquire) != 0 {
                looks = looks.wrapping_add(1);
                // The answering thread may not have started, or may never: time runs out all the
                // same. The clock is read rarely, or it would be what is measured.
                if looks.is_multiple_of(1 << 16) && began.elapsed() > TIME * 50 {
                    return f64::INFINITY;
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
