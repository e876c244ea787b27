//! The CPUs as a small drawing, and the pairs that are worth pinning a writer and a reader to.
//!
//! The drawing has a line for each last-level cache, in which a core is `[0]`, or `[0 4]` where it has two
//! threads, and cores that share an L2 are in brackets. Where there are many such lines that differ only
//! in their numbers, the first is drawn and the rest are counted.

use serde::Serialize;

use fullbore_host::distance::line_round_trip_ns;
use fullbore_host::machine::{CpuPair, Relation, Topology, format_cpu_list};
use fullbore_results::statistics::Spread;

/// Columns that the drawing may take: those of a terminal, without the indent.
const WIDTH: usize = 78;

/// Lines of a socket that are drawn, where they are all alike, before the rest is counted.
const DRAWN: usize = 2;

/// CPUs up to which every core is drawn.
const CORES_DRAWN: usize = 16;

/// What two CPUs share, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// One core: two of its threads.
    Core,
    /// An L2 cache.
    L2,
    /// The last-level cache.
    LastLevel,
    /// A socket, and no cache.
    Socket,
    /// Nothing: they are in two sockets.
    OtherSocket,
    /// The kernel does not tell.
    Unknown,
}

impl Share {
    fn words(self) -> &'static str {
        match self {
            Share::Core => "two threads of one core",
            Share::L2 => "share an L2",
            Share::LastLevel => "share the last-level cache",
            Share::Socket => "one socket, no shared cache",
            Share::OtherSocket => "two sockets",
            Share::Unknown => "sharing unknown",
        }
    }
}

/// A pair of CPUs that stands for all that share the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    pub writer: usize,
    pub reader: usize,
    pub share: Share,
    /// Whether `bench` takes it unless told otherwise.
    pub chosen: bool,
    /// Nanoseconds that a cache line takes from one to the other and back.
    pub line_round_trip_ns: Option<f64>,
}

/// The drawing, and the pairs.
#[derive(Debug, Clone, Serialize)]
pub struct Cpus {
    pub online: String,
    /// Those that this process may use.
    pub allowed: String,
    pub offline: String,
    pub drawing: Vec<String>,
    pub pairs: Vec<Pair>,
}

impl Cpus {
    /// Those of this machine, with the distances of the pairs measured.
    pub fn measure(topology: &Topology) -> Self {
        let mut cpus = Self::of(topology);
        for pair in &mut cpus.pairs {
            let Ok(both) = CpuPair::of(pair.writer, pair.reader, topology) else {
                continue;
            };
            let looks: Vec<f64> = (0..5).filter_map(|_| line_round_trip_ns(&both)).collect();
            pair.line_round_trip_ns = Spread::of(&looks).map(|looks| looks.median);
        }
        cpus
    }

    fn of(topology: &Topology) -> Self {
        Cpus {
            online: format_cpu_list(&topology.online()),
            allowed: format_cpu_list(topology.allowed()),
            offline: format_cpu_list(topology.offline()),
            drawing: draw(topology),
            pairs: pairs(topology),
        }
    }

    /// The pairs for people.
    pub fn pair_lines(&self) -> Vec<String> {
        let names: Vec<String> = self
            .pairs
            .iter()
            .map(|pair| format!("{},{}", pair.writer, pair.reader))
            .collect();
        let widest = names.iter().map(String::len).max().unwrap_or(0);
        self.pairs
            .iter()
            .zip(names)
            .map(|(pair, name)| {
                let distance = pair.line_round_trip_ns.map_or_else(
                    || "distance unknown".into(),
                    |ns| format!("{ns:.0} ns round trip"),
                );
                let chosen = match pair.chosen {
                    true => ", bench default",
                    false => "",
                };
                let words = pair.share.words();
                format!("--cpus {name:<widest$}  {words}, {distance}{chosen}")
            })
            .collect()
    }
}

