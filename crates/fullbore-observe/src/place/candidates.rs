//! Which placements could pay for a pipeline, from the averages of what it does.

use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::placement::{Kind, Placement};
use super::window::Usage;

/// The most CPU time that waking a thread on another CPU costs both sides, in seconds; virtual machines need
/// that much.
const WAKING: f64 = 50e-6;

/// The most CPU time that one byte costs because it changes caches, in seconds.
const MOVING: f64 = 0.5e-9;

/// The largest part of the CPU time that placement can save.
const MOST: f64 = 0.7;

/// The least part of the CPU time that is worth a trial.
const WORTH: f64 = 0.05;

/// The load from which a stage has several busy threads, which need several CPUs.
const PARALLEL: f64 = 1.2;

/// The most load that stages may have that are put on one CPU because they do little.
const FULL: f64 = 0.95;

/// The most load that one CPU may be expected to have if all stages are on it. The expectation is the best
/// case, so a little more than one CPU is hopeless.
const BEST_CASE: f64 = 1.05;

/// Why no placement is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Untried {
    /// The pipeline ended before there was enough to go by.
    TooShort,
    /// There is only one stage, or the others have ended.
    OneStage,
    /// The pipeline may use only one CPU.
    OneCpu,
    /// No bytes moved, or nobody counted them.
    BytesUnknown,
    /// The pipeline's rate varies too much for a comparison.
    Irregular,
    /// The stages wake each other too seldom, and move too few bytes, for placement to matter.
    NothingToGain,
    /// The stages need all CPUs that they have.
    Busy,
    /// The CPUs of a process could not be changed.
    NotAllowed,
}

impl Untried {
    /// Returns the reason as a clause.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::TooShort => "the pipeline ended before a placement could be tried",
            Self::OneStage => "only one stage was running",
            Self::OneCpu => "it may use only one CPU",
            Self::BytesUnknown => "nothing moved, or the bytes could not be counted",
            Self::Irregular => "its rate varied too much for a comparison",
            Self::NothingToGain => {
                "the stages woke each other so seldom that placement does not matter"
            }
            Self::Busy => "its stages needed all the CPUs that they had",
            Self::NotAllowed => "the CPUs of its processes may not be changed",
        }
    }
}

/// Returns the placements that could pay, the best first, or why there is none. The averages are those of the
/// scheduler's placement.
///
/// # Errors
/// Returns the reason if no placement could pay.
pub fn candidates(usage: &Usage, layout: &Layout) -> Result<Vec<Placement>, Untried> {
    let stages: Vec<usize> = (0..usage.loads.len())
        .filter(|&stage| usage.existing[stage])
        .collect();
    if stages.len() < 2 {
        return Err(Untried::OneStage);
    }
    if layout.cpus().len() < 2 {
        return Err(Untried::OneCpu);
    }
    if usage.rates.iter().all(Option::is_none) {
        return Err(Untried::BytesUnknown);
    }
    let saving = saving(usage);
    if saving < WORTH * usage.load() {
        return Err(Untried::NothingToGain);
    }
    let together = (best_case(usage) <= BEST_CASE && !has_parallel_stage(usage))
        .then(|| layout.freest(&usage.idle))
        .flatten()
        .map(|cpu| only_existing(usage, Placement::together(usage.loads.len(), cpu)));
    let grouped = grouped(&stages, usage, layout);
    let near = near(&stages, usage, layout);
    let mut all: Vec<Placement> = Vec::new();
    for placement in [together, grouped, near].into_iter().flatten() {
        if all.iter().all(|known| known.stages != placement.stages) {
            all.push(placement);
        }
    }
    match all.is_empty() {
        true => Err(Untried::Busy),
        false => Ok(all),
    }
}

/// Returns the load that one CPU would have at least, if all stages were on it and kept their rate.
pub fn best_case(usage: &Usage) -> f64 {
    usage.load() - saving(usage)
}

/// Returns whether a stage keeps several CPUs busy by itself.
pub fn has_parallel_stage(usage: &Usage) -> bool {
    usage.loads.iter().any(|&load| load > PARALLEL)
}

/// Returns the CPU time per second that the stages may spend on waking each other and on moving bytes between
/// CPUs, at most.
fn saving(usage: &Usage) -> f64 {
    let turns: f64 = usage.turns.iter().sum();
    let bytes: f64 = usage.rates.iter().flatten().sum();
    (turns * WAKING + bytes * MOVING).min(usage.load() * MOST)
}

fn only_existing(usage: &Usage, mut placement: Placement) -> Placement {
    for (stage, exists) in placement.stages.iter_mut().zip(&usage.existing) {
        if !exists {
            *stage = None;
        }
    }
    placement
}

