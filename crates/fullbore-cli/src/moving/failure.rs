//! Why bytes could not be moved, in words, and which failures concern one input only.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use fullbore::{Error, TransferSide};
use fullbore_linux::is_pipe_or_socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use fullbore_host::size::amount;
use fullbore_host::text::error_text;

/// The failure of one side, with the name of its file.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Broken {
    /// The side.
    pub side: TransferSide,
    /// Whether the failure is that the output has no reader left.
    pub is_closed_output: bool,
    /// The name of its file.
    pub name: String,
    /// The words of the kernel.
    pub why: String,
    text: String,
}

impl Broken {
    /// Describes the failure: `write to 'out.bin': No space left on device (after 1.20 GiB)`.
    pub fn new(
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
        let (what, name) = match side {
            TransferSide::Source => ("read from", source.to_string()),
            TransferSide::Sink => ("write to", sink.to_string()),
        };
        let why = error_text(errno);
        let by = match *operation {
            "read" | "write" => None,
            operation => Some(operation.to_owned()),
        };
        let after = (*moved > 0).then(|| format!("after {}", amount(*moved as f64)));
        let more: Vec<String> = by.into_iter().chain(after).collect();
        let more = match more.as_slice() {
            [] => String::new(),
            more => format!(" ({})", more.join(", ")),
        };
        Some(Self {
            side: *side,
            is_closed_output: *side == TransferSide::Sink
                && errno.kind() == io::ErrorKind::BrokenPipe
                && is_pipe_or_socket(sink),
            text: format!("{what} {name}: {why}{more}"),
            name,
            why,
        })
    }
}

/// An input that could not be opened or read. Other inputs are not affected.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct BadInput {
    /// What could not be done: `open 'a'`.
    pub what: String,
    /// The name of the input.
    pub name: String,
    pub why: String,
    /// Whether it was open.
    pub is_about_reading: bool,
}

/// Whether the error concerns one input only, so that the others can still be copied.
pub fn is_about_an_input(error: &anyhow::Error) -> bool {
    error.is::<BadInput>()
        || error
            .downcast_ref::<Broken>()
            .is_some_and(|broken| broken.side == TransferSide::Source)
}

/// The error of close(2) on an output.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CloseFailed(String);

/// Returns the error of close(2) on `what`.
pub fn close_failed(what: &str, error: fullbore::Error) -> anyhow::Error {
    let why = match error {
        fullbore::Error::System { errno, .. } => error_text(&errno),
        error => error.to_string(),
    };
    CloseFailed(format!("close {what}: {why}")).into()
}

/// Whether it is a pipe or a socket that nothing reads any more (poll(2), `POLLERR`). A file or a device may answer
/// EPIPE too.
fn has_lost_reader(output: impl AsFd) -> bool {
    let mut asked = [PollFd::new(&output, PollFlags::OUT)];
    is_pipe_or_socket(&output)
        && poll(&mut asked, Some(&Timespec::default())).is_ok()
        && (asked[0].revents()).intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Whether the error is that the output, or else stdout or stderr, has no reader left.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    if let Some(broken) = error.downcast_ref::<Broken>() {
        return broken.is_closed_output;
    }
    let is_closed = has_lost_reader(io::stdout()) || has_lost_reader(io::stderr());
    is_closed
        && error.chain().any(|cause| {
            cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
            // serde_json does not return the writer's error as its source.
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|e| e.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
            || cause.downcast_ref::<Errno>() == Some(&Errno::PIPE)
            || cause
                .downcast_ref::<fullbore::Error>()
                .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
        })
}
