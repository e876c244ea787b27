//! Copies into sealed streams, and out of them (docs/seal.md).

use std::io::{BufRead, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use fullbore::{ConsumerOptions, Error, Producer, ProducerOptions, TransferSide, Way};
use fullbore_seal::{Damage, Sealer, Unsealer};

use super::ends::{Input, Output, Source};
use super::failure::BadInput;
use super::report::named;

/// The most bytes that are read at a time, and that a frame holds.
const FRAME: usize = 1 << 20;

/// An output that gets a sealed stream, or the content of sealed streams.
pub enum Sealing {
    Sealed(Box<Sealer<Producer<OwnedFd>>>),
    Content(Box<Producer<OwnedFd>>),
}

impl Sealing {
    /// Begins a sealed stream.
    ///
    /// # Errors
    /// Those of writing its header.
    pub fn seal(output: &Output, is_plain: bool) -> anyhow::Result<Self> {
        let sealer = Sealer::new(Self::producer(output, is_plain)?)?;
        Ok(Sealing::Sealed(Box::new(sealer)))
    }

    /// Begins to write the content of sealed streams.
    ///
    /// # Errors
    /// Those of dup(2).
    pub fn unseal(output: &Output, is_plain: bool) -> anyhow::Result<Self> {
        Ok(Sealing::Content(Box::new(Self::producer(
            output, is_plain,
        )?)))
    }

    fn producer(output: &Output, is_plain: bool) -> anyhow::Result<Producer<OwnedFd>> {
        let (options, sink) = (ProducerOptions::new(), output.as_fd().try_clone_to_owned()?);
        Ok(match is_plain {
            true => options.way(Way::Copy).open(sink)?,
            false => options.open(sink)?,
        })
    }

    /// Copies an input, at most `most` bytes of its content, and calls `passed` with what was passed on, until that
    /// breaks off.
    ///
    /// # Errors
    /// Those of reading and writing, with the name of the file, and the damage of a sealed stream.
    pub fn copy(
        &mut self,
        (input, source): (&Input, &Source),
        output: &Output,
        most: Option<u64>,
        mut passed: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        let consumer = ConsumerOptions::new().buffer(FRAME).open(source)?;
        let (mut from, to): (Box<dyn BufRead + '_>, &mut dyn Write) = match self {
            Sealing::Sealed(sealer) => (Box::new(consumer), sealer),
            Sealing::Content(producer) => (Box::new(Unsealer::new(consumer)), producer),
        };
        let mut moved = 0;
        let failed = |side, errno, moved| {
            let operation = match side {
                TransferSide::Source => "read",
                TransferSide::Sink => "write",
            };
            let error = Error::Moving {
                side,
                operation,
                errno,
                moved,
            };
            named(error, input, output)
        };
        loop {
            let left = usize::try_from(most.map_or(u64::MAX, |most| most - moved));
            let left = left.unwrap_or(usize::MAX).min(FRAME);
            if left == 0 {
                return Ok(());
            }
            let content = from.fill_buf().map_err(|error| match Damage::of(&error) {
                Some(damage) => BadInput {
                    what: input.to_string(),
                    name: input.to_string(),
                    why: damage.to_string(),
                    is_about_reading: true,
                }
                .into(),
                None => failed(TransferSide::Source, error, moved),
            })?;
            let content = &content[..content.len().min(left)];
            if content.is_empty() {
                return Ok(());
            }
            let sent = to.write_all(content).and_then(|()| to.flush());
            sent.map_err(|error| failed(TransferSide::Sink, error, moved))?;
            let goes_on = passed(content).is_continue();
            let n = content.len();
            from.consume(n);
            moved += n as u64;
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Writes the seal, if it is a sealed stream: everything has succeeded.
    ///
    /// # Errors
    /// Those of writing, with the name of the output.
    pub fn finish(self, input: &Input, output: &Output) -> anyhow::Result<()> {
        let finished = match self {
            Sealing::Sealed(sealer) => sealer.finish().map(drop),
            Sealing::Content(mut producer) => producer.flush(),
        };
        finished.map_err(|errno| {
            let error = Error::Moving {
                side: TransferSide::Sink,
                operation: "write",
                errno,
                moved: 0,
            };
            named(error, input, output)
        })
    }
}
