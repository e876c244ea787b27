//! The transports, as a table. A new transport is a new row of [`TRANSPORTS`], and the function that makes
//! one.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use fullbore::Pipe;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::ends::{End, Ends, Shape, connected_by_name, fifo, loopback, of_pipes, of_socket};
use super::link::Link;
use super::{queue, ring};

/// A mechanism that carries bytes from one process to another.
#[derive(Debug, Clone, Copy)]
pub struct Transport {
    /// Its name in experiments, unique in the table.
    pub name: &'static str,
    /// What a round trip uses, in words.
    pub title: &'static str,
    /// One line about its experiment in the group `transports`.
    pub shows: &'static str,
    /// The figure of a published text for that experiment, in GiB/s.
    pub published: Option<f64>,
    /// Whether it is a pipe, whose capacity can be set.
    pub is_pipe: bool,
    /// Whether the programs in C have it too.
    pub is_in_c: bool,
    /// Makes one. It fails if this machine does not have it, or does not allow it to this user.
    pub make: fn(&Shape) -> Result<Ends>,
}

/// The 2005 thread's best figure of lmbench for a pipe that is a ring of pages: 1,669 MB/s.
const LMBENCH_PIPE_2005: f64 = 1669e6 / (1u64 << 30) as f64;

const fn row(
    name: &'static str,
    title: &'static str,
    shows: &'static str,
    make: fn(&Shape) -> Result<Ends>,
) -> Transport {
    Transport {
        name,
        title,
        shows,
        published: None,
        is_pipe: false,
        is_in_c: true,
        make,
    }
}

/// The transports, in lmbench's order. Those that lmbench does not measure come last.
#[rustfmt::skip]
pub static TRANSPORTS: [Transport; 9] = [
    Transport { published: Some(LMBENCH_PIPE_2005), is_pipe: true,
        ..row("pipe", "two pipes", "a pipe of the default capacity, write(2) and read(2)", pipes) },
    Transport { is_pipe: true,
        ..row("fifo", "two FIFOs", "a named pipe", fifos) },
    row("unix_stream", "a Unix stream socket", "a Unix stream socket with listen(2) and connect(2)", unix_stream),
    row("socketpair", "a socketpair", "a Unix stream socket from socketpair(2)", socket_pair),
    row("unix_seqpacket", "a Unix seqpacket socket", "a Unix socket that preserves message boundaries", seqpacket),
    row("tcp", "a TCP connection on the loopback", "TCP over the loopback", tcp),
    row("shared_memory", "shared memory", "a ring in shared memory, with copies in and out, and futex(2) to wait", shared_memory),
    Transport { is_in_c: false,
        ..row("ring", "two rings that the library shares", "memory that both ends share, met through a pipe, with copies in and out", rings) },
    row("message_queue", "two POSIX message queues", "a POSIX message queue, 10 messages of 8 KiB", message_queues),
];

fn pipes(shape: &Shape) -> Result<Ends> {
    of_pipes(|| Ok(Pipe::new()?), shape)
}

fn rings(shape: &Shape) -> Result<Ends> {
    let link = Link::Library;
    Ok(pipes(shape)?.map(|end| End { link, ..end }))
}

fn fifos(shape: &Shape) -> Result<Ends> {
    of_pipes(fifo, shape)
}

fn unix_stream(shape: &Shape) -> Result<Ends> {
    let (a, b) = connected_by_name().context("a Unix stream socket")?;
    of_socket(a.into(), b.into(), shape)
}

fn socket_pair(shape: &Shape) -> Result<Ends> {
    let (a, b) = UnixStream::pair().context("socketpair")?;
    of_socket(a.into(), b.into(), shape)
}

fn seqpacket(shape: &Shape) -> Result<Ends> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (a, b) = socketpair(family, kind, SocketFlags::CLOEXEC, None)
        .context("socketpair of SOCK_SEQPACKET")?;
    of_socket(a, b, shape)
}

fn tcp(shape: &Shape) -> Result<Ends> {
    let (a, b) = loopback()?;
    of_socket(a, b, shape)
}

fn shared_memory(shape: &Shape) -> Result<Ends> {
    let memory = ring::make().context("shared memory")?;
    let end = |sends| -> Result<End> {
        Ok(End {
            input: memory.try_clone()?,
            output: File::open("/dev/null")?.into(),
            link: Link::Ring { sends },
            message: shape.message,
        })
    };
    Ok([end(0)?, end(1)?])
}

fn message_queues(shape: &Shape) -> Result<Ends> {
    let message = shape.message.min(queue::LONGEST);
    let queue = || queue::make(message).context("a POSIX message queue");
    let (there, back) = (queue()?, queue()?);
    let end = |input: &OwnedFd, output: &OwnedFd| -> Result<End> {
        let link = Link::Queue;
        let end = End::of_fds(input.try_clone()?, output.try_clone()?, shape)?;
        Ok(End {
            link,
            message,
            ..end
        })
    };
    Ok([end(&back, &there)?, end(&there, &back)?])
}
