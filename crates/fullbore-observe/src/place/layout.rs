//! The CPUs on which the stages of a pipeline may be placed, and which of them share a core or a cache.

use fullbore_host::machine::Topology;

/// The CPUs that may be used, in groups of CPUs that are near each other.
#[derive(Debug, Clone)]
pub struct Layout {
    cpus: Vec<usize>,
    /// The CPUs by cores.
    cores: Vec<Vec<usize>>,
    /// Ways to divide the CPUs into groups, the nearest first: by cores, by L2 caches, by last-level caches,
    /// and all in one group.
    levels: Vec<Vec<Vec<usize>>>,
    /// The CPU that is chosen among equals.
    home: usize,
}

impl Layout {
    /// Describes the CPUs in `allowed` that are online. Among equals, `home` is chosen.
    pub fn new(topology: &Topology, allowed: &[usize], home: usize) -> Self {
        let mut cpus: Vec<usize> = allowed.to_vec();
        cpus.retain(|&cpu| topology.is_online(cpu));
        cpus.sort_unstable();
        cpus.dedup();
        let behind = |cpu: usize, level: u8| {
            let cache = topology.cache(cpu, level);
            cache.map_or_else(|| topology.core(cpu), |(_, sharing)| sharing)
        };
        let cores = groups(&cpus, |cpu| topology.core(cpu));
        let levels = vec![
            cores.clone(),
            groups(&cpus, |cpu| behind(cpu, 2)),
            groups(&cpus, |cpu| {
                behind(cpu, topology.last_level(cpu).unwrap_or(0))
            }),
            vec![cpus.clone()],
        ];
        Self {
            cpus,
            cores,
            levels,
            home,
        }
    }

    /// Returns the CPUs in ascending order.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Returns all sets of CPUs that trials may give to a stage.
    pub fn sets(&self) -> Vec<Vec<usize>> {
        let ones = self.cpus.iter().map(|&cpu| vec![cpu]);
        let groups = self.levels.iter().flatten().cloned();
        let mut all: Vec<Vec<usize>> = ones.chain(groups).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Returns the CPU that others use least. `idle` has the idle share of each CPU, in the order of
    /// [`cpus`](Self::cpus); a missing share counts as 0.
    pub fn freest(&self, idle: &[f64]) -> Option<usize> {
        self.by_idleness(&self.cpus, idle).first().copied()
    }

    /// Returns one CPU of each of `count` cores that are as near to each other as possible, the one that
    /// others use least first; `None` if there are fewer cores.
    pub fn near_cores(&self, count: usize, idle: &[f64]) -> Option<Vec<usize>> {
        let group = self.near_group(count, idle)?;
        let mut cpus = self.by_idleness(group, idle);
        let mut seen: Vec<&Vec<usize>> = Vec::new();
        cpus.retain(|cpu| {
            let core = self.cores.iter().find(|core| core.contains(cpu));
            core.is_some_and(|core| {
                let is_new = !seen.contains(&core);
                seen.push(core);
                is_new
            })
        });
        cpus.truncate(count);
        Some(cpus)
    }

    /// Returns the smallest group of CPUs near each other that has at least `count` cores, and of several the
    /// one that others use least; `None` if all CPUs together have fewer cores.
    pub fn near_group(&self, count: usize, idle: &[f64]) -> Option<&[usize]> {
        self.levels.iter().find_map(|groups| {
            let large = groups.iter().filter(|group| self.cores_in(group) >= count);
            let freest = large.min_by(|a, b| {
                let idleness = |group: &[usize]| {
                    let all = group.iter().map(|&cpu| self.idle(cpu, idle));
                    all.sum::<f64>() / group.len() as f64
                };
                let at_home = |group: &[usize]| group.contains(&self.home);
                (idleness(b).total_cmp(&idleness(a))).then(at_home(b).cmp(&at_home(a)))
            });
            freest.map(Vec::as_slice)
        })
    }

    fn cores_in(&self, group: &[usize]) -> usize {
        let is_inside = |core: &&Vec<usize>| core.iter().any(|cpu| group.contains(cpu));
        self.cores.iter().filter(is_inside).count()
    }

    fn by_idleness(&self, cpus: &[usize], idle: &[f64]) -> Vec<usize> {
        let mut cpus = cpus.to_vec();
        cpus.sort_by(|&a, &b| {
            let more_idle = self.idle(b, idle).total_cmp(&self.idle(a, idle));
            more_idle.then((b == self.home).cmp(&(a == self.home)))
        });
        cpus
    }

    fn idle(&self, cpu: usize, idle: &[f64]) -> f64 {
        let at = self.cpus.iter().position(|&known| known == cpu);
        at.and_then(|at| idle.get(at)).copied().unwrap_or(0.0)
    }
}

/// Divides CPUs into groups of those that `near` names together.
fn groups(cpus: &[usize], near: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    for &cpu in cpus {
        if all.iter().any(|group| group.contains(&cpu)) {
            continue;
        }
        let near = near(cpu);
        let is_near = |other: &usize| *other == cpu || near.contains(other);
        all.push(cpus.iter().copied().filter(is_near).collect());
    }
    all
}

#[cfg(test)]
mod tests {
    use fullbore_host::fixtures::Fixture;

    use super::*;

    #[test]
    fn cores_that_are_near_are_chosen_before_threads_of_one_core() {
        let smt = Fixture::smt().topology("0-7");
        let layout = Layout::new(&smt, smt.allowed(), 0);
        assert_eq!(layout.near_cores(1, &[]), Some(vec![0]));
        assert_eq!(layout.near_cores(3, &[]), Some(vec![0, 1, 2]));
        assert_eq!(layout.near_cores(5, &[]), None);
        assert_eq!(layout.near_group(1, &[]), Some(&[0, 4][..]));
        assert_eq!(layout.near_group(2, &[]).map(<[usize]>::len), Some(8));
    }

    #[test]
    fn the_group_that_others_use_least_is_chosen() {
        let two = Fixture::two_l3().topology("0-7");
        let layout = Layout::new(&two, two.allowed(), 1);
        assert_eq!(layout.freest(&[]), Some(1));
        assert_eq!(layout.near_group(2, &[]), Some(&[0, 1, 2, 3][..]));
        let idle = [0.0, 0.0, 0.1, 0.1, 0.9, 0.8, 1.0, 0.9];
        assert_eq!(layout.freest(&idle), Some(6));
        assert_eq!(layout.near_group(2, &idle), Some(&[4, 5, 6, 7][..]));
        assert_eq!(layout.near_cores(2, &idle), Some(vec![6, 4]));
    }

    #[test]
    fn cpus_that_may_not_be_used_are_not_there() {
        let two = Fixture::two_l3().topology("0-7");
        let layout = Layout::new(&two, &[3, 4, 9], 0);
        assert_eq!(layout.cpus(), [3, 4]);
        assert_eq!(layout.near_group(2, &[]), Some(&[3, 4][..]));
        assert_eq!(layout.near_cores(3, &[]), None);
    }
}
