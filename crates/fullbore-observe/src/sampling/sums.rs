//! The sums of all samples of a pipeline. Sums only grow, so what happened between two times is the
//! difference between their sums.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::census::fill::Fill;
use crate::sampling::attribution::Doubtful;
use crate::sampling::blame::blamed;
use crate::sampling::cpus::Offer;
use crate::sampling::moment::{Cause, Moment};

/// The number of steps in which it is counted how full a pipe was.
const STEPS: f64 = 100.0;

/// The sums of a pipeline.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// The time that was observed.
    pub time: Duration,
    /// The number of samples.
    pub samples: u64,
    /// The sum of the squares of the times that the samples represent, in square seconds.
    pub squares: f64,
    /// The CPU time that the samples took.
    pub sampling: Duration,
    /// The time in which every stage waited for another, because a wake-up was about to happen.
    pub all_wait: Duration,
    /// The time of the CPUs that it may run on.
    pub offer: Offer,
    /// The sums of its stages.
    pub stages: Vec<StageSums>,
    /// The sums of its pipes.
    pub pipes: Vec<PipeSums>,
}

/// The sums of a stage.
#[derive(Debug, Clone, Default)]
pub struct StageSums {
    /// The time that it existed.
    pub time: Duration,
    /// The CPU time that it used.
    pub cpu: Duration,
    /// The time in which at least one thread of it ran.
    pub ran: Duration,
    /// The time in which at least one thread of it waited for a CPU, and none ran.
    pub queued: Duration,
    /// The time in which samples found it waiting for the stage before it.
    pub for_input: Duration,
    /// The time in which samples found it waiting for the stage after it.
    pub for_output: Duration,
    /// The time in which samples found it waiting for something else.
    pub elsewhere: BTreeMap<Cause, Duration>,
    /// The time in which it kept the others waiting. If several stages did so at the same time, it
    /// is the stage's part of that time.
    pub blame: Duration,
    /// The time in which its figures may be of a process that the others do not wait for.
    pub doubtful: Doubtful,
    /// The number of times that a thread of it got a CPU.
    pub turns: u64,
    /// Bytes that it has read, if that is known.
    pub read: Option<u64>,
    /// Bytes that it has written, if that is known.
    pub written: Option<u64>,
}

/// The sums of a pipe.
#[derive(Debug, Clone, Default)]
pub struct PipeSums {
    /// The time in which it was observed while both its stages existed.
    pub time: Duration,
    /// The time in which it was empty.
    pub empty: Duration,
    /// The time in which it was full, or its writer waited for room in it.
    pub full: Duration,
    /// The time by how full it was, in steps.
    filled: BTreeMap<usize, Duration>,
    /// What was in it when the counters were last read.
    pub unread: Option<Unread>,
}

/// Bytes that were in a pipe after the counters of its two stages were read.
#[derive(Debug, Clone, Copy)]
pub struct Unread {
    /// How many.
    pub queued: u64,
    /// Bytes that the stage before it had written, to any file.
    pub written: u64,
    /// Bytes that the stage after it had read, from any file.
    pub read: u64,
}

impl Sums {
    /// Creates sums of 0 for this number of stages and pipes.
    pub fn new(stages: usize, pipes: usize) -> Self {
        Self {
            stages: vec![StageSums::default(); stages],
            pipes: vec![PipeSums::default(); pipes],
            ..Self::default()
        }
    }

    /// Returns what was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time.saturating_sub(earlier.time),
            samples: self.samples - earlier.samples,
            squares: self.squares - earlier.squares,
            sampling: self.sampling.saturating_sub(earlier.sampling),
            all_wait: self.all_wait.saturating_sub(earlier.all_wait),
            offer: Offer {
                time: self.offer.time.saturating_sub(earlier.offer.time),
                idle: self.offer.idle.saturating_sub(earlier.offer.idle),
                passed: self.offer.passed.saturating_sub(earlier.offer.passed),
            },
            stages: (self.stages.iter().zip(&earlier.stages))
                .map(|(now, then)| now.since(then))
                .collect(),
            pipes: (self.pipes.iter().zip(&earlier.pipes))
                .map(|(now, then)| now.since(then))
                .collect(),
        }
    }

    /// Returns how many samples that represent equal times would say as much (Kish, Survey Sampling, 1965). Some
    /// represent much more time than others, because samples may only use little CPU time.
    pub fn effective_samples(&self) -> f64 {
        self.time.as_secs_f64().powi(2) / self.squares.max(f64::MIN_POSITIVE)
    }

    /// Records what all stages did at a moment that represents `time`, and how full the pipes between
    /// them were.
    pub fn note(&mut self, moments: &[Moment], pipes: &[Option<Fill>], time: Duration) {
        self.samples += 1;
        self.squares += time.as_secs_f64().powi(2);
        self.time += time;
        for (stage, moment) in self.stages.iter_mut().zip(moments) {
            stage.note(*moment, time);
        }
        let blamed = blamed(moments, pipes);
        for &at in &blamed {
            self.stages[at].blame += time / blamed.len() as u32;
        }
        if blamed.is_empty() && moments.iter().any(|moment| *moment != Moment::Ended) {
            self.all_wait += time;
        }
    }
}

