//! Why bytes could not be moved, in words, and which failures concern one input only.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use fullbore::tee::Policy;
use fullbore::{Error, TransferSide};
use fullbore_linux::{is_closed, is_pipe_or_socket, is_reader_gone};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt::socket_domain};

use fullbore_host::size::amount;
use fullbore_host::text::error_text;

/// What was to be done when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// To open an input.
    Open,
    Read,
    Write,
    /// To write where no reader is left.
    WriteToNobody,
    Close,
}

/// What could not be done to a file.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Broken {
    pub doing: Doing,
    /// The name of the file.
    pub name: String,
    /// The words of the kernel.
    pub why: String,
    text: String,
}

impl Broken {
    /// Describes that `what`, if it is not empty, has failed with this file.
    pub fn new(doing: Doing, what: &str, name: &dyn fmt::Display, why: String) -> Self {
        let before = if what.is_empty() { "" } else { " " };
        Self {
            doing,
            name: name.to_string(),
            text: format!("{what}{before}{name}: {why}"),
            why,
        }
    }

    /// Describes the failure of one side: `write to 'out.bin': No space left on device (after 1.20 GiB)`.
    pub fn moving(
        error: &Error,
        source: &dyn fmt::Display,
        sink: &(impl fmt::Display + AsFd),
    ) -> Option<Self> {
        let Error::Moving {
            side,
            operation,
            errno,
            moved,
        } = error
        else {
            return None;
        };
        // The shell shows how the reader of a pipe or a Unix socket has ended. What became of the peer of a network
        // connection, nobody would say.
        let number = Errno::from_io_error(errno);
        let is_left = number.is_some_and(|errno| is_reader_gone(errno, sink) && !is_network(sink));
        let (doing, what, name): (_, _, &dyn fmt::Display) = match side {
            TransferSide::Source => (Doing::Read, "read from", source),
            TransferSide::Sink if is_left => (Doing::WriteToNobody, "write to", sink),
            TransferSide::Sink => (Doing::Write, "write to", sink),
        };
        let mut broken = Self::new(doing, what, name, error_text(errno));
        let after = format!("after {}", amount(*moved as f64));
        broken.text += &match (*operation, *moved) {
            ("read" | "write", 0) => String::new(),
            ("read" | "write", _) => format!(" ({after})"),
            (operation, 0) => format!(" ({operation})"),
            (operation, _) => format!(" ({operation}, {after})"),
        };
        Some(broken)
    }
}

/// Returns whether `fd` is a socket whose peer may be on another machine: any but a Unix socket.
pub fn is_network(fd: impl AsFd) -> bool {
    socket_domain(fd).is_ok_and(|domain| domain != AddressFamily::UNIX)
}

/// Returns the policy of this output: the peer of a network connection that leaves is an error, as in
/// [`Broken::moving`].
pub fn policy_of(policy: Policy, output: impl AsFd) -> Policy {
    let closed = if is_network(output) {
        policy.other
    } else {
        policy.closed
    };
    Policy { closed, ..policy }
}

/// Returns the side that failed, if it was moving bytes that did.
pub fn side_of(error: &Error) -> Option<TransferSide> {
    match error {
        Error::Moving { side, .. } => Some(*side),
        _ => None,
    }
}

/// Returns the words of the kernel about an error of the library.
pub fn words_of(error: &Error) -> String {
    match error {
        Error::Moving { errno, .. } | Error::System { errno, .. } => error_text(errno),
        error => error.to_string(),
    }
}

fn doing(error: &anyhow::Error) -> Option<Doing> {
    error.downcast_ref().map(|broken: &Broken| broken.doing)
}

/// Whether the error concerns one input only, so that the others can still be copied.
pub fn is_about_an_input(error: &anyhow::Error) -> bool {
    matches!(doing(error), Some(Doing::Open | Doing::Read))
}

/// Returns the error of close(2) on `what`.
pub fn close_failed(what: &str, error: Error) -> anyhow::Error {
    Broken::new(Doing::Close, "close", &what, words_of(&error)).into()
}

/// Whether it is a pipe or a Unix socket that nothing reads any more (poll(2), `POLLERR`). A file or a device may answer
/// EPIPE too.
fn has_lost_reader(output: impl AsFd) -> bool {
    is_pipe_or_socket(&output) && !is_network(&output) && is_closed(output.as_fd()) == Ok(true)
}

/// Whether the error is that the output, or else stdout or stderr, has no reader left.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    if let Some(doing) = doing(error) {
        return doing == Doing::WriteToNobody;
    }
    let is_gone = |cause: &(dyn std::error::Error + 'static)| {
        // serde_json does not return the writer's error as its source.
        let of_json = cause
            .downcast_ref()
            .and_then(serde_json::Error::io_error_kind);
        let of_errno = cause.downcast_ref().map(|errno: &Errno| errno.kind());
        let of_std = cause.downcast_ref().map(io::Error::kind);
        let of_library = cause.downcast_ref().map(Error::kind);
        let kinds = [of_json, of_errno, of_std, of_library];
        let gone = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        kinds.into_iter().flatten().any(|kind| gone.contains(&kind))
    };
    let is_closed = has_lost_reader(io::stdout()) || has_lost_reader(io::stderr());
    is_closed && error.chain().any(is_gone)
}
