//! Finds the pairs of CPUs that are worth pinning a writer and a reader to.

use fullbore_host::distance::line_round_trip_ns;
use fullbore_host::machine::{CpuPair, Relation, Topology, format_cpu_list};
use fullbore_results::doctor::{CpuReport, PairReport, Sharing};
use fullbore_results::statistics::Spread;

fn words(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::Core => "two threads of one core",
        Sharing::L2 => "share an L2",
        Sharing::LastLevel => "share the last-level cache",
        Sharing::Socket => "one socket, no shared cache",
        Sharing::OtherSocket => "two sockets",
        Sharing::Unknown => "sharing unknown",
    }
}

/// Describes the CPUs of this machine, and measures the distance of each pair.
pub fn measure(topology: &Topology) -> CpuReport {
    let mut cpus = describe(topology);
    for pair in &mut cpus.pairs {
        let Ok(both) = CpuPair::of(pair.writer, pair.reader, topology) else {
            continue;
        };
        let round_trips: Vec<f64> = (0..5).filter_map(|_| line_round_trip_ns(&both)).collect();
        pair.line_round_trip_ns = Spread::of(&round_trips).map(|round_trips| round_trips.median);
    }
    cpus
}

fn describe(topology: &Topology) -> CpuReport {
    CpuReport {
        online: format_cpu_list(&topology.online()),
        allowed: format_cpu_list(topology.allowed()),
        offline: format_cpu_list(topology.offline()),
        pairs: pairs(topology),
    }
}

/// Formats the pairs for the terminal.
pub fn pair_lines(cpus: &CpuReport) -> Vec<String> {
    let name = |pair: &PairReport| format!("{},{}", pair.writer, pair.reader);
    let widest = cpus.pairs.iter().map(|pair| name(pair).len()).max();
    let widest = widest.unwrap_or(0);
    let line = |pair: &PairReport| {
        let distance = pair
            .line_round_trip_ns
            .map(|ns| format!("{ns:.0} ns round trip"));
        let distance = distance.unwrap_or_else(|| "distance unknown".into());
        let chosen = if pair.chosen { ", bench default" } else { "" };
        let (name, words) = (name(pair), words(pair.share));
        format!("--cpus {name:<widest$}  {words}, {distance}{chosen}")
    };
    cpus.pairs.iter().map(line).collect()
}

/// Returns the first pair of each kind, of the CPUs that this process may use.
fn pairs(topology: &Topology) -> Vec<PairReport> {
    let chosen = CpuPair::choose(topology);
    if chosen.relation == Relation::OneCpu {
        return Vec::new();
    }
    let pair = |writer, reader| PairReport {
        writer,
        reader,
        share: share(topology, writer, reader),
        chosen: (writer, reader) == (chosen.writer, chosen.reader),
        line_round_trip_ns: None,
    };
    let mut found = vec![pair(chosen.writer, chosen.reader)];
    let allowed = topology.allowed();
    for (index, &writer) in allowed.iter().enumerate() {
        for &reader in &allowed[index + 1..] {
            let next = pair(writer, reader);
            if found.iter().all(|known| known.share != next.share) {
                found.push(next);
            }
        }
    }
    found.sort_by_key(|pair| pair.share);
    found
}

