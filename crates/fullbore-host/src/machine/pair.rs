//! The two CPUs that the writer and the reader of an experiment run on: chosen, or asked for.

use serde::{Deserialize, Serialize};

use super::cache::{Cache, last_level};
use super::files::format_cpu_list;
use super::topology::{Relation, Topology};
use crate::refusal::Usage;

/// The CPUs that the writer and the reader of an experiment are pinned to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPair {
    /// The writer's CPU.
    pub writer: usize,
    /// The reader's CPU.
    pub reader: usize,
    /// What the two have in common.
    pub relation: Relation,
    /// The last-level cache that they share, where `relation` is [`Relation::SharedCache`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_cache: Option<Cache>,
}

impl CpuPair {
    /// Returns the pair that was asked for (writer, reader), or else the best.
    ///
    /// # Errors
    ///
    /// Where one of the CPUs is not online, or this process may not run on it.
    pub fn wanted(pair: Option<(usize, usize)>, topology: &Topology) -> Result<CpuPair, Usage> {
        match pair {
            None => Ok(Self::choose(topology)),
            Some((writer, reader)) => Self::of(writer, reader, topology)
                .map_err(|error| Usage(format!("--cpus {writer},{reader}: {error}"))),
        }
    }

    /// Returns the best pair of the CPUs that this process may use: the first in the order of
    /// [`Relation`], and of those the one with the lowest numbers.
    pub fn choose(topology: &Topology) -> CpuPair {
        let allowed = topology.allowed();
        let pairs = allowed.iter().enumerate().flat_map(|(index, &writer)| {
            let readers = allowed[index + 1..].iter();
            readers.map(move |&reader| (writer, reader))
        });
        // `min_by_key` keeps the first of equals, and the pairs come in ascending order.
        let pair = pairs.min_by_key(|&(writer, reader)| topology.relation(writer, reader));
        let (writer, reader) = pair.unwrap_or((allowed[0], allowed[0]));
        CpuPair::related(writer, reader, topology)
    }

    /// Returns the pair of these two CPUs.
    ///
    /// # Errors
    ///
    /// Where one of them is not online, or this process may not run on it.
    pub fn of(writer: usize, reader: usize, topology: &Topology) -> Result<CpuPair, String> {
        for cpu in [writer, reader] {
            if !topology.is_online(cpu) {
                let online = format_cpu_list(&topology.online());
                return Err(format!("there is no CPU {cpu}; CPUs {online} are online"));
            }
            if !topology.allowed().contains(&cpu) {
                let allowed = format_cpu_list(topology.allowed());
                return Err(format!(
                    "this process may not use CPU {cpu}: a cpuset or taskset allows only CPUs {allowed}"
                ));
            }
        }
        Ok(CpuPair::related(writer, reader, topology))
    }

    /// Returns the pair with its relation and its shared cache.
    fn related(writer: usize, reader: usize, topology: &Topology) -> CpuPair {
        let relation = topology.relation(writer, reader);
        let shared_cache = match relation {
            Relation::SharedCache => last_level(topology.caches(writer)).cloned(),
            _ => None,
        };
        CpuPair {
            writer,
            reader,
            relation,
            shared_cache,
        }
    }