/// Puts neighbours on one CPU as long as it has time for them, and then also others, until there are no more
/// groups than cores. If nothing can be grouped so, the stages are divided in two. Returns `None` if that is
/// hopeless too.
fn grouped(stages: &[usize], usage: &Usage, layout: &Layout) -> Option<Placement> {
    let load = |group: &Vec<usize>| group.iter().map(|&stage| usage.loads[stage]).sum::<f64>();
    // A stage that needs several CPUs is left alone.
    let few = |stage: &&usize| usage.loads[**stage] <= PARALLEL;
    let mut groups: Vec<Vec<usize>> = stages
        .iter()
        .filter(few)
        .map(|&stage| vec![stage])
        .collect();
    let placed = groups.len();
    let are_neighbours = |a: &Vec<usize>, b: &Vec<usize>| {
        a.iter()
            .any(|stage| b.contains(&(stage + 1)) || (*stage > 0 && b.contains(&(stage - 1))))
    };
    loop {
        let too_many = layout.near_group(groups.len(), &usage.idle).is_none();
        let pairs = (0..groups.len()).flat_map(|a| (a + 1..groups.len()).map(move |b| (a, b)));
        let best = pairs
            .map(|(a, b)| {
                let near = are_neighbours(&groups[a], &groups[b]);
                (a, b, near, load(&groups[a]) + load(&groups[b]))
            })
            .filter(|(.., near, load)| *load <= FULL && (*near || too_many))
            .min_by(|a, b| b.2.cmp(&a.2).then(a.3.total_cmp(&b.3)));
        let Some((a, b, ..)) = best else {
            break;
        };
        let other = groups.remove(b);
        groups[a].extend(other);
    }
    if groups.len() == placed || layout.near_group(groups.len(), &usage.idle).is_none() {
        groups = halves(groups.concat(), usage)?;
    }
    let mut cpus = layout.near_cores(groups.len(), &usage.idle)?.into_iter();
    groups.sort_by(|a, b| load(b).total_cmp(&load(a)));
    let mut placement = Placement {
        kind: match groups.len() {
            1 if placed == stages.len() => Kind::Together,
            _ => Kind::Grouped,
        },
        stages: vec![None; usage.loads.len()],
    };
    for group in groups {
        let cpu = cpus.next()?;
        for stage in group {
            placement.stages[stage] = Some(vec![cpu]);
        }
    }
    Some(placement)
}

/// Divides stages that all do much into the first and the last ones, so that only one pipe leads from one CPU to
/// another. Returns `None` if there are too few stages, or they would need more time than two CPUs have in the
/// best case.
fn halves(mut stages: Vec<usize>, usage: &Usage) -> Option<Vec<Vec<usize>>> {
    stages.sort_unstable();
    let load = |stages: &[usize]| stages.iter().map(|&stage| usage.loads[stage]).sum::<f64>();
    let larger = |at: usize| load(&stages[..at]).max(load(&stages[at..]));
    let middle = (1..stages.len()).min_by(|&a, &b| larger(a).total_cmp(&larger(b)))?;
    let part = best_case(usage) / usage.load().max(1e-9);
    let (first, last) = stages.split_at(middle);
    (stages.len() > 2 && larger(middle) * part <= BEST_CASE)
        .then(|| vec![first.to_vec(), last.to_vec()])
}

/// Keeps all stages on CPUs that are near each other; `None` if no part of the CPUs has enough cores.
fn near(stages: &[usize], usage: &Usage, layout: &Layout) -> Option<Placement> {
    let cores = (usage.load().ceil() as usize).max(2);
    let group = layout.near_group(cores, &usage.idle)?;
    (group.len() < layout.cpus().len()).then(|| {
        let mut placement = Placement {
            kind: Kind::Near,
            stages: vec![None; usage.loads.len()],
        };
        for &stage in stages {
            placement.stages[stage] = Some(group.to_vec());
        }
        placement
    })
}

#[cfg(test)]
mod tests {
    use fullbore_host::fixtures::Fixture;

    use super::super::window::usage;
    use super::*;

    fn cpus(count: usize) -> Layout {
        let fixture = Fixture::new(&[]).online(&format!("0-{}", count - 1));
        let all = format!("0-{}", count - 1);
        for cpu in 0..count {
            fixture.cpu(cpu, &cpu.to_string(), &all);
        }
        let topology = fixture.topology(&all);
        Layout::new(&topology, topology.allowed(), 0)
    }

    /// Returns sixteen CPUs, of which four each share an L2 cache.
    fn sixteen() -> Layout {
        let fixture = Fixture::new(&[]).online("0-15");
        for cpu in 0..16 {
            let own = cpu.to_string();
            let l2 = format!("{}-{}", cpu / 4 * 4, cpu / 4 * 4 + 3);
            fixture.placed(cpu, &own, 0);
            let l1 = ("1", "Data", "32K", own.as_str());
            let l2 = ("2", "Unified", "4096K", l2.as_str());
            fixture.caches(cpu, &[l1, l2, ("3", "Unified", "32768K", "0-15")]);
        }
        let topology = fixture.topology("0-15");
        Layout::new(&topology, topology.allowed(), 9)
    }

    fn kinds(usage: &Usage, layout: &Layout) -> Vec<Kind> {
        let all = candidates(usage, layout).unwrap();
        all.iter().map(|placement| placement.kind).collect()
    }

