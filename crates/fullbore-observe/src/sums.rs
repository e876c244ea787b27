//! What the looks at a pipeline add up to. Sums only grow, so what happened between two times is the
//! difference between two of them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attribution::Doubtful;
use super::blame::blamed;
use super::cpus::Offer;
use super::link::Fill;
use super::moment::{Cause, Moment};

/// Steps in which it is counted how full a pipe was.
const STEPS: usize = 100;

/// A pipeline's.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// Time that was looked at.
    pub time: Duration,
    /// Looks.
    pub looks: u64,
    /// CPU time that looking took.
    pub looking: Duration,
    /// Time in which every stage waited for another: what wakes them is on its way.
    pub all_wait: Duration,
    /// What the CPUs had to offer that it may run on.
    pub offer: Offer,
    /// Its stages'.
    pub stages: Vec<StageSums>,
    /// Its pipes'.
    pub pipes: Vec<PipeSums>,
}

/// A stage's.
#[derive(Debug, Clone, Default)]
pub struct StageSums {
    /// Time that it was there.
    pub time: Duration,
    /// CPU time.
    pub cpu: Duration,
    /// Of the time that it was there, that in which something of it ran.
    pub ran: Duration,
    /// That in which something of it waited for a CPU, and nothing ran.
    pub queued: Duration,
    /// That in which a look found it waiting for the stage before.
    pub for_input: Duration,
    /// For the stage after.
    pub for_output: Duration,
    /// For something else.
    pub elsewhere: BTreeMap<Cause, Duration>,
    /// Time in which it kept the others waiting: its part where it was not the only one.
    pub blame: Duration,
    /// Time in which its figures may be of somebody whom nobody waits for.
    pub doubtful: Doubtful,
    /// Times that a thread of it got a CPU.
    pub turns: u64,
    /// Time that its threads waited for one, added up.
    pub queues: Duration,
    /// Bytes that it has read, where that is known.
    pub read: Option<u64>,
    /// Bytes that it has written, where that is known.
    pub written: Option<u64>,
}

/// A pipe's.
#[derive(Debug, Clone)]
pub struct PipeSums {
    /// Time that it was looked at with both its stages there.
    pub time: Duration,
    /// That in which it was empty.
    pub empty: Duration,
    /// That in which it was full, or its writer waited for room in it.
    pub full: Duration,
    /// Time by how full it was.
    filled: [Duration; STEPS + 1],
}

impl Default for PipeSums {
    fn default() -> Self {
        Self {
            time: Duration::ZERO,
            empty: Duration::ZERO,
            full: Duration::ZERO,
            filled: [Duration::ZERO; STEPS + 1],
        }
    }
}

impl Sums {
    /// Of so many stages and pipes, with nothing in them.
    pub fn new(stages: usize, pipes: usize) -> Self {
        Self {
            stages: vec![StageSums::default(); stages],
            pipes: vec![PipeSums::default(); pipes],
            ..Self::default()
        }
    }

    /// What was added since it was like `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time.saturating_sub(earlier.time),
            looks: self.looks - earlier.looks,
            looking: self.looking.saturating_sub(earlier.looking),
            all_wait: self.all_wait.saturating_sub(earlier.all_wait),
            offer: Offer {
                time: self.offer.time.saturating_sub(earlier.offer.time),
                idle: self.offer.idle.saturating_sub(earlier.offer.idle),
            },
            stages: (self.stages.iter().zip(&earlier.stages))
                .map(|(now, then)| now.since(then))
                .collect(),
            pipes: (self.pipes.iter().zip(&earlier.pipes))
                .map(|(now, then)| now.since(then))
                .collect(),
        }
    }

    /// Notes what all stages did at a moment that stands for `time`, and how full the pipes between each
    /// and the next were.
    pub fn note(&mut self, moments: &[Moment], pipes: &[Option<Fill>], time: Duration) {
        self.looks += 1;
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
            elsewhere: (self.elsewhere.iter())
                .map(|(&cause, &now)| {
                    let then = earlier.elsewhere.get(&cause).copied();
                    (cause, now.saturating_sub(then.unwrap_or_default()))
                })
                .collect(),
            blame: self.blame.saturating_sub(earlier.blame),
            doubtful: self.doubtful.since(&earlier.doubtful),
            turns: self.turns - earlier.turns,
            queues: self.queues.saturating_sub(earlier.queues),
            read: more(self.read, earlier.read),
            written: more(self.written, earlier.written),
        }
    }
}

fn more(now: Option<u64>, then: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(then.unwrap_or(0)))
}

impl PipeSums {
    /// Notes how full it was at a moment that stands for `time`.
    pub fn note(&mut self, fill: Fill, writer_waits: bool, time: Duration) {
        self.time += time;
        if fill.is_empty() {
            self.empty += time;
        }
        if fill.is_full() || writer_waits {
            self.full += time;
        }
        self.filled[(fill.share() * STEPS as f64).round() as usize] += time;
    }

    /// How full it was at most, from 0 to 1, for this share of the time.
    pub fn percentile(&self, share: f64) -> f64 {
        let mut left = self.time.mul_f64(share);
        for (step, time) in self.filled.iter().enumerate() {
            if *time >= left && !time.is_zero() {
                return step as f64 / STEPS as f64;
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
            filled: std::array::from_fn(|step| {
                self.filled[step].saturating_sub(earlier.filled[step])
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn fill(queued: usize) -> Fill {
        let capacity = 1000;
        Fill { queued, capacity }
    }

    #[test]
    fn percentiles_are_of_the_time_and_not_of_the_looks() {
        let mut pipe = PipeSums::default();
        pipe.note(fill(0), false, MS * 80);
        for _ in 0..10 {
            pipe.note(fill(500), false, MS);
        }
        pipe.note(fill(1000), false, MS * 5);
        // Full of small pieces.
        pipe.note(fill(30), true, MS * 5);
        let at = |share| pipe.percentile(share);
        assert_eq!(
            [at(0.1), at(0.5), at(0.84), at(0.9), at(1.0)],
            [0.0, 0.0, 0.03, 0.5, 1.0]
        );
        assert_eq!((pipe.empty, pipe.full), (MS * 80, MS * 10));
        assert_eq!(PipeSums::default().percentile(0.5), 0.0);
    }

    #[test]
    fn what_was_added_since_is_the_difference() {
        let mut sums = Sums::new(2, 1);
        let look = |sums: &mut Sums| {
            let moments = [Moment::Elsewhere(Cause::Timer), Moment::Input];
            sums.note(&moments, &[Some(fill(0)), None], MS);
            sums.pipes[0].note(fill(0), false, MS);
            sums.stages[0].read = Some(sums.stages[0].read.unwrap_or(0) + 7);
        };
        look(&mut sums);
        let then = sums.clone();
        for _ in 0..3 {
            look(&mut sums);
        }
        let since = sums.since(&then);
        assert_eq!((since.looks, since.time), (3, MS * 3));
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
    fn nobody_is_to_blame_while_all_wait_for_each_other() {
        let mut sums = Sums::new(2, 1);
        sums.note(&[Moment::Output, Moment::Input], &[Some(fill(0)), None], MS);
        sums.note(&[Moment::Ended, Moment::Ended], &[Some(fill(0)), None], MS);
        assert_eq!(sums.all_wait, MS);
        assert!(sums.stages.iter().all(|stage| stage.blame.is_zero()));
    }
}
