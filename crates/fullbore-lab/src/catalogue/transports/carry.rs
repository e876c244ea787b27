//! Defines what every transport can do.

use fullbore_host::refusal::Unsupported;
use rustix::io::Errno;

/// One process's end of a transport.
pub trait Carry {
    /// Sends the beginning of `bytes`, at least one byte, and returns how many.
    ///
    /// # Errors
    /// `EPIPE` and `ECONNRESET` mean that the receiver has closed its end; the transport's calls
    /// return other errors.
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno>;

    /// Receives into the beginning of `buffer`, and returns how many bytes; 0 means that the sender
    /// has closed its end.
    ///
    /// # Errors
    /// Fails as the transport's calls do.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Checks that bytes went the way that the transport is named after.
    ///
    /// # Errors
    /// Says why they did not.
    fn check(&self) -> Result<(), Unsupported> {
        Ok(())
    }

    /// Sends all of a message.
    ///
    /// # Errors
    /// Fails as [`send`](Self::send) does.
    fn send_all(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes)?..];
        }
        Ok(())
    }

    /// Receives all of a message.
    ///
    /// # Errors
    /// Fails as [`receive`](Self::receive) does, and with `EPIPE` if the message ends early.
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
