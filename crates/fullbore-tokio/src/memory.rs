//! The ends in memory: a [`Producer`] is an `AsyncWrite`, and a [`Consumer`] an `AsyncRead`. They are those of `fullbore`,
//! which never wait, with the readiness of tokio's types.

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fullbore::{ConsumerOptions, Error, ProducerOptions};
use fullbore_linux::Owner;
use fullbore_linux::outcome::End as Kind;
use rustix::io::Errno;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::ends::{End, Side, Sink, Source, duplicate};
use crate::nap::Nap;

/// Sends bytes from memory into a pipe or socket, as `fullbore::Producer` does: into a pipe as pages that are never
/// written to again, elsewhere by write(2). A reader gets the bytes as they were when they were written here.
///
/// Like a `BufWriter`, it gathers bytes: call `flush` or `shutdown` before you drop it. A dropped producer sends only
/// what fits at once.
///
/// ```
/// # async fn example(pipe: tokio::net::unix::pipe::Sender) -> std::io::Result<()> {
/// use tokio::io::AsyncWriteExt;
/// let mut out = fullbore_tokio::Producer::new(pipe)?;
/// out.write_all(b"hello").await?;
/// out.shutdown().await?;
/// # Ok(())
/// # }
/// ```
///
/// # fork
/// A child of fork(2) must not use its copy, and must not drop it, but forget it: tokio's type in it would remove itself
/// from the epoll(7) of the parent's runtime. Calls that would send return an error there.
pub struct Producer<W> {
    ready: Readiness<W>,
    inner: fullbore::Producer<OwnedFd>,
}

/// Reads bytes from a pipe or socket through a buffer, as `fullbore::Consumer` does. It never resizes the pipe.
///
/// # fork
/// As for a [`Producer`]. Calls that would read the source return an error in a child.
pub struct Consumer<S> {
    ready: Readiness<S>,
    inner: fullbore::Consumer<OwnedFd>,
}

/// An end, and how to wait for it.
struct Readiness<E> {
    side: Side<E>,
    nap: Nap,
    owner: Owner,
}

impl<E: End> Readiness<E> {
    /// Examines an end, and returns it with a duplicate of its descriptor.
    fn new(end: E) -> Result<(Self, OwnedFd), Error> {
        let system = |(operation, errno): (&'static str, io::Error)| match errno.raw_os_error() {
            Some(_) => Error::System { operation, errno },
            None => Error::Invalid(errno.to_string()),
        };
        let mut side = Side::new(end);
        if side.examine().map_err(system)? == Kind::File {
            let text = "calls on a regular file wait for the disk: use tokio::fs::File";
            return Err(Error::Invalid(text.into()));
        }
        let fd = duplicate(side.fd()).map_err(system)?;
        let (nap, owner) = (Nap::default(), Owner::this());
        Ok((Self { side, nap, owner }, fd))
    }

    /// Makes a call that never waits, until it does not fail with `EAGAIN`.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        if !self.owner.is_here() {
            let text = "this end belongs to the process that created it, and not to its child";
            return Poll::Ready(Err(io::Error::other(text)));
        }
        loop {
            ready!(self.nap.poll(cx));
            // Before the call, although it is often ready: this makes a task whose end never has to wait yield to others.
            match self.side.watched().poll_ready(cx, interest) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    self.nap.was_not_vain();
                    return Poll::Pending;
                }
            }
            let called = self.side.try_io(interest, || match call() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(("", Errno::AGAIN)),
                done => Ok(done),
            });
            if let Ok(done) = called {
                self.nap.was_not_vain();
                return Poll::Ready(done);
            }
            self.nap.was_vain();
        }
    }
}

impl<W: Sink> Producer<W> {
    /// Creates a producer with the default options of `fullbore`.
    ///
    /// # Errors
    /// `Error::Invalid` for a file, and for a descriptor in an `AsyncFd` that is in blocking mode; `EMFILE`; `ENOMEM`.
    pub fn new(sink: W) -> Result<Self, Error> {
        let (ready, fd) = Readiness::new(sink)?;
        let inner = ProducerOptions::new().nonblocking(true).open(fd)?;
        Ok(Self { ready, inner })
    }

    /// Returns the sink, and the bytes that were accepted and not sent, without sending them.
    pub fn into_parts(self) -> (W, Vec<u8>) {
        (self.ready.side.end, self.inner.into_parts().1)
    }
}

impl<W: Sink + Unpin> AsyncWrite for Producer<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { ready, inner } = &mut *self;
        if bytes.len() < inner.room() {
            // This makes no system call.
            return Poll::Ready(inner.write(bytes));
        }
        ready.poll(cx, Interest::WRITABLE, || inner.write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { ready, inner } = &mut *self;
        match inner.buffer().is_empty() {
            true => Poll::Ready(Ok(())),
            false => ready.poll(cx, Interest::WRITABLE, || inner.flush()),
        }
    }

    /// Sends the gathered bytes, and closes the sending side of a socket. A pipe is closed when the producer is dropped.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Poll::Ready(self.ready.side.shut_down().map_err(io::Error::from))
    }
}

impl<S: Source> Consumer<S> {
    /// Creates a consumer with the default options of `fullbore`.
    ///
    /// # Errors
    /// As [`Producer::new`].
    pub fn new(source: S) -> Result<Self, Error> {
        let (ready, fd) = Readiness::new(source)?;
        let inner = ConsumerOptions::new().nonblocking(true).open(fd)?;
        Ok(Self { ready, inner })
    }

    /// Returns the source, and the bytes that were taken from it and not read yet.
    pub fn into_parts(self) -> (S, Vec<u8>) {
        (self.ready.side.end, self.inner.into_parts().1)
    }
}

impl<S: Source + Unpin> AsyncRead for Consumer<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { ready, inner } = &mut *self;
        let n = match inner.buffer().is_empty() {
            true => {
                let room = into.initialize_unfilled();
                ready!(ready.poll(cx, Interest::READABLE, || inner.read(room)))?
            }
            false => inner.read(into.initialize_unfilled())?,
        };
        into.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl<S: Source + Unpin> AsyncBufRead for Consumer<S> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let Self { ready, inner } = self.get_mut();
        if inner.buffer().is_empty() {
            ready!(ready.poll(cx, Interest::READABLE, || inner.fill_buf().map(drop)))?;
        }
        Poll::Ready(Ok(inner.buffer()))
    }

    fn consume(mut self: Pin<&mut Self>, n: usize) {
        self.inner.consume(n);
    }
}

impl<W> fmt::Debug for Producer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for Consumer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}
