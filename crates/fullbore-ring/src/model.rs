//! Runs the protocol of `control.rs` in all orders of two threads, with all values that the memory orderings allow (the
//! crate loom).
//!
//! It also checks the memory of the ring: loom reports two unordered accesses. A sleeping thread can be woken only by
//! the other side, so loom reports a lost wakeup. The time that a side sleeps on its flag is either over at once, or
//! never.
//!
//! Connecting is modelled, too: queries of the kernel (for the connection, the offer, and the contents of the pipe) are
//! made under a lock, as in the kernel, and are not ordered otherwise.

use std::ops::Range;
use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use rustix::io::Errno;

use crate::control::{Claim, Control, Giver, Line, Sleep, Taker, Word, is_awake, will_sleep};
use crate::taking::{Answer, Next, Queued, look_for_an_offer};

/// The size of the ring in bytes: small, so that it is often full and empty.
const SIZE: u64 = 2;

impl Word for AtomicU64 {
    fn load(&self, ordering: Ordering) -> u64 {
        AtomicU64::load(self, ordering)
    }

    fn store(&self, value: u64, ordering: Ordering) {
        AtomicU64::store(self, value, ordering);
    }

    fn swap(&self, value: u64, ordering: Ordering) -> u64 {
        AtomicU64::swap(self, value, ordering)
    }

    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        AtomicU64::compare_exchange(self, current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    fn fetch_or(&self, bits: u64) -> u64 {
        AtomicU64::fetch_or(self, bits, Ordering::AcqRel)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// Where a side waits for the other: a lock, and whether something was sent and not received yet.
type Place = (Mutex<bool>, Condvar);

/// A ring, with the sockets and the pipe between its sides.
struct Model {
    control: Control<AtomicU64>,
    bytes: [UnsafeCell<u64>; SIZE as usize],
    /// The futexes and the sockets of the producer and the consumer.
    futexes: [Place; 2],
    sockets: [Place; 2],
    /// Whether the time that a side sleeps on its flag is over at once.
    is_moment_over: bool,
    /// The bytes that were written into the pipe.
    pipe: Mutex<Vec<u64>>,
    /// The progress of connecting, and a signal that it has changed.
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

/// The kernel's state for two sides that are not connected.
#[derive(Default)]
struct Meeting {
    is_asked: bool,
    is_offered: bool,
    /// Whether the producer has closed its end of the pipe.
    has_ended: bool,
}

// SAFETY: loom checks all accesses to the cells, which is the purpose of the model.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

/// What a third process writes.
const OTHER: u64 = 9;

const PRODUCER: usize = 0;
const CONSUMER: usize = 1;

impl Model {
    fn new(is_moment_over: bool) -> Arc<Self> {
        let word = || Line(AtomicU64::new(0));
        let place = || (Mutex::new(false), Condvar::new());
        Arc::new(Self {
            control: Control {
                head: word(),
                claim: word(),
                released: word(),
                consumer_sleeps: word(),
                producer_sleeps: word(),
            },
            bytes: [UnsafeCell::new(0), UnsafeCell::new(0)],
            futexes: [place(), place()],
            sockets: [place(), place()],
            is_moment_over,
            pipe: Mutex::new(Vec::new()),
            meeting: Mutex::new(Meeting::default()),
            changed: Condvar::new(),
        })
    }

    fn flag(&self, side: usize) -> &AtomicU64 {
        match side {
            PRODUCER => &self.control.producer_sleeps.0,
            _ => &self.control.consumer_sleeps.0,
        }
    }

    fn wake(&self, side: usize, sleep: Option<Sleep>) {
        let places = match sleep {
            None => return,
            Some(Sleep::OnFlag) => &self.futexes,
            Some(Sleep::OnSocket) => &self.sockets,
        };
        *places[side].0.lock().unwrap() = true;
        places[side].1.notify_one();
    }

    /// Sleeps as `sleeping::sleep` does.
    fn sleep(&self, side: usize, is_there: impl Fn() -> bool) {
        let flag = self.flag(side);
        will_sleep(flag, Sleep::OnFlag);
        if !is_there() && !self.sleeps_on_futex(side) {
            will_sleep(flag, Sleep::OnSocket);
            if !is_there() {
                let (lock, sent) = &self.sockets[side];
                let mut is_sent = lock.lock().unwrap();
                while !*is_sent {
                    is_sent = sent.wait(is_sent).unwrap();
                }
                *is_sent = false;
            }
        }
        is_awake(flag);
    }

    /// Sleeps on the flag as futex(2) does, where a wakeup reaches only sleepers; returns `false` if the time is over.
    fn sleeps_on_futex(&self, side: usize) -> bool {
        if self.is_moment_over {
            return false;
        }
        let (lock, woken) = &self.futexes[side];
        let mut is_woken = lock.lock().unwrap();
        *is_woken = false;
        if self.flag(side).load(Ordering::Relaxed) == Sleep::OnFlag.flag() {
            while !*is_woken {
                is_woken = woken.wait(is_woken).unwrap();
            }
        }
        true
    }

    /// Sends 1, 2, 3 … `n` through the ring, closes it, and sends the rest through the pipe.
    fn produce(&self, n: u64) {
        let mut giver = Giver::new(SIZE);
        let mut next = 1;
        'ring: while next <= n {
            while giver.free(&self.control, 1).unwrap() == 0 {
                if giver.is_closed(&self.control) {
                    break 'ring;
                }
                let needed = giver.released_for(1);
                self.sleep(PRODUCER, || self.control.is_released(needed));
            }
            self.put_and_publish(&mut giver, next);
            next += 1;
        }
        self.close(&mut giver);
        self.pipe.lock().unwrap().extend(next..=n);
    }

    /// Changes the kernel's state, and wakes the side that waits for it.
    fn change(&self, change: impl FnOnce(&mut Meeting)) {
        change(&mut self.meeting.lock().unwrap());
        self.changed.notify_all();
    }

    /// Sends 1, 2, 3 … `n`: through the pipe until the consumer has connected and the pipe is empty, and then through
    /// the ring. Once the first number is in the ring, another process writes into the pipe. Returns what was sent, in
    /// order.
    fn meet_and_produce(&self, n: u64) -> Vec<u64> {
        let mut sent = Vec::new();
        for next in 1..=n {
            let is_asked = self.meeting.lock().unwrap().is_asked;
            let is_empty = self.pipe.lock().unwrap().is_empty();
            sent.push(next);
            if !is_asked || !is_empty {
                self.pipe.lock().unwrap().push(next);
                continue;
            }
            self.change(|meeting| meeting.is_offered = true);
            let mut giver = Giver::new(SIZE);
            self.put_and_publish(&mut giver, next);
            self.pipe.lock().unwrap().push(OTHER);
            sent.push(OTHER);
            // Bytes published now would be reordered before those of the other process.
            while !self.control.is_released(giver.head()) {
                self.sleep(PRODUCER, || self.control.is_released(giver.head()));
            }
            let is_empty = self.pipe.lock().unwrap().is_empty();
            if is_empty && next < n {
                self.put_and_publish(&mut giver, next + 1);
            }
            self.close(&mut giver);
            let rest = next + 1 + u64::from(is_empty)..=n;
            self.pipe.lock().unwrap().extend(rest);
            sent.extend(next + 1..=n);
            break;
        }
        self.change(|meeting| meeting.has_ended = true);
        sent
    }

    fn put_and_publish(&self, giver: &mut Giver, number: u64) {
        let at = (giver.head() % SIZE) as usize;
        // SAFETY: loom checks it.
        self.bytes[at].with_mut(|byte| unsafe { *byte = number });
        self.wake(CONSUMER, giver.publish(&self.control, 1));
    }

    /// Returns all that arrives through the pipe, and through a ring if one is offered.
    fn meet_and_consume(&self) -> Vec<u64> {
        self.change(|meeting| meeting.is_asked = true);
        let mut got = Vec::new();
        let (mut may_be_offered, mut is_over) = (true, false);
        while !is_over {
            let queued = || {
                // The end of a pipe is reported only after its bytes.
                let has_ended = self.meeting.lock().unwrap().has_ended;
                Ok(match self.pipe.lock().unwrap().len() {
                    0 if has_ended => Queued::End,
                    0 => Queued::Nothing,
                    n => Queued::Bytes(n),
                })
            };
            let receive = || match self.meeting.lock().unwrap().is_offered && may_be_offered {
                true => Ok(()),
                false => Err(Errno::AGAIN),
            };
            match look_for_an_offer(queued, receive, usize::MAX) {
                Ok(Answer::Offer(())) => {
                    may_be_offered = false;
                    got.append(&mut self.consume(usize::MAX, 1));
                }
                Ok(Answer::Bytes(Next::Queued(n))) => {
                    got.extend(self.pipe.lock().unwrap().drain(..n));
                }
                Ok(_) => is_over = true,
                Err(_) => {
                    let mut meeting = self.meeting.lock().unwrap();
                    let is_something = |meeting: &Meeting| {
                        meeting.has_ended || meeting.is_offered && may_be_offered
                    };
                    while !is_something(&meeting) {
                        meeting = self.changed.wait(meeting).unwrap();
                    }
                }
            }
        }
        got
    }

    /// Closes the ring, and writes all unclaimed bytes into the pipe.
    fn close(&self, giver: &mut Giver) {
        let left = giver.close(&self.control).unwrap();
        self.wake(CONSUMER, giver.wakes(&self.control));
        self.put(giver.head() - left..giver.head());
    }

    /// Writes a part of the ring into the pipe.
    fn put(&self, part: Range<u64>) {
        let mut pipe = self.pipe.lock().unwrap();
        for position in part {
            let byte = &self.bytes[(position % SIZE) as usize];
            // SAFETY: loom checks it.
            pipe.push(byte.with(|byte| unsafe { *byte }));
        }
    }

    /// Publishes as many numbers as fit into the ring, and then leaves them to the consumer, or closes the ring.
    fn produce_and_end(&self, leaves: bool) {
        let mut giver = Giver::new(SIZE);
        for at in 0..SIZE {
            self.put_and_publish(&mut giver, at + 1);
        }
        if !leaves || !giver.leave(&self.control) {
            self.close(&mut giver);
        }
    }

    /// Claims one number at most `tries` times, and ends. Returns what it consumed: all but the last number. Unless it
    /// sees that the producer has left everything to it, `believes` says whether it takes the producer for dead; either
    /// may be wrong.
    fn consume_and_end(&self, tries: usize, believes: bool) -> Vec<u64> {
        let mut taker = Taker::new(SIZE);
        let mut got = Vec::new();
        for _ in 0..tries {
            if let Claim::Bytes(_) = taker.claim(&self.control, 1).unwrap() {
                let byte = &self.bytes[((taker.claimed() - 1) % SIZE) as usize];
                // SAFETY: loom checks it.
                got.push(byte.with(|byte| unsafe { *byte }));
            }
        }
        let unread = got.len().min(1) as u64;
        if taker.close(&self.control, unread).0.is_some() {
            got.truncate(got.len() - unread as usize);
            if taker.is_left_to_this_side() || believes {
                if let Some(left) = taker.own_the_rest(&self.control, unread) {
                    let from = taker.claimed() - unread;
                    self.put(from..from + left);
                }
            }
        }
        got
    }

    /// Reads at most `most` numbers, up to `at_once` at a time, and returns them. If it ends early, it closes the ring,
    /// and does not consume the last number that it has claimed.
    fn consume(&self, most: usize, at_once: u64) -> Vec<u64> {
        let mut taker = Taker::new(SIZE);
        let mut got = Vec::new();
        loop {
            // Bytes of another writer in the pipe come after the current bytes of the ring, so the pipe is checked
            // first.
            let queued = self.pipe.lock().unwrap().len();
            match taker.claim(&self.control, at_once).unwrap() {
                Claim::Bytes(n) => {
                    for position in taker.claimed() - n..taker.claimed() {
                        let byte = &self.bytes[(position % SIZE) as usize];
                        // SAFETY: loom checks it.
                        got.push(byte.with(|byte| unsafe { *byte }));
                    }
                    if got.len() >= most {
                        self.wake(PRODUCER, taker.close(&self.control, 1).1);
                        return got;
                    }
                    self.wake(PRODUCER, taker.release(&self.control, 0));
                }
                Claim::Nothing if queued > 0 => {
                    got.extend(self.pipe.lock().unwrap().drain(..queued));
                }
                Claim::Nothing => {
                    self.sleep(CONSUMER, || self.control.is_published(taker.claimed()));
                }
                Claim::Closed => return got,
            }
        }
    }
}

/// Runs the model with both durations of a sleep on the flag.
fn check(body: impl Fn(Arc<Model>) + Sync + Send + Clone + 'static) {
    for is_moment_over in [true, false] {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        let body = body.clone();
        builder.check(move || body(Model::new(is_moment_over)));
    }
}

#[test]
fn every_number_arrives_once_and_in_order_whenever_the_producer_ends() {
    for (n, at_once) in [(1, 1), (2, 2), (3, 1), (3, 2)] {
        check(move |model| {
            let producer = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.produce(n))
            };
            let mut got = model.consume(usize::MAX, at_once);
            producer.join().unwrap();
            got.append(&mut model.pipe.lock().unwrap());
            assert_eq!(got, (1..=n).collect::<Vec<_>>());
        });
    }
}

#[test]
fn what_a_consumer_that_ends_early_leaves_is_in_the_pipe_or_was_claimed() {
    for (n, most) in [(2, 1), (3, 1), (3, 2)] {
        check(move |model| {
            let producer = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.produce(n))
            };
            let mut got = model.consume(most, 1);
            producer.join().unwrap();
            let pipe = &mut *model.pipe.lock().unwrap();
            // The last number goes back, unless the producer has closed the ring first.
            if got.last() == pipe.first() {
                got.pop();
            }
            got.append(pipe);
            assert_eq!(got, (1..=n).collect::<Vec<_>>());
        });
    }
}

