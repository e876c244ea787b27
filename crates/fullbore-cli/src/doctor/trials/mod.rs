//! The trials: each technique that this project uses and a machine may refuse, tried for real. A new
//! trial is a new row in [`TRIALS`] and a function beside its siblings.
//!
//! A trial runs in a process of its own ([`process`]): one that hangs is killed when its time is up, one
//! that a sandbox kills takes nobody with it, and whatever it opened goes with it. It moves bytes and
//! compares them; what it has to say is an [`Outcome`], in one line of JSON.

mod calls;
mod memory;
mod pipes;
mod processes;
mod sampling;
mod transports;

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use anyhow::Result;
use fullbore::Pipe;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use processes::Target;

use crate::lab::part::{self, Part, Task};
use crate::lab::process::{self, Process};
use crate::lab::program::Program;

/// What a trial may take; none needs a tenth of it on an idle machine.
const PATIENCE: Duration = Duration::from_secs(3);

/// Bytes that most trials move: some pages, and then some.
const BYTES: usize = 3 * 4096 + 5;

/// One technique.
pub struct Trial {
    /// Its name, unique in the table.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Tries it, and says what was seen.
    try_it: fn(&Given) -> Result<String, Stop>,
}

/// What a trial's process is given.
#[derive(Debug, Clone, Copy)]
struct Given {
    target: Option<Target>,
}

const fn row(
    name: &'static str,
    purpose: &'static str,
    try_it: fn(&Given) -> Result<String, Stop>,
) -> Trial {
    Trial {
        name,
        purpose,
        try_it,
    }
}

/// The trials, in the order they are shown.
#[rustfmt::skip]
pub const TRIALS: &[Trial] = &[
    row("splice", "moves pages from pipe to pipe: readers by reference, copy and tee", calls::splice),
    row("splice_file", "puts a file's pages into a pipe: copy --by-reference", calls::splice_file),
    row("splice_socket", "moves bytes from a pipe into a Unix socket and back: copy, unix_copy", calls::splice_socket),
    row("vmsplice", "puts a program's own pages into a pipe: the fast writers", calls::vmsplice),
    row("tee", "duplicates what is in a pipe without taking it: tee --by-reference, repeat", calls::tee),
    row("sendfile", "from a file into a socket within the kernel: copy", calls::sendfile),
    row("copy_file_range", "from file to file within the kernel: copy", calls::copy_file_range),
    row("fresh_pages", "gives pages away for good: copy, tee and Producer, right for every reader", calls::fresh_pages),
    row("nowait", "RWF_NOWAIT: decides call by call whether to wait on a pipe", pipes::nowait),
    row("roomy_pipe", "grows a pipe to 1 MiB: fewer, longer turns", pipes::roomy_pipe),
    row("jumbo_slots", "runs of 32 KiB in one slot: what repeat sends", pipes::jumbo_slots),
    row("huge_pages", "transparent huge pages: found faster, faulted in 512 at a time", memory::huge_pages),
    row("hugetlb", "huge pages of a reserved pool: only where a program asks for Backing::HugeTlb", memory::hugetlb),
    row("page_flags", "sees page by page what backs memory; otherwise it is read off smaps", memory::page_flags),
    row("memfd", "memory with an fd: shared memory between processes", memory::memfd),
    row("locked_memory", "keeps pages from being reclaimed: --lock-memory", memory::locked),
    row("fifo", "bench transports and latency", transports::fifo),
    row("unix_stream", "bench transports and latency", transports::unix_stream),
    row("unix_seqpacket", "bench transports and latency", transports::seqpacket),
    row("tcp", "TCP over the loopback: bench transports and latency", transports::tcp),
    row("shared_memory", "a ring in memory, with futex(2): bench transports and latency", transports::shared_memory),
    row("message_queue", "POSIX message queues: bench transports and latency", transports::message_queue),
    row("pinning", "runs on one CPU: every figure of bench", processes::pinning),
    row("process_fds", "opens the pipes of this user's other processes: meter --watch", processes::own_fds),
    row("pidfd_getfd", "takes a copy of another process's fd", processes::pidfd),
    row("others_fds", "opens the pipes of other users' processes: meter --watch", processes::others_fds),
    row("sampling", "sees where the kernel spends the time, with its call chains", sampling::sampling),
    row("kernel_names", "gives samples the names of the kernel's functions", sampling::kernel_names),
    row("hardware_counters", "cycles and cache misses; sampling works by the clock without them", sampling::hardware_counters),
];

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It works; what was seen.
    Works(String),
    /// The machine refuses it.
    Refused(Refusal),
    /// It moved bytes, and not the right ones.
    Wrong(String),
    /// There was nothing to try it on.
    NotTried(String),
}

