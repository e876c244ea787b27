//! The chain that the flag was made for: a storage process hands objects over a Unix socket to a front
//! process, such as an HTTP server, which splices them to a client's TCP socket without looking at
//! them. Here are the front and the client; the storage process is a sender as any other.

use std::io::{stdin, stdout};
use std::os::fd::AsFd;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::receiver::{Through, check_first};
use crate::catalogue::transports::stream::Clock;
use crate::part::{self, Timing};
use fullbore_results::run::Sizes;

/// Bytes that the client drops at a time, at most.
const DROPPED: usize = 1 << 20;

/// Passes everything on, from the storage process to the client.
///
/// # Errors
/// Where this machine does not splice.
pub fn front(sizes: &Sizes) -> Result<()> {
    let (storage, client) = (stdin(), stdout());
    let mut through = Through::new(sizes.pipe_size)?;
    while through.pass(storage.as_fd(), client.as_fd())? > 0 {}
    part::say(&through.received())
}

/// Checks the first object, drops what comes behind it, and measures.
///
/// Bytes are dropped by MSG_TRUNC, with which TCP takes them out of the socket and copies nothing
/// (tcp(7)): so a client takes next to nothing of the CPUs that are measured.
///
/// # Errors
/// Where bytes are wrong, or the stream ends.
pub fn client(sizes: &Sizes, timing: Timing) -> Result<()> {
    let front = stdin();
    if !check_first(front.as_fd(), sizes.object)? {
        bail!("the stream ended within the first object");
    }
    let mut untouched = vec![0; DROPPED];
    let mut clock = Clock::begin(timing).for_bytes(sizes.bytes());
    loop {
        let n = match recv(front.as_fd(), &mut untouched[..], RecvFlags::TRUNC) {
            Ok((_, 0)) => bail!("the stream ended"),
            Ok((_, n)) => n,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno).context("receive"),
        };
        if let Some(moved) = clock.add(n) {
            return part::say(&moved);
        }
    }
}
