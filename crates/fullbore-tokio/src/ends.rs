//! The types that bytes can be moved between: those with a descriptor, and without bytes buffered before it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::io::AsRawFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use fullbore_linux::outcome::End as Kind;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketType, sockopt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// A source of bytes. See [the list](crate#what-can-be-moved). The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no descriptor of its own that bytes can be taken from",
    note = "take the bytes that it has read ahead first, and then copy from the socket, pipe or file inside"
)]
pub trait Source: End {}

/// A sink for bytes. See [the list](crate#what-can-be-moved). The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no descriptor of its own that bytes can be sent to",
    note = "flush it first, and then copy to the socket, pipe or file inside"
)]
pub trait Sink: End {}

/// A source that is also a sink; if it is a socket, its sending side can be closed alone.
#[diagnostic::on_unimplemented(message = "`{Self}` has no descriptor for both directions")]
pub trait Duplex: Source + Sink {}

/// What a transfer creates in addition to an end.
pub enum Own {
    Nothing,
    /// A duplicate of a child's output or input, because tokio's type does not expose its readiness.
    Watched(Box<dyn End + Send + Sync>),
    /// A duplicate of a file, for the threads that read and write it.
    File(Arc<OwnedFd>),
}

/// Why an end cannot be used: the name of the call that failed, if any, and the error.
pub type Unusable = (&'static str, io::Error);

/// The result of examining an end.
pub type Examined = Result<(Kind, Own), Unusable>;

/// A call that is made if an end is ready.
pub type Call<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// What a transfer needs of an end. The name is not visible outside this crate, which seals the trait.
pub trait End {
    fn fd(&self) -> BorrowedFd<'_>;

    /// Waits like the type's own `poll_read_ready` and `poll_write_ready`.
    fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>>;

    /// Makes a call like the type's own `try_io`: if it fails with `EAGAIN`, the type is no longer ready.
    fn try_io(&self, interest: Interest, call: Call<'_>) -> io::Result<()>;

    /// Examines the descriptor.
    fn examine(&self) -> Examined;
}

impl<E: End> End for &mut E {
    fn fd(&self) -> BorrowedFd<'_> {
        (**self).fd()
    }

    fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        (**self).poll_ready(cx, interest)
    }

    fn try_io(&self, interest: Interest, call: Call<'_>) -> io::Result<()> {
        (**self).try_io(interest, call)
    }

    fn examine(&self) -> Examined {
        (**self).examine()
    }
}

impl<S: Source> Source for &mut S {}
impl<W: Sink> Sink for &mut W {}
impl<D: Duplex> Duplex for &mut D {}

/// Implements `End` for a socket, or a type that refers to one, and its roles.
macro_rules! sockets {
    ($($kind:ty: $socket:ty, $($role:ident)*;)*) => {$(
        $(impl $role for $kind {})*

        impl End for $kind {
            fn fd(&self) -> BorrowedFd<'_> {
                AsRef::<$socket>::as_ref(self).as_fd()
            }

            fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
                let socket: &$socket = self.as_ref();
                match interest.is_readable() {
                    true => socket.poll_read_ready(cx),
                    false => socket.poll_write_ready(cx),
                }
            }

            fn try_io(&self, interest: Interest, call: Call<'_>) -> io::Result<()> {
                AsRef::<$socket>::as_ref(self).try_io(interest, call)
            }

            fn examine(&self) -> Examined {
                Ok((Kind::Socket, Own::Nothing))
            }
        }
    )*};
}

sockets! {
    TcpStream: TcpStream, Source Sink Duplex;
    tcp::ReadHalf<'_>: TcpStream, Source;
    tcp::WriteHalf<'_>: TcpStream, Sink;
    tcp::OwnedReadHalf: TcpStream, Source;
    tcp::OwnedWriteHalf: TcpStream, Sink;
    UnixStream: UnixStream, Source Sink Duplex;
    unix::ReadHalf<'_>: UnixStream, Source;
    unix::WriteHalf<'_>: UnixStream, Sink;
    unix::OwnedReadHalf: UnixStream, Source;
    unix::OwnedWriteHalf: UnixStream, Sink;
}

/// Implements `End` for one end of a pipe, and its role.
macro_rules! pipes {
    ($($kind:ty: $poll:ident, $role:ident;)*) => {$(
        impl $role for $kind {}

        impl End for $kind {
            fn fd(&self) -> BorrowedFd<'_> {
                self.as_fd()
            }

            fn poll_ready(&self, cx: &mut Context<'_>, _: Interest) -> Poll<io::Result<()>> {
                self.$poll(cx)
            }

            fn try_io(&self, _: Interest, call: Call<'_>) -> io::Result<()> {
                <$kind>::try_io(self, call)
            }

            fn examine(&self) -> Examined {
                Ok((Kind::Pipe, Own::Nothing))
            }
        }
    )*};
}

pipes! {
    pipe::Receiver: poll_read_ready, Source;
    pipe::Sender: poll_write_ready, Sink;
}

/// Implements `End` for types whose readiness is visible only through the object that `examine` creates, and their
/// roles.
macro_rules! examined {
    ($($kind:ty: $examine:expr, $($role:ident)*;)*) => {$(
        $(impl $role for $kind {})*

        impl End for $kind {
            fn fd(&self) -> BorrowedFd<'_> {
                self.as_fd()
            }

            fn poll_ready(&self, _: &mut Context<'_>, _: Interest) -> Poll<io::Result<()>> {
                unreachable!("what was made by `examine` is polled")
            }

            fn try_io(&self, _: Interest, _: Call<'_>) -> io::Result<()> {
                unreachable!("what was made by `examine` is used")
            }

            fn examine(&self) -> Examined {
                let examine: fn(BorrowedFd<'_>) -> Examined = $examine;
                examine(self.as_fd())
            }
        }
    )*};
}