/// How something was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The call or the step.
    pub operation: String,
    /// The kernel's error number, where there is one.
    pub errno: Option<i32>,
    /// The signal that ended the process of the trial.
    pub signal: Option<i32>,
    /// What was said or seen, for people.
    pub said: String,
}

impl Refusal {
    /// The kernel's error, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        self.errno.map(Errno::from_raw_os_error)
    }

    /// The name of the kernel's error, such as `EPERM`.
    pub fn errno_name(&self) -> Option<String> {
        let errno = nix::errno::Errno::from_raw(self.errno?);
        Some(format!("{errno:?}"))
    }
}

/// Why a trial did not go through.
enum Stop {
    Refused(Refusal),
    Wrong(String),
    NotTried(String),
}

impl Stop {
    /// Something that is there and does not do what it is for.
    fn seen(operation: &str, said: impl Into<String>) -> Self {
        Stop::Refused(Refusal {
            operation: operation.into(),
            said: said.into(),
            ..Refusal::default()
        })
    }
}

/// The kernel's word about `operation`.
fn at(operation: &'static str) -> impl Fn(Errno) -> Stop {
    move |errno| {
        let said = std::io::Error::from(errno).to_string();
        Stop::Refused(Refusal {
            operation: operation.into(),
            errno: Some(errno.raw_os_error()),
            signal: None,
            said: without_number(&said),
        })
    }
}

/// As [`at`], for std.
fn io_at(operation: &'static str) -> impl Fn(std::io::Error) -> Stop {
    move |error| {
        Stop::Refused(Refusal {
            operation: operation.into(),
            errno: error.raw_os_error(),
            signal: None,
            said: without_number(&error.to_string()),
        })
    }
}

/// Without the number that std adds to the kernel's words.
fn without_number(said: &str) -> String {
    let end = said.find(" (os error").unwrap_or(said.len());
    said[..end].to_owned()
}

impl From<fullbore::Error> for Stop {
    fn from(error: fullbore::Error) -> Self {
        let said = error.to_string();
        let operation = match &error {
            fullbore::Error::System { operation, .. }
            | fullbore::Error::Moving { operation, .. } => operation,
            _ => "",
        };
        Stop::Refused(Refusal {
            operation: operation.to_owned(),
            errno: error.errno().and_then(std::io::Error::raw_os_error),
            signal: None,
            said: match said.strip_prefix(&format!("{operation}: ")) {
                Some(rest) if !operation.is_empty() => rest.to_owned(),
                _ => said,
            },
        })
    }
}

/// A chain of contexts: the first is the operation, and somewhere below is the kernel's error.
impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        let errno = error.chain().find_map(|cause| {
            let of_std = || cause.downcast_ref::<std::io::Error>()?.raw_os_error();
            let of_rustix = cause.downcast_ref::<Errno>().map(|e| e.raw_os_error());
            let of_nix = || Some(*cause.downcast_ref::<nix::errno::Errno>()? as i32);
            of_rustix.or_else(of_std).or_else(of_nix)
        });
        let words: Vec<String> = error.chain().map(ToString::to_string).collect();
        let (operation, said) = match words.as_slice() {
            [said] => (String::new(), said.clone()),
            [operations @ .., said] => (operations.join(": "), said.clone()),
            [] => Default::default(),
        };
        Stop::Refused(Refusal {
            operation,
            errno,
            signal: None,
            said: without_number(&said),
        })
    }
}

/// Bytes that tell where they stand: no two stretches of them are alike.
fn pattern(len: usize) -> Vec<u8> {
    (0..len.div_ceil(8) as u64)
        .flat_map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at >> 7).to_le_bytes())
        .take(len)
        .collect()
}

/// Whether what came is what was sent.
fn compare(sent: &[u8], came: &[u8]) -> Result<(), Stop> {
    if let Some(at) = sent.iter().zip(came).position(|(sent, came)| sent != came) {
        return Err(Stop::Wrong(format!(
            "byte {at} of {} came as {:#04x}, and was {:#04x}",
            sent.len(),
            came[at],
            sent[at]
        )));
    }
    if sent.len() != came.len() {
        return Err(Stop::Wrong(format!(
            "{} bytes came of {}",
            came.len(),
            sent.len()
        )));
    }
    Ok(())
}

/// Reads what has to be there, and compares.
fn read_back(fd: impl std::os::fd::AsFd, sent: &[u8]) -> Result<(), Stop> {
    let mut came = vec![0; sent.len()];
    let mut filled = 0;
    while filled < came.len() {
        match rustix::io::read(&fd, &mut came[filled..]).map_err(at("read"))? {
            0 => break,
            n => filled += n,
        }
    }
    compare(sent, &came[..filled])
}

