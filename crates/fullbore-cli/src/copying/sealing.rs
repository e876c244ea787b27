//! Copies into sealed streams, and out of them (docs/seal.md).

use std::fs::File;
use std::io::{BufRead, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use fullbore::{ConsumerOptions, Producer, ProducerOptions, TransferSide, Way};
use fullbore_linux::error::of_io;
use fullbore_seal::{Damage, Sealer, Unsealer};

use super::ends::{Input, Output, set_back};
use super::report::named;

/// The most bytes that are read at a time, and that a frame holds.
const FRAME: usize = 1 << 20;

/// An output that gets a sealed stream, or the content of sealed streams.
pub enum Sealing {
    Sealed(Box<Sealer<Producer<OwnedFd>>>),
    Content(Box<Producer<OwnedFd>>),
}

impl Sealing {
    /// Begins a sealed stream (`seals`), or to write the content of sealed streams.
    ///
    /// # Errors
    /// Those of dup(2), and of writing the header.
    pub fn begin(output: &Output, is_plain: bool, seals: bool) -> anyhow::Result<Self> {
        let options = ProducerOptions::new().way(is_plain.then_some(Way::Copy));
        let producer = options.open(output.as_fd().try_clone_to_owned()?)?;
        Ok(match seals {
            true => Sealing::Sealed(Box::new(Sealer::new(producer)?)),
            false => Sealing::Content(Box::new(producer)),
        })
    }

    /// Copies an input, at most `most` bytes of its content, and calls `passed` with what was passed on, until that
    /// breaks off.
    ///
    /// # Errors
    /// Those of reading and writing, with the name of the file, and the damage of a sealed stream.
    pub fn copy(
        &mut self,
        (input, source): (&Input, &File),
        output: &Output,
        most: Option<u64>,
        mut passed: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        let consumer = ConsumerOptions::new().buffer(FRAME).open(source)?;
        // The bytes of a sealed stream are not those of its content.
        let seals = matches!(self, Sealing::Sealed(_));
        let began = rustix::fs::tell(source).ok().filter(|_| seals);
        let (mut from, to): (Box<dyn BufRead + '_>, &mut dyn Write) = match self {
            Sealing::Sealed(sealer) => (Box::new(consumer), sealer),
            Sealing::Content(producer) => (Box::new(Unsealer::new(consumer)), producer),
        };
        let mut moved = 0;
        loop {
            let left = most.map_or(u64::MAX, |most| most - moved);
            let left = left.min(FRAME as u64) as usize;
            if left == 0 {
                set_back(source, began.map(|began| began + moved));
                return Ok(());
            }
            let content = from.fill_buf().map_err(|error| match Damage::of(&error) {
                Some(damage) => input.damaged(damage.to_string()).into(),
                None => named(of_io(error, TransferSide::Source, moved), input, output),
            })?;
            let content = &content[..content.len().min(left)];
            if content.is_empty() {
                return Ok(());
            }
            let sent = to.write_all(content).and_then(|()| to.flush());
            sent.map_err(|error| named(of_io(error, TransferSide::Sink, moved), input, output))?;
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
        finished.map_err(|error| named(of_io(error, TransferSide::Sink, 0), input, output))
    }
}
