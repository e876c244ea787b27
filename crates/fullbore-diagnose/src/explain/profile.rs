//! Groups samples by side, adds the names of processes and addresses, and computes the report of each side: the
//! share of each class in its time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::classes::classify;
use super::processes::Processes;
use super::sampling::{Event, Sample, What};
use super::symbols::Kernel;
use fullbore_results::explain::{Accounts, Class, ClassShare, FunctionShare, SideReport};

/// A process, or all processes with the same name.
#[derive(Debug, Clone, Default)]
pub struct SideProfile {
    /// Its role in an experiment, or its program's name.
    pub name: String,
    /// The number of processes.
    pub processes: usize,
    /// The stacks in which it was sampled, and how often.
    pub stacks: BTreeMap<Stack, u64>,
    /// The resource usage that the kernel reports.
    pub accounts: Accounts,
    /// The CPUs that its processes may use; none if that is unknown.
    pub cpus: BTreeSet<u32>,
}

/// The position of a sample: in user code, or in a chain of kernel functions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stack {
    User,
    /// The chain of kernel functions, innermost first.
    Kernel(Vec<String>),
}

/// The name of a kernel function whose real name is hidden.
pub const HIDDEN: &str = "[kernel]";

/// The kernel's name for a program of the laboratory, which derives from the path by which it was started.
const OWN: &str = "exe";

impl Stack {
    /// Returns the class to which its time belongs.
    pub fn class(&self) -> Class {
        match self {
            Stack::User => Class::User,
            Stack::Kernel(chain) => {
                let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
                classify(&chain)
            }
        }
    }

    /// Returns the innermost function.
    pub fn leaf(&self) -> &str {
        match self {
            Stack::User => "user code",
            Stack::Kernel(chain) => chain.first().map_or(HIDDEN, String::as_str),
        }
    }

    /// Parses a line of folded stacks: the side, the stack and the count.
    #[cfg(test)]
    pub fn unfold(line: &str) -> Option<(&str, Stack, u64)> {
        let (frames, count) = line.rsplit_once(' ')?;
        let (side, frames) = frames.split_once(';')?;
        let mut names: Vec<String> = frames
            .split(';')
            .map(|frame| frame.trim_end_matches("_[k]").to_owned())
            .collect();
        names.reverse();
        let stack = match frames.ends_with("_[k]") {
            true => Stack::Kernel(names),
            false => Stack::User,
        };
        Some((side, stack, count.parse().ok()?))
    }
}

/// The number of functions that are listed for each share.
const SYMBOLS: usize = 8;

impl SideProfile {
    /// Returns its number of samples.
    pub fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns its report. If `whole` is false there are no samples of the kernel, and the
    /// kernel's share of the time is taken from the kernel's own accounts.
    pub fn report(&self, whole: bool) -> SideReport {
        let mut report = self.sampled();
        let accounts = &self.accounts;
        let ran = accounts.user_seconds + accounts.system_seconds;
        if !whole && ran > 0.0 {
            let user = accounts.user_seconds / ran;
            let both = [(Class::User, user), (Class::NotClassified, 1.0 - user)];
            let share = |(class, share)| ClassShare {
                class,
                share,
                symbols: Vec::new(),
            };
            report.shares = both.map(share).into();
            report.shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        }
        report
    }

    fn sampled(&self) -> SideReport {
        let samples = self.samples();
        let mut classes: BTreeMap<Class, BTreeMap<&str, u64>> = BTreeMap::new();
        for (stack, &count) in &self.stacks {
            let symbols = classes.entry(stack.class()).or_default();
            *symbols.entry(stack.leaf()).or_default() += count;
        }
        let part = |count: u64| count as f64 / samples.max(1) as f64;
        let function = |(name, count): (&str, u64)| FunctionShare {
            name: name.to_owned(),
            share: part(count),
        };
        let share = |(class, symbols): (Class, BTreeMap<&str, u64>)| {
            let share = part(symbols.values().sum());
            let mut symbols: Vec<FunctionShare> = symbols.into_iter().map(function).collect();
            symbols.sort_by(|a, b| b.share.total_cmp(&a.share));
            symbols.truncate(if class == Class::User { 0 } else { SYMBOLS });
            ClassShare {
                class,
                share,
                symbols,
            }
        };
        let mut shares: Vec<ClassShare> = classes.into_iter().map(share).collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        SideReport {
            name: self.name.clone(),
            processes: self.processes,
            samples,
            ran: self.accounts.ran(),
            slept: self.accounts.slept(),
            waited: self.accounts.waited(),
            accounts: self.accounts,
            shares,
        }
    }
}

/// Groups events by side; events in the first `skipped` of the run do not count.
pub fn sides(
    mut events: Vec<Event>,
    processes: &Processes,
    kernel: &Kernel,
    skipped: Duration,
) -> Vec<SideProfile> {
    // The events of each CPU are in order; those of several CPUs have to be sorted.
    events.sort_by_key(|event| event.time);
    let mut from = None;
    let mut known = Known::default();
    let mut sides = Sides::default();
    for event in events {
        let Event { time, pid, what } = event;
        if !known.is_ours(pid, &what, processes) {
            continue;
        }
        if matches!(what, What::Named { exec: true, .. }) {
            from.get_or_insert(time + skipped.as_nanos() as u64);
        }
        match what {
            What::Running(sample) if from.is_none_or(|from| time >= from) => {
                let stack = stack(&sample, kernel);
                let side = sides.of(pid, known.name(pid, processes));
                *side.stacks.entry(stack).or_default() += 1;
            }
            What::Running(_) => {}
            what => known.tell(pid, what),
        }
    }
    for (pid, seen) in processes.iter() {
        let side = sides.of(pid, seen.name.clone());
        side.accounts.add(&seen.accounts());
        side.cpus.extend(&seen.cpus);
    }
    sides.in_order()
}

