//! Implements the side that receives as the RFC's benchmark does: with splice(2) from the socket
//! into a pipe, and from there to the sink, without reading the bytes. Only the first object is
//! read, and every byte of it is checked; or all objects are, if that was asked for.

use std::io::stdin;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fullbore::{Pipe, PipeEnd, Wait};
use fullbore_linux::{Calls, Ready};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::catalogue::transports::stream::Moved;
use crate::cpu_time::CpuTime;
use crate::endpoint::prepare::{dev_null, failed, splice_all};
use crate::task;
use fullbore_bytes::pattern;
use fullbore_host::size;
use fullbore_results::run::Sizes;

/// Bytes of one read(2) while the first object is checked.
const CHUNK: usize = 64 << 10;

/// The receiver's report: what it has passed on, and a note if its pipe is smaller than it should be.
pub type Received = (Moved, Option<String>);

/// Checks the first object, and drops the following ones or checks them too.
///
/// # Errors
/// Fails if bytes are wrong, or this machine does not support splice(2).
pub fn drop_all(sizes: &Sizes) -> Result<()> {
    let socket = stdin();
    let socket = socket.as_fd();
    let mut through = Through::new(sizes.pipe_size)?;
    let null = dev_null()?;
    // If the sender ended too soon, the sender reports it.
    if check_object(socket, sizes.object)? {
        while match sizes.check_every_object {
            true => check_object(socket, sizes.object)?,
            false => through.pass(socket, null.as_fd())? > 0,
        } {}
    }
    task::say(&through.received())
}

/// Reads an object, and returns whether it was complete.
///
/// # Errors
/// Fails if a byte of it is wrong.
pub fn check_object(socket: BorrowedFd<'_>, object: usize) -> Result<bool> {
    let mut buffer = vec![0; CHUNK.min(object)];
    let mut at = 0;
    while at < object {
        let most = buffer.len().min(object - at);
        match rustix::io::read(socket, &mut buffer[..most]) {
            Ok(0) | Err(Errno::CONNRESET) => return Ok(false),
            Ok(n) => {
                if let Some(wrong) = pattern::first_wrong(&buffer[..n], at as u64) {
                    bail!("wrong byte at position {wrong} of the object");
                }
                at += n;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).context("read an object"),
        }
    }
    Ok(true)
}

/// A private pipe through which bytes are spliced from one fd to another.
pub struct Through {
    pipe: Pipe,
    wanted: usize,
    capacity: usize,
    calls: Calls,
    /// When the pipe was made, and the CPU time that this process had used then.
    from: (Instant, CpuTime),
    bytes: u64,
}

impl Through {
    /// Creates a pipe of `size` bytes, or of as many as this user may have.
    ///
    /// # Errors
    /// Fails if no pipe can be made.
    pub fn new(size: usize) -> Result<Self> {
        let pipe = Pipe::new()?;
        let end = PipeEnd::new(pipe.writer.as_fd())?;
        if end.resize(size).is_err() {
            // The capacity below shows whether it could be grown.
            let _ = end.grow(size);
        }
        let capacity = end.capacity()?;
        Ok(Self {
            pipe,
            wanted: size,
            capacity,
            calls: Calls::new(Wait::Block),
            from: (Instant::now(), CpuTime::of_this_process()),
            bytes: 0,
        })
    }

    /// Forwards the queued bytes, up to the pipe's capacity, and returns how many bytes; 0 means that
    /// the sender or the sink has been closed.
    ///
    /// # Errors
    /// Fails as splice(2) does.
    pub fn pass(&mut self, source: BorrowedFd<'_>, sink: BorrowedFd<'_>) -> Result<usize> {
        let (own, none) = (self.pipe.writer.as_fd(), SpliceFlags::empty());
        let n = match (self.calls).splice(source, own, self.capacity, none, Ready::ToRead) {
            Ok(n) => n,
            Err(Errno::CONNRESET) => return Ok(0),
            Err(errno) => return Err(failed("splice(2) from a socket", errno)),
        };
        let own = self.pipe.reader.as_fd();
        match splice_all(&mut self.calls, own, sink, n, Ready::ToWrite) {
            Ok(()) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Ok(0),
            Err(errno) => return Err(failed("splice(2) from a pipe", errno)),
        }
        self.bytes += n as u64;
        Ok(n)
    }

    /// Returns the report after everything has passed.
    pub fn received(&self) -> Received {
        let [has, wanted] = [self.capacity, self.wanted].map(|size| size::format(size as u64));
        let note = format!("the receiving pipe has a capacity of {has} instead of {wanted}");
        let note = (self.capacity < self.wanted).then_some(note);
        let (began, before) = self.from;
        (Moved::since(began, before, self.bytes), note)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[test]
    fn a_wrong_byte_of_an_object_is_found_wherever_it_is() {
        for wrong in [None, Some(0), Some(65536), Some(99_999)] {
            let (mut near, far) = UnixStream::pair().unwrap();
            let mut object = vec![0; 100_000];
            pattern::fill(&mut object, 0);
            if let Some(at) = wrong {
                object[at] ^= 0x80;
            }
            // The second object follows a right one. What comes after it is not checked.
            let mut both = vec![0; 100_000];
            pattern::fill(&mut both, 0);
            both.extend(object);
            both.push(7);
            let sending = thread::spawn(move || near.write_all(&both));
            assert!(check_object(far.as_fd(), 100_000).unwrap());
            let checked = check_object(far.as_fd(), 100_000);
            match wrong {
                None => assert!(checked.unwrap()),
                Some(at) => {
                    let error = checked.unwrap_err().to_string();
                    assert!(error.contains(&format!("position {at} ")), "{error}");
                }
            }
            drop(far);
            let _ = sending.join().unwrap();
        }
    }

    #[test]
    fn an_object_that_ends_too_soon_is_no_wrong_one() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(&[0; 5]).unwrap();
        drop(near);
        assert!(!check_object(far.as_fd(), 4096).unwrap());
    }

    #[test]
    fn what_passes_through_stays_as_it_was() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let (sink, last) = UnixStream::pair().unwrap();
        let len = 300_000;
        let sending = thread::spawn(move || {
            let mut bytes = vec![0; len];
            pattern::fill(&mut bytes, 0);
            near.write_all(&bytes)
        });
        let checking = thread::spawn(move || check_object(last.as_fd(), len).unwrap());
        let mut through = Through::new(4096).unwrap();
        let mut passed = 0;
        while passed < len {
            let n = through.pass(far.as_fd(), sink.as_fd()).unwrap();
            assert!((1..=4096).contains(&n));
            passed += n;
        }
        sending.join().unwrap().unwrap();
        assert!(checking.join().unwrap());
        assert_eq!(through.pass(far.as_fd(), sink.as_fd()).unwrap(), 0);
        assert!(through.received().1.is_none());
    }
}
