//! Defines what all trials share: why one did not succeed, and bytes to move and to compare.

use std::os::fd::AsFd;

use anyhow::Result;
use fullbore::{Pipe, PipeEnd};
use fullbore_host::size;
use fullbore_host::text::without_number;
use fullbore_linux::page_size;
use fullbore_results::doctor::{Refusal, TrialOutcome};
use rustix::io::Errno;

use crate::measurement::errno_of;
use fullbore_bytes::pattern;

/// Bytes that most trials move: some pages, and part of another one.
pub const BYTES: usize = 3 * 4096 + 5;

/// Why a trial did not succeed.
pub struct Stop(pub TrialOutcome);

impl Stop {
    /// Reports something that exists but does not do what it should.
    pub fn seen(operation: &str, said: impl Into<String>) -> Self {
        Self::refused(operation, None, said)
    }

    pub fn refused(
        operation: impl Into<String>,
        errno: Option<i32>,
        said: impl Into<String>,
    ) -> Self {
        Stop(TrialOutcome::Refused(Refusal {
            operation: operation.into(),
            errno,
            signal: None,
            said: said.into(),
        }))
    }
}

/// Returns a function that turns the kernel's error into a refusal of `operation`.
/// Something other than what was sent has come.
pub fn wrong(found: impl Into<String>) -> Stop {
    Stop(TrialOutcome::Wrong(found.into()))
}

/// There is no answer on this machine.
pub fn not_tried(why: impl Into<String>) -> Stop {
    Stop(TrialOutcome::NotTried(why.into()))
}

pub fn at(operation: &'static str) -> impl Fn(Errno) -> Stop {
    move |errno| io_at(operation)(errno.into())
}

/// Does the same as [`at`] for errors of std.
pub fn io_at(operation: &'static str) -> impl Fn(std::io::Error) -> Stop {
    move |error| {
        let said = without_number(&error.to_string());
        Stop::refused(operation, error.raw_os_error(), said)
    }
}

impl From<fullbore::Error> for Stop {
    fn from(error: fullbore::Error) -> Self {
        let said = error.to_string();
        let operation = match &error {
            fullbore::Error::System { operation, .. }
            | fullbore::Error::Moving { operation, .. } => *operation,
            _ => "",
        };
        let said = match said.strip_prefix(&format!("{operation}: ")) {
            Some(rest) if !operation.is_empty() => rest,
            _ => &said,
        };
        Stop::refused(operation, error.raw_os_error(), said)
    }
}

/// In a chain of contexts, the first is the operation, and one below it is the kernel's error.
impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        let errno = errno_of(&error).map(Errno::raw_os_error);
        let words: Vec<String> = error.chain().map(ToString::to_string).collect();
        let (operation, said) = match words.as_slice() {
            [said] => (String::new(), said.clone()),
            [operations @ .., said] => (operations.join(": "), said.clone()),
            [] => Default::default(),
        };
        Stop::refused(operation, errno, without_number(&said))
    }
}

/// Returns bytes that depend on their position, so that a byte that is lost, doubled or moved is noticed.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    pattern::fill(&mut bytes, 0);
    bytes
}

/// Compares the bytes that arrived with those that were sent.
pub fn compare(sent: &[u8], came: &[u8]) -> Result<(), Stop> {
    let (all, arrived) = (sent.len(), came.len());
    match sent.iter().zip(came).position(|(sent, came)| sent != came) {
        Some(at) => Err(wrong(format!(
            "byte {at} of {all} is {:#04x} and should be {:#04x}",
            came[at], sent[at]
        ))),
        None if all != arrived => Err(wrong(format!("{arrived} of {all} bytes arrived"))),
        None => Ok(()),
    }
}

/// Reads the expected bytes, which must already be there, and compares them.
pub fn read_back(fd: impl AsFd, sent: &[u8]) -> Result<(), Stop> {
    let mut came = vec![0; sent.len()];
    let mut filled = 0;
    while filled < came.len() {
        match rustix::io::read(&fd, &mut came[filled..]).map_err(at("read"))? {
            0 => break,
            n => filled += n,
        }
    }
    compare(sent, &came[..filled])
}

/// Creates a pipe that holds at least [`BYTES`], also if they are not whole pages.
pub fn roomy_pipe() -> Result<Pipe, Stop> {
    let pipe = Pipe::new()?;
    let end = PipeEnd::new(pipe.writer.as_fd())?;
    // A user with many pipes gets small ones.
    let growth = end.grow(BYTES + page_size())?;
    match growth.after > BYTES {
        true => Ok(pipe),
        false => Err(not_tried(format!(
            "a new pipe has room for {} only, because this user has too many pipes or may have only \
             small ones",
            size::format(growth.after as u64)
        ))),
    }
}

/// Creates a pipe with these bytes in it: [`BYTES`] at most.
pub fn pipe_with(bytes: &[u8]) -> Result<Pipe, Stop> {
    let pipe = roomy_pipe()?;
    let mut left = bytes;
    while !left.is_empty() {
        left = &left[rustix::io::write(&pipe.writer, left).map_err(at("write"))?..];
    }
    Ok(pipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_a_lost_and_an_added_byte_are_wrong() {
        let sent = pattern(10_000);
        assert!(compare(&sent, &sent).is_ok());
        let mut changed = sent.clone();
        changed[4097] ^= 1;
        let Err(Stop(TrialOutcome::Wrong(found))) = compare(&sent, &changed) else {
            panic!("a changed byte is right");
        };
        assert!(found.contains("byte 4097 of 10000"), "{found}");
        assert!(matches!(
            compare(&sent, &sent[1..]),
            Err(Stop(TrialOutcome::Wrong(_)))
        ));
        assert!(matches!(
            compare(&sent, &sent[..9_999]),
            Err(Stop(TrialOutcome::Wrong(_)))
        ));
        assert!(matches!(
            compare(&sent[..9_999], &sent),
            Err(Stop(TrialOutcome::Wrong(_)))
        ));
    }

    #[test]
    fn no_two_pages_of_the_pattern_are_alike() {
        let pattern = pattern(1 << 20);
        let mut pages: Vec<&[u8]> = pattern.chunks(4096).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 256);
    }

    #[test]
    fn the_kernels_error_is_found_below_its_contexts() {
        use anyhow::Context;
        let error = Err::<(), _>(Errno::NOSYS)
            .context("memfd_create")
            .context("shared memory");
        let Stop(TrialOutcome::Refused(refusal)) = Stop::from(error.unwrap_err()) else {
            panic!("it was refused");
        };
        assert_eq!(refusal.operation, "shared memory: memfd_create");
        assert_eq!(refusal.errno, Some(Errno::NOSYS.raw_os_error()));
    }
}
