//! The memory of a [`Buffer`](crate::Buffer): one thread fills it while several outputs send from it.
//!
//! `state.rs` decides which side may use which part. This file makes that safe: a part can be accessed only through the
//! single [`Filler`], or through an [`Emptier`], of which each output has one, and only while the state assigns the
//! part to it. No lock is held during a system call.

mod gate;
mod level;
mod once;
mod state;

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Condvar, LockResult, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::memory::{Geometry, Memory};
use crate::outlet::{BY_REFERENCE_FROM, Outlet, Sent};
use fullbore_linux as linux;
use fullbore_linux::{Error, Pages, Result};
pub use gate::Gate;
pub use level::{Level, Waits};
pub(crate) use once::Once;
use state::{Next, State};

/// The number of slots that memory is divided into if it is too small for huge pages.
const SMALL_SLOTS: usize = 16;

/// The smallest number of huge pages that memory is made of.
const LEAST_HUGE: usize = 4;

/// The memory between the reader and the outputs.
#[derive(Debug)]
pub(crate) struct Store {
    /// The first byte, from which all parts are derived.
    start: NonNull<u8>,
    /// The mapping. It is used only to release memory, never to access it.
    pages: Mutex<Pages>,
    /// Bytes from one slot to the next.
    stride: usize,
    /// Whether pipes may refer to parts of it.
    may_be_given: bool,
    /// Whether something else is mapped in its place, which only system calls may access.
    is_mapped: bool,
    gate: Box<dyn Gate>,
    inner: Mutex<Inner>,
    /// Signalled when there are more bytes, or when an output has to check the state for another reason.
    more: Condvar,
    /// Signalled when there is more room, or when the reader has to check the state for another reason.
    room: Condvar,
    /// Signalled when everything ends early.
    stop: Condvar,
}

// SAFETY: `start` is the only field that is not Send and Sync by itself. It points to memory that `pages` owns and that
// belongs to no thread; a lock protects the decision which side may use which part of it.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

#[derive(Debug)]
struct Inner {
    state: State,
    /// What was counted: its current numbers are those of the other fields.
    counted: Level,
    /// The number of outputs that sleep.
    outputs_asleep: usize,
    reader_sleeps: bool,
    stopped: bool,
}

/// Puts other pages in the place of the memory.
pub(crate) type Map = Box<dyn FnOnce(&mut [u8]) -> Result<()> + Send + Sync>;

/// The result of one step of an output.
#[derive(Debug)]
pub(crate) enum Step {
    /// This many bytes were sent.
    Sent(usize),
    /// Everything was sent, or everything ends early.
    End,
    /// This call failed.
    Failed(&'static str, Errno),
}

impl Store {
    /// Maps `bytes` of memory for so many outputs. Its pages are allocated as it is filled. An output sends `block` bytes
    /// at a time, and fewer only at the end, unless that is 0.
    ///
    /// # Errors
    /// [`Error::Invalid`] for less than a few pages; `ENOMEM` if there is not enough address space; those of the map.
    pub(crate) fn new(
        bytes: usize,
        outputs: usize,
        block: usize,
        gate: Box<dyn Gate>,
        map: Option<Map>,
    ) -> Result<Self> {
        let geometry = Geometry::here();
        let huge = geometry
            .huge_that_suits()
            .filter(|huge| map.is_none() && linux::has_huge_pages() && bytes / huge >= LEAST_HUGE);
        let page = geometry.page;
        let slot = huge.unwrap_or_else(|| {
            let small = bytes / SMALL_SLOTS / page * page;
            small.clamp(page, geometry.given_back_at_once(false))
        });
        let whole_pages = block.checked_next_multiple_of(huge.unwrap_or(page));
        let stride = slot.max(whole_pages.unwrap_or(usize::MAX));
        let slots = bytes / stride;
        if slots < 2 {
            return Err(Error::Invalid(format!(
                "memory of {} bytes is too small for a buffer: it needs at least {}",
                bytes,
                2 * page
            )));
        }
        let len = slots * stride;
        // What is left behind the last block of a slot is not used.
        let slot = stride - stride % block.max(1);
        let is_mapped = map.is_some();
        let mut pages = Memory::map(len, huge.is_some())?;
        map.map_or(Ok(()), |map| map(&mut pages))?;
        Ok(Self {
            start: NonNull::from(&mut pages[..]).cast(),
            pages: Mutex::new(pages),
            stride,
            may_be_given: huge.is_some() && linux::shares_pages(),
            is_mapped,
            gate,
            inner: Mutex::new(Inner {
                state: State::new(slot, slots, outputs).in_blocks(block, stride),
                counted: Level::default(),
                outputs_asleep: 0,
                reader_sleeps: false,
                stopped: false,
            }),
            more: Condvar::new(),
            room: Condvar::new(),
            stop: Condvar::new(),
        })
    }

