//! Draws the CPUs as a small diagram.
//!
//! The drawing has a line for each last-level cache, in which a core is `[0]`, or `[0 4]` if it has two
//! threads, and cores that share an L2 are in brackets. If there are many such lines that differ only in
//! their numbers, the first is drawn and the rest are counted.

use fullbore_host::machine::{Topology, format_cpu_list};
use fullbore_host::text::{columns, counted};

/// The width of the drawing in columns, which is the width of a terminal without the indent.
pub const WIDTH: usize = 78;

/// The number of equal lines of a socket that are drawn before the rest is counted.
const DRAWN: usize = 2;

/// The number of CPUs up to which every core is drawn.
const CORES_DRAWN: usize = 16;

/// The CPUs behind one last-level cache.
struct Domain {
    cache: Option<String>,
    l2: Option<String>,
    cpus: Vec<usize>,
    /// The cores, grouped by the L2 that they share.
    clusters: Vec<Vec<Vec<usize>>>,
}

impl Domain {
    /// Returns the properties in which equal domains agree: all except the numbers.
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
            // The kernel does not report the cache, so the domain contains all CPUs of the socket.
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

    /// Returns the cores, or their number.
    fn cores(&self, in_full: bool) -> String {
        let cores = self.clusters.iter().map(Vec::len).sum::<usize>();
        if !in_full {
            let threads = self.cpus.len() / cores.max(1);
            let cores = counted(cores, "core", "cores");
            return match threads {
                0 | 1 => cores,
                threads => format!("{cores} of {threads} threads"),
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
            Some(l2) => format!(", {l2} {}", self.owner_of_an_l2()),
            None => String::new(),
        };
        let cores = self.cores(in_full);
        match in_full {
            true => format!("{cache}  {cores}{l2}"),
            false => format!("{cache}  CPUs {}: {cores}{l2}", format_cpu_list(&self.cpus)),
        }
    }

    fn owner_of_an_l2(&self) -> &'static str {
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
        // An L2 that is the last level is drawn as such.
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

/// Draws the CPUs that are online, socket by socket.
pub fn draw(topology: &Topology) -> Vec<String> {
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
        lines.push(format!(
            "{name}: {}, {}",
            counted(cpus.len(), "CPU", "CPUs"),
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

/// Adds a branch of the tree, wrapped to further lines below it if it is too long.
fn branch(lines: &mut Vec<String>, is_last: bool, text: &str) {
    let (mut start, next) = match is_last {
        true => ("└─ ", "   "),
        false => ("├─ ", "│  "),
    };
    let mut line = String::new();
    // Lines are broken at spaces between cores, and not within a core, which is in brackets.
    for word in
        text.split_inclusive([']', ')', ',', ':'])
            .flat_map(|part| match part.contains('[') {
                true => vec![part],
                false => part.split_inclusive(' ').collect(),
            })
    {
        if columns(&line) + columns(word.trim_end()) + 3 > WIDTH {
            lines.push(format!("{start}{}", line.trim()));
            line.clear();
            start = next;
        }
        line += word;
    }
    lines.push(format!("{start}{}", line.trim()));
}
