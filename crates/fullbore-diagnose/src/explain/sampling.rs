//! Samples every process that this thread starts, and all processes that those start, without the
//! cooperation of the programs that start them.
//!
//! There are two ways. If it is permitted, *whole CPUs* are sampled, including other processes, whose
//! samples are dropped later. This disturbs least, because the timer keeps running through every switch
//! between tasks. Otherwise *tasks* are sampled: an event that is opened on this thread, disabled,
//! inherited and enabled on exec never samples this process, and samples every process that it starts
//! from its first instruction on. The software clock of such an event is started and stopped at each
//! switch between tasks. This reprograms the CPU's timer whenever the clock is the next to expire, and
//! each time a virtual machine exits to the hypervisor: a side that sleeps ten thousand times a second
//! lost half of its speed. With a longer period, the clock is the next to expire less often, so the
//! frequency is low in this case.
//!
//! There is an event for each CPU, because only an event that is bound to a CPU may have a buffer and be
//! inherited at once (perf_event_open(2), kernel/events/core.c, perf_mmap()); all processes that run on
//! a CPU write into its buffer, which has to be emptied while they run.

use std::io::{self, ErrorKind};

use perf_event::data::parse::Parser;
use perf_event::data::{
    Comm, Exit, Lost, LostSamples, RecordMetadata, Sample as RawSample, Visitor,
};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, SampleFlag, Sampler};
use rustix::io::Errno;

/// The processes that an event samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All processes that run.
    WholeCpus,
    /// The processes that this thread starts.
    Tasks,
}

/// The ways to sample, the best first: the scope, and whether the kernel is sampled too.
const WAYS: [(Scope, bool); 3] = [
    (Scope::WholeCpus, true),
    (Scope::Tasks, true),
    (Scope::Tasks, false),
];

/// Something that happened, and the time in nanoseconds of the kernel's own clock.
#[derive(Debug, Clone)]
pub struct Event {
    pub time: u64,
    pub pid: u32,
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum What {
    /// The process was created by another one.
    Forked { parent: u32 },
    /// The process has a new name; with `exec` it also runs a new program.
    Named { name: String, exec: bool },
    /// The process was running.
    Running(Sample),
}

/// The position of a process.
#[derive(Debug, Clone)]
pub enum Sample {
    /// In user mode.
    User,
    /// In the kernel: the addresses of the chain of calls, innermost first.
    Kernel(Vec<u64>),
}

/// The clock that triggers samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    Cycles,
    Software,
}

impl Clock {
    /// Returns its description.
    pub fn describe(self) -> &'static str {
        match self {
            Clock::Cycles => "the CPU's cycle counter",
            Clock::Software => "the software clock",
        }
    }
}

/// Events that are open, and their buffers.
pub struct Sampling {
    samplers: Vec<Sampler>,
    pub how: Sampled,
}

/// How samples are taken.
#[derive(Debug, Clone, Copy)]
pub struct Sampled {
    /// The clock that triggers samples.
    pub clock: Clock,
    /// The processes that are sampled.
    pub scope: Scope,
    /// Whether the kernel is sampled too, or only user code.
    pub kernel: bool,
    /// The number of samples that were lost because a buffer was full.
    pub lost: u64,
}

impl Sampled {
    /// Returns the samples per second and CPU. The numbers are not round, so that samples do not coincide
    /// with periodic activity.
    pub fn frequency(self) -> u64 {
        match (self.clock, self.scope) {
            (Clock::Cycles, _) => 997,
            (Clock::Software, Scope::WholeCpus) => 199,
            (Clock::Software, Scope::Tasks) => 97,
        }
    }
}

impl Sampling {
    /// Samples what this thread starts from now on: the kernel too if that is allowed, with the cycle
    /// counter if there is one.
    pub fn of_children(cpus: &[usize]) -> Result<Self, Errno> {
        let mut refused = Errno::OPNOTSUPP;
        for (scope, kernel) in WAYS {
            for clock in [Clock::Cycles, Clock::Software] {
                let how = Sampled {
                    clock,
                    scope,
                    kernel,
                    lost: 0,
                };
                match Self::open(cpus, how) {
                    Ok(sampling) => return Ok(sampling),
                    Err(error) => {
                        let errno = Errno::from_io_error(&error).unwrap_or(Errno::OPNOTSUPP);
                        // An error that says that an event is not permitted is more useful than one that
                        // says that it does not exist.
                        if !matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) {
                            refused = errno;
                        }
                    }
                }
            }
        }
        Err(refused)
    }

    fn open(cpus: &[usize], how: Sampled) -> io::Result<Self> {
        let sampler = |&cpu: &usize| {
            let sampled = |bytes| builder(how, cpu).build()?.sampled(bytes);
            // An unprivileged user may lock perf_event_mlock_kb per CPU: 512 KiB and a page.
            sampled(1 << 19).or_else(|error| match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::OutOfMemory => sampled(1 << 16),
                _ => Err(error),
            })
        };
        let samplers = cpus.iter().map(sampler).collect::<io::Result<_>>()?;
        Ok(Self { samplers, how })
    }

    /// Moves all events from the buffers to `events`.
    pub fn drain(&mut self, events: &mut Vec<Event>) {
        for sampler in &mut self.samplers {
            let config = sampler.as_counter().config().clone();
            while let Some(record) = sampler.next_record() {
                let mut bytes = Vec::with_capacity(record.len() + 8);
                // The header is struct perf_event_header: type, misc, size.
                bytes.extend_from_slice(&record.ty().to_ne_bytes());
                bytes.extend_from_slice(&record.misc().to_ne_bytes());
                bytes.extend_from_slice(&(record.len() as u16 + 8).to_ne_bytes());
                bytes.extend_from_slice(&record.to_contiguous());
                drop(record);
                match Parser::new(&bytes[..], config.clone()).parse_record(Reading) {
                    Ok(Read::Event(event)) => events.push(event),
                    Ok(Read::Lost(samples)) => self.how.lost += samples,
                    // Records of an unknown kind are ignored.
                    Ok(Read::Nothing) => {}
                    // A record that cannot be parsed may be a sample, so it counts as a lost one.
                    Err(_) => self.how.lost += 1,
                }
            }
        }
    }
}