#[test]
fn one_side_alone_owns_what_is_left_whoever_ends_first_and_whatever_it_believes() {
    for (leaves, believes) in [(true, false), (false, true), (false, false)] {
        for tries in [0, 1, 2] {
            check(move |model| {
                let producer = {
                    let model = Arc::clone(&model);
                    thread::spawn(move || model.produce_and_end(leaves))
                };
                let mut got = model.consume_and_end(tries, believes);
                producer.join().unwrap();
                got.append(&mut model.pipe.lock().unwrap());
                let all = [1, 2];
                // A consumer that takes the producer for dead owns only what was published until then.
                assert_eq!(got, all[..got.len()], "{leaves} {believes} {tries}");
                assert!(believes || got.len() == all.len(), "{leaves} {tries}");
            });
        }
    }
}

#[test]
fn every_number_arrives_once_and_in_order_whenever_the_two_sides_meet() {
    for n in [1, 2, 3] {
        check(move |model| {
            let producer = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.meet_and_produce(n))
            };
            let got = model.meet_and_consume();
            assert_eq!(got, producer.join().unwrap());
        });
    }
}

#[test]
fn numbers_that_no_honest_side_writes_are_found() {
    loom::model(|| {
        for bad in [3, u64::MAX, 1 << 63, (1 << 63) - 1] {
            let model = Model::new(false);
            model.control.head.0.store(bad, Ordering::Relaxed);
            assert!(Taker::new(SIZE).claim(&model.control, 9).is_err(), "{bad}");
            let mut giver = Giver::new(SIZE);
            giver.publish(&model.control, 2);
            model.control.released.0.store(bad, Ordering::Relaxed);
            assert!(giver.free(&model.control, 1).is_err(), "{bad}");
            model
                .control
                .claim
                .0
                .store(bad & !(1 << 63), Ordering::Relaxed);
            let claimed = bad & !(1 << 63);
            assert_eq!(giver.close(&model.control).is_err(), claimed > 2, "{bad}");
        }
    });
}
