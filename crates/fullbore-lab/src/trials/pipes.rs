//! Tries what can be done with a pipe.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use fullbore::{Pipe, PipeEnd, ProducerOptions};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::SpliceFlags;

use super::attempt::{BYTES, Stop, at, compare, io_at, pattern, read_back, wrong};
use fullbore_host::size;

/// The capacity that every unprivileged user may have by default, and that this project gives its
/// pipes.
const ROOMY: usize = 1 << 20;

pub(super) fn nowait() -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let pipe = Pipe::new()?;
    let mut came = vec![0; BYTES];
    let read = |came: &mut [u8]| {
        let mut slices = [std::io::IoSliceMut::new(came)];
        rustix::io::preadv2(&pipe.reader, &mut slices, u64::MAX, ReadWriteFlags::NOWAIT)
    };
    match read(&mut came) {
        Err(Errno::AGAIN) => {}
        Err(errno) => return Err(at("preadv2")(errno)),
        Ok(n) => return Err(wrong(format!("reading an empty pipe returned {n} bytes"))),
    }
    let slices = [std::io::IoSlice::new(&sent)];
    let n = rustix::io::pwritev2(&pipe.writer, &slices, u64::MAX, ReadWriteFlags::NOWAIT)
        .map_err(at("pwritev2"))?;
    let m = read(&mut came).map_err(at("preadv2"))?;
    compare(&sent[..n], &came[..m])?;
    Ok("reading an empty pipe returns at once".into())
}

pub(super) fn roomy_pipe() -> Result<String, Stop> {
    let (pipe, growth) = fullbore_linux::pipe::with_capacity(ROOMY)?;
    let (before, after) = (growth.before as u64, growth.after as u64);
    let (before, grown) = (size::format(before), size::format(after));
    if growth.after < ROOMY {
        let limit = growth.limit.map(|limit| limit.to_string());
        let said = format!(
            "a pipe has {before} and could be enlarged only to {grown} instead of {}: {}",
            size::format(ROOMY as u64),
            limit.unwrap_or_else(|| "unknown reason".into())
        );
        let errno = Some(Errno::PERM.raw_os_error());
        return Err(Stop::refused("F_SETPIPE_SZ", errno, said));
    }
    // There is no reader meanwhile, so all of the data has to fit.
    let sent = pattern(ROOMY);
    let n = rustix::io::write(&pipe.writer, &sent).map_err(at("write"))?;
    compare(&sent[..n], &sent)?;
    read_back(&pipe.reader, &sent)?;
    Ok(format!("{before} at first, grown to {grown} and filled"))
}

/// Tries the technique of [`Repeat`](fullbore::Repeat): a pipe that holds more than its capacity has
/// slots of more than a page.
pub(super) fn jumbo_slots() -> Result<String, Stop> {
    /// The kernel gives a socket single pages where it has no run of pages at once, which is over in a
    /// moment.
    const TRIES: u32 = 5;
    let mut last = String::new();
    for _ in 0..TRIES {
        let (sent, capacity) = fill_with_jumbo_slots()?;
        let (filled, size) = (size::format(sent), size::format(capacity));
        last = format!("{filled} in a pipe of {size}");
        if sent > capacity {
            return Ok(last);
        }
    }
    why_there_is_no_run()?;
    let seen = format!("each slot holds one page: {last}");
    Err(Stop::seen("splice", seen))
}

/// Fills a pipe; returns how many bytes it took, and its capacity.
fn fill_with_jumbo_slots() -> Result<(u64, u64), Stop> {
    let block = pattern(4096);
    let pipe = Pipe::new()?;
    let mut repeat = ProducerOptions::new().repeat(pipe.writer.as_fd(), &block)?;
    // One call on an empty pipe moves what there is room for, and does not wait.
    let sent = repeat.send_some(8 << 20)?;
    let capacity = PipeEnd::new(pipe.writer.as_fd())?.capacity()?;
    let expected = block.repeat((sent as usize).div_ceil(block.len()));
    read_back(&pipe.reader, &expected[..sent as usize])?;
    Ok((sent, capacity as u64))
}

/// Repeats the steps that make a jumbo slot, one by one, to find the error of the first that fails:
/// `Repeat` continues without jumbo slots and does not report it.
fn why_there_is_no_run() -> Result<(), Stop> {
    let (near, far) = UnixStream::pair().map_err(io_at("socketpair"))?;
    rustix::io::write(&near, &pattern(32 << 10)).map_err(at("write into a socket"))?;
    let (pipe, copy) = (Pipe::new()?, Pipe::new()?);
    let flags = SpliceFlags::NONBLOCK;
    rustix::pipe::splice(&far, None, &pipe.writer, None, 32 << 10, flags).map_err(at("splice"))?;
    rustix::pipe::tee(&pipe.reader, &copy.writer, 32 << 10, flags).map_err(at("tee"))?;
    Ok(())
}