fn share(topology: &Topology, a: usize, b: usize) -> Sharing {
    let cache = |level| topology.cache(a, level);
    let by_cache = |level| cache(level).is_some_and(|(_, cpus)| cpus.contains(&b));
    if topology.core(a).contains(&b) {
        return Sharing::Core;
    }
    let last = topology.last_level(a);
    if last.is_some_and(|last| last > 2) && by_cache(2) {
        return Sharing::L2;
    }
    if last.is_some_and(by_cache) {
        return Sharing::LastLevel;
    }
    match (topology.package(a), topology.package(b)) {
        (Some(a), Some(b)) if a == b => Sharing::Socket,
        (Some(_), Some(_)) => Sharing::OtherSocket,
        _ => Sharing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_host::fixtures::Fixture;

    /// Returns a machine of sockets of domains of cores of threads, numbered as most servers number them:
    /// the first threads of all cores, and then the second threads.
    fn machine(sockets: usize, domains: usize, cores: usize, threads: usize) -> Fixture {
        let all = sockets * domains * cores;
        let fixture = Fixture::new(&[]).online(&format!("0-{}", all * threads - 1));
        for core in 0..all {
            let siblings: Vec<String> =
                (0..threads).map(|t| (core + t * all).to_string()).collect();
            let siblings = siblings.join(",");
            let domain = core / cores;
            let behind: Vec<String> = (0..threads)
                .map(|t| {
                    let first = domain * cores + t * all;
                    format!("{first}-{}", first + cores - 1)
                })
                .collect();
            for thread in 0..threads {
                let cpu = core + thread * all;
                fixture.placed(cpu, &siblings, (core / (domains * cores)) as u64);
                fixture.caches(
                    cpu,
                    &[
                        ("1", "Data", "32K", &siblings),
                        ("2", "Unified", "1024K", &siblings),
                        ("3", "Unified", "32768K", &behind.join(",")),
                    ],
                );
            }
        }
        fixture
    }

    fn described(fixture: &Fixture, allowed: &str) -> CpuReport {
        describe(&fixture.topology(allowed))
    }

    fn kinds(cpus: &CpuReport) -> Vec<(usize, usize, Sharing)> {
        let kind = |pair: &PairReport| (pair.writer, pair.reader, pair.share);
        cpus.pairs.iter().map(kind).collect()
    }

    #[test]
    fn one_cpu_has_no_pair() {
        let cpus = described(&machine(1, 1, 1, 1), "0");
        assert_eq!(cpus.pairs, []);
        // A process that may use only one of many CPUs has no pair either.
        assert_eq!(described(&machine(1, 1, 8, 1), "3").pairs, []);
    }

    #[test]
    fn two_cpus_are_the_pair() {
        let cpus = described(&machine(1, 1, 2, 1), "0-1");
        assert_eq!(kinds(&cpus), [(0, 1, Sharing::LastLevel)]);
        assert!(cpus.pairs[0].chosen);
    }

    #[test]
    fn threads_of_a_core_are_nearest() {
        let cpus = described(&machine(1, 1, 4, 2), "0-7");
        assert_eq!(
            kinds(&cpus),
            [(0, 4, Sharing::Core), (0, 1, Sharing::LastLevel)]
        );
        assert!(!cpus.pairs[0].chosen && cpus.pairs[1].chosen);
    }

    #[test]
    fn two_sockets_have_a_pair_of_each_kind() {
        let cpus = described(&machine(2, 8, 4, 2), "0-127");
        assert_eq!(
            kinds(&cpus),
            [
                (0, 64, Sharing::Core),
                (0, 1, Sharing::LastLevel),
                (0, 4, Sharing::Socket),
                (0, 32, Sharing::OtherSocket)
            ]
        );
    }

    #[test]
    fn cores_that_share_an_l2_are_nearer() {
        let fixture = Fixture::new(&[]).online("0-3");
        for cpu in 0..4 {
            fixture.placed(cpu, &cpu.to_string(), 0);
            let l2 = if cpu < 2 { "0-1" } else { "2-3" };
            let caches = [
                ("2", "Unified", "2048K", l2),
                ("3", "Unified", "32768K", "0-3"),
            ];
            fixture.caches(cpu, &caches);
        }
        let cpus = described(&fixture, "0-3");
        assert_eq!(
            kinds(&cpus),
            [(0, 1, Sharing::L2), (0, 2, Sharing::LastLevel)]
        );
    }

    #[test]
    fn cpus_that_are_offline_are_named() {
        let fixture = machine(1, 1, 4, 2);
        fixture.file("sys/devices/system/cpu/present", "0-7");
        fixture.file("sys/devices/system/cpu/online", "0-4");
        let cpus = described(&fixture, "0-7");
        assert_eq!(
            (cpus.online.as_str(), cpus.offline.as_str()),
            ("0-4", "5-7")
        );
    }

    #[test]
    fn a_machine_that_tells_nothing_has_a_pair() {
        let fixture = Fixture::new(&[]).online("0-1");
        let cpus = described(&fixture, "0-1");
        assert_eq!(kinds(&cpus), [(0, 1, Sharing::Unknown)]);
    }

    #[test]
    fn cores_without_a_shared_cache_share_a_socket() {
        let fixture = Fixture::new(&[]).online("0-15");
        for cpu in 0..16 {
            fixture.placed(cpu, &cpu.to_string(), 0);
            let own = cpu.to_string();
            fixture.caches(cpu, &[("2", "Unified", "2048K", &own)]);
        }
        let cpus = described(&fixture, "0-15");
        assert_eq!(kinds(&cpus), [(0, 1, Sharing::Socket)]);
    }
}
