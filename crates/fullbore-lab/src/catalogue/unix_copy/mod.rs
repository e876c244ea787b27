//! Defines the group `unix_copy`: an object is sent through a Unix socket, by copying it and by
//! reference, after the RFC 'Nontemporal copies in unix socket write path' (Joe Damato, netdev, May
//! 2022) and its benchmark.
//!
//! A row is a `Mode`, which is how the object is sent, and a place: one socket with a `receiver`
//! that drops everything, or the `chain` of processes that the RFC describes. `sender` implements
//! the modes, `flag` detects whether this kernel has the RFC's flag, `hot` measures the effect of a
//! send on the caches, and `estimate` makes the copy of a send in user space.

mod chain;
mod estimate;
mod flag;
mod hot;
mod options;
mod receiver;
mod sender;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_socket_send_buffer_size_force, socket_send_buffer_size,
};
use serde::{Deserialize, Serialize};

pub use options::{CopyOptions, GROUP};

use crate::catalogue::transports::loopback;
use crate::catalogue::transports::stream::Moved;
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::process::{GRACE, Process};
use crate::task::{Part, Task, Timing};
use crate::work::{Bench, Work};
use chain::Delivered;
use fullbore_host::size;
use fullbore_results::run::{Settings, Sizes, Unit};
use receiver::Received;
use sender::{Mode, Sent};

/// Returns the group.
pub fn group() -> Group {
    let rows = ROWS.map(|(name, published, shows, work)| Experiment {
        published,
        takes_pipe_size: true,
        table: Some(match work.1 {
            Place::OneSocket => "one socket",
            Place::UserSpace => "an estimate, in user space",
            Place::Chain => "storage, front, client",
        }),
        ..Experiment::new(name, shows, work)
    });
    let shows =
        "an object sent through a Unix socket: copied, copied past the caches, or by reference";
    Group::new(GROUP, shows, PARTS, rows)
}

/// The RFC's figures for its first test, in Mb/s: objects of 1 MiB, buffers of 512 KiB, EPYC 7662, two
/// CPUs that share no L2.
const NORMAL_2022: f64 = gib_per_s(78_928.0);
const NTCOPY_2022: f64 = gib_per_s(112_935.0);

const fn gib_per_s(mbit_per_s: f64) -> f64 {
    mbit_per_s * 1e6 / 8.0 / (1u64 << 30) as f64
}

/// The rows.
#[rustfmt::skip]
const ROWS: [(&str, Option<f64>, &str, UnixCopy); 10] = [
    ("copy_normal", Some(NORMAL_2022), "send(2): the kernel copies the object", UnixCopy(Mode::Normal, Place::OneSocket)),
    ("copy_ntcopy", Some(NTCOPY_2022), "as copy_normal, with MSG_NTCOPY: the copy bypasses the caches", UnixCopy(Mode::NtCopy, Place::OneSocket)),
    ("copy_zero_copy", None, "vmsplice(2) into a pipe, splice(2) from there: no copy", UnixCopy(Mode::ZeroCopy, Place::OneSocket)),
    ("copy_sendfile", None, "sendfile(2) from a file in memory", UnixCopy(Mode::SendFile, Place::OneSocket)),
    ("estimate_normal", None, "an estimate: the copy of a send, made in user space", UnixCopy(Mode::Normal, Place::UserSpace)),
    ("estimate_ntcopy", None, "as estimate_normal, with stores that bypass the caches", UnixCopy(Mode::NtCopy, Place::UserSpace)),
    ("chain_normal", None, "storage → Unix socket → front → TCP → client, sent by send(2)", UnixCopy(Mode::Normal, Place::Chain)),
    ("chain_ntcopy", None, "as chain_normal, sent with MSG_NTCOPY", UnixCopy(Mode::NtCopy, Place::Chain)),
    ("chain_zero_copy", None, "as chain_normal, sent by vmsplice(2) and splice(2)", UnixCopy(Mode::ZeroCopy, Place::Chain)),
    ("chain_sendfile", None, "as chain_normal, sent by sendfile(2)", UnixCopy(Mode::SendFile, Place::Chain)),
];

/// What the object passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    OneSocket,
    /// No socket: the copy alone.
    UserSpace,
    Chain,
}

/// The role of a process of this group.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Role {
    /// Sends, and measures.
    Sender,
    /// Copies as a sender has it copied, and measures.
    Copier,
    /// Receives and drops.
    Receiver,
    /// Sends until the receiver has closed the socket.
    Storage,
    /// Passes on what it receives.
    Front,
    /// Receives, drops, and measures.
    Client,
}

/// The tasks of this group's processes.
const PARTS: &[Part] = &[Part::of::<UnixCopyTask>()];

/// The task of sending an object repeatedly, or of receiving it.
#[derive(Debug, Serialize, Deserialize)]
struct UnixCopyTask {
    role: Role,
    mode: Mode,
    sizes: Sizes,
    timing: Timing,
}

impl Task for UnixCopyTask {
    const NAME: &'static str = "unixcopy";

