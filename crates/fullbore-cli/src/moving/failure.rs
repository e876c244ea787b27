//! Why bytes could not be moved, in words, and which failures concern one input only.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use fullbore::{Error, TransferSide};
use fullbore_linux::{is_closed, is_pipe_or_socket};
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
        let after = format!("after {}", amount(*moved as f64));
        let more = match (*operation, *moved) {
            ("read" | "write", 0) => String::new(),
            ("read" | "write", _) => format!(" ({after})"),
            (operation, 0) => format!(" ({operation})"),
            (operation, _) => format!(" ({operation}, {after})"),
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
    let side = error.downcast_ref().map(|broken: &Broken| broken.side);
    error.is::<BadInput>() || side == Some(TransferSide::Source)
}

/// The error of close(2) on an output.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CloseFailed(String);

/// Returns the error of close(2) on `what`.
pub fn close_failed(what: &str, error: Error) -> anyhow::Error {
    CloseFailed(format!("close {what}: {}", words_of(&error))).into()
}

/// Whether it is a pipe or a socket that nothing reads any more (poll(2), `POLLERR`). A file or a device may answer
/// EPIPE too.
fn has_lost_reader(output: impl AsFd) -> bool {
    is_pipe_or_socket(&output) && is_closed(output.as_fd()) == Ok(true)
}

/// Whether the error is that the output, or else stdout or stderr, has no reader left.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    if let Some(broken) = error.downcast_ref::<Broken>() {
        return broken.is_closed_output;
    }
    let is_broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        // serde_json does not return the writer's error as its source.
        let of_json = cause
            .downcast_ref()
            .and_then(serde_json::Error::io_error_kind);
        let of_errno = cause.downcast_ref().map(|errno: &Errno| errno.kind());
        let of_std = cause.downcast_ref().map(io::Error::kind);
        let of_library = cause.downcast_ref().map(Error::kind);
        let kinds = [of_json, of_errno, of_std, of_library];
        kinds.contains(&Some(io::ErrorKind::BrokenPipe))
    };
    let is_closed = has_lost_reader(io::stdout()) || has_lost_reader(io::stderr());
    is_closed && error.chain().any(is_broken_pipe)
}
