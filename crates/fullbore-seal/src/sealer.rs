//! Writes a sealed stream.

use std::io::{self, Write};

use blake3::Hasher;

use crate::format::{CHECK, FRAME, MAGIC, VERSION};

/// Writes a sealed stream.
///
/// Each [`write`](Write::write) makes one frame of up to 1 MiB, which costs 12 bytes and three writes to the sink.
/// Gather small writes with a [`BufWriter`](io::BufWriter) around the sealer, and frames with another one around the
/// sink.
///
/// Only [`finish`](Self::finish) writes the seal. Without it, because of an error or because the value was dropped, the
/// stream is truncated, and its reader reports that.
///
/// The sink must be blocking: after any error, the stream cannot be continued, and all further calls fail.
#[derive(Debug)]
pub struct Sealer<W> {
    sink: W,
    hasher: Hasher,
    content: u64,
    has_failed: bool,
}

impl<W: Write> Sealer<W> {
    /// Begins a stream: writes its header.
    ///
    /// # Errors
    /// Those of writing to the sink.
    pub fn new(mut sink: W) -> io::Result<Self> {
        sink.write_all(&MAGIC)?;
        sink.write_all(&[VERSION])?;
        Ok(Self {
            sink,
            hasher: Hasher::new(),
            content: 0,
            has_failed: false,
        })
    }

    /// Writes the seal, flushes the sink, and returns it: the stream is complete.
    ///
    /// # Errors
    /// Those of writing to the sink, including an earlier one.
    pub fn finish(mut self) -> io::Result<W> {
        let (total, digest) = (self.content.to_le_bytes(), self.hasher.finalize());
        let end = 0_u32.to_le_bytes();
        self.send(&[&end, &total, digest.as_bytes()])?;
        self.flush()?;
        Ok(self.sink)
    }

    fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other(
                "an earlier write of the sealed stream failed",
            ));
        }
        let sent = parts.iter().try_for_each(|part| self.sink.write_all(part));
        self.has_failed = sent.is_err();
        sent
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        // An empty frame would be the end.
        if content.is_empty() {
            return Ok(0);
        }
        let content = &content[..content.len().min(FRAME)];
        self.hasher.update(content);
        let length = (content.len() as u32).to_le_bytes();
        let digest = self.hasher.finalize();
        self.send(&[&length, content, &digest.as_bytes()[..CHECK]])?;
        self.content += content.len() as u64;
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
