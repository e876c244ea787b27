//! Descriptors as the types of tokio.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::{Builder, Runtime};

use crate::common::set_nonblocking;

/// A runtime on this thread, so that a seccomp filter of the thread applies to it.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub fn tcp(fd: OwnedFd) -> TcpStream {
    set_nonblocking(&fd);
    TcpStream::from_std(fd.into()).unwrap()
}

pub fn unix(fd: OwnedFd) -> UnixStream {
    set_nonblocking(&fd);
    UnixStream::from_std(fd.into()).unwrap()
}

pub fn receiver(fd: OwnedFd) -> pipe::Receiver {
    pipe::Receiver::from_owned_fd(fd).unwrap()
}

pub fn sender(fd: OwnedFd) -> pipe::Sender {
    pipe::Sender::from_owned_fd(fd).unwrap()
}

pub fn registered(fd: OwnedFd) -> AsyncFd<OwnedFd> {
    set_nonblocking(&fd);
    // SAFETY: an OwnedFd is the same open descriptor until it is dropped.
    unsafe { AsyncFd::register(fd) }.unwrap()
}

/// Returns the output of a program that copies from a pipe.
pub fn child_stdout(fd: OwnedFd) -> (ChildStdout, Child) {
    let mut command = Command::new("cat");
    command.stdin(Stdio::from(fd)).stdout(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    (child.stdout.take().unwrap(), child)
}

/// Returns the input of a program that copies to a pipe.
pub fn child_stdin(fd: OwnedFd) -> (ChildStdin, Child) {
    let mut command = Command::new("cat");
    command.stdout(Stdio::from(fd)).stdin(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    (child.stdin.take().unwrap(), child)
}

pub fn file(fd: OwnedFd) -> File {
    File::from(fd)
}
