//! Tries the transports that bench compares with pipes, by passing a message through each.

use super::attempt::{Given, Stop, compare, pattern};
use crate::catalogue::transports::Transport;

/// Bytes of the message: no more than any of the transports accepts at once.
const MESSAGE: usize = 4096;

fn through(name: &str) -> Result<String, Stop> {
    let transport = Transport::named(name).expect("a name of the table");
    let sent = pattern(MESSAGE);
    let came = transport.pass(&sent)?;
    compare(&sent[..came.len().min(MESSAGE)], &came)?;
    Ok(format!("a message of {} bytes", came.len()))
}

pub(super) fn fifo(_: &Given) -> Result<String, Stop> {
    through("fifo")
}

pub(super) fn unix_stream(_: &Given) -> Result<String, Stop> {
    through("unix_stream")
}

pub(super) fn seqpacket(_: &Given) -> Result<String, Stop> {
    through("unix_seqpacket")
}

pub(super) fn tcp(_: &Given) -> Result<String, Stop> {
    through("tcp")
}

pub(super) fn shared_memory(_: &Given) -> Result<String, Stop> {
    through("shared_memory")
}

pub(super) fn message_queue(_: &Given) -> Result<String, Stop> {
    through("message_queue")
}