examined! {
    ChildStdout: receiver, Source;
    ChildStderr: receiver, Source;
    ChildStdin: sender, Sink;
    File: file, Source Sink;
}

/// Adds the name of the failed call to an error.
fn of<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> Unusable {
    move |error| (operation, error.into())
}

pub(crate) fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Unusable> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(of("fcntl"))
}

fn receiver(fd: BorrowedFd<'_>) -> Examined {
    let receiver = pipe::Receiver::from_owned_fd(duplicate(fd)?).map_err(of("epoll_ctl"))?;
    Ok((Kind::Pipe, Own::Watched(Box::new(receiver))))
}

fn sender(fd: BorrowedFd<'_>) -> Examined {
    let sender = pipe::Sender::from_owned_fd(duplicate(fd)?).map_err(of("epoll_ctl"))?;
    Ok((Kind::Pipe, Own::Watched(Box::new(sender))))
}

fn file_type(fd: BorrowedFd<'_>) -> Result<FileType, Unusable> {
    let stat = fstat(fd).map_err(of("fstat"))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Rejects an end for this reason.
fn refused(reason: &'static str) -> Examined {
    Err(("", io::Error::new(io::ErrorKind::InvalidInput, reason)))
}

fn file(fd: BorrowedFd<'_>) -> Examined {
    match file_type(fd)? {
        FileType::RegularFile | FileType::BlockDevice => {
            Ok((Kind::File, Own::File(Arc::new(duplicate(fd)?))))
        }
        _ => refused(
            "a std::fs::File that is not a regular file or block device: give it O_NONBLOCK, and put it into an AsyncFd",
        ),
    }
}

impl<T: AsFd + AsRawFd> End for AsyncFd<T> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }

    fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        match interest.is_readable() {
            true => self.poll_read_ready(cx).map_ok(drop),
            false => self.poll_write_ready(cx).map_ok(drop),
        }
    }

    fn try_io(&self, interest: Interest, call: Call<'_>) -> io::Result<()> {
        AsyncFd::try_io(self, interest, |_| call())
    }

    fn examine(&self) -> Examined {
        let fd = self.fd();
        let flags = fcntl_getfl(fd).map_err(of("fcntl"))?;
        if !flags.contains(OFlags::NONBLOCK) {
            return refused(
                "the descriptor in an AsyncFd has no O_NONBLOCK: set it, so that no call blocks the runtime",
            );
        }
        let shape = match file_type(fd)? {
            FileType::Fifo => Kind::Pipe,
            FileType::Socket => {
                if sockopt::socket_type(fd).map_err(of("getsockopt"))? != SocketType::STREAM {
                    return refused(
                        "the socket in an AsyncFd is not a stream: its messages would lose their boundaries",
                    );
                }
                match sockopt::socket_domain(fd).map_err(of("getsockopt"))? {
                    AddressFamily::UNIX | AddressFamily::INET | AddressFamily::INET6 => {
                        Kind::Socket
                    }
                    _ => Kind::OtherSocket,
                }
            }
            _ => Kind::Other,
        };
        Ok((shape, Own::Nothing))
    }
}

impl<T: AsFd + AsRawFd> Source for AsyncFd<T> {}
impl<T: AsFd + AsRawFd> Sink for AsyncFd<T> {}
impl<T: AsFd + AsRawFd> Duplex for AsyncFd<T> {}

/// One end of a transfer, and the result of examining it.
pub(crate) struct Side<E> {
    pub(crate) end: E,
    examined: Option<(Kind, Own)>,
}

impl<E: End> Side<E> {
    pub(crate) fn new(end: E) -> Self {
        Self {
            end,
            examined: None,
        }
    }

    /// Examines the end, unless that was done before.
    pub(crate) fn examine(&mut self) -> Result<Kind, Unusable> {
        let examined = match self.examined.take() {
            Some(examined) => examined,
            None => self.end.examine()?,
        };
        Ok(self.examined.insert(examined).0)
    }

    fn own(&self) -> &Own {
        self.examined.as_ref().map_or(&Own::Nothing, |(_, own)| own)
    }

    /// Returns the object that shows whether it is ready.
    pub(crate) fn watched(&self) -> &dyn End {
        match self.own() {
            Own::Watched(end) => &**end,
            _ => &self.end,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.end.fd()
    }

    /// Returns the file for the blocking threads, if it is one.
    pub(crate) fn file(&self) -> Option<&Arc<OwnedFd>> {
        match self.own() {
            Own::File(file) => Some(file),
            _ => None,
        }
    }

    /// Makes a call if the end is ready; otherwise it fails with `EAGAIN`.
    pub(crate) fn try_io<T>(
        &self,
        interest: Interest,
        mut call: impl FnMut() -> Result<T, (&'static str, Errno)>,
    ) -> Result<T, (&'static str, Errno)> {
        // tokio's `try_io` returns its own error if the end is not ready.
        let mut outcome = Err(("wait", Errno::AGAIN));
        let _ = self.watched().try_io(interest, &mut || {
            outcome = call();
            match outcome {
                Err((_, Errno::AGAIN)) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        });
        outcome
    }

    /// Closes the sending side of a socket, so that the peer sees the end. Has no effect on other types.
    pub(crate) fn shut_down(&self) -> Result<(), Errno> {
        if !matches!(self.examined, Some((Kind::Socket | Kind::OtherSocket, _))) {
            return Ok(());
        }
        match rustix::net::shutdown(self.fd(), Shutdown::Write) {
            // The peer has already closed the connection.
            Err(Errno::NOTCONN) => Ok(()),
            outcome => outcome,
        }
    }
}