    /// Returns a view of the store, its filler, and an emptier for each output.
    pub(crate) fn sides(&mut self) -> (&Self, Filler<'_>, Vec<Emptier<'_>>) {
        let store: &Self = self;
        let outputs = store.lock().state.outputs();
        let emptier = |output| Emptier {
            store,
            output,
            choice: None,
            keeps: false,
        };
        let emptiers = (0..outputs).map(emptier).collect();
        let filler = Filler { store, kept: None };
        (store, filler, emptiers)
    }

    /// Returns the bytes that this output has not sent, once all sides are dropped.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for memory that only system calls may access.
    pub(crate) fn unsent(&self, output: usize) -> Result<Vec<u8>> {
        let parts = self.lock().state.unsent(output);
        let pages = unpoisoned(self.pages.lock());
        match self.is_mapped && !parts.is_empty() {
            true => Err(Error::Unsupported(
                "the bytes of the buffer are not in its memory".into(),
            )),
            false => Ok(parts
                .iter()
                .flat_map(|part| &pages[part.clone()])
                .copied()
                .collect()),
        }
    }

    /// Returns its current numbers, after this time.
    pub(crate) fn level(&self, elapsed: Duration) -> Level {
        let inner = self.lock();
        Level {
            taken: inner.state.filled,
            held: inner.state.held(),
            capacity: inner.state.capacity,
            has_ended: inner.state.ended,
            waits_for_room: inner.reader_sleeps,
            waits_for_bytes: inner.outputs_asleep == inner.state.outputs_left(),
            sinks_left: inner.state.outputs_left(),
            elapsed,
            ..inner.counted
        }
    }

    /// Makes all sides stop once their current system call returns.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.more.notify_all();
        self.room.notify_all();
        self.stop.notify_all();
    }

    pub(crate) fn gate(&self) -> &dyn Gate {
        &*self.gate
    }

    /// Sleeps for this long, or until everything ends early.
    pub(crate) fn pause(&self, time: Duration) {
        let asleep = self
            .stop
            .wait_timeout_while(self.lock(), time, |inner| !inner.stopped);
        drop(unpoisoned(asleep));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        unpoisoned(self.inner.lock())
    }

    /// Wakes sleeping outputs. Releases the lock first, because they need it at once.
    fn wake_outputs(&self, inner: MutexGuard<'_, Inner>) {
        let any_sleep = inner.outputs_asleep > 0;
        drop(inner);
        if any_sleep {
            self.more.notify_all();
        }
    }

    /// Releases the slots that no output needs any more, and wakes the reader.
    ///
    /// # Errors
    /// If memory cannot be released to the kernel. It is never reused.
    fn release<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(slot) = inner.state.release() {
            drop(inner);
            let start = slot * self.stride;
            let mut pages = unpoisoned(self.pages.lock());
            let given_back = pages.give_back(start..start + self.stride);
            drop(pages);
            inner = self.lock();
            match given_back {
                Ok(()) => inner.state.gave_back(slot),
                Err(error) => outcome = Err(error),
            }
        }
        let wakes_reader = inner.reader_sleeps && inner.state.has_room(&*self.gate);
        drop(inner);
        if wakes_reader {
            self.room.notify_one();
        }
        outcome
    }
}

/// Takes a lock whether or not a thread has panicked with it: the state is valid at any time.
fn unpoisoned<Guard>(locked: LockResult<Guard>) -> Guard {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// The side that fills the memory. Dropping it ends the stream.
#[derive(Debug)]
pub(crate) struct Filler<'a> {
    pub(crate) store: &'a Store,
    /// Bytes that sleeping outputs were not woken for, and since when.
    kept: Option<(usize, Instant)>,
}

/// Sleeping outputs are woken at the latest for this many bytes, and after this time.
const KEPT: (usize, Duration) = (256 << 10, Duration::from_micros(200));

impl Filler<'_> {
    /// Waits for room, and calls `read` to put at most `most` bytes into it; `read` returns how many. Returns `None` if
    /// no output is left, or if everything ends early.
    ///
    /// Outputs that sleep are woken for the bytes of earlier calls before it reads, unless the source `has_more`: then
    /// they are woken for many pieces at once.
    pub(crate) fn fill<E>(
        &mut self,
        most: usize,
        has_more: impl FnOnce() -> bool,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Option<Result<usize, E>> {
        let store = self.store;
        let (bytes, time) = KEPT;
        let is_over = |(kept, since): (usize, Instant)| kept >= bytes || since.elapsed() >= time;
        if self.kept.is_some_and(|kept| is_over(kept) || !has_more()) {
            self.wake();
        }
        let mut inner = store.lock();
        let mut waited: Option<Instant> = None;
        let room = loop {
            if inner.stopped || inner.state.first_output().is_none() {
                return None;
            }
            if let Some(room) = inner.state.room(most, &*store.gate) {
                break room;
            }
            if waited.is_none() {
                waited = Some(Instant::now());
                // Outputs no longer wait for the gate.
                store.wake_outputs(inner);
                inner = store.lock();
                continue;
            }
            inner.reader_sleeps = true;
            inner = unpoisoned(store.room.wait(inner));
            inner.reader_sleeps = false;
        };
        if let Some(since) = waited {
            inner.counted.full.add(since.elapsed());
        }
        drop(inner);
        // SAFETY: the state guarantees that these bytes are inside the mapping, that no output may send them before
        // they are recorded as filled, and that no pipe refers to them. This is the only filler, and `&mut self` allows
        // one room at a time.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(store.start.as_ptr().add(room.start), room.len())
        };
        let read = read(bytes);
        if let Ok(n @ 1..) = read {
            let mut inner = store.lock();
            inner.state.fill(n.min(room.len()));
            inner.counted.most = inner.counted.most.max(inner.state.held());
            let (kept, since) = self.kept.unwrap_or_else(|| (0, Instant::now()));
            self.kept = Some((kept + n, since));
        }
        Some(read)
    }

    /// Wakes outputs that sleep although there are bytes for them.
    pub(crate) fn wake(&mut self) {
        if self.kept.take().is_some() {
            self.store.wake_outputs(self.store.lock());
        }
    }
}

