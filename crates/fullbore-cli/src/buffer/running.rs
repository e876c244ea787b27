//! Runs a buffer: moves the bytes, does meanwhile what the options ask for, and closes the outputs.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, bail};
use fullbore::buffer::{BufferReport, Level};
use fullbore::tee::Policy;
use fullbore::{BufferOptions, Cancel, Error, TransferSide};
use fullbore_host::refusal::Usage;
use fullbore_host::size;

use super::answer::{self, Outcome};
use super::file::Holding;
use super::hashing::Hashing;
use super::memory::{Asked, Memory};
use super::messages::Messages;
use super::opening::{Connection, Ends, Sink, device_block, lock_memory};
use super::options::Options;
use super::sealed::Receiving;
use super::show::{INTERVAL, Show};
use super::summary::Destination;
use super::thresholds::Thresholds;
use super::{network, roomy};
use crate::copying::failure::{Broken, side_of};
use crate::copying::{self, Input, WriteBack};
use crate::error_text::Failed;
use crate::exit;

/// The time after which what was written is handed to the disk.
const HAND_OVER: Duration = Duration::from_millis(50);

/// How a buffer ended.
pub struct Ended {
    pub report: BufferReport,
    /// The sink that has ended everything. The one after the outputs is the digest.
    pub failed_at: Option<usize>,
    /// Why it ended early.
    pub failure: Option<anyhow::Error>,
}

impl Ended {
    /// Tells the other side of a connection that it has got everything, if it has.
    fn tell(&self, at: usize, sink: &Sink) -> Option<io::Result<()>> {
        let report = self.report.sinks.get(at)?;
        let is_whole = self.failure.is_none() && report.error.is_none();
        match sink.connection.as_ref().filter(|_| is_whole)? {
            Connection::Plain(stream) => Some(network::end(stream)),
            Connection::Sealed(sending) => Some(sending.end()),
        }
    }
}

impl Options {
    /// Moves the bytes.
    ///
    /// # Errors
    /// If it cannot begin.
    pub fn run(
        &self,
        ends: &Ends,
        mut options: BufferOptions,
        hashing: Option<&Hashing>,
        show: &mut Show,
        messages: &Messages,
    ) -> anyhow::Result<Ended> {
        let outputs_are_gone = Cancel::new()?;
        let sinks = ends.sinks.iter();
        let sinks = sinks.map(|sink| (sink.output.as_fd(), self.policy_of(&sink.output)));
        let mut sinks: Vec<_> = sinks.collect();
        if let Some(hashing) = hashing {
            sinks.push((hashing.pipe.as_fd(), Policy::FAIL_ALL));
            options = options.cancel(&outputs_are_gone);
        }
        if !self.keep_input {
            options = roomy::enlarge(options, ends);
        }
        let mut buffer = options.open(ends.source.as_fd(), sinks);
        let stored = || WriteBack::of_stored(ends.sinks.iter().map(|sink| &sink.output));
        let write_backs = self.sync.then(stored).transpose()?.unwrap_or_default();
        let mut is_to_be_locked = self.lock;
        let handed = (!write_backs.is_empty()).then_some(HAND_OVER);
        let period = handed.or(self.json.as_ref().map(|_| INTERVAL));
        let first = match self.lock {
            true => Some(Duration::ZERO),
            false => show.due(&Level::default(), period),
        };
        let ran = buffer.run_watched(first, |level| {
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
            show.due(level, period)
        });
        show.clear();
        let (report, failed_at, error) = match ran {
            Ok(report) => (report, None, None),
            Err(failure) => (*failure.report, failure.sink, Some(failure.error)),
        };
        let came = self.at_least.check(report.level.taken);
        show.log(&report.level, true);
        Ok(Ended {
            report,
            failed_at,
            failure: match error {
                Some(error) => Some(named(error, failed_at, ends, self.holding())),
                None => came.err().map(Into::into),
            },
        })
    }