/// The first pair of each kind of the CPUs that this process may use.
fn pairs(topology: &Topology) -> Vec<Pair> {
    let chosen = CpuPair::choose(topology);
    if chosen.relation == Relation::OneCpu {
        return Vec::new();
    }
    let pair = |writer, reader| Pair {
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

fn share(topology: &Topology, a: usize, b: usize) -> Share {
    let by_cache = |level| {
        topology
            .cache(a, level)
            .is_some_and(|(_, cpus)| cpus.contains(&b))
    };
    if topology.core(a).contains(&b) {
        return Share::Core;
    }
    let last = topology.last_level(a);
    if last.is_some_and(|last| last > 2) && by_cache(2) {
        return Share::L2;
    }
    if last.is_some_and(by_cache) {
        return Share::LastLevel;
    }
    match (topology.package(a), topology.package(b)) {
        (Some(a), Some(b)) if a == b => Share::Socket,
        (Some(_), Some(_)) => Share::OtherSocket,
        _ => Share::Unknown,
    }
}

/// CPUs behind one last-level cache.
struct Domain {
    cache: Option<String>,
    l2: Option<String>,
    cpus: Vec<usize>,
    /// Cores by the L2 that they share.
    clusters: Vec<Vec<Vec<usize>>>,
}

impl Domain {
    /// What makes two of them alike: all but the numbers.
    fn shape(&self) -> (Option<&String>, Option<&String>, Vec<Vec<usize>>) {
        let sizes = |cluster: &Vec<Vec<usize>>| cluster.iter().map(Vec::len).collect();
        (
            self.cache.as_ref(),
            self.l2.as_ref(),
            self.clusters.iter().map(sizes).collect(),
        )
    }

    fn read(topology: &Topology, first: usize, of_socket: &[usize]) -> Self {
        let last = topology.last_level(first);
        let behind = last.and_then(|level| topology.cache(first, level));
        let cpus = match &behind {
            Some((_, cpus)) => cpus.clone(),
            // Nothing is told: all of the socket's that are no better known.
            None => of_socket.to_vec(),
        };
        let l2 = topology
            .cache(first, 2)
            .filter(|_| last != Some(2))
            .map(|(cache, _)| cache.describe());
        Domain {
            cache: behind.map(|(cache, _)| cache.describe()),
            clusters: clusters(topology, &cpus),
            l2,
            cpus,
        }
    }

    /// The cores, or how many there are.
    fn cores(&self, in_full: bool) -> String {
        let cores = self.clusters.iter().map(Vec::len).sum::<usize>();
        if !in_full {
            let threads = self.cpus.len() / cores.max(1);
            let plural = if cores == 1 { "core" } else { "cores" };
            return match threads {
                0 | 1 => format!("{cores} {plural}"),
                threads => format!("{cores} {plural} of {threads} threads"),
            };
        }
        let clusters = self.clusters.iter().map(|cores| {
            let cores: Vec<String> = cores
                .iter()
                .map(|core| {
                    let threads: Vec<String> = core.iter().map(usize::to_string).collect();
                    format!("[{}]", threads.join(" "))
                })
                .collect();
            match cores.len() {
                1 => cores.join(" "),
                _ => format!("({})", cores.join(" ")),
            }
        });
        clusters.collect::<Vec<_>>().join(" ")
    }

    fn line(&self, in_full: bool) -> String {
        let cache = self.cache.as_deref().unwrap_or("caches unknown");
        let l2 = match &self.l2 {
            Some(l2) => format!(", {l2} {}", self.who_has_an_l2()),
            None => String::new(),
        };
        let cores = self.cores(in_full);
        match in_full {
            true => format!("{cache}  {cores}{l2}"),
            false => format!("{cache}  CPUs {}: {cores}{l2}", format_cpu_list(&self.cpus)),
        }
    }

    fn who_has_an_l2(&self) -> &'static str {
        match self.clusters.iter().all(|cluster| cluster.len() == 1) {
            true => "each core",
            false => "each ( )",
        }
    }
}

fn clusters(topology: &Topology, cpus: &[usize]) -> Vec<Vec<Vec<usize>>> {
    let mut clusters: Vec<Vec<Vec<usize>>> = Vec::new();
    for cpu in cpus {
        if clusters.iter().flatten().any(|core| core.contains(cpu)) {
            continue;
        }
        let core = topology.core(*cpu);
        // Where the L2 is the last level, it is drawn as that.
        let sharing = topology
            .cache(*cpu, 2)
            .filter(|_| topology.last_level(*cpu) != Some(2))
            .map_or_else(|| core.clone(), |(_, cpus)| cpus);
        let cluster = clusters.iter_mut().find(|cluster| {
            cluster
                .iter()
                .flatten()
                .any(|other| sharing.contains(other))
        });
        match cluster {
            Some(cluster) => cluster.push(core),
            None => clusters.push(vec![core]),
        }
    }
    clusters
}

/// The CPUs that are online, socket by socket.
fn draw(topology: &Topology) -> Vec<String> {
    let online = topology.online();
    let mut sockets: Vec<(Option<u64>, Vec<usize>)> = Vec::new();
    for &cpu in &online {
        let package = topology.package(cpu);
        match sockets.iter_mut().find(|(known, _)| *known == package) {
            Some((_, cpus)) => cpus.push(cpu),
            None => sockets.push((package, vec![cpu])),
        }
    }
    let in_full = online.len() <= CORES_DRAWN;
    let mut lines = Vec::new();
    for (package, cpus) in &sockets {
        let name = match package {
            Some(number) => format!("socket {number}"),
            None => "socket unknown".into(),
        };
        let count = cpus.len();
        let plural = if count == 1 { "CPU" } else { "CPUs" };
        lines.push(format!(
            "{name}: {count} {plural}, {}",
            format_cpu_list(cpus)
        ));
        let domains = domains(topology, cpus);
        let alike = domains
            .iter()
            .all(|domain| domain.shape() == domains[0].shape());
        let drawn = match alike && domains.len() > DRAWN + 1 {
            true => DRAWN,
            false => domains.len(),
        };
        for (index, domain) in domains[..drawn].iter().enumerate() {
            let is_last = index + 1 == domains.len();
            branch(&mut lines, is_last, &domain.line(in_full));
        }
        if drawn < domains.len() {
            let rest = &domains[drawn..];
            let first = format_cpu_list(&rest[0].cpus);
            let last = format_cpu_list(&rest[rest.len() - 1].cpus);
            let text = format!(
                "{} more of the same kind, CPUs {first} to CPUs {last}",
                rest.len()
            );
            branch(&mut lines, true, &text);
        }
    }
    lines
}

fn domains(topology: &Topology, cpus: &[usize]) -> Vec<Domain> {
    let mut domains: Vec<Domain> = Vec::new();
    for &cpu in cpus {
        if domains.iter().all(|domain| !domain.cpus.contains(&cpu)) {
            domains.push(Domain::read(topology, cpu, cpus));
        }
    }
    domains
}

/// A line of the tree, and what does not fit below it.
fn branch(lines: &mut Vec<String>, is_last: bool, text: &str) {
    let (mut start, next) = match is_last {
        true => ("└─ ", "   "),
        false => ("├─ ", "│  "),
    };
    let mut line = String::new();
    // At the spaces between cores, not within one: cores have their brackets.
    for word in
        text.split_inclusive([']', ')', ',', ':'])
            .flat_map(|part| match part.contains('[') {
                true => vec![part],
                false => part.split_inclusive(' ').collect(),
            })
    {
        if line.chars().count() + word.trim_end().chars().count() + 3 > WIDTH {
            lines.push(format!("{start}{}", line.trim()));
            line.clear();
            start = next;
        }
        line += word;
    }
    lines.push(format!("{start}{}", line.trim()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_host::fixtures::Fixture;

    /// Sockets of domains of cores of threads, as most servers number them: the first threads of all cores,
    /// and then the second ones.
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

    fn drawn(fixture: &Fixture, allowed: &str) -> Cpus {
        let cpus = Cpus::of(&fixture.topology(allowed));
        for line in cpus.drawing.iter().chain(&cpus.pair_lines()) {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        cpus
    }

    fn kinds(cpus: &Cpus) -> Vec<(usize, usize, Share)> {
        let kind = |pair: &Pair| (pair.writer, pair.reader, pair.share);
        cpus.pairs.iter().map(kind).collect()
    }

    #[test]
    fn one_cpu_has_no_pair() {
        let cpus = drawn(&machine(1, 1, 1, 1), "0");
        assert_eq!(
            cpus.drawing,
            [
                "socket 0: 1 CPU, 0",
                "└─ L3 32 MiB  [0], L2 1 MiB each core"
            ]
        );
        assert_eq!(cpus.pairs, []);
        // Nor has one that is allowed of many.
        assert_eq!(drawn(&machine(1, 1, 8, 1), "3").pairs, []);
    }

    #[test]
    fn two_cpus_are_the_pair() {
        let cpus = drawn(&machine(1, 1, 2, 1), "0-1");
        assert_eq!(
            cpus.drawing,
            [
                "socket 0: 2 CPUs, 0-1",
                "└─ L3 32 MiB  [0] [1], L2 1 MiB each core"
            ]
        );
        assert_eq!(kinds(&cpus), [(0, 1, Share::LastLevel)]);
        assert!(cpus.pairs[0].chosen);
    }

    #[test]
    fn threads_of_a_core_are_drawn_together() {
        let cpus = drawn(&machine(1, 1, 4, 2), "0-7");
        assert_eq!(
            cpus.drawing,
            [
                "socket 0: 8 CPUs, 0-7",
                "└─ L3 32 MiB  [0 4] [1 5] [2 6] [3 7], L2 1 MiB each core"
            ]
        );
        assert_eq!(
            kinds(&cpus),
            [(0, 4, Share::Core), (0, 1, Share::LastLevel)]
        );
        assert!(!cpus.pairs[0].chosen && cpus.pairs[1].chosen);
    }

    #[test]
    fn two_sockets_of_64_cpus_are_counted_rather_than_drawn() {
        let cpus = drawn(&machine(2, 8, 4, 2), "0-127");
        assert_eq!(
            cpus.drawing,
            [
                "socket 0: 64 CPUs, 0-31,64-95",
                "├─ L3 32 MiB  CPUs 0-3,64-67: 4 cores of 2 threads, L2 1 MiB each core",
                "├─ L3 32 MiB  CPUs 4-7,68-71: 4 cores of 2 threads, L2 1 MiB each core",
                "└─ 6 more of the same kind, CPUs 8-11,72-75 to CPUs 28-31,92-95",
                "socket 1: 64 CPUs, 32-63,96-127",
                "├─ L3 32 MiB  CPUs 32-35,96-99: 4 cores of 2 threads, L2 1 MiB each core",
                "├─ L3 32 MiB  CPUs 36-39,100-103: 4 cores of 2 threads, L2 1 MiB each core",
                "└─ 6 more of the same kind, CPUs 40-43,104-107 to CPUs 60-63,124-127",
            ]
        );
        assert_eq!(
            kinds(&cpus),
            [
                (0, 64, Share::Core),
                (0, 1, Share::LastLevel),
                (0, 4, Share::Socket),
                (0, 32, Share::OtherSocket)
            ]
        );
    }

    #[test]
    fn cores_that_share_an_l2_are_drawn_together() {
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
        let cpus = drawn(&fixture, "0-3");
        assert_eq!(
            cpus.drawing[1],
            "└─ L3 32 MiB  ([0] [1]) ([2] [3]), L2 2 MiB each ( )"
        );
        assert_eq!(kinds(&cpus), [(0, 1, Share::L2), (0, 2, Share::LastLevel)]);
    }

    #[test]
    fn cpus_that_are_offline_are_named_and_not_drawn() {
        let fixture = machine(1, 1, 4, 2);
        fixture.file("sys/devices/system/cpu/present", "0-7");
        fixture.file("sys/devices/system/cpu/online", "0-4");
        let cpus = drawn(&fixture, "0-7");
        assert_eq!(
            (cpus.online.as_str(), cpus.offline.as_str()),
            ("0-4", "5-7")
        );
        assert_eq!(
            cpus.drawing[1],
            "└─ L3 32 MiB  [0 4] [1] [2] [3], L2 1 MiB each core"
        );
    }

    #[test]
    fn a_machine_that_tells_nothing_is_drawn_all_the_same() {
        let fixture = Fixture::new(&[]).online("0-1");
        let cpus = drawn(&fixture, "0-1");
        assert_eq!(
            cpus.drawing,
            ["socket unknown: 2 CPUs, 0-1", "└─ caches unknown  [0] [1]"]
        );
        assert_eq!(kinds(&cpus), [(0, 1, Share::Unknown)]);
    }

    #[test]
    fn sixteen_cores_without_a_shared_cache_fit() {
        let fixture = Fixture::new(&[]).online("0-15");
        for cpu in 0..16 {
            fixture.placed(cpu, &cpu.to_string(), 0);
            let own = cpu.to_string();
            fixture.caches(cpu, &[("2", "Unified", "2048K", &own)]);
        }
        let cpus = drawn(&fixture, "0-15");
        assert_eq!(cpus.drawing.len(), 4, "{:?}", cpus.drawing);
        assert_eq!(kinds(&cpus), [(0, 1, Share::Socket)]);
    }
}
