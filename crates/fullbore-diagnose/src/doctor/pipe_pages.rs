//! Estimates how many pages are in the pipes that a user made. The kernel counts and limits them, and does not report
//! their number (`account_pipe_buffers`, fs/pipe.c).
//!
//! The sum is therefore that of the pipes in a census of all processes that are visible. A pipe belongs to the user
//! who made it, who is the owner of its inode. Its capacity is only available to processes that have it open: so each
//! pipe is opened for a moment ([`Fill`]).

use std::os::fd::AsFd;

use fullbore_linux::page_size;
use fullbore_observe::census::link::{Fill, WriteEnd};
use fullbore_observe::census::{Census, Pipe};

/// Returns the number of pages in the visible pipes of this user.
pub fn in_use(uid: u32) -> u64 {
    let census = Census::take().unwrap_or_default();
    let own = census.pipes.iter().filter(|pipe| pipe.owner == uid);
    let bytes: u64 = own.filter_map(|pipe| capacity(&census, pipe)).sum();
    bytes / page_size() as u64
}

/// Returns the capacity of a pipe. A FIFO is opened only while a process has it open for writing: otherwise a process
/// that waits for a writer in open(2) would get one.
fn capacity(census: &Census, pipe: &Pipe) -> Option<u64> {
    let is_open = || WriteEnd::of(census, pipe).is_some_and(|end| end.is_open());
    if pipe.is_named() && !is_open() {
        return None;
    }
    let handle = census.handle(pipe).ok()?;
    Some(Fill::of(handle.as_fd()).ok()?.capacity as u64)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use fullbore_linux::Pipe;

    use super::*;

    #[test]
    fn a_pipe_counts_once_however_often_it_is_open() {
        let pipe = Pipe::new().unwrap();
        let end = fullbore_linux::pipe::of(&pipe.reader).unwrap().unwrap();
        let (identity, size) = (end.identity().unwrap(), end.capacity().unwrap());
        // The census is of other processes.
        let mut sleeper = Command::new("sleep")
            .arg("600")
            .stdin(pipe.reader.try_clone().unwrap())
            .stdout(pipe.writer.try_clone().unwrap())
            .spawn()
            .unwrap();
        let census = Census::take().unwrap();
        let mut found = census.pipes.iter().filter(|pipe| pipe.identity == identity);
        let own = found.next().unwrap();
        assert_eq!(found.next(), None);
        assert_eq!(capacity(&census, own), Some(size as u64));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn looking_at_a_pipe_leaves_its_ends_as_they_were() {
        let pipe = Pipe::new().unwrap();
        rustix::io::write(&pipe.writer, b"hello").unwrap();
        in_use(rustix::process::geteuid().as_raw());
        drop(pipe.writer);
        let mut came = [0; 16];
        assert_eq!(rustix::io::read(&pipe.reader, &mut came), Ok(5));
        assert_eq!(rustix::io::read(&pipe.reader, &mut came), Ok(0));
    }
}