    /// Returns the options of a buffer between these ends.
    pub fn between(&self, ends: &Ends, sizes: &Sizes, is_plain: bool) -> BufferOptions {
        let mut devices = ends.sinks.iter().filter(|_| self.device_block);
        let device = devices.find_map(|sink| device_block(&sink.output));
        let block = device.or(sizes.block);
        BufferOptions::new()
            .plain(is_plain)
            .memory(sizes.memory)
            .gate(Thresholds {
                start_writing: self.start_writing.unwrap_or(0.0),
                start_reading: self.start_reading.unwrap_or(100.0),
                pause: Duration::from_micros(self.pause),
            })
            .read_rate(self.read_rate)
            .write_rate(self.write_rate)
            .chunk(block)
            .whole_chunks(self.as_mbuffer && block.is_some())
    }

    /// Tells the sender what became of its sealed stream: with its seal, that everything is in place.
    pub fn answer(
        &self,
        receiving: &Receiving,
        seal: Option<[u8; answer::SEAL]>,
        messages: &Messages,
    ) {
        let outcome = match (seal, self.sync) {
            (None, _) => Outcome::Failed,
            (Some(_), true) => Outcome::OnDisk,
            (Some(_), false) => Outcome::InPlace,
        };
        let seal = seal.unwrap_or([0; answer::SEAL]);
        let has_got_it = receiving.answer(outcome, &seal, self.watchdog);
        if outcome != Outcome::Failed && !has_got_it {
            messages.warn(
                "everything is in place, but the sender may not know it: the connection failed",
            );
        }
    }

    /// Closes the outputs, and reports errors. Returns what became of each, and whether nothing went wrong.
    pub fn close(
        &self,
        ends: Ends,
        ended: &Ended,
        messages: &Messages,
    ) -> (Vec<Destination>, bool) {
        let (mut destinations, mut all_well) = (Vec::new(), ends.all_opened);
        // All of them before one is waited for: its reader may wait for the end of another.
        let told = ends.sinks.iter().enumerate();
        let told: Vec<_> = told.map(|(at, sink)| ended.tell(at, sink)).collect();
        for (at, (sink, told)) in ends.sinks.into_iter().zip(told).enumerate() {
            let closed = self.close_one(at, ended, messages, sink, told, &ends.input);
            let (destination, is_well) = closed;
            destinations.push(destination);
            all_well &= is_well;
        }
        (destinations, all_well)
    }

    fn close_one(
        &self,
        at: usize,
        ended: &Ended,
        messages: &Messages,
        Sink { output, connection }: Sink,
        told: Option<io::Result<()>>,
        input: &Input,
    ) -> (Destination, bool) {
        let report = ended.report.sinks.get(at);
        let error = report.and_then(|sink| sink.error.as_ref());
        let broken = error.and_then(|error| Broken::moving(error, input, &output));
        let broken = broken.map(|broken| match connection.as_ref().and_then(failure) {
            Some(failure) => format!("write to {output}: {failure:#}"),
            None => broken.to_string(),
        });
        let is_ignored = report.is_some_and(|sink| sink.ignored);
        let mut is_well = broken.is_none() || is_ignored;
        if let Some(broken) = broken.as_ref().filter(|_| !is_ignored) {
            let fault = error.and_then(|error| self.holding()?.fault(error));
            let fault = fault.map(|fault| fault.to_string());
            messages.text(fault.as_ref().unwrap_or(broken));
        }
        let last = ended.failure.as_ref();
        let last = last.filter(|_| ended.failed_at == Some(at));
        let before = last.map(|failure| format!("{failure:#}")).or(broken);
        let is_complete = ended.failure.is_none() && before.is_none();
        let name = output.to_string();
        let finished = match (connection, told) {
            (Some(Connection::Plain(stream)), Some(told)) => told
                .and_then(|()| network::wait(&stream))
                .failed(format_args!("write to {name}")),
            (Some(Connection::Sealed(sending)), Some(told)) => told
                .map_err(anyhow::Error::from)
                .and_then(|()| sending.wait())
                .with_context(|| format!("write to {name}")),
            _ => Ok(()),
        };
        let closed = finished.and_then(|()| output.close(is_complete, self.sync));
        let closed = closed.err().map(|error| exit::text(&error));
        if let Some(text) = closed.as_ref().filter(|_| before.is_none()) {
            messages.text(text);
            is_well = false;
        }
        let destination = Destination {
            name,
            bytes: report.map_or(0, |sink| sink.bytes),
            error: before.or(closed),
        };
        (destination, is_well)
    }
}

