//! Tests the decisions on a made-up machine and made-up pipelines, for whose placements it is known what
//! they cost.

use fullbore_host::fixtures::Fixture;

use super::layout::Layout;
use super::placement::{Kind, Placement};
use super::placer::Placer;
use super::report::Placed;
use super::trial::{Goal, Outcome};
use super::window::{StageUse, Window};

/// A pipeline on a machine. Bytes are in millions, times in seconds.
struct Simulated {
    layout: Layout,
    /// The CPU time that each stage needs for a million bytes, by the age of the pipeline.
    work: fn(f64) -> Vec<f64>,
    /// The CPU time that a million bytes cost each side of a pipe whose ends are on different CPUs.
    crossing: f64,
    /// The share of each CPU that other programs use, by the age.
    others: fn(f64) -> Vec<f64>,
    /// How much the rate varies from window to window, as a factor of up to 1 plus or minus this.
    noise: f64,
    /// Whether the bytes can be counted.
    counted: bool,
    goal: Goal,
}

/// The state after some time.
struct Ran {
    placed: Placed,
    /// Bytes, and the bytes that the scheduler's placement would have moved.
    bytes: f64,
    without: f64,
    cpu: f64,
    cpu_without: f64,
}

impl Ran {
    /// Asserts that more than this part of what the scheduler's placement would have moved was moved.
    #[track_caller]
    fn assert_moves(&self, part: f64) {
        let Self { bytes, without, .. } = self;
        assert!(*bytes > part * without, "{bytes} {without}");
    }
}

impl Simulated {
    fn new(layout: Layout, work: fn(f64) -> Vec<f64>, crossing: f64) -> Self {
        Self {
            layout,
            work,
            crossing,
            others: |_| Vec::new(),
            noise: 0.02,
            counted: true,
            goal: Goal::Speed,
        }
    }

    /// Returns millions of bytes per second, and the load of each stage.
    fn speed(&self, placement: &Placement, age: f64) -> (f64, Vec<f64>) {
        let work = (self.work)(age);
        let others = (self.others)(age);
        let cpus = self.layout.cpus();
        // The scheduler puts each stage on another CPU, those that others use least first.
        let mut free: Vec<usize> = cpus.to_vec();
        let used = |cpu: usize| {
            let at = cpus.iter().position(|&known| known == cpu);
            at.and_then(|at| others.get(at)).copied().unwrap_or(0.0)
        };
        free.sort_by(|&a, &b| used(a).total_cmp(&used(b)));
        let at: Vec<usize> = (placement.stages.iter().enumerate())
            .map(|(stage, cpus)| match cpus.as_deref() {
                None => free[stage % free.len()],
                Some(cpus) => cpus[stage % cpus.len()],
            })
            .collect();
        let costs: Vec<f64> = (0..work.len())
            .map(|stage| {
                let crosses = |other: Option<&usize>| {
                    f64::from(u8::from(other.is_some_and(|other| *other != at[stage])))
                };
                let before = crosses(stage.checked_sub(1).and_then(|before| at.get(before)));
                work[stage] + (before + crosses(at.get(stage + 1))) * self.crossing
            })
            .collect();
        let rate = cpus.iter().fold(f64::INFINITY, |rate, &cpu| {
            let cost: f64 = (0..at.len())
                .filter(|&s| at[s] == cpu)
                .map(|s| costs[s])
                .sum();
            rate.min((1.0 - used(cpu)).max(0.05) / cost.max(1e-12))
        });
        (rate, costs.iter().map(|cost| cost * rate).collect())
    }

    fn window(
        &self,
        placement: &Placement,
        seconds: f64,
        age: f64,
        random: &mut fastrand::Rng,
    ) -> (Window, f64) {
        let (rate, loads) = self.speed(placement, age);
        let factor = (1.0 + self.noise * (2.0 * random.f64() - 1.0)).max(0.0);
        let bytes = rate * factor * seconds;
        let stage = |load: &f64| StageUse {
            cpu: load * factor * seconds,
            queued: 0.0,
            turns: 3000.0 * seconds,
            exists: *load > 0.0,
        };
        let others = (self.others)(age);
        let window = Window {
            seconds,
            age,
            pipes: vec![self.counted.then_some(bytes * 1e6); loads.len() - 1],
            stages: loads.iter().map(stage).collect(),
            idle: others.iter().map(|used| 1.0 - used).collect(),
        };
        (window, bytes)
    }