impl Drop for Filler<'_> {
    fn drop(&mut self) {
        self.store.lock().state.end();
        self.store.more.notify_all();
    }
}

/// The side of one output. Dropping it releases the bytes that only this output needs.
#[derive(Debug)]
pub(crate) struct Emptier<'a> {
    pub(crate) store: &'a Store,
    output: usize,
    /// Whether to give or to write, if either may be faster.
    pub(crate) choice: Option<Once>,
    /// Whether the bytes that this output has not sent are kept when it is dropped.
    pub(crate) keeps: bool,
}

impl Emptier<'_> {
    /// Returns how many bytes were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.store.lock().state.sent(self.output)
    }

    /// Waits for bytes, and sends at most `most` of them.
    pub(crate) fn send(
        &mut self,
        outlet: &mut Outlet,
        sink: BorrowedFd<'_>,
        most: usize,
    ) -> Result<Step> {
        let store = self.store;
        let Some(bytes) = self.next(most) else {
            return Ok(Step::End);
        };
        // SAFETY: the state guarantees that these bytes are inside the mapping and filled, and that they are not
        // overwritten before this output has sent them, which only this emptier can record.
        let bytes = unsafe {
            std::slice::from_raw_parts(store.start.as_ptr().add(bytes.start), bytes.len())
        };
        let offered = store.may_be_given && bytes.len() >= BY_REFERENCE_FROM;
        let held = || store.lock().state.held();
        let writes = offered
            && self
                .choice
                .as_mut()
                .is_some_and(|choice| !choice.gives(held(), outlet.calls.waiter.waited));
        let sent = match writes {
            true => outlet.write(sink, bytes).map(Sent::Copied),
            // SAFETY: given bytes are recorded below, and the state then has their slot released to the kernel before
            // it is filled again. The memory is a private mapping, or else nothing is offered.
            false => unsafe { outlet.send(sink, bytes, offered, None) },
        };
        let (n, given) = match sent {
            Ok(Sent::Given(n)) => (n, true),
            Ok(Sent::Copied(n)) => (n, false),
            Err((operation, errno)) => return Ok(Step::Failed(operation, errno)),
        };
        let mut inner = store.lock();
        inner.state.send(self.output, n, given);
        store.release(inner).map(|()| Step::Sent(n))
    }

    /// Waits for bytes, and returns their position; `None` at the end.
    fn next(&mut self, most: usize) -> Option<std::ops::Range<usize>> {
        let store = self.store;
        let mut inner = store.lock();
        let mut waited: Option<Instant> = None;
        loop {
            let next = match inner.stopped {
                true => Next::End,
                false => inner.state.next(self.output, most, &*store.gate),
            };
            if next != Next::Wait {
                // Waits before the first byte and after the last one do not count.
                let is_short = next != Next::End && inner.state.sent(self.output) > 0;
                if is_short && inner.state.first_output() == Some(self.output) {
                    if let Some(since) = waited {
                        let time = since.elapsed();
                        inner.counted.empty.add(time);
                        if inner.counted.full.times > 0 {
                            inner.counted.empty_after_full += time;
                        }
                    }
                }
                return match next {
                    Next::Send(bytes) => Some(bytes),
                    Next::Wait | Next::End => None,
                };
            }
            waited.get_or_insert_with(Instant::now);
            inner.outputs_asleep += 1;
            inner = unpoisoned(store.more.wait(inner));
            inner.outputs_asleep -= 1;
        }
    }
}

impl Drop for Emptier<'_> {
    fn drop(&mut self) {
        let mut inner = self.store.lock();
        if !self.keeps && !inner.stopped {
            inner.state.lose(self.output);
        }
        // Memory that cannot be released is never reused.
        let _ = self.store.release(inner);
        // The reader also has to notice that no output is left.
        self.store.room.notify_one();
    }
}
