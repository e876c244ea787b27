//! Runs a buffer: moves the bytes, and does meanwhile what the options ask for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use fullbore::buffer::BufferReport;
use fullbore::tee::Policy;
use fullbore::{Buffer, Cancel, Error};
use fullbore_host::refusal::Usage;

use super::file::Holding;
use super::hashing::Hashing;
use super::messages::Messages;
use super::opening::{Ends, device_block, lock_memory};
use super::options::Options;
use super::show::{Show, TICK};
use super::sizes::Sizes;
use crate::moving::{self, WriteBack};

/// How a buffer ended.
pub struct Ended {
    pub report: BufferReport,
    /// The sink that has ended everything. The one after the outputs is the digest.
    pub failed_at: Option<usize>,
    /// Why it ended early.
    pub failure: Option<anyhow::Error>,
}

impl Options {
    /// Moves the bytes.
    ///
    /// # Errors
    /// If it cannot begin.
    pub fn run<'a>(
        &self,
        ends: &Ends,
        mut buffer: Buffer<BorrowedFd<'_>, BorrowedFd<'a>>,
        hashing: Option<&'a Hashing>,
        show: &mut Show,
        messages: &Messages,
    ) -> anyhow::Result<Ended> {
        let outputs_are_gone = Cancel::new()?;
        if let Some(hashing) = hashing {
            let pipe = hashing.pipe.as_fd();
            buffer = buffer
                .sink(pipe, Policy::FAIL_ALL)
                .cancel(&outputs_are_gone);
        }
        let write_backs = match self.sync {
            true => WriteBack::of_stored(ends.sinks.iter().map(|sink| &sink.output))?,
            false => Vec::new(),
        };
        let mut is_to_be_locked = self.lock;
        let ran = buffer.run_with(TICK, |level| {
            if std::mem::take(&mut is_to_be_locked) {
                lock_memory(messages);
            }
            write_backs.iter().for_each(WriteBack::hand_over);
            // Only the digest is left, and no output ends by itself before the input.
            if hashing.is_some() && level.sinks_left == 1 && !level.has_ended {
                outputs_are_gone.cancel();
            }
            if let Some(stalled) = show.tick(level) {
                show.clear();
                messages.text(&stalled);
                std::process::exit(1);
            }
        });
        show.clear();
        let (report, failed_at, error) = match ran {
            Ok(report) => (report, None, None),
            Err(failure) => (*failure.report, failure.sink, Some(failure.error)),
        };
        Ok(Ended {
            report,
            failed_at,
            failure: error.map(|error| named(error, failed_at, ends, &self.holding())),
        })
    }

    /// Returns a buffer between these ends, which is not running yet.
    pub fn between<'a>(
        &self,
        ends: &'a Ends,
        sizes: &Sizes,
        is_plain: bool,
    ) -> Buffer<BorrowedFd<'a>, BorrowedFd<'a>> {
        let mut buffer = Buffer::new(ends.source.as_fd())
            .plain(is_plain)
            .memory(sizes.memory)
            .start_at(self.start_writing.unwrap_or(0.0))
            .resume_at(self.start_reading.unwrap_or(100.0))
            .read_rate(self.read_rate)
            .write_rate(self.write_rate)
            .pause_after_write(Duration::from_micros(self.pause));
        let mut devices = ends.sinks.iter().filter(|_| self.device_block);
        let device = devices.find_map(|sink| device_block(&sink.output));
        if let Some(block) = device.or(sizes.block) {
            buffer = buffer.chunk(block);
        }
        for sink in &ends.sinks {
            buffer = buffer.sink(sink.output.as_fd(), self.policy_of(&sink.output));
        }
        buffer
    }
}

/// Adds the names of input and output to an error of the library at this sink.
fn named(error: Error, sink: Option<usize>, ends: &Ends, holding: &Holding) -> anyhow::Error {
    let (fault, sink) = (holding.fault(&error), ends.sinks.get(sink.unwrap_or(0)));
    match (fault, sink, error) {
        (Some(fault), ..) => fault,
        (None, None, error) => anyhow::Error::new(error).context("compute the digest"),
        (None, Some(_), Error::Invalid(text)) => Usage(text).into(),
        (None, Some(sink), error) => moving::named(error, &ends.input, &sink.output),
    }
}
