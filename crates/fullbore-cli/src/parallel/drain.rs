//! A second thread for the output of the block whose turn it is. It moves what the process writes to stdout, while the
//! first thread reads the input and gives it to the processes: copying takes most of the time of a fast filter, and one
//! thread would do all of it.
//!
//! The thread gets the [`Outlet`], and gives it back when the process has closed its output, when an error has occurred,
//! or when it is called back. So only one thread ever has it, and bytes on their way come back with it.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use fullbore_linux::{Errno, pipe};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdout;

use super::outlet::Outlet;
use super::report::Waited;
use super::rest::Rest;
use super::stop::Stop;

/// How often the process is read from before it rests.
const STEPS: usize = 4;

/// A thread that has the outlet.
pub struct Drain {
    /// Of the block whose output it moves.
    pub number: u64,
    /// What the first thread had waited for when this one was started.
    pub waited_before: Waited,
    /// The thread closes its end of it when it has finished, and finishes when this end is closed.
    pub link: UnixStream,
    thread: JoinHandle<Option<Drained>>,
}

/// What the thread gives back.
pub struct Drained {
    pub outlet: Outlet,
    /// The output of the process, if it is not at its end.
    pub output: Option<Arc<OwnedFd>>,
    /// The bytes that were read from it.
    pub taken: u64,
    /// How long the reader of stdout kept it waiting.
    pub waited: Duration,
    pub outcome: Result<(), Stop>,
}

impl Drain {
    /// Starts the thread, and gives it the outlet. Where no thread can be started, the outlet stays.
    pub fn start(
        outlet: &mut Option<Outlet>,
        output: Arc<OwnedFd>,
        number: u64,
        waited_before: Waited,
    ) -> Option<Self> {
        let (link, other) = UnixStream::pair().ok()?;
        let (sender, receiver) = mpsc::channel();
        let work = move || {
            let mut drained = receiver.recv().ok()?;
            drain(&mut drained, number, &other);
            Some(drained)
        };
        let thread = Builder::new().spawn(work).ok()?;
        let sent = sender.send(Drained {
            outlet: outlet.take()?,
            output: Some(output),
            taken: 0,
            waited: Duration::ZERO,
            outcome: Ok(()),
        });
        match sent {
            Ok(()) => Some(Self {
                number,
                waited_before,
                link,
                thread,
            }),
            Err(mpsc::SendError(drained)) => {
                *outlet = Some(drained.outlet);
                None
            }
        }
    }

    /// Waits until the thread has finished, which it does at once, and takes the outlet back.
    pub fn take_back(self) -> Drained {
        drop(self.link);
        match self.thread.join() {
            Ok(Some(drained)) => drained,
            Ok(None) => unreachable!("the outlet was sent"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Moves bytes until the output is at its end, something fails, or the other end of `link` is closed.
fn drain(drained: &mut Drained, number: u64, link: &UnixStream) {
    let capacity = (drained.output.as_deref())
        .and_then(|output| pipe::of(output).ok()??.capacity().ok())
        .unwrap_or_default();
    let mut rest = Rest::default();
    while drained.output.is_some() || drained.outlet.is_full() {
        let left = match drained.outlet.is_full() {
            true => None,
            false => rest.left(Some(capacity)),
        };
        drained.outcome = match drained.wait(link, left) {
            Ok(true) => return,
            Ok(false) if left.is_some() => continue,
            Ok(false) => drained.look(&mut rest, number),
            Err(stop) => Err(stop),
        };
        if drained.outcome.is_err() {
            return;
        }
    }
}

impl Drained {
    /// Waits until something can go on, but for at most a rest of so long. Returns whether the outlet is called back.
    fn wait(&mut self, link: &UnixStream, rest: Option<Duration>) -> Result<bool, Stop> {
        let (stdout, is_full) = (stdout(), self.outlet.is_full());
        let mut fds = vec![PollFd::new(link, PollFlags::IN)];
        let is_polled = is_full || self.outlet.has_reader;
        if is_polled {
            let events = if is_full {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            fds.push(PollFd::new(&stdout, events));
        }
        if let Some(output) = self
            .output
            .as_deref()
            .filter(|_| !is_full && rest.is_none())
        {
            fds.push(PollFd::new(output, PollFlags::IN));
        }
        let began = Instant::now();
        let limit = rest.and_then(|rest| Timespec::try_from(rest).ok());
        match poll(&mut fds, limit.as_ref()) {
            Err(Errno::INTR) => return Ok(false),
            Err(errno) => return Err(Stop::of(errno, "poll")),
            Ok(_) => {}
        }
        if is_full {
            self.waited += began.elapsed();
        }
        let is_called_back = !fds[0].revents().is_empty();
        let events = fds.get(1).filter(|_| is_polled).map(PollFd::revents);
        drop(fds);
        if let Some(events) = events.filter(|events| !events.is_empty()) {
            self.outlet.look(events)?;
        }
        Ok(is_called_back)
    }

    /// Reads and writes what can be without waiting.
    fn look(&mut self, rest: &mut Rest, number: u64) -> Result<(), Stop> {
        let mut moved = 0;
        for _ in 0..STEPS {
            if !self.outlet.flush()? {
                break;
            }
            let taken = self.outlet.take(&mut self.output);
            let taken = taken.map_err(|errno| Stop::unread(number, errno))?;
            moved += taken;
            self.taken += taken as u64;
            if taken == 0 {
                break;
            }
        }
        rest.note(moved);
        self.outlet.flush().map(drop)
    }
}