    #[test]
    fn two_stages_that_move_bytes_are_tried_together() {
        let moving = usage(&[0.8, 0.9], 5000.0, 2e9);
        let found = candidates(&moving, &cpus(2)).unwrap();
        assert_eq!(found, [Placement::together(2, 0)]);
    }

    #[test]
    fn two_stages_that_compute_are_not_tried_on_one_cpu() {
        let heavy = usage(&[0.95, 0.95], 1200.0, 1e8);
        assert_eq!(candidates(&heavy, &cpus(2)), Err(Untried::Busy));
        let never = usage(&[0.95, 0.95], 20.0, 1e7);
        assert_eq!(candidates(&never, &cpus(2)), Err(Untried::NothingToGain));
    }

    #[test]
    fn a_heavy_stage_is_kept_apart_from_light_ones() {
        let loads = [0.1, 0.9, 0.2, 0.1, 0.1, 0.2];
        let found = candidates(&usage(&loads, 2000.0, 2e8), &cpus(4)).unwrap();
        let grouped = found
            .iter()
            .find(|found| found.kind == Kind::Grouped)
            .unwrap();
        let of = |stage: usize| grouped.stages[stage].clone().unwrap();
        assert_eq!(of(1), [0], "the heavy one");
        assert!(
            [0, 2, 3, 4, 5].iter().all(|&stage| of(stage) != [0]),
            "{grouped}"
        );
        assert_eq!(of(2), of(5), "{grouped}");
        // With two CPUs, the light stages before and after it are on the same one.
        let found = candidates(&usage(&loads, 2000.0, 2e8), &cpus(2)).unwrap();
        let grouped = found
            .iter()
            .find(|found| found.kind == Kind::Grouped)
            .unwrap();
        assert_eq!(
            grouped.to_string(),
            "stages 1, 3, 4, 5 and 6 on CPU 1, stage 2 on CPU 0"
        );
    }

    #[test]
    fn stages_that_all_move_bytes_are_also_tried_in_two_halves() {
        let moving = usage(&[0.5, 0.6, 0.5, 0.4], 6000.0, 2e9);
        let found = candidates(&moving, &cpus(2)).unwrap();
        let words: Vec<String> = found.iter().map(Placement::to_string).collect();
        assert_eq!(
            words,
            [
                "all stages on CPU 0",
                "stages 1 and 2 on CPU 0, stages 3 and 4 on CPU 1"
            ]
        );
        let heavy = usage(&[1.0, 1.0, 1.0], 1200.0, 1e8);
        assert_eq!(candidates(&heavy, &cpus(2)), Err(Untried::Busy));
    }

    #[test]
    fn a_stage_with_many_threads_keeps_its_cpus() {
        let parallel = usage(&[0.3, 0.2, 3.5], 3000.0, 5e8);
        let found = candidates(&parallel, &cpus(8)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "stages 1 and 2 on CPU 0, stage 3 left to the scheduler"
        );
    }

    #[test]
    fn heavy_stages_are_kept_behind_one_cache() {
        let heavy = usage(&[0.9, 0.9, 0.9], 3000.0, 3e8);
        let found = candidates(&heavy, &sixteen()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "all stages on CPUs 8-11");
        let moving = usage(&[0.4, 0.3, 0.9], 9000.0, 2e9);
        assert_eq!(
            kinds(&moving, &sixteen()),
            [Kind::Together, Kind::Grouped, Kind::Near]
        );
    }

    #[test]
    fn heavy_stages_are_not_put_on_two_threads_of_one_core() {
        let smt = Fixture::smt().topology("0-7");
        let layout = Layout::new(&smt, smt.allowed(), 2);
        let found = candidates(&usage(&[0.9, 0.3, 0.3], 3000.0, 1e8), &layout).unwrap();
        let grouped = found
            .iter()
            .find(|found| found.kind == Kind::Grouped)
            .unwrap();
        let cpu = |stage: usize| grouped.stages[stage].as_ref().unwrap()[0];
        assert_eq!(cpu(1), cpu(2));
        assert_ne!(cpu(0) % 4, cpu(1) % 4, "{grouped}");
    }

    #[test]
    fn there_is_nothing_to_choose_for_one_stage_or_one_cpu_or_unknown_bytes() {
        let moving = usage(&[0.8, 0.9], 5000.0, 2e9);
        assert_eq!(candidates(&moving, &cpus(1)), Err(Untried::OneCpu));
        let mut ended = moving.clone();
        ended.existing[0] = false;
        assert_eq!(candidates(&ended, &cpus(2)), Err(Untried::OneStage));
        let mut unknown = moving.clone();
        unknown.rates[0] = None;
        assert_eq!(candidates(&unknown, &cpus(2)), Err(Untried::BytesUnknown));
        let two = Fixture::two_l3().topology("0-7");
        let cpuset_of_one = Layout::new(&two, &[3], 3);
        assert_eq!(candidates(&moving, &cpuset_of_one), Err(Untried::OneCpu));
    }
}
