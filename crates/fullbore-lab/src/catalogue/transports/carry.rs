//! What every transport can do.

use rustix::io::Errno;

/// A transport, as one process has it.
pub trait Carry {
    /// Sends from the beginning of `bytes`, at least one of them, and says how many.
    ///
    /// # Errors
    /// `EPIPE` and `ECONNRESET` where nobody receives any more, and what else the transport's calls
    /// say.
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno>;

    /// Receives into the beginning of `buffer`, and says how many bytes; 0 where nobody sends any
    /// more.
    ///
    /// # Errors
    /// What the transport's calls say.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Sends all of a message.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn send_all(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes)?..];
        }
        Ok(())
    }

    /// Receives all of a message.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); `EPIPE` where it ends before.
    fn receive_all(&mut self, mut buffer: &mut [u8]) -> Result<(), Errno> {
        while !buffer.is_empty() {
            match self.receive(buffer)? {
                0 => return Err(Errno::PIPE),
                n => buffer = &mut buffer[n..],
            }
        }
        Ok(())
    }
}
