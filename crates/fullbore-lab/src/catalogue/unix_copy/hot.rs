//! Models the hot working set: memory that a program uses between two sends, and that is no longer
//! in its caches if a send has replaced it with other bytes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;

use fullbore_results::statistics::Spread;

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// The number of walks that are timed.
const WALKS: usize = 200;

/// The number of walks that are timed if there is no time for more.
const AT_LEAST: usize = 5;

/// The number of walks before, which bring the lines into the caches.
const WARM_UP: usize = 20;

/// The seed is the same in every process, so that the figures of two modes differ only by the
/// modes.
const SEED: u64 = 0x2022;

/// One cache line, which contains the index of the next one, so that the CPU cannot prefetch it.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    next: usize,
}

/// Cache lines that form one cycle, in random order.
#[derive(Debug)]
pub struct HotSet(Vec<CacheLine>);

impl HotSet {
    /// Creates a set of `bytes` bytes, in whole lines, all touched.
    pub fn new(bytes: usize) -> Self {
        let mut next: Vec<usize> = (0..bytes / LINE).collect();
        let mut random = fastrand::Rng::with_seed(SEED);
        // Sattolo's algorithm (1986) is a shuffle whose result is always a single cycle.
        for last in (1..next.len()).rev() {
            next.swap(last, random.usize(..last));
        }
        Self(next.into_iter().map(|next| CacheLine { next }).collect())
    }

    /// Visits each line once, and returns to the first.
    fn walk(&self) -> usize {
        let mut at = black_box(0);
        for _ in 0..self.0.len() {
            at = self.0[at].next;
        }
        black_box(at)
    }

    /// Returns how long a walk takes after `before`, in seconds: the median of as many walks as
    /// `time` allows.
    ///
    /// # Errors
    /// Fails as `before` does.
    pub fn walk_after(
        &self,
        time: Duration,
        mut before: impl FnMut() -> Result<()>,
    ) -> Result<f64> {
        let began = Instant::now();
        let mut walks = Vec::with_capacity(WALKS);
        while walks.len() < AT_LEAST || (walks.len() < WALKS && began.elapsed() < time) {
            before()?;
            let began = Instant::now();
            self.walk();
            walks.push(began.elapsed().as_secs_f64());
        }
        Ok(Spread::of(&walks).expect("several finite times").median)
    }

    /// Returns how long a walk takes when nothing runs between two walks.
    pub fn walk_undisturbed(&self, time: Duration) -> Result<f64> {
        for _ in 0..WARM_UP {
            self.walk();
        }
        self.walk_after(time, || Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_line_once_and_ends_where_it_began() {
        for bytes in [64, 65, 128, 4096, 256 << 10] {
            let hot = HotSet::new(bytes);
            assert_eq!(hot.0.len(), bytes / LINE);
            let (mut at, mut seen) = (0, vec![false; hot.0.len()]);
            while !seen[at] {
                seen[at] = true;
                at = hot.0[at].next;
            }
            assert!(at == 0 && seen.iter().all(|seen| *seen), "{bytes}");
            assert_eq!(hot.walk(), 0);
        }
    }

    #[test]
    fn lines_are_lines_and_their_order_is_always_the_same() {
        assert_eq!(
            (size_of::<CacheLine>(), align_of::<CacheLine>()),
            (LINE, LINE)
        );
        let order = || -> Vec<usize> { HotSet::new(8192).0.iter().map(|l| l.next).collect() };
        assert_eq!(order(), order());
    }

    #[test]
    fn a_walk_is_timed_after_each_time_something_was_done() {
        let (hot, mut done) = (HotSet::new(4096), 0);
        let walk = hot.walk_after(Duration::ZERO, || {
            done += 1;
            Ok(())
        });
        assert!(walk.unwrap() >= 0.0);
        assert_eq!(done, AT_LEAST);
        assert!(
            hot.walk_after(Duration::ZERO, || anyhow::bail!("no"))
                .is_err()
        );
    }
}