    /// Returns the pair in words: `CPU 0 and CPU 1, sharing L3 32 MiB`.
    pub fn describe(&self) -> String {
        let CpuPair { writer, reader, .. } = self;
        let both = format!("CPU {writer} and CPU {reader}");
        match self.relation {
            Relation::SharedCache => {
                let cache = self.shared_cache.as_ref().map(Cache::describe);
                format!("{both}, sharing {}", cache.as_deref().unwrap_or("a cache"))
            }
            Relation::SharedPackage => format!("{both} of one package, caches unknown"),
            Relation::DifferentCaches => format!("{both}, with different last-level caches"),
            Relation::Unknown => format!("{both}, what they share is unknown"),
            Relation::Siblings => format!("{both}, two threads of one core"),
            Relation::OneCpu => format!("writer and reader share one CPU, {writer}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fixture;

    fn chosen(fixture: &Fixture, allowed: &str) -> (usize, usize, Relation) {
        let pair = CpuPair::choose(&fixture.topology(allowed));
        (pair.writer, pair.reader, pair.relation)
    }

    #[test]
    fn two_cores_behind_one_cache_are_preferred_to_two_threads_of_one_core() {
        assert_eq!(
            chosen(&Fixture::smt(), "0-7"),
            (0, 1, Relation::SharedCache)
        );
        assert_eq!(
            chosen(&Fixture::smt(), "0,4-5"),
            (0, 5, Relation::SharedCache)
        );
    }

    #[test]
    fn two_threads_of_one_core_are_taken_where_there_is_no_other_core() {
        assert_eq!(chosen(&Fixture::smt(), "0,4"), (0, 4, Relation::Siblings));
    }

    #[test]
    fn cores_behind_one_cache_are_preferred_to_lower_numbers() {
        assert_eq!(
            chosen(&Fixture::two_l3(), "0-7"),
            (0, 1, Relation::SharedCache)
        );
        assert_eq!(
            chosen(&Fixture::two_l3(), "3-5"),
            (4, 5, Relation::SharedCache)
        );
    }

    #[test]
    fn cores_behind_different_caches_are_taken_where_no_cache_is_shared() {
        assert_eq!(
            chosen(&Fixture::two_l3(), "3,4"),
            (3, 4, Relation::DifferentCaches)
        );
    }

    #[test]
    fn a_single_cpu_is_both_writer_and_reader() {
        let single = Fixture::new(&[]).online("0");
        single.cpu(0, "0", "0");
        assert_eq!(chosen(&single, "0"), (0, 0, Relation::OneCpu));
        assert_eq!(chosen(&Fixture::smt(), "3"), (3, 3, Relation::OneCpu));
        assert_eq!(single.machine().cpus_online, 1);
    }

    #[test]
    fn without_caches_the_package_decides() {
        let fixture = Fixture::new(&[]).online("0-3");
        for cpu in 0..4 {
            let package = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            fixture.file(&package, if cpu % 2 == 0 { "0" } else { "1" });
        }
        assert_eq!(chosen(&fixture, "0-3"), (0, 2, Relation::SharedPackage));
        assert_eq!(chosen(&fixture, "0-1"), (0, 1, Relation::DifferentCaches));
        assert_eq!(fixture.machine().caches, []);
    }

    #[test]
    fn the_names_that_kernels_before_5_3_use_are_understood() {
        let fixture = Fixture::new(&[
            (
                "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
                "0-1",
            ),
            (
                "sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
                "0-1",
            ),
        ])
        .online("0-1");
        assert_eq!(chosen(&fixture, "0-1"), (0, 1, Relation::Siblings));
    }

    #[test]
    fn an_asked_for_pair_is_taken_in_the_order_asked_for() {
        let pair = CpuPair::of(5, 0, &Fixture::smt().topology("0-7")).unwrap();
        assert_eq!((pair.writer, pair.reader), (5, 0));
        assert_eq!(pair.relation, Relation::SharedCache);
        let one = CpuPair::of(2, 2, &Fixture::smt().topology("0-7")).unwrap();
        assert_eq!(one.relation, Relation::OneCpu);
    }

    #[test]
    fn an_asked_for_cpu_that_is_not_there_or_not_allowed_is_named() {
        let topology = Fixture::smt().topology("0-3");
        let absent = CpuPair::of(0, 64, &topology).unwrap_err();
        assert_eq!(absent, "there is no CPU 64; CPUs 0-7 are online");
        let refused = CpuPair::of(5, 0, &topology).unwrap_err();
        assert!(refused.contains("may not use CPU 5"), "{refused}");
        assert!(refused.contains("allows only CPUs 0-3"), "{refused}");
    }

    #[test]
    fn pairs_are_described_for_people() {
        let cases = [
            (Fixture::smt(), (0, 1), "CPU 0 and CPU 1, sharing L3 32 MiB"),
            (
                Fixture::smt(),
                (0, 4),
                "CPU 0 and CPU 4, two threads of one core",
            ),
            (
                Fixture::two_l3(),
                (0, 4),
                "CPU 0 and CPU 4, with different last-level caches",
            ),
            (Fixture::smt(), (3, 3), "writer and reader share one CPU, 3"),
        ];
        for (fixture, (writer, reader), words) in cases {
            let pair = CpuPair::of(writer, reader, &fixture.topology("0-7")).unwrap();
            assert_eq!(pair.describe(), words);
        }
    }
}
