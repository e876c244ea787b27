//! What the runner shares with the other processes of `run`.

use std::io::Write;
use std::os::unix::net::UnixStream;

use super::holder::{ToHolder, replace_the_holder};
use super::shelf::Shelf;

/// The other processes, and the shelf.
pub struct Others<'a> {
    /// A socket to the keeper.
    pub keeper: &'a UnixStream,
    pub shelf: &'a Shelf,
    /// With `--whole`.
    pub holder: Option<ToHolder>,
}

impl Others<'_> {
    /// Tells the others the PIDs of the stages or, by one byte, that all is done.
    pub fn tell(&self, bytes: &[u8]) {
        // If the keeper is gone, the socket says so.
        let _ = (&mut &*self.keeper).write_all(bytes);
        let is_done = bytes.len() == 1;
        let is_gone = self
            .holder
            .as_ref()
            .is_some_and(|holder| !holder.tell(bytes));
        if is_gone && is_done {
            replace_the_holder(self.shelf);
        }
    }
}
