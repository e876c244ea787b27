//! One sample of the pipes before and after: is there something to read, and is there room?
//!
//! poll(2) knows whether there is something to read, and whether a slot is free (`pipe_poll`, `fs/pipe.c`). [`Fill`]
//! adds whether a pipe with a free slot is nearly full, and whether it is empty, seen from its write end.

use std::os::fd::{AsFd, BorrowedFd};

use fullbore::PipeEnd;
use fullbore_observe::census::fill::Fill;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::verdict::Seen;

/// Samples the pipes that `input` and `output` are ends of. What is not a pipe is not sampled.
pub fn sample(input: Option<BorrowedFd<'_>>, output: Option<BorrowedFd<'_>>, held: bool) -> Seen {
    let mut seen = Seen::default();
    seen.held.note(held);
    if let Some(input) = input.filter(|fd| pipe(fd).is_some()) {
        let ready = readiness(input, PollFlags::IN);
        // An empty pipe without a writer has ended; nobody waits for it.
        if !ready.contains(PollFlags::HUP) || ready.contains(PollFlags::IN) {
            seen.before_empty.note(!ready.contains(PollFlags::IN));
        }
    }
    if let Some(output) = output.filter(|fd| pipe(fd).is_some()) {
        let ready = readiness(output, PollFlags::OUT);
        // A pipe without a reader is neither full nor empty.
        if !ready.contains(PollFlags::ERR) {
            let fill = Fill::at(output).unwrap_or(Fill::of_bytes(0, 0));
            // While meter rests, the reader makes some room.
            let has_no_room = !ready.contains(PollFlags::OUT) || fill.is_nearly_full();
            seen.after_full.note(has_no_room);
            seen.after_empty.note(fill.is_empty());
        }
    }
    seen
}

fn pipe<'fd>(fd: &'fd BorrowedFd<'_>) -> Option<PipeEnd<'fd>> {
    PipeEnd::new(fd.as_fd()).ok()
}

fn readiness(fd: BorrowedFd<'_>, asked: PollFlags) -> PollFlags {
    let mut polled = [PollFd::from_borrowed_fd(fd, asked)];
    match poll(&mut polled, Some(&Timespec::default())) {
        Ok(_) => polled[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use fullbore::Pipe;
    use rustix::pipe::fcntl_setpipe_size;

    use super::super::verdict::Share;
    use super::*;

    const SO: Share = Share { so: 1, of: 1 };
    const NOT_SO: Share = Share { so: 0, of: 1 };
    const UNSEEN: Share = Share { so: 0, of: 0 };

    fn seen(input: &Pipe, output: &Pipe) -> Seen {
        sample(
            Some(input.reader.as_fd()),
            Some(output.writer.as_fd()),
            false,
        )
    }

    #[test]
    fn an_empty_pipe_is_told_from_one_with_a_byte_in_it() {
        let (before, after) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let first = seen(&before, &after);
        assert_eq!((first.before_empty, first.after_empty), (SO, SO));
        assert_eq!((first.after_full, first.held), (NOT_SO, NOT_SO));
        rustix::io::write(&before.writer, b"x").unwrap();
        rustix::io::write(&after.writer, b"x").unwrap();
        let then = seen(&before, &after);
        assert_eq!((then.before_empty, then.after_empty), (NOT_SO, NOT_SO));
    }

    #[test]
    fn a_pipe_is_full_when_its_slots_are_however_few_bytes_they_hold() {
        let (before, after) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        let slots = fcntl_setpipe_size(&after.writer, 4096).unwrap() / 4096;
        // As many bytes as fit, of which all but the last of each slot are taken.
        rustix::io::write(&after.writer, &vec![0; slots * 4096]).unwrap();
        assert_eq!(seen(&before, &after).after_full, SO);
        rustix::io::read(&after.reader, &mut vec![0; 4095]).unwrap();
        assert_eq!(seen(&before, &after).after_full, SO, "one byte in one slot");
        rustix::io::read(&after.reader, &mut vec![0; slots * 4096]).unwrap();
        assert_eq!(seen(&before, &after).after_full, NOT_SO);
    }

    #[test]
    fn a_pipe_with_a_quarter_of_its_room_left_counts_as_full() {
        for (eighths, expected) in [(4, NOT_SO), (6, SO)] {
            let (before, after) = (Pipe::new().unwrap(), Pipe::new().unwrap());
            let capacity = rustix::pipe::fcntl_getpipe_size(&after.writer).unwrap();
            rustix::io::write(&after.writer, &vec![0; capacity / 8 * eighths]).unwrap();
            assert_eq!(seen(&before, &after).after_full, expected, "{eighths}");
        }
    }

    #[test]
    fn what_is_over_or_no_pipe_is_not_judged() {
        let Pipe { reader, writer } = Pipe::new().unwrap();
        drop(writer);
        wait_until_closed(reader.as_fd());
        let null = std::fs::File::open("/dev/null").unwrap();
        let ended = sample(Some(reader.as_fd()), Some(null.as_fd()), true);
        assert_eq!((ended.before_empty, ended.after_full), (UNSEEN, UNSEEN));
        assert_eq!(ended.held, SO);
        let Pipe { reader, writer } = Pipe::new().unwrap();
        drop(reader);
        wait_until_closed(writer.as_fd());
        assert_eq!(sample(None, Some(writer.as_fd()), false).after_full, UNSEEN);
    }

    /// The child of a test that forks at this moment has a copy of the other end, until it executes its program.
    fn wait_until_closed(end: BorrowedFd<'_>) {
        while !fullbore_linux::is_closed(end).unwrap() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