    /// Runs the role in this process, with sockets on stdin and stdout.
    ///
    /// # Errors
    /// Returns [`Unsupported`](fullbore_host::refusal::Unsupported) if this machine does not allow it.
    fn play(self) -> Result<()> {
        let (mode, sizes, timing) = (self.mode, &self.sizes, self.timing);
        match self.role {
            Role::Sender => sender::measure(mode, sizes, timing),
            Role::Copier => estimate::measure(mode == Mode::NtCopy, sizes, timing),
            Role::Receiver => receiver::drop_all(sizes),
            Role::Storage => sender::serve(mode, sizes),
            Role::Front => chain::front(sizes),
            Role::Client => chain::client(sizes, timing),
        }
    }
}

/// The work of sending an object through a Unix socket.
#[derive(Debug, Clone, Copy)]
struct UnixCopy(Mode, Place);

impl Work for UnixCopy {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        if self.0 != Mode::NtCopy || self.1 == Place::UserSpace {
            return self.send(bench);
        }
        let before = flag::copied().map_err(Stop::Skipped)?;
        let mut measured = self.send(bench)?;
        // The kernel's own count proves that the flag was in effect.
        let copied = flag::copied().map_or(0, |after| after.wrapping_sub(before));
        if copied == 0 {
            let reason = "the kernel has MSG_NTCOPY, but copied nothing past the caches";
            bail!(Stop::Failed(reason.into()));
        }
        measured.notes.push(format!(
            "the kernel counted {} that it copied past the caches",
            size::format(copied)
        ));
        Ok(measured)
    }

    /// For a number of objects, allows the time that they take at 64 MiB/s.
    fn patience(&self, settings: &Settings) -> Duration {
        let bytes = settings.unix_copy.unwrap_or_default().bytes();
        Timing::of(settings).patience() + Duration::from_secs(bytes.unwrap_or(0) >> 26)
    }

    fn peer(&self, settings: &Settings) -> Option<String> {
        let sizes = settings.unix_copy.unwrap_or_default();
        if sizes.check_every_object {
            return None;
        }
        let mode = self.0.of_peer()?;
        let chain = match self.1 {
            Place::OneSocket => "",
            Place::UserSpace => return None,
            Place::Chain => " --chain",
        };
        let count = sizes.count.map(|count| format!(" --count {count}"));
        let (object, sndbuf, pipe_size) = (sizes.object, sizes.sndbuf, sizes.pipe_size);
        Some(format!(
            "unix_copy {mode}{chain} --object {object} --sndbuf {sndbuf} --pipe-size {pipe_size}{}",
            count.unwrap_or_default()
        ))
    }
}

impl UnixCopy {
    fn send(&self, bench: &Bench<'_>) -> Result<Measured> {
        match self.1 {
            Place::OneSocket => self.through_one_socket(bench),
            Place::UserSpace => self.in_user_space(bench),
            Place::Chain => self.through_the_chain(bench),
        }
    }

    /// Starts the process with a role.
    fn start(
        &self,
        bench: &Bench<'_>,
        (role, cpu): (Role, Option<usize>),
        stdin: impl Into<Stdio>,
        stdout: impl Into<Stdio>,
    ) -> Result<Process> {
        let task = UnixCopyTask {
            role,
            mode: self.0,
            sizes: bench.settings.unix_copy.unwrap_or_default(),
            timing: Timing::of(bench.settings),
        };
        bench.program.start(&task, cpu, stdin, stdout)
    }

    fn in_user_space(&self, bench: &Bench<'_>) -> Result<Measured> {
        let copier = (Role::Copier, Some(bench.cpus.writer));
        let copier = self.start(bench, copier, Stdio::null(), Stdio::null())?;
        let copied = copier.end_within(self.patience(bench.settings))?;
        let (copied, hot): Sent = copied.report("copier")?;
        let mut taken = taken(&copied)?;
        taken.spent = Some(copied.spent);
        taken.also.push(("hot", Unit::Times, hot));
        Ok(taken)
    }

    fn through_one_socket(&self, bench: &Bench<'_>) -> Result<Measured> {
        let (near, far, note) = connect(bench.settings).map_err(Stop::skipped)?;
        let (writer, reader) = (Some(bench.cpus.writer), Some(bench.cpus.reader));
        let receiver = self.start(bench, (Role::Receiver, reader), far, Stdio::null())?;
        let sender = self.start(bench, (Role::Sender, writer), Stdio::null(), near)?;
        let sent = sender.end_within(self.patience(bench.settings))?;
        let (sent, hot): Sent = match sent.report("sender") {
            Ok(sent) => sent,
            Err(stop) => bail!(receiver.own_fault("receiver")?.unwrap_or(stop)),
        };
        let (_, smaller): Received = receiver.end_within(GRACE)?.report("receiver")?;
        let mut taken = taken(&sent)?;
        // The cost would include the walks.
        taken.arrived = None;
        taken.also.push(("hot", Unit::Times, hot));
        taken.notes = [note, smaller].into_iter().flatten().collect();
        Ok(taken)
    }