    /// Runs it for some seconds.
    fn run(&self, until: f64) -> Ran {
        let mut random = fastrand::Rng::with_seed(7);
        let stages = (self.work)(0.0).len();
        let mut placer = Placer::new(stages, self.layout.clone(), self.goal);
        let mut step = placer.first();
        let none = Placement::none(stages);
        let mut ran = Ran {
            placed: placer.report(),
            bytes: 0.0,
            without: 0.0,
            cpu: 0.0,
            cpu_without: 0.0,
        };
        let mut age = 0.0;
        while age < until {
            let before = step.placement.clone();
            let seconds = step.seconds.min(until);
            age += seconds;
            let (window, bytes) = self.window(&before, seconds, age, &mut random);
            ran.bytes += bytes;
            ran.cpu += window.stages.iter().map(|stage| stage.cpu).sum::<f64>();
            let (rate, loads) = self.speed(&none, age);
            ran.without += rate * seconds;
            ran.cpu_without += loads.iter().sum::<f64>() * seconds;
            step = placer.next(window);
            if step.placement != before {
                age += step.settle;
            }
            assert!(
                (step.placement.stages.iter().flatten().flatten())
                    .all(|cpu| self.layout.cpus().contains(cpu)),
                "{}",
                step.placement
            );
            let lost = placer.report().lost_seconds;
            // Before its first window, a placement may turn out to be worse than expected.
            assert!(lost <= 0.01 * age + 0.015, "{lost} s lost in {age} s");
        }
        ran.placed = placer.report();
        ran
    }
}

fn cpus(count: usize) -> Layout {
    let all = format!("0-{}", count - 1);
    let fixture = Fixture::new(&[]).online(&all);
    for cpu in 0..count {
        fixture.cpu(cpu, &cpu.to_string(), &all);
    }
    let topology = fixture.topology(&all);
    Layout::new(&topology, topology.allowed(), 0)
}

/// Stages that only move bytes: waking and moving costs more than the work.
fn moving(_: f64) -> Vec<f64> {
    vec![1.2e-4, 1.2e-4]
}

#[test]
fn two_stages_that_move_bytes_are_put_together() {
    let ran = Simulated::new(cpus(2), moving, 2e-4).run(10.0);
    assert_eq!(
        ran.placed.placement.kind,
        Kind::Together,
        "{}",
        ran.placed.words
    );
    assert!(
        ran.bytes > 1.2 * ran.without && ran.cpu < 0.6 * ran.cpu_without * ran.bytes / ran.without
    );
    assert_eq!(ran.placed.trials[0].outcome, Outcome::Faster);
    assert_eq!(ran.placed.changes, 0);
}

#[test]
fn two_stages_that_compute_are_left_apart() {
    let ran = Simulated::new(cpus(2), |_| vec![5e-3, 5e-3], 1e-4).run(20.0);
    assert!(ran.placed.placement.is_none(), "{}", ran.placed.words);
    ran.assert_moves(0.985);
}

#[test]
fn a_heavy_stage_keeps_a_cpu_for_itself() {
    let work = |_| vec![1e-4, 4e-3, 3e-4, 3e-4, 3e-4, 3e-4];
    let ran = Simulated::new(cpus(4), work, 3e-4).run(10.0);
    let stages = &ran.placed.placement.stages;
    assert_eq!(
        ran.placed.placement.kind,
        Kind::Grouped,
        "{}",
        ran.placed.words
    );
    assert!(stages.iter().filter(|cpus| **cpus == stages[1]).count() == 1);
    assert!(ran.cpu < 0.9 * ran.cpu_without * ran.bytes / ran.without);
    ran.assert_moves(0.98);
}

#[test]
fn a_pipeline_of_half_a_second_is_left_alone() {
    let ran = Simulated::new(cpus(2), moving, 2e-4).run(0.5);
    assert!(ran.placed.trials.is_empty() && ran.placed.placement.is_none());
}

#[test]
fn bursts_are_not_taken_for_a_gain_or_a_loss() {
    for noise in [0.3, 1.0] {
        let mut bursty = Simulated::new(cpus(2), |_| vec![5e-3, 1e-3], 1e-6);
        bursty.noise = noise;
        let ran = bursty.run(60.0);
        assert!(ran.placed.placement.is_none(), "{}", ran.placed.words);
        assert!(ran.placed.trials.len() < 20, "{}", ran.placed.trials.len());
    }
}

