//! Samples, put together by side: whose they are, and what the addresses are called.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

use super::classes::{Class, classify};
use super::processes::{Accounts, Processes};
use super::sampling::{Event, Sample, What};
use super::symbols::{Files, Kernel, Mapping, Mappings};
use fullbore_host::text::clean;

/// A process, or all of one name.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// Its role in an experiment, or its program's name.
    pub name: String,
    /// How many processes.
    pub processes: usize,
    /// What it ran, and how often it was seen there.
    pub stacks: BTreeMap<Stack, u64>,
    /// What the kernel says it used.
    pub accounts: Accounts,
}

/// Where a sample was: in user code, or in a chain of the kernel's functions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stack {
    User(String),
    /// Innermost first.
    Kernel(Vec<String>),
}

/// What a function of the kernel is called whose name is hidden.
pub const HIDDEN: &str = "[kernel]";

/// What a program of the laboratory is called by the kernel, which goes by the path it was started by.
const OWN: &str = "exe";

impl Stack {
    /// What its time went to.
    pub fn class(&self) -> Class {
        match self {
            Stack::User(_) => Class::User,
            Stack::Kernel(chain) => {
                let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
                classify(&chain)
            }
        }
    }

    /// The function it was in.
    pub fn leaf(&self) -> &str {
        match self {
            Stack::User(name) => name,
            Stack::Kernel(chain) => chain.first().map_or(HIDDEN, String::as_str),
        }
    }

    /// As one line of folded stacks: outermost first, functions of the kernel with `_[k]` behind.
    fn fold(&self, side: &str, count: u64) -> String {
        // A line of its own for each stack, and XML, which has no control characters, is made of it.
        let mut line = clean(side).replace(';', ":");
        match self {
            Stack::User(name) => {
                let _ = write!(line, ";{}", clean(name).replace(';', ":"));
            }
            Stack::Kernel(chain) => {
                for name in chain.iter().rev() {
                    let _ = write!(line, ";{name}_[k]");
                }
            }
        }
        let _ = write!(line, " {count}");
        line
    }
}

impl Side {
    /// Samples of it.
    pub fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Its lines of folded stacks.
    pub fn folded(&self) -> impl Iterator<Item = String> {
        self.stacks
            .iter()
            .map(|(stack, &count)| stack.fold(&self.name, count))
    }
}

/// Sides, from what happened while they ran; what happened in the first `skipped` of it is left out.
pub fn sides(
    mut events: Vec<Event>,
    processes: &Processes,
    kernel: &Kernel,
    files: &mut Files,
    skipped: Duration,
) -> Vec<Side> {
    // Each CPU has told its own story in order; together they have to be put in order.
    events.sort_by_key(|event| event.time);
    let mut from = None;
    let mut told = Told::default();
    let mut sides = Sides::default();
    for event in events {
        let Event { time, pid, what } = event;
        if !told.is_ours(pid, &what, processes) {
            continue;
        }
        if matches!(what, What::Named { exec: true, .. }) {
            from.get_or_insert(time + skipped.as_nanos() as u64);
        }
        match what {
            What::Running(sample) if from.is_none_or(|from| time >= from) => {
                let stack = told.stack(pid, &sample, kernel, files);
                let side = sides.of(pid, told.name(pid, processes));
                *side.stacks.entry(stack).or_default() += 1;
            }
            What::Running(_) => {}
            what => told.tell(pid, what),
        }
    }
    for (pid, seen) in processes.iter() {
        let side = sides.of(pid, seen.name.clone());
        side.accounts.add(&seen.accounts());
    }
    sides.in_order()
}

/// What is known of processes so far.
#[derive(Default)]
struct Told {
    /// Processes below this one.
    ours: HashSet<u32>,
    names: HashMap<u32, String>,
    mappings: HashMap<u32, Mappings>,
}

impl Told {
    /// Whether it is about a process below this one: whole CPUs tell of everybody. One that was not seen
    /// being started may have been seen since.
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
        match what {
            What::Forked { parent } => {
                if let Some(name) = self.names.get(&parent).cloned() {
                    self.names.insert(pid, name);
                }
                if let Some(mappings) = self.mappings.get(&parent).cloned() {
                    self.mappings.insert(pid, mappings);
                }
            }
            What::Named { name, exec } => {
                self.names.insert(pid, name);
                if exec {
                    self.mappings.remove(&pid);
                }
            }
            What::Mapped {
                start,
                len,
                offset,
                file,
            } => self
                .mappings
                .entry(pid)
                .or_default()
                .add(start, Mapping { len, offset, file }),
            What::Running(_) => {}
        }
    }

    fn name(&self, pid: u32, processes: &Processes) -> String {
        match self.names.get(&pid) {
            Some(name) if name != OWN => name.clone(),
            _ => processes.name(pid).unwrap_or("fullbore").to_owned(),
        }
    }

    fn stack(&self, pid: u32, sample: &Sample, kernel: &Kernel, files: &mut Files) -> Stack {
        match sample {
            Sample::User(address) => {
                let none = Mappings::default();
                let mappings = self.mappings.get(&pid).unwrap_or(&none);
                Stack::User(files.name(mappings, *address))
            }
            Sample::Kernel(_) if kernel.is_hidden() => Stack::Kernel(vec![HIDDEN.to_owned()]),
            Sample::Kernel(chain) => Stack::Kernel(
                chain
                    .iter()
                    .enumerate()
                    .map(|(at, &address)| {
                        // A return address may be the first of the next function.
                        let within = address - u64::from(at > 0);
                        kernel.name(within).unwrap_or("[unknown]").to_owned()
                    })
                    .collect(),
            ),
        }
    }
}

/// Sides by name, with the processes of each.
#[derive(Default)]
struct Sides(BTreeMap<String, (Side, HashSet<u32>)>);

impl Sides {
    fn of(&mut self, pid: u32, name: String) -> &mut Side {
        let (side, pids) = self.0.entry(name).or_default();
        pids.insert(pid);
        side
    }

    /// The writer first, the others as they were started.
    fn in_order(self) -> Vec<Side> {
        let mut sides: Vec<(bool, u32, Side)> = self
            .0
            .into_iter()
            .map(|(name, (side, pids))| {
                let first = pids.iter().min().copied().unwrap_or(0);
                let processes = pids.len();
                (
                    name != "writer",
                    first,
                    Side {
                        name,
                        processes,
                        ..side
                    },
                )
            })
            .collect();
        sides.sort_by_key(|(later, first, _)| (*later, *first));
        sides.into_iter().map(|(.., side)| side).collect()
    }
}