/// What the events have shown about processes so far.
#[derive(Default)]
struct Known {
    /// The processes below this one.
    ours: HashSet<u32>,
    names: HashMap<u32, String>,
}

impl Known {
    /// Returns whether an event is about a process below this one, because events of whole CPUs are about all
    /// processes. A process whose start was not recorded may be known from a later scan.
    fn is_ours(&mut self, pid: u32, what: &What, processes: &Processes) -> bool {
        let own = std::process::id();
        let ours = match what {
            What::Forked { parent } => *parent == own || self.ours.contains(parent),
            _ => processes.name(pid).is_some(),
        };
        if ours && pid != own {
            self.ours.insert(pid);
        }
        self.ours.contains(&pid)
    }

    fn tell(&mut self, pid: u32, what: What) {
        let name = match what {
            What::Forked { parent } => self.names.get(&parent).cloned(),
            What::Named { name, .. } => Some(name),
            What::Running(_) => None,
        };
        self.names.extend(name.map(|name| (pid, name)));
    }

    fn name(&self, pid: u32, processes: &Processes) -> String {
        match self.names.get(&pid) {
            Some(name) if name != OWN => name.clone(),
            _ => processes.name(pid).unwrap_or("fullbore").to_owned(),
        }
    }
}

fn stack(sample: &Sample, kernel: &Kernel) -> Stack {
    match sample {
        Sample::User => Stack::User,
        Sample::Kernel(_) if kernel.is_hidden() => Stack::Kernel(vec![HIDDEN.to_owned()]),
        Sample::Kernel(chain) => {
            let name = |(at, &address): (usize, &u64)| {
                // A return address may be the first address of the next function.
                let within = address - u64::from(at > 0);
                kernel.name(within).unwrap_or("[unknown]").to_owned()
            };
            Stack::Kernel(chain.iter().enumerate().map(name).collect())
        }
    }
}

/// The sides by name, with the processes of each.
#[derive(Default)]
struct Sides(BTreeMap<String, (SideProfile, HashSet<u32>)>);

impl Sides {
    fn of(&mut self, pid: u32, name: String) -> &mut SideProfile {
        let (side, pids) = self.0.entry(name).or_default();
        pids.insert(pid);
        side
    }

    /// Returns the writer first, and the others in the order of their start.
    fn in_order(self) -> Vec<SideProfile> {
        let mut sides: Vec<_> = self.0.into_iter().collect();
        sides.sort_by_key(|(name, (_, pids))| (name != "writer", pids.iter().min().copied()));
        let side = |(name, (side, pids)): (String, (SideProfile, HashSet<u32>))| SideProfile {
            name,
            processes: pids.len(),
            ..side
        };
        sides.into_iter().map(side).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "\
ffffffff81000000 T do_syscall_64
ffffffff81001000 t pipe_read
ffffffff81002000 T _copy_to_iter
ffffffff81003000 T other
";

    /// Returns events of the pipeline `gzip | cat`, whose programs are all below this process, next to a
    /// foreign program.
    fn events() -> Vec<Event> {
        let mut events = Vec::new();
        let mut tell = |pid, what| {
            let time = events.len() as u64;
            events.push(Event { time, pid, what });
        };
        let named = |name: &str| What::Named {
            name: name.to_owned(),
            exec: true,
        };
        let parent = std::process::id();
        for (pid, name) in [(100, "gzip"), (101, "cat")] {
            tell(pid, What::Forked { parent });
            tell(pid, named(name));
        }
        for _ in 0..90 {
            tell(100, What::Running(Sample::User));
        }
        let reading = [
            0xffff_ffff_8100_2010,
            0xffff_ffff_8100_1010,
            0xffff_ffff_8100_0010,
        ];
        for pid in [100, 101] {
            for _ in 0..10 {
                tell(pid, What::Running(Sample::Kernel(reading.to_vec())));
                tell(9999, What::Running(Sample::User));
            }
        }
        events
    }

    #[test]
    fn what_a_program_computes_and_what_the_kernel_copies_are_told_apart() {
        let mut backwards = events();
        backwards.reverse();
        for events in [events(), backwards] {
            let sides = sides(
                events,
                &Processes::default(),
                &Kernel::parse(KERNEL),
                Duration::ZERO,
            );
            let names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
            assert_eq!(names, ["gzip", "cat"]);
            let reports = [0, 1].map(|at| sides[at].report(true));
            assert_eq!(reports[0].share(Class::User), 0.9);
            assert_eq!(reports[0].share(Class::Copying), 0.1);
            assert_eq!(reports[1].share(Class::Copying), 1.0);
        }
    }

    #[test]
    fn what_was_seen_in_the_time_that_is_skipped_does_not_count() {
        // The first program gets its name at 1 ns, and computes from 4 ns on.
        let skipped = Duration::from_nanos(53);
        let kernel = Kernel::parse(KERNEL);
        let sides = sides(events(), &Processes::default(), &kernel, skipped);
        assert_eq!((sides[0].samples(), sides[1].samples()), (50, 10));
    }

    #[test]
    fn without_names_of_the_kernels_functions_a_sample_is_still_the_kernels() {
        let sides = sides(
            events(),
            &Processes::default(),
            &Kernel::default(),
            Duration::ZERO,
        );
        let report = sides[1].report(true);
        assert_eq!(report.share(Class::User), 0.0);
        assert_eq!(sides[1].stacks.keys().next().map(Stack::leaf), Some(HIDDEN));
    }
}