/// Returns why the thread of a connection has ended, if it has one.
fn failure(connection: &Connection) -> Option<anyhow::Error> {
    match connection {
        Connection::Plain(_) => None,
        Connection::Sealed(sending) => sending.failure(),
    }
}

/// Adds the names of input and output to an error of the library at this sink.
fn named(
    error: Error,
    sink: Option<usize>,
    ends: &Ends,
    holding: Option<Holding>,
) -> anyhow::Error {
    let fault = holding.and_then(|file| file.fault(&error));
    let sink = ends.sinks.get(sink.unwrap_or(0));
    match (fault, sink, error) {
        (Some(fault), ..) => fault,
        (None, None, error) => anyhow::Error::new(error).context("compute the digest"),
        (None, Some(_), Error::Invalid(text)) => Usage(text).into(),
        (None, Some(sink), error) => {
            let of_sink = matches!(side_of(&error), Some(TransferSide::Sink));
            let connection = sink.connection.as_ref().filter(|_| of_sink);
            match connection.and_then(failure) {
                Some(failure) => failure.context(format!("write to {}", sink.output)),
                None => copying::named(error, &ends.input, &sink.output),
            }
        }
    }
}

/// The memory, and how much of it is moved at a time.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub memory: usize,
    pub block: Option<usize>,
}

impl Options {
    /// Returns the memory and the block size. As with mbuffer, each follows from two of -m, -s and -b.
    ///
    /// # Errors
    /// If they contradict each other, or the memory does not fit, where the buffer is `in_memory`.
    pub fn sizes(&self, in_memory: bool) -> anyhow::Result<Sizes> {
        let product = self.block_size.zip(self.blocks);
        let product = product.map(|(size, blocks)| Asked::Bytes(size.saturating_mul(blocks)));
        let bytes = Memory::here().bytes(self.memory.or(product), in_memory)?;
        let quotient = self.blocks.map(|blocks| bytes as u64 / blocks);
        let block = self.block_size.or(quotient);
        // With a percentage of the memory, what follows from it is as good as any.
        let is_contradiction = matches!((self.memory, product),
            (Some(asked @ Asked::Bytes(_)), Some(product)) if asked != product);
        let (shown, least) = (size::format(bytes as u64), 2 * fullbore_linux::page_size());
        let wrong = match (block, self.blocks) {
            (Some(size), Some(blocks)) if is_contradiction => {
                format!(
                    "-m {bytes} is not {blocks} blocks (-b) of {size} bytes (-s): leave one of them out"
                )
            }
            (Some(0), Some(blocks)) => {
                format!("a buffer of {shown} has fewer bytes than the {blocks} blocks of -b")
            }
            (Some(size), _) if bytes as u64 / size.max(1) < 5 => {
                let size = size::format(size);
                format!("a buffer of {shown} holds fewer than five blocks of {size}")
            }
            _ if bytes < least => {
                format!("a buffer of {bytes} bytes is too small: it needs at least {least}")
            }
            _ => {
                let block = block.and_then(|block| usize::try_from(block).ok());
                return Ok(Sizes {
                    memory: bytes,
                    block,
                });
            }
        };
        bail!(Usage(wrong))
    }
}
