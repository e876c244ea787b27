//! Implements the chain for which the flag was proposed: a storage process sends objects over a Unix
//! socket to a front process, such as an HTTP server, which splices them to a client's TCP socket
//! without reading them. This file contains the front and the client; the storage process is an
//! ordinary sender.

use std::io::{stdin, stdout};
use std::os::fd::AsFd;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::receiver::{Through, check_object};
use crate::catalogue::transports::stream::{Clock, Moved};
use crate::cpu_time::CpuTime;
use crate::task::{self, Timing};
use fullbore_results::run::Sizes;

/// The client's report: the bytes and the time of the measurement, and the cost of all bytes, with those of the
/// warm-up.
pub type Delivered = (Moved, Moved);

/// The most bytes that the client drops at a time.
const DROPPED: usize = 1 << 20;

/// Passes everything from the storage process to the client.
///
/// # Errors
/// Fails if this machine does not support splice(2).
pub fn front(sizes: &Sizes) -> Result<()> {
    let (storage, client) = (stdin(), stdout());
    let mut through = Through::new(sizes.pipe_size)?;
    while through.pass(storage.as_fd(), client.as_fd())? > 0 {}
    task::say(&through.received())
}

/// Checks the first object, drops the following ones or checks them too, and measures.
///
/// Bytes are dropped with MSG_TRUNC, with which TCP removes them from the socket without copying
/// (tcp(7)), so that a client uses almost no time of the CPUs that are measured.
///
/// # Errors
/// Fails if bytes are wrong, or the stream ends.
pub fn client(sizes: &Sizes, timing: Timing) -> Result<()> {
    let front = stdin();
    if !check_object(front.as_fd(), sizes.object)? {
        bail!("the stream ended within the first object");
    }
    let mut untouched = vec![0; DROPPED];
    let (began, before) = (Instant::now(), CpuTime::of_this_process());
    let mut bytes = 0;
    let mut clock = Clock::begin(timing).for_bytes(sizes.bytes());
    loop {
        let n = if sizes.check_every_object {
            match check_object(front.as_fd(), sizes.object)? {
                true => sizes.object,
                false => bail!("the stream ended"),
            }
        } else {
            match recv(front.as_fd(), &mut untouched[..], RecvFlags::TRUNC) {
                Ok((_, 0)) => bail!("the stream ended"),
                Ok((_, n)) => n,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno).context("receive"),
            }
        };
        bytes += n as u64;
        if let Some(moved) = clock.add(n) {
            let all = Moved::since(began, before, bytes);
            return task::say(&(moved, all));
        }
    }
}