/// A pipe with these bytes in it.
fn pipe_with(bytes: &[u8]) -> Result<Pipe, Stop> {
    let pipe = Pipe::new()?;
    let mut left = bytes;
    while !left.is_empty() {
        left = &left[rustix::io::write(&pipe.writer, left).map_err(at("write"))?..];
    }
    Ok(pipe)
}

/// What processes of the doctor do.
pub const PARTS: &[Part] = &[Part::of::<TrialTask>()];

/// Try a technique.
#[derive(Debug, Serialize, Deserialize)]
struct TrialTask {
    name: String,
    target: Option<Target>,
}

impl Task for TrialTask {
    const NAME: &'static str = "trial";

    fn play(self) -> Result<()> {
        play(&self.name, self.target)
    }
}

/// Plays the trial of that name, in this process, and says what came of it.
///
/// # Errors
/// Where there is no such trial, or nobody to tell.
fn play(name: &str, target: Option<Target>) -> Result<()> {
    let trial = TRIALS.iter().find(|trial| trial.name == name);
    let trial = trial.ok_or_else(|| anyhow::anyhow!("no trial is called '{name}'"))?;
    let outcome = match (trial.try_it)(&Given { target }) {
        Ok(seen) => Outcome::Works(seen),
        Err(Stop::Refused(refusal)) => Outcome::Refused(refusal),
        Err(Stop::Wrong(found)) => Outcome::Wrong(found),
        Err(Stop::NotTried(why)) => Outcome::NotTried(why),
    };
    part::say(&outcome)
}

impl Trial {
    /// Tries it in a process of its own, and says what came of it and how long it took.
    pub fn run(&self, program: &Program) -> (Outcome, Duration) {
        let began = Instant::now();
        let outcome = self
            .in_a_process(program)
            .unwrap_or_else(|error| match Stop::from(error) {
                Stop::Refused(refusal) => Outcome::Refused(refusal),
                Stop::Wrong(said) | Stop::NotTried(said) => Outcome::NotTried(said),
            });
        (outcome, began.elapsed())
    }

    fn in_a_process(&self, program: &Program) -> Result<Outcome> {
        // Held until the trial is over: some look at a pipe of another process, which is this one.
        let held = processes::Held::new()?;
        let task = TrialTask {
            name: self.name.into(),
            target: Some(held.target()),
        };
        let ended = Process::start(program.part(&task, None)?)?.end_within(PATIENCE)?;
        let refused = |signal, said| {
            Outcome::Refused(Refusal {
                operation: self.name.into(),
                errno: None,
                signal,
                said,
            })
        };
        if ended.killed {
            let seconds = PATIENCE.as_secs();
            return Ok(refused(None, format!("no answer within {seconds} s")));
        }
        if let Ok(outcome) = process::report(&ended.output.stderr) {
            return Ok(outcome);
        }
        let status = ended.output.status;
        let words = process::last_words(&ended.output);
        Ok(refused(
            status.signal(),
            format!("the trial's process {}: {words}", process::ended(status)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_what_they_are_for() {
        let mut names: Vec<_> = TRIALS.iter().map(|trial| trial.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TRIALS.len());
        assert!(TRIALS.iter().all(|trial| !trial.purpose.is_empty()));
    }

    #[test]
    fn a_changed_a_lost_and_an_added_byte_are_wrong() {
        let sent = pattern(10_000);
        assert!(compare(&sent, &sent).is_ok());
        let mut changed = sent.clone();
        changed[4097] ^= 1;
        let Err(Stop::Wrong(found)) = compare(&sent, &changed) else {
            panic!("a changed byte is right");
        };
        assert!(found.contains("byte 4097 of 10000"), "{found}");
        assert!(matches!(compare(&sent, &sent[1..]), Err(Stop::Wrong(_))));
        assert!(matches!(
            compare(&sent, &sent[..9_999]),
            Err(Stop::Wrong(_))
        ));
        assert!(matches!(
            compare(&sent[..9_999], &sent),
            Err(Stop::Wrong(_))
        ));
    }

    #[test]
    fn no_two_pages_of_the_pattern_are_alike() {
        let pattern = pattern(1 << 20);
        let mut pages: Vec<&[u8]> = pattern.chunks(4096).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 256);
    }

    #[test]
    fn the_kernels_error_is_found_below_its_contexts() {
        use anyhow::Context;
        let error = Err::<(), _>(Errno::NOSYS)
            .context("memfd_create")
            .context("shared memory");
        let Stop::Refused(refusal) = Stop::from(error.unwrap_err()) else {
            panic!("it was refused");
        };
        assert_eq!(refusal.operation, "shared memory: memfd_create");
        assert_eq!(refusal.errno(), Some(Errno::NOSYS));
        assert_eq!(refusal.errno_name().as_deref(), Some("ENOSYS"));
    }
}