impl StageSums {
    fn note(&mut self, moment: Moment, time: Duration) {
        match moment {
            Moment::Active | Moment::Ended => {}
            Moment::Input => self.for_input += time,
            Moment::Output => self.for_output += time,
            Moment::Both => {
                self.for_input += time / 2;
                self.for_output += time / 2;
            }
            Moment::Elsewhere(cause) => *self.elsewhere.entry(cause).or_default() += time,
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time.saturating_sub(earlier.time),
            cpu: self.cpu.saturating_sub(earlier.cpu),
            ran: self.ran.saturating_sub(earlier.ran),
            queued: self.queued.saturating_sub(earlier.queued),
            for_input: self.for_input.saturating_sub(earlier.for_input),
            for_output: self.for_output.saturating_sub(earlier.for_output),
            elsewhere: longer(&self.elsewhere, &earlier.elsewhere),
            blame: self.blame.saturating_sub(earlier.blame),
            doubtful: self.doubtful.since(&earlier.doubtful),
            turns: self.turns - earlier.turns,
            read: more(self.read, earlier.read),
            written: more(self.written, earlier.written),
        }
    }
}

fn longer<K: Ord + Copy>(
    now: &BTreeMap<K, Duration>,
    earlier: &BTreeMap<K, Duration>,
) -> BTreeMap<K, Duration> {
    let since = |(key, now): (&K, &Duration)| {
        let then = earlier.get(key).copied().unwrap_or_default();
        (*key, now.saturating_sub(then))
    };
    now.iter().map(since).collect()
}

fn more(now: Option<u64>, then: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(then.unwrap_or(0)))
}

impl PipeSums {
    /// Records how full it was at a moment that represents `time`.
    pub fn note(&mut self, fill: Fill, writer_waits: bool, time: Duration) {
        self.time += time;
        if fill.is_empty() {
            self.empty += time;
        }
        if fill.is_full() || writer_waits {
            self.full += time;
        }
        let step = (fill.share() * STEPS).round() as usize;
        *self.filled.entry(step).or_default() += time;
    }

    /// Returns how full it was at most, from 0 to 1, for this share of the time.
    pub fn percentile(&self, share: f64) -> f64 {
        let mut left = self.time.mul_f64(share);
        for (&step, time) in &self.filled {
            if *time >= left && !time.is_zero() {
                return step as f64 / STEPS;
            }
            left = left.saturating_sub(*time);
        }
        0.0
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time.saturating_sub(earlier.time),
            empty: self.empty.saturating_sub(earlier.empty),
            full: self.full.saturating_sub(earlier.full),
            filled: longer(&self.filled, &earlier.filled),
            // These numbers are from the start.
            unread: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn fill(queued: usize) -> Fill {
        let capacity = 1000;
        Fill {
            no_slot_is_free: None,
            queued,
            capacity,
        }
    }

    #[test]
    fn percentiles_are_of_the_time_and_not_of_the_samples() {
        let mut pipe = PipeSums::default();
        pipe.note(fill(0), false, MS * 80);
        for _ in 0..10 {
            pipe.note(fill(500), false, MS);
        }
        pipe.note(fill(1000), false, MS * 5);
        // The pipe is full of small pieces.
        pipe.note(fill(30).with_writer_asleep(), true, MS * 5);
        let at = |share| pipe.percentile(share);
        assert_eq!(
            [at(0.1), at(0.5), at(0.84), at(0.9), at(1.0)],
            [0.0, 0.0, 0.5, 0.5, 1.0]
        );
        assert_eq!((pipe.empty, pipe.full), (MS * 80, MS * 10));
        assert_eq!(PipeSums::default().percentile(0.5), 0.0);
    }

    #[test]
    fn what_was_added_since_is_the_difference() {
        let mut sums = Sums::new(2, 1);
        let sample = |sums: &mut Sums| {
            let moments = [Moment::Elsewhere(Cause::Timer), Moment::Input];
            sums.note(&moments, &[Some(fill(0)), None], MS);
            sums.pipes[0].note(fill(0), false, MS);
            sums.stages[0].read = Some(sums.stages[0].read.unwrap_or(0) + 7);
        };
        sample(&mut sums);
        let then = sums.clone();
        for _ in 0..3 {
            sample(&mut sums);
        }
        let since = sums.since(&then);
        assert_eq!((since.samples, since.time), (3, MS * 3));
        assert_eq!(since.stages[0].elsewhere[&Cause::Timer], MS * 3);
        assert_eq!(
            (since.stages[0].blame, since.stages[1].for_input),
            (MS * 3, MS * 3)
        );
        assert_eq!(
            (since.stages[0].read, since.pipes[0].empty),
            (Some(21), MS * 3)
        );
        assert_eq!(sums.stages[0].blame, MS * 4);
    }

    #[test]
    fn a_sample_that_represents_most_of_the_time_counts_for_little_more_than_one() {
        let mut sums = Sums::new(2, 1);
        let moments = [Moment::Active, Moment::Input];
        for _ in 0..10 {
            sums.note(&moments, &[None, None], MS * 2);
        }
        assert!((sums.effective_samples() - 10.0).abs() < 1e-6);
        sums.note(&moments, &[None, None], MS * 200);
        assert!(sums.effective_samples() < 1.3);
    }

    #[test]
    fn nobody_is_to_blame_while_all_wait_for_each_other() {
        let mut sums = Sums::new(2, 1);
        sums.note(&[Moment::Output, Moment::Input], &[Some(fill(0)), None], MS);
        sums.note(&[Moment::Ended, Moment::Ended], &[Some(fill(0)), None], MS);
        assert_eq!(sums.all_wait, MS);
        assert!(sums.stages.iter().all(|stage| stage.blame.is_zero()));
    }
}