    fn through_the_chain(&self, bench: &Bench<'_>) -> Result<Measured> {
        let (near, far, note) = connect(bench.settings).map_err(Stop::skipped)?;
        let (to_client, from_front) = loopback().map_err(Stop::skipped)?;
        let (writer, reader) = (Some(bench.cpus.writer), Some(bench.cpus.reader));
        let client = self.start(bench, (Role::Client, None), from_front, Stdio::null())?;
        let front = self.start(bench, (Role::Front, reader), far, to_client)?;
        let storage = self.start(bench, (Role::Storage, writer), Stdio::null(), near)?;
        let measured = client.end_within(self.patience(bench.settings))?;
        // The first process of the chain that failed is at fault: the ones after it only see an early
        // end.
        let delivered = measured.report::<Delivered>("client");
        if let Err(stop) = delivered {
            for (role, process) in [("storage process", storage), ("front", front)] {
                if let Some(own) = process.own_fault(role)? {
                    bail!(own);
                }
            }
            bail!(stop);
        }
        let (passed, served) = (front.end_within(GRACE)?, storage.end_within(GRACE)?);
        let (passed, smaller): Received = passed.report("front")?;
        let sent: Moved = served.report("storage process")?;
        let (delivered, all) = delivered?;
        let mut taken = taken(&delivered)?;
        // The first object came before the client began to count.
        let first = bench.settings.unix_copy.unwrap_or_default().object;
        taken.arrived = Some(all.bytes + first as u64);
        for (role, moved) in [("storage", sent), ("front", passed), ("client", all)] {
            let gib = moved.bytes.max(1) as f64 / (1u64 << 30) as f64;
            let cost = moved.spent.total() / gib;
            taken.also.push((role, Unit::SecondsPerGib, cost));
        }
        taken.notes = [note, smaller].into_iter().flatten().collect();
        Ok(taken)
    }
}

/// Creates a Unix stream socket, with a send buffer of the chosen size, and its peer; and returns a note if the buffer
/// is smaller.
fn connect(settings: &Settings) -> Result<(OwnedFd, OwnedFd, Option<String>)> {
    let sndbuf = settings.unix_copy.unwrap_or_default().sndbuf;
    let (near, far) = UnixStream::pair().context("socketpair")?;
    // Only root may exceed net.core.wmem_max (socket(7), SO_SNDBUFFORCE).
    if set_socket_send_buffer_size_force(&near, sndbuf).is_err() {
        set_socket_send_buffer_size(&near, sndbuf).context("SO_SNDBUF")?;
    }
    // The kernel doubles the requested size for its own overhead, and returns the doubled size.
    let given = socket_send_buffer_size(&near).context("SO_SNDBUF")? / 2;
    let [has, wanted] = [given, sndbuf].map(|size| size::format(size as u64));
    let note = format!("the send buffer is {has} instead of {wanted}: see net.core.wmem_max");
    Ok((near.into(), far.into(), (given < sndbuf).then_some(note)))
}

/// Turns it into a measurement, which also gives the RFC's unit.
fn taken(moved: &Moved) -> Result<Measured, Stop> {
    let mbit_per_s = moved.bytes as f64 * 8.0 / moved.seconds / 1e6;
    Ok(Measured {
        also: vec![("network", Unit::MbitPerS, mbit_per_s)],
        ..moved.measured()?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(sizes: Sizes) -> Settings {
        Settings {
            unix_copy: Some(sizes),
            ..Settings::new(1, 0.5, 0.1)
        }
    }

    #[test]
    fn the_rfcs_figures_are_in_our_unit() {
        // 100,000 objects of 1 MiB in 10.630 s.
        let seconds = 100_000.0 / 1024.0 / NORMAL_2022;
        assert!((seconds - 10.63).abs() < 0.01, "{seconds}");
        assert!((NTCOPY_2022 / NORMAL_2022 - 1.4309).abs() < 0.001);
    }

    #[test]
    fn a_send_buffer_that_was_not_given_is_noted() {
        let lay = |sndbuf| {
            let sizes = Sizes {
                sndbuf,
                ..Sizes::default()
            };
            connect(&with(sizes)).unwrap().2
        };
        assert_eq!(lay(64 << 10), None);
        // The kernel cannot count this size, whichever user asks.
        let note = lay((1 << 31) - 1).unwrap();
        assert!(note.contains("the send buffer is "), "{note}");
    }

    #[test]
    fn many_objects_are_given_more_time() {
        let patience = |count| {
            let sizes = Sizes {
                count,
                ..Sizes::default()
            };
            UnixCopy(Mode::Normal, Place::OneSocket).patience(&with(sizes))
        };
        let usual = Timing::of(&with(Sizes::default())).patience();
        assert_eq!(patience(None), usual);
        assert!(patience(Some(100_000)) > Duration::from_secs(1500));
        assert!(patience(Some(u64::MAX)) > Duration::from_secs(1500));
    }
}
