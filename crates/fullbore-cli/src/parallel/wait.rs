//! Waits until something can go on, and does it.

use std::time::{Duration, Instant};

use fullbore_linux::Errno;
use nix::sys::resource::UsageWho;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, WaitOptions, wait};
use rustix::stdio::{stdin, stdout};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::input::OVERHEAD;
use super::memory::Part;
use super::messages::fd as stderr_fd;
use super::outlet::{Outlet, after};
use super::runner::{Work, cpu_seconds};
use super::stop::Stop;
use crate::run::{Came, stop};

/// How long records wait for the rest of a page.
const HOLD: Duration = Duration::from_millis(1);

/// What poll(2) has reported.
#[derive(Clone, Copy)]
enum On {
    Signals,
    Keeper,
    Input,
    Output,
    /// The second thread has finished.
    Drained,
    Stderr,
    Feed(usize),
    OutputOf(usize),
    Messages(usize),
}

impl Work<'_> {
    /// Waits until something can go on, and does it.
    pub fn wait(&mut self) -> Result<(), Stop> {
        let turn = self.queue.turn(&self.memory);
        let may_go_on = self.may_go_on();
        let reads = may_go_on && self.has_room() && self.input.may_read(&mut self.memory);
        if may_go_on && !reads && !self.input.at_end && self.memory.used() <= self.used_to_cut() {
            self.broken = Some(anyhow::anyhow!(
                "the record at byte {} of the input is longer than the memory: use a larger --memory than {}",
                self.input.position(),
                fullbore_host::size::format(self.sizes.memory as u64)
            ));
            return Ok(());
        }
        if reads && self.input.has_bytes() {
            return self.react(On::Input, PollFlags::IN, turn);
        }
        let began = Instant::now();
        let is_idle = self.is_eager();
        let came = self.poll(turn, reads);
        let waited = began.elapsed().as_secs_f64();
        let waiting_for = match (self.is_full(), reads && is_idle) {
            (true, _) => &mut self.report.waited.output,
            (_, true) => &mut self.report.waited.input,
            _ => &mut self.report.waited.workers,
        };
        *waiting_for += waited;
        match came {
            Ok(came) => {
                self.release(began);
                came.into_iter()
                    .try_for_each(|(on, events)| self.react(on, events, turn))
            }
            // This function is called again.
            Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Stop::of(errno, "poll")),
        }
    }

    /// Gives up waiting for the rest of a page, after some time.
    fn release(&mut self, began: Instant) {
        self.held_from = (self.held_from)
            .or(Some(began))
            .filter(|_| self.input.holds);
        if self.held_from.is_some_and(|from| from.elapsed() >= HOLD) && self.is_eager() {
            self.input.holds = false;
        }
    }

    fn poll(&mut self, turn: Option<usize>, reads: bool) -> Result<Vec<(On, PollFlags)>, Errno> {
        let (stdin, stdout, stderr) = (stdin(), stdout(), stderr_fd());
        let (come, go) = (PollFlags::IN, PollFlags::OUT);
        let is_full = self.is_full();
        let mut all = vec![
            (On::Signals, PollFd::new(&self.signals, come)),
            (On::Keeper, PollFd::new(self.keeper, come)),
        ];
        if reads {
            all.push((On::Input, PollFd::new(&stdin, come)));
        }
        // Without events, it reports that nothing reads any more.
        let has_reader = self.outlet.as_ref().is_some_and(|outlet| outlet.has_reader);
        if is_full || has_reader {
            let events = if is_full { go } else { PollFlags::empty() };
            all.push((On::Output, PollFd::new(&stdout, events)));
        }
        if let Some(drain) = &self.drain {
            all.push((On::Drained, PollFd::new(&drain.link, come)));
        }
        if self.messages.wait() {
            all.push((On::Stderr, PollFd::new(&stderr, go)));
        }
        let feeds = (self.queue.workers.iter()).filter_map(|worker| worker.feed.as_ref());
        let rest = (self.rest).left(feeds.map(|feed| feed.capacity).min());
        let workers = self.queue.workers.iter().enumerate();
        for (at, worker) in workers.filter(|_| rest.is_none()) {
            if let Some(feed) = worker.feed.as_ref().filter(|_| !worker.has_all()) {
                all.push((On::Feed(at), PollFd::new(&feed.pipe, go)));
            }
            let drains = match Some(at) == turn {
                true => !is_full && self.drain.is_none(),
                false => worker.may_keep(&mut self.memory),
            };
            let drains = drains || self.failures.has_stopped;
            if let Some(output) = worker.output.as_ref().filter(|_| drains) {
                all.push((On::OutputOf(at), PollFd::new(output, come)));
            }
            let has_room = self.messages.have_room();
            if let Some(pipe) = worker.messages.as_ref().filter(|_| has_room) {
                all.push((On::Messages(at), PollFd::new(pipe, come)));
            }
        }
        if turn.is_none() && self.memory.is_short && !self.queue.workers.is_empty() {
            // In free order, one goes straight to the output when memory is short.
            return Ok(Vec::new());
        }
        let hold = (self.input.holds && self.is_eager()).then_some(HOLD);
        let limit = self.display.due().into_iter().chain(rest).chain(hold).min();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let (on, mut fds): (Vec<On>, Vec<PollFd<'_>>) = all.into_iter().unzip();
        poll(&mut fds, limit.as_ref())?;
        let came = on.into_iter().zip(fds.iter().map(PollFd::revents));
        Ok(came.filter(|(_, events)| !events.is_empty()).collect())
    }

    /// Whether bytes wait until stdout has room for them.
    fn is_full(&self) -> bool {
        self.outlet.as_ref().is_some_and(Outlet::is_full)
    }

    /// Returns the bytes of memory that are in use for a block that nothing but more of the input completes.
    fn used_to_cut(&self) -> usize {
        let ready = self
            .ready
            .front()
            .filter(|block| block.is_open && self.sizes.is_whole);
        let parts = ready.into_iter().flat_map(|block| &block.parts);
        self.input.used() + OVERHEAD + parts.map(Part::used).sum::<usize>()
    }

    fn react(&mut self, on: On, events: PollFlags, turn: Option<usize>) -> Result<(), Stop> {
        let read_before = self.input.read;
        match on {
            On::Signals => {
                while let Some(came) = self.signals.next() {
                    self.obey(came)?;
                }
            }
            // The keeper never writes, so this is the end of the file.
            On::Keeper => return Err(Stop::Signal(Signal::TERM)),
            On::Input => match self.input.read(&mut self.memory) {
                Ok(()) => {
                    self.held_from = None;
                    let _ = self
                        .source_pipe
                        .gave(stdin(), None, self.input.read - read_before);
                }
                Err(Errno::NOMEM) if self.memory.used() > self.used_to_cut() => {
                    self.memory.refuse()
                }
                Err(errno) => {
                    let what = format!("read from stdin{}", after(self.input.read));
                    if let Stop::Failed(error) = Stop::of(errno, what) {
                        self.broken = Some(error);
                    }
                }
            },
            On::Output => {
                if let Some(outlet) = &mut self.outlet {
                    outlet.look(events)?;
                }
            }
            On::Drained => self.take_back()?,
            On::Stderr => self.messages.write(),
            On::Feed(at) => {
                let given = self.give(at)?;
                self.rest.note(given);
            }
            On::OutputOf(at) => {
                if turn != Some(at) && !self.failures.has_stopped {
                    let worker = &mut self.queue.workers[at];
                    let kept = worker.keep(&mut self.memory);
                    kept.map_err(|errno| Stop::unread(worker.block.number, errno))?;
                    self.note_end(at);
                }
            }
            On::Messages(at) => {
                let worker = &mut self.queue.workers[at];
                let read = self.messages.read(worker);
                read.map_err(|errno| Stop::unread(worker.block.number, errno))?;
                self.note_end(at);
            }
        }
        Ok(())
    }

    /// Notes when a worker has ended.
    pub fn note_end(&mut self, at: usize) {
        let worker = &mut self.queue.workers[at];
        if worker.has_ended() {
            worker.ended.get_or_insert_with(Instant::now);
            self.is_starved = false;
        }
    }

    fn obey(&mut self, came: Came) -> Result<(), Stop> {
        match came.signal {
            Signal::CHILD => self.reap(),
            // The terminal has stopped the workers too.
            Signal::TSTP => {
                self.display.clear();
                stop();
            }
            Signal::CONT => {}
            signal => return Err(Stop::Signal(signal)),
        }
        Ok(())
    }

    /// Waits for all children that have ended.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = retry_on_intr(|| wait(WaitOptions::NOHANG)) {
            let cpu = cpu_seconds(UsageWho::RUSAGE_CHILDREN);
            let took = cpu - std::mem::replace(&mut self.cpu_of_children, cpu);
            let status = ExitStatus::from_raw(status.as_raw());
            if let Some(worker) = self.queue.of(pid) {
                worker.status = Some(status);
                self.report.slot(worker.slot).cpu_seconds += took;
                self.failures.note(status);
            }
        }
        for at in 0..self.queue.workers.len() {
            let worker = &mut self.queue.workers[at];
            // A rest would delay the end of its messages, and with it the next output.
            while worker.status.is_some()
                && self.messages.have_room()
                && self.messages.read(worker) == Ok(true)
            {}
            self.note_end(at);
        }
        self.may_try_again();
    }
}