#[test]
fn what_pays_for_bytes_is_given_up_when_a_stage_begins_to_compute() {
    let work = |age: f64| match age {
        age if age < 10.0 => vec![1.2e-4, 1.2e-4],
        _ => vec![5e-3, 5e-3],
    };
    let ran = Simulated::new(cpus(2), work, 2e-4).run(9.9);
    assert_eq!(ran.placed.placement.kind, Kind::Together);
    let ran = Simulated::new(cpus(2), work, 2e-4).run(40.0);
    assert!(ran.placed.placement.is_none(), "{}", ran.placed.words);
    assert_eq!(ran.placed.changes, 1);
    assert!(
        ran.placed.words.contains("given up once"),
        "{}",
        ran.placed.words
    );
}

#[test]
fn a_cpu_that_others_use_is_avoided() {
    let mut busy = Simulated::new(cpus(2), moving, 2e-4);
    busy.others = |_| vec![0.9, 0.0];
    let ran = busy.run(10.0);
    assert_eq!(
        ran.placed.placement,
        Placement::together(2, 1),
        "{}",
        ran.placed.words
    );
}

#[test]
fn a_placement_is_given_up_when_others_take_its_cpu() {
    let mut busy = Simulated::new(cpus(2), moving, 2e-4);
    busy.others = |age| match age {
        age if age < 5.0 => vec![0.0, 0.1],
        _ => vec![0.9, 0.0],
    };
    let ran = busy.run(30.0);
    assert_eq!(
        ran.placed.placement,
        Placement::together(2, 1),
        "{}",
        ran.placed.words
    );
    assert_eq!(ran.placed.changes, 1);
}

#[test]
fn nothing_is_tried_without_a_choice_or_without_figures() {
    let one = Simulated::new(cpus(1), moving, 2e-4).run(5.0);
    assert!(
        one.placed.words.contains("only one CPU"),
        "{}",
        one.placed.words
    );
    let smt = Fixture::smt().topology("0-7");
    let cpuset = Layout::new(&smt, &[5], 0);
    let one = Simulated::new(cpuset, moving, 2e-4).run(5.0);
    assert!(
        one.placed.words.contains("only one CPU"),
        "{}",
        one.placed.words
    );
    let mut unknown = Simulated::new(cpus(2), moving, 2e-4);
    unknown.counted = false;
    let ran = unknown.run(20.0);
    assert!(ran.placed.trials.is_empty());
    assert!(
        ran.placed.words.contains("could not be counted"),
        "{}",
        ran.placed.words
    );
}

#[test]
fn hyperthreads_count_as_one_core_for_heavy_stages() {
    let smt = Fixture::smt().topology("0-7");
    let layout = Layout::new(&smt, smt.allowed(), 0);
    let work = |_| vec![4e-3, 3e-4, 3e-4];
    let ran = Simulated::new(layout, work, 3e-4).run(10.0);
    let cpus: Vec<usize> = ran
        .placed
        .placement
        .stages
        .iter()
        .flatten()
        .flatten()
        .copied()
        .collect();
    assert_eq!(
        ran.placed.placement.kind,
        Kind::Grouped,
        "{}",
        ran.placed.words
    );
    assert!(cpus[1] == cpus[2] && cpus[0] % 4 != cpus[1] % 4, "{cpus:?}");
}

#[test]
fn who_wants_to_save_cpu_time_may_lose_a_little_speed() {
    // Together, it is 4% slower, and costs a quarter less.
    let work = |_| vec![3.3e-3, 0.68e-3];
    let speed = Simulated::new(cpus(2), work, 0.53e-3).run(30.0);
    assert!(speed.placed.placement.is_none(), "{}", speed.placed.words);
    let mut save = Simulated::new(cpus(2), work, 0.53e-3);
    save.goal = Goal::SaveCpu;
    let save = save.run(30.0);
    assert_eq!(
        save.placed.placement.kind,
        Kind::Together,
        "{}",
        save.placed.words
    );
}

#[test]
fn a_pause_in_the_middle_of_a_trial_only_delays_it() {
    let simulated = Simulated::new(cpus(2), moving, 2e-4);
    let mut random = fastrand::Rng::with_seed(7);
    let mut placer = Placer::new(2, simulated.layout.clone(), Goal::Speed);
    let mut step = placer.first();
    let (mut age, mut pauses) = (0.0, 0);
    while age < 10.0 {
        age += step.seconds;
        let is_trial = step.placement.kind != placer.report().placement.kind;
        step = match is_trial && pauses < 3 {
            true => {
                pauses += 1;
                placer.skip()
            }
            false => {
                let (window, _) = simulated.window(&step.placement, step.seconds, age, &mut random);
                placer.next(window)
            }
        };
    }
    assert_eq!(pauses, 3);
    assert_eq!(placer.report().placement.kind, Kind::Together);
}
