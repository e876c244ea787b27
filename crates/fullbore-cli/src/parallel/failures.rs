//! Which workers have failed, and what follows from it.

use std::process::ExitStatus;

use super::options::Options;
use super::worker::Worker;
use crate::run::{code, how_it_failed};
use fullbore_host::text::{clean, counted};

/// The failed blocks.
pub struct Failures<'a> {
    options: &'a Options,
    /// The first in the order of the input: its number, and what is said about it.
    first: Option<(u64, String, ExitStatus)>,
    pub count: u64,
    /// Whether a worker has failed, so that no other is started.
    pub is_failing: bool,
    /// Whether a failed block was written as far as it goes, so that the output ends there.
    pub has_stopped: bool,
}

impl<'a> Failures<'a> {
    pub fn new(options: &'a Options) -> Self {
        Self {
            options,
            first: None,
            count: 0,
            is_failing: false,
            has_stopped: false,
        }
    }

    fn is_failure(&self, status: ExitStatus) -> bool {
        let accepted = self.options.accept.as_ref();
        !status.success() && !accepted.is_some_and(|codes| codes.contain(code(status)))
    }

    /// Notes the end of a worker, of whose output a part may not be written yet.
    pub fn note(&mut self, status: ExitStatus) {
        self.is_failing |= self.is_failure(status) && !self.options.keep_going;
    }

    /// Notes that a worker has ended, and that its output is written.
    pub fn note_written(&mut self, worker: &Worker) {
        let status = worker.status.unwrap_or_default();
        if !self.is_failure(status) {
            return;
        }
        self.count += 1;
        self.has_stopped |= !self.options.keep_going;
        let block = &worker.block;
        let is_later = |(number, ..): &(u64, String, ExitStatus)| *number < block.number;
        if self.first.as_ref().is_some_and(is_later) {
            return;
        }
        let bytes = match block.is_open {
            true => format!("from byte {}", block.start),
            false => {
                let last = block.start + block.bytes.saturating_sub(1);
                format!("bytes {} to {last}", block.start)
            }
        };
        let text = format!(
            "block {} ({bytes}, first line '{}') {}",
            block.number,
            clean(&String::from_utf8_lossy(block.first_line())),
            how_it_failed(status)
        );
        self.first = Some((block.number, text, status));
    }

    /// Returns the exit code of the first failed block; 0 if there is none.
    pub fn code(&self) -> u8 {
        self.first.as_ref().map_or(0, |&(.., status)| code(status))
    }

    /// Returns what is said about the failed ones of so many blocks.
    pub fn text(&self, blocks: u64) -> Option<String> {
        let (_, text, _) = self.first.as_ref()?;
        Some(match self.options.keep_going {
            false => format!("{text}; the output ends with what it has written"),
            true => {
                let blocks = counted(blocks as usize, "block", "blocks");
                format!("{text}; {} of {blocks} failed", self.count)
            }
        })
    }
}