fn builder(how: Sampled, cpu: usize) -> Builder<'static> {
    let mut builder = match how.clock {
        Clock::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Clock::Software => Builder::new(Software::CPU_CLOCK),
    };
    match how.scope {
        Scope::WholeCpus => builder.any_pid().exclude_idle(true).enabled(true),
        Scope::Tasks => builder.observe_self().inherit(true).enable_on_exec(true),
    };
    builder
        .one_cpu(cpu)
        .exclude_kernel(!how.kernel)
        .exclude_callchain_kernel(!how.kernel)
        // Few programs keep frame pointers, and without them user chains are meaningless.
        .exclude_callchain_user(true)
        .sample_frequency(how.frequency())
        // The chain of a sample in user mode is empty, and the parser considers a record that ends with
        // an empty list truncated. The weight, which is 0, is therefore requested as well: it comes
        // after the chain.
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME)
        .sample(SampleFlag::CALLCHAIN | SampleFlag::WEIGHT)
        .sample_id_all(true)
        .task(true)
        .comm(true)
        .comm_exec(true);
    builder
}

/// The content of a record.
enum Read {
    Event(Event),
    Lost(u64),
    Nothing,
}

struct Reading;

impl Reading {
    fn event(metadata: &RecordMetadata, pid: u32, what: What) -> Read {
        Read::Event(Event {
            time: metadata.sample_id().time().unwrap_or(0),
            pid,
            what,
        })
    }
}

/// `PERF_RECORD_MISC_*` (include/uapi/linux/perf_event.h).
const MISC_CPUMODE: u16 = 7;
const MISC_KERNEL: u16 = 1;
const MISC_USER: u16 = 2;
const MISC_COMM_EXEC: u16 = 1 << 13;

/// Values from here on are not addresses, but markers of the context of the addresses after them:
/// `PERF_CONTEXT_MAX`.
const CONTEXT: u64 = -4095_i64 as u64;

impl<'a> Visitor<'a> for Reading {
    type Output = Read;

    fn visit_unimplemented(self, _: RecordMetadata) -> Read {
        Read::Nothing
    }

    fn visit_lost(self, record: Lost, _: RecordMetadata) -> Read {
        Read::Lost(record.lost)
    }

    fn visit_lost_samples(self, record: LostSamples, _: RecordMetadata) -> Read {
        Read::Lost(record.lost)
    }

    fn visit_fork(self, record: Exit, metadata: RecordMetadata) -> Read {
        let (pid, parent) = (record.pid, record.ppid);
        match pid == parent {
            // The record is about a thread.
            true => Read::Nothing,
            false => Self::event(&metadata, pid, What::Forked { parent }),
        }
    }

    fn visit_comm(self, record: Comm<'a>, metadata: RecordMetadata) -> Read {
        if record.pid != record.tid {
            return Read::Nothing;
        }
        let what = What::Named {
            name: String::from_utf8_lossy(&record.comm).into_owned(),
            exec: metadata.misc() & MISC_COMM_EXEC != 0,
        };
        Self::event(&metadata, record.pid, what)
    }

    fn visit_sample(self, record: RawSample<'a>, metadata: RecordMetadata) -> Read {
        let (Some(ip), Some(pid), Some(time)) = (record.ip(), record.pid(), record.time()) else {
            return Read::Nothing;
        };
        let sample = match metadata.misc() & MISC_CPUMODE {
            MISC_USER => Sample::User,
            MISC_KERNEL => {
                let chain = record.callchain().unwrap_or_default().iter();
                let mut chain: Vec<u64> = chain.copied().filter(|&at| at < CONTEXT).collect();
                if chain.is_empty() {
                    chain.push(ip);
                }
                Sample::Kernel(chain)
            }
            _ => return Read::Nothing,
        };
        let what = What::Running(sample);
        Read::Event(Event { time, pid, what })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Returns whether a sample of the process in user mode arrives, if such samples are permitted.
    fn is_seen_in_user_mode(scope: Scope, kernel: bool) -> Option<bool> {
        let cpus = fullbore_host::machine::Topology::read().online();
        let how = Sampled {
            clock: Clock::Software,
            scope,
            kernel,
            lost: 0,
        };
        let mut sampling = Sampling::open(&cpus, how).ok()?;
        let mut busy = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let mut events = Vec::new();
        let began = Instant::now();
        let is_it = |event: &Event| {
            event.pid == busy.id() && matches!(event.what, What::Running(Sample::User))
        };
        while !events.iter().any(is_it) && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(10));
            events.clear();
            sampling.drain(&mut events);
        }
        let seen = events.iter().any(is_it);
        busy.kill().unwrap();
        busy.wait().unwrap();
        Some(seen)
    }

    #[test]
    fn a_program_that_computes_is_seen_in_user_mode() {
        for (scope, kernel) in WAYS {
            match is_seen_in_user_mode(scope, kernel) {
                Some(seen) => assert!(seen, "{scope:?}, kernel: {kernel}"),
                None => {
                    let _ = writeln!(io::stderr(), "skipped: {scope:?} may not be sampled here");
                }
            }
        }
    }
}
