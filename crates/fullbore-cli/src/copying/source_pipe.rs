//! The pipe that bytes come from. A small one makes its writer and its reader wake each other for every 64 KiB, so it is
//! enlarged, as `fullbore tune` does it: only if its writers are known not to depend on its capacity.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};

use fullbore_linux as linux;
use fullbore_observe::tune::{self, outcome, target::Target};
use rustix::net::sockopt::socket_send_buffer_size;

/// The capacity of the pipe where its bytes go to a sink at once: a quarter of the wake-ups, while what is in it stays in
/// the cache of a CPU. Larger ones gained nothing, and cost a tenth beside programs that want the CPU, too.
const ROOMY: usize = 256 * 1024;

/// Its capacity where they go into much memory, which is not in a cache anyway.
const ROOMIER: usize = 1 << 20;

/// The memory limit of a cgroup that leaves room for such a pipe.
const MEMORY: u64 = 64 << 20;

/// Looking through /proc for the programs that write takes some milliseconds, so a shorter stream gains nothing.
const LONG: u64 = 32 << 20;

/// The most file descriptors that are looked at, where a process counts as ten. It takes 0.1 s at most.
const LOOKS: usize = 25_000;

/// Decides when a stream is worth looking for its writers.
pub struct SourcePipe {
    /// The bytes until it does; 0 if it has.
    left: u64,
}

impl SourcePipe {
    /// With `stays`, no pipe is enlarged.
    pub fn new(stays: bool) -> Self {
        Self {
            left: if stays { 0 } else { LONG },
        }
    }

    /// Counts bytes that came from `source` and go to `sink`, or into memory. Once the stream is long, it enlarges
    /// `source`, once, if that is a pipe, to no more than the sink has room for: a reader of a smaller sink would wait
    /// while the writer fills the pipe. It always returns that the stream goes on.
    pub fn gave(
        &mut self,
        source: impl AsFd,
        sink: Option<BorrowedFd<'_>>,
        bytes: u64,
    ) -> ControlFlow<()> {
        let was_short = self.left > 0;
        self.left = self.left.saturating_sub(bytes);
        if was_short && self.left == 0 {
            match linux::pipe::of(&source) {
                Ok(Some(_)) => enlarge(source, sink),
                // The next source may be a pipe.
                _ => self.left = LONG,
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns how many bytes `sink` has room for while its reader is busy. The kernel counts twice what it holds for a
/// socket (SO_SNDBUF, socket(7)).
fn room(sink: BorrowedFd<'_>) -> usize {
    let size = match linux::pipe::of(&sink) {
        Ok(Some(pipe)) => pipe.capacity().ok(),
        _ => socket_send_buffer_size(sink).ok().map(|size| size / 2),
    };
    size.unwrap_or(ROOMY).min(ROOMY)
}

/// Enlarges `source` if it is a small pipe with writers that do not depend on its capacity: for bytes that go to `sink`,
/// or into much memory. Otherwise reading is only slower.
pub fn enlarge(source: impl AsFd, sink: Option<BorrowedFd<'_>>) {
    let size = sink.map_or(ROOMIER, room);
    let Ok(Some(pipe)) = linux::pipe::of(&source) else {
        return;
    };
    // In whole powers of two (`round_pipe_size`, fs/pipe.c).
    let is_small = pipe.capacity().is_ok_and(|has| has <= size / 2);
    let has_room = || linux::memory_limit().is_none_or(|limit| limit >= MEMORY);
    let is_open = || !linux::is_closed(source.as_fd()).unwrap_or(true);
    if let Some(identity) = (pipe.identity().ok()).filter(|_| is_small && has_room() && is_open()) {
        let options = outcome::Options {
            most_looks: Some(LOOKS),
            ..outcome::Options::growing(1 << size.ilog2())
        };
        let _ = tune::tune(&Target::Pipe(identity), options);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::process::{Child, Command};

    use fullbore_observe::census::Census;

    use super::*;

    /// Returns the read end of a pipe whose only writer is this program, which is `sleep`.
    fn written_by(sleep: &Path) -> (OwnedFd, Child) {
        let pipe = linux::Pipe::new().unwrap();
        let writer = Command::new(sleep).arg("600").stdout(pipe.writer).spawn();
        (pipe.reader, writer.unwrap())
    }

    fn capacity(source: &OwnedFd) -> usize {
        linux::pipe::of(source)
            .unwrap()
            .unwrap()
            .capacity()
            .unwrap()
    }

    fn end(mut writer: Child) {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }

    #[test]
    fn the_pipe_of_a_long_stream_grows_once_if_its_writer_is_known() {
        let (source, writer) = written_by(Path::new("sleep"));
        let identity = linux::pipe::of(&source).unwrap().unwrap().identity();
        let few = Census::of(identity.unwrap(), Some(LOOKS / 2)).is_ok();
        let usual = capacity(&source);
        let mut pipe = SourcePipe::new(false);
        let _ = pipe.gave(&source, None, LONG - 1);
        assert_eq!(capacity(&source), usual);
        let _ = pipe.gave(&source, None, 1);
        // With more processes than that, it may not look.
        assert!(capacity(&source) > usual || !few || usual >= ROOMY);
        let (other, its_writer) = written_by(Path::new("sleep"));
        let _ = pipe.gave(&other, None, LONG);
        let _ = SourcePipe::new(true).gave(&other, None, LONG);
        assert_eq!(capacity(&other), usual);
        end(writer);
        end(its_writer);
    }

    #[test]
    fn no_pipe_grows_beyond_what_the_sink_has_room_for() {
        use rustix::net::sockopt::set_socket_send_buffer_size;
        let (source, writer) = written_by(Path::new("sleep"));
        let usual = capacity(&source);
        let small = linux::Pipe::new().unwrap();
        rustix::pipe::fcntl_setpipe_size(&small.writer, linux::page_size()).unwrap();
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        set_socket_send_buffer_size(&near, usual / 2).unwrap();
        for sink in [small.writer.as_fd(), near.as_fd()] {
            let _ = SourcePipe::new(false).gave(&source, Some(sink), LONG);
            assert_eq!(capacity(&source), usual);
        }
        end(writer);
    }

    #[test]
    fn a_writer_that_is_not_known_keeps_its_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let stranger = dir.path().join("stranger");
        let sleep = ["/usr/bin/sleep", "/bin/sleep"]
            .iter()
            .find(|path| Path::new(path).exists());
        // By another process: what this one has open for writing, a test that forks at this moment has too.
        let copied = Command::new("cp")
            .arg(sleep.unwrap())
            .arg(&stranger)
            .status();
        assert!(copied.unwrap().success());
        let (source, writer) = written_by(&stranger);
        let usual = capacity(&source);
        let _ = SourcePipe::new(false).gave(&source, None, LONG);
        assert_eq!(capacity(&source), usual);
        end(writer);
    }
}
