//! The two threads of a buffer with one output. They share the work instead of halving it: as long as the
//! output keeps up, one of them sends what it has read itself. To hand bytes over to another CPU costs more
//! than to send them.
//!
//! There is one [`Reading`] and one [`Writing`], and only the thread that owns one can use it:
//! - A thread that reads owns the first. Once it has read something, and finds the second free, it takes that
//!   one, and lays the first down before it sends.
//! - A thread that sends owns the second, and lays it down once the memory is empty. It then takes the first
//!   one up again, if that is still there.
//! - The other thread does nothing, until the first one lies there for too long. Then it reads on.
//!
//! So the second one is only free while the memory is empty, and there is always somebody who reads, or who
//! could. The call that sends may block whatever it is told: vmsplice(2) waits for the lock of the pipe,
//! which a reader holds while it splices to a slow socket. This is why one thread is not enough.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::ends::{AtLast, Writer};
use super::reading::{Reading, Took};
use super::writing::{Writing, Written};
use crate::produce::store::Store;
use fullbore_linux::error::Result;

/// For how long a source may be held back by the output before the other thread reads on.
const PATIENCE: Duration = Duration::from_millis(2);

/// How often the other thread looks whether that is so.
const LOOK: Duration = Duration::from_millis(1);

/// An output that takes this many bytes in each nanosecond keeps up: to send takes time, too.
const QUICK: u64 = 2;

/// What two threads share.
pub(super) struct Pair<'a> {
    store: &'a Store,
    roles: Mutex<Roles<'a>>,
    /// There may be something to do for the thread that does nothing.
    changed: Condvar,
}

/// What lies there, to be taken.
struct Roles<'a> {
    reading: Option<Reading<'a>>,
    writing: Option<(Writing<'a>, Writer<'a>)>,
    /// When whoever has laid `reading` down should be back; `None` at the start.
    due: Option<Instant>,
    /// For how long the source was held back, less the time for which it was waited for since.
    late: Duration,
    /// How often `reading` was laid down.
    sends: u64,
    /// Whether the other thread sleeps until it is woken.
    sleeps: bool,
    /// There is nothing more to read, or nobody who needs it.
    over: bool,
}

/// What came of the work of one thread.
#[derive(Default)]
pub(super) struct Done {
    /// The end of reading, if this thread came to it.
    pub(super) read: Option<Result<()>>,
    /// The end of the output, if this thread came to it.
    pub(super) written: Option<Written>,
}

impl<'a> Pair<'a> {
    pub(super) fn new(
        store: &'a Store,
        reading: Reading<'a>,
        writing: Writing<'a>,
        writer: Writer<'a>,
    ) -> Self {
        Self {
            store,
            roles: Mutex::new(Roles {
                reading: Some(reading),
                writing: Some((writing, writer)),
                due: None,
                late: Duration::ZERO,
                sends: 0,
                sleeps: false,
                over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Does the work of one of the two threads. `stop` ends the other one too.
    pub(super) fn run(&self, stop: &impl Fn()) -> Done {
        // The other thread must not wait for one that has panicked.
        let _at_last = AtLast(|| {
            if thread::panicking() {
                self.abandon();
            }
        });
        let mut done = Done::default();
        let mut reading = self.stand_by();
        while let Some(mine) = reading {
            let writing = self.read(mine, &mut done);
            let kept = writing.and_then(|mine| self.write(mine, &mut done, stop));
            reading = kept.or_else(|| self.stand_by());
        }
        done
    }

    /// Drops what lies there.
    pub(super) fn abandon(&self) {
        let mut roles = self.lock();
        roles.over = true;
        let laid_down = (roles.reading.take(), roles.writing.take());
        drop(roles);
        self.changed.notify_all();
        drop(laid_down);
    }

    /// Reads until something can be sent, which the caller has to do then, or until there is nothing more to
    /// read.
    fn read(&self, mut reading: Reading<'a>, done: &mut Done) -> Option<(Writing<'a>, Writer<'a>)> {
        loop {
            if !reading.has_something() {
                self.store.rest();
            }
            let began = Instant::now();
            let took = reading.take();
            let now = Instant::now();
            match took {
                Took::Bytes(n) => {
                    let mut roles = self.lock();
                    roles.late = roles.late.saturating_sub(now - began);
                    // The other thread may have sent these bytes already. While `writing` lies there, nobody sends.
                    let Some(writing) = roles.writing.take_if(|_| !self.store.is_sent()) else {
                        continue;
                    };
                    roles.reading = Some(reading);
                    roles.due = Some(now + Duration::from_nanos(n as u64 / QUICK));
                    roles.sends += 1;
                    let sleeps = std::mem::take(&mut roles.sleeps);
                    drop(roles);
                    if sleeps {
                        self.changed.notify_one();
                    }
                    return Some(writing);
                }
                Took::End(read) => {
                    done.read = Some(read);
                    // This is what tells the output.
                    drop(reading);
                    return self.end().writing.take();
                }
            }
        }
    }

    /// Sends until the memory is empty, or the output ends. Returns what to go on reading with, if nobody
    /// else does.
    fn write(
        &self,
        (mut writing, writer): (Writing<'a>, Writer<'a>),
        done: &mut Done,
        stop: &impl Fn(),
    ) -> Option<Reading<'a>> {
        loop {
            if let Some(written) = writing.step() {
                drop(writing);
                let reading = self.end().reading.take();
                drop(reading);
                if written.fails_all() {
                    stop();
                }
                done.written = Some(written);
                drop(writer);
                return None;
            }
            let mut roles = self.lock();
            // Whoever reads looks for the output after that, so that nothing is left lying.
            if !self.store.is_sent() {
                continue;
            }
            roles.writing = Some((writing, writer));
            let reading = roles.reading.take();
            if reading.is_none() {
                self.store.rest();
            }
            if let Some(due) = roles.due.filter(|_| reading.is_some()) {
                roles.late += due.elapsed();
            }
            return reading;
        }
    }

    /// Waits until the source has been held back for too long, and returns what to read on with, or `None` once
    /// it is over.
    fn stand_by(&self) -> Option<Reading<'a>> {
        let mut roles = self.lock();
        let mut seen = None;
        loop {
            if roles.over {
                return None;
            }
            if roles.reading.is_some() {
                let late = roles.due.map_or(PATIENCE, |due| due.elapsed());
                if roles.late + late >= PATIENCE {
                    roles.late = Duration::ZERO;
                    return roles.reading.take();
                }
            }
            // To be woken for each send would cost what is to be saved, so it looks at the clock instead.
            if roles.reading.is_some() || seen != Some(roles.sends) {
                seen = Some(roles.sends);
                let woken = self.changed.wait_timeout(roles, LOOK);
                roles = woken.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                roles.sleeps = true;
                let woken = self.changed.wait(roles);
                roles = woken.unwrap_or_else(PoisonError::into_inner);
                roles.sleeps = false;
            }
        }
    }

    /// Records that it is over.
    fn end(&self) -> MutexGuard<'_, Roles<'a>> {
        let mut roles = self.lock();
        roles.over = true;
        self.changed.notify_all();
        roles
    }

    fn lock(&self) -> MutexGuard<'_, Roles<'a>> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
