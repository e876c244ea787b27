//! Tries the transports that bench compares with pipes, by passing a message through each.

use super::attempt::{Given, Stop, compare, pattern};
use crate::catalogue::transports::Transport;

/// Bytes of the message: no more than any of the transports accepts at once.
const MESSAGE: usize = 4096;

fn through(transport: Transport) -> Result<String, Stop> {
    let sent = pattern(MESSAGE);
    let came = transport.pass(&sent)?;
    compare(&sent[..came.len().min(MESSAGE)], &came)?;
    Ok(format!("a message of {} bytes", came.len()))
}

pub(super) fn fifo(_: &Given) -> Result<String, Stop> {
    through(Transport::Fifo)
}

pub(super) fn unix_stream(_: &Given) -> Result<String, Stop> {
    through(Transport::UnixStream)
}

pub(super) fn seqpacket(_: &Given) -> Result<String, Stop> {
    through(Transport::SeqPacket)
}

pub(super) fn tcp(_: &Given) -> Result<String, Stop> {
    through(Transport::Tcp)
}

pub(super) fn shared_memory(_: &Given) -> Result<String, Stop> {
    through(Transport::SharedMemory)
}

pub(super) fn message_queue(_: &Given) -> Result<String, Stop> {
    through(Transport::MessageQueue)
}
