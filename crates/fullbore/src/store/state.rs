//! Which part of the memory of a buffer may be filled, and which part each output may read: only numbers, no memory,
//! clocks or threads.
//!
//! The memory is divided into *slots* of one size, and the stream into *pieces* of that size. Each piece occupies a
//! slot from its first byte until the slowest output has got its last. A piece is cut short if all of it was sent and
//! no pipe refers to it: the next one then begins in the same slot. Bytes of the stream are counted from 0.
//!
//! The invariants, which the tests check in every order of events:
//! - A part that may be filled never overlaps a part that an output may read.
//! - A slot that a pipe may refer to is released to the kernel before it is filled again.
//! - As long as an output lacks bytes, the reader or an output can continue.

use std::collections::VecDeque;
use std::ops::Range;

use super::gate::Gate;

/// Released slots that stay allocated if no pipe refers to them: memory in the cache is faster to fill than new memory,
/// which the kernel zeroes. If more slots than that are in use, as many as these are kept.
const WARM: usize = 4;

/// The state of the memory of a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Bytes of the stream in a slot.
    slot: usize,
    /// Bytes from one slot to the next.
    stride: usize,
    /// An output sends so many bytes at a time, and fewer only at the end; 0 if it sends what there is. A slot holds a
    /// multiple of it.
    block: usize,
    /// Size of the memory in bytes.
    pub(super) capacity: u64,
    /// The slots of the pieces that some output still needs, in the order of the stream.
    pieces: VecDeque<Piece>,
    /// The position in the stream of the first byte in these slots.
    first: u64,
    /// Free slots with memory.
    warm: Vec<usize>,
    /// Free slots without memory.
    cold: Vec<usize>,
    /// Bytes that were read.
    pub(super) filled: u64,
    /// Whether the source has ended.
    pub(super) ended: bool,
    outputs: Vec<Output>,
    /// Whether reading waits for room.
    paused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Piece {
    slot: usize,
    given: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Output {
    sent: u64,
    is_alive: bool,
    /// Whether it had to wait for bytes, and the gate says when it goes on.
    holds_back: bool,
}

/// What an output may do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send these bytes of the memory.
    Send(Range<usize>),
    /// Wait for more.
    Wait,
    /// Nothing: it has sent everything.
    End,
}

impl State {
    /// Creates the state of `slots` slots of `slot` bytes for this number of outputs.
    pub(crate) fn new(slot: usize, slots: usize, outputs: usize) -> Self {
        let output = Output {
            sent: 0,
            is_alive: true,
            holds_back: true,
        };
        Self {
            slot,
            stride: slot,
            block: 0,
            capacity: (slot * slots) as u64,
            pieces: VecDeque::new(),
            first: 0,
            warm: Vec::new(),
            // The lowest slots are used first.
            cold: (0..slots).rev().collect(),
            filled: 0,
            ended: false,
            outputs: vec![output; outputs],
            paused: false,
        }
    }

    /// Makes outputs send blocks of this many bytes: `slot` is a multiple of it, and slots begin `stride` bytes apart.
    pub(crate) fn in_blocks(mut self, block: usize, stride: usize) -> Self {
        (self.block, self.stride) = (block, stride);
        self
    }

    /// Returns how many outputs there were at the start.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Returns how many bytes this output has got.
    pub(crate) fn sent(&self, output: usize) -> u64 {
        self.outputs[output].sent
    }

    /// Returns the number of bytes that the slowest output has not got yet.
    pub(crate) fn held(&self) -> u64 {
        self.filled - self.slowest()
    }

    /// Returns how many outputs are left.
    pub(crate) fn outputs_left(&self) -> usize {
        let outputs = self.outputs.iter();
        outputs.filter(|output| output.is_alive).count()
    }

    /// Returns the first output that is left, if there is any.
    pub(crate) fn first_output(&self) -> Option<usize> {
        self.outputs.iter().position(|output| output.is_alive)
    }

    /// Returns where to read the next bytes, at most `most`, or `None` while the buffer is full. The room stays valid
    /// until [`fill`](Self::fill).
    pub(crate) fn room(&mut self, most: usize, gate: &dyn Gate) -> Option<Range<usize>> {
        if !self.has_room(gate) {
            self.paused = true;
            return None;
        }
        let has_one = self.pieces.len() == 1;
        if has_one && !self.pieces[0].given && self.held() == 0 {
            // Start at the beginning of the slot again: it is in the cache, and no output needs it any more.
            self.first = self.filled;
        }
        let used = self.used();
        if used == self.pieces.len() * self.slot {
            let slot = self.warm.pop().or_else(|| self.cold.pop())?;
            self.pieces.push_back(Piece { slot, given: false });
        }
        self.paused = false;
        let at = used % self.slot;
        let start = self.pieces[used / self.slot].slot * self.stride + at;
        Some(start..start + most.min(self.slot - at))
    }

    /// Returns whether something may be read now.
    pub(crate) fn has_room(&self, gate: &dyn Gate) -> bool {
        let held = self.held();
        let waits = self.paused && held > 0 && !gate.may_read(held, self.capacity);
        let has_slot = !(self.warm.is_empty() && self.cold.is_empty());
        !waits && (has_slot || self.used() < self.pieces.len() * self.slot)
    }

    /// Returns how many bytes are filled in the slots of all pieces.
    fn used(&self) -> usize {
        usize::try_from(self.filled - self.first).expect("it is in memory")
    }

    /// Records that `n` bytes were read into the room.
    pub(crate) fn fill(&mut self, n: usize) {
        self.filled += n as u64;
    }

    /// Records that the source has ended.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns what this output may do next; it sends at most `most` bytes.
    pub(crate) fn next(&mut self, output: usize, most: usize, gate: &dyn Gate) -> Next {
        let Output {
            sent, holds_back, ..
        } = self.outputs[output];
        let there = self.filled - sent;
        if there == 0 {
            self.outputs[output].holds_back = true;
            return match self.ended {
                true => Next::End,
                false => Next::Wait,
            };
        }
        let is_free = !holds_back || self.ended || self.paused;
        if !is_free && !gate.may_write(there, self.capacity) {
            return Next::Wait;
        }
        let mut most = most;
        if self.block > 0 {
            // A block of which a part was sent goes on.
            most = self.block - (sent % self.block as u64) as usize;
            if there < most as u64 && !self.ended {
                return Next::Wait;
            }
        }
        self.outputs[output].holds_back = false;
        let from = usize::try_from(sent - self.first).expect("it is in memory");
        let at = from % self.slot;
        let start = self.pieces[from / self.slot].slot * self.stride + at;
        let there = usize::try_from(there).unwrap_or(usize::MAX);
        Next::Send(start..start + most.min(self.slot - at).min(there))
    }

    /// Records that this output has got `n` bytes, and whether they were `given` to a pipe.
    pub(crate) fn send(&mut self, output: usize, n: usize, given: bool) {
        let sent = &mut self.outputs[output].sent;
        let from = usize::try_from(*sent - self.first).expect("it is in memory");
        *sent += n as u64;
        self.pieces[from / self.slot].given |= given;
    }

    /// Records that this output has failed or ended.
    pub(crate) fn lose(&mut self, output: usize) {
        self.outputs[output].is_alive = false;
    }

    /// Returns where the bytes are that this output has not sent, in order; none if it is lost.
    pub(crate) fn unsent(&self, output: usize) -> Vec<Range<usize>> {
        let Output {
            mut sent, is_alive, ..
        } = self.outputs[output];
        let mut parts = Vec::new();
        while is_alive && sent < self.filled {
            let at = usize::try_from(sent - self.first).expect("it is in memory");
            let left = usize::try_from(self.filled - sent).unwrap_or(usize::MAX);
            let len = left.min(self.slot - at % self.slot);
            let start = self.pieces[at / self.slot].slot * self.stride + at % self.slot;
            parts.push(start..start + len);
            sent += len as u64;
        }
        parts
    }

    /// Takes the slots from the oldest pieces that no output needs any more, up to one that has to be released to the
    /// kernel.
    pub(crate) fn release(&mut self) -> Option<usize> {
        loop {
            if self.warm.len() > WARM.max(self.pieces.len()) {
                // The last one in the list is the most likely to be in the cache; release the first.
                return Some(self.warm.remove(0));
            }
            let piece_ends = self.first + self.slot as u64;
            if self.slowest().min(self.filled) < piece_ends {
                return None;
            }
            let piece = self.pieces.pop_front()?;
            self.first = piece_ends;
            if piece.given {
                return Some(piece.slot);
            }
            self.warm.push(piece.slot);
        }
    }

    /// Frees a slot that was released to the kernel.
    pub(crate) fn gave_back(&mut self, slot: usize) {
        self.cold.push(slot);
    }

    /// Returns the position of the slowest output.
    fn slowest(&self) -> u64 {
        let alive = self.outputs.iter().filter(|output| output.is_alive);
        alive.map(|output| output.sent).min().unwrap_or(self.filled)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Holds a side back until so many bytes are held, or no more than so many.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    struct Thresholds {
        start: u64,
        resume: u64,
    }

    impl Gate for Thresholds {
        fn may_read(&self, held: u64, _: u64) -> bool {
            held <= self.resume
        }

        fn may_write(&self, held: u64, _: u64) -> bool {
            held >= self.start
        }
    }

    /// A state, and memory that holds the stream position of each byte.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Model {
        state: State,
        gate: Thresholds,
        memory: Vec<Option<u64>>,
        /// The bytes of memory that a pipe may refer to.
        given: Vec<bool>,
        /// Slots that are still to be released.
        returning: Vec<usize>,
        /// The room that the reader holds.
        room: Option<Range<usize>>,
        length: u64,
    }

    impl Model {
        fn new(
            slot: usize,
            slots: usize,
            outputs: usize,
            start: u64,
            resume: u64,
            length: u64,
        ) -> Self {
            Self {
                state: State::new(slot, slots, outputs),
                gate: Thresholds { start, resume },
                memory: vec![None; slot * slots],
                given: vec![false; slot * slots],
                returning: Vec::new(),
                room: None,
                length,
            }
        }

        /// Appends the states after every possible next event.
        fn successors(&self, all: &mut Vec<Self>) {
            let State { stride, .. } = self.state;
            // The reader takes room, and fills some of it, or finds the end.
            match &self.room {
                None if !self.state.ended => {
                    let mut next = self.clone();
                    next.room = next.state.room(usize::MAX, &self.gate);
                    let waits = next.room.is_none();
                    if !waits || next.state != self.state {
                        all.push(next);
                    }
                }
                None => {}
                Some(room) => {
                    let left = (self.length - self.state.filled) as usize;
                    for n in 1..=room.len().min(left) {
                        let mut next = self.clone();
                        for at in room.start..room.start + n {
                            assert!(!self.given[at], "a pipe refers to this byte");
                            next.memory[at] = Some(next.state.filled);
                            next.state.fill(1);
                        }
                        next.room = None;
                        all.push(next);
                    }
                    if left == 0 {
                        let mut next = self.clone();
                        next.room = None;
                        next.state.end();
                        all.push(next);
                    }
                }
            }
            // Each output sends some bytes, or fails.
            for output in 0..self.state.outputs.len() {
                if !self.state.outputs[output].is_alive {
                    continue;
                }
                let mut asked = self.clone();
                if let Next::Send(bytes) = asked.state.next(output, usize::MAX, &self.gate) {
                    if let Some(room) = &self.room {
                        assert!(bytes.end <= room.start || room.end <= bytes.start);
                    }
                    for (n, given) in (1..=bytes.len()).flat_map(|n| [(n, true), (n, false)]) {
                        let mut next = asked.clone();
                        for i in 0..n {
                            let expected = self.state.sent(output) + i as u64;
                            assert_eq!(self.memory[bytes.start + i], Some(expected));
                            next.given[bytes.start + i] |= given;
                        }
                        next.state.send(output, n, given);
                        all.push(next);
                    }
                }
                if self.state.outputs.len() > 1 {
                    let mut next = self.clone();
                    next.state.lose(output);
                    all.push(next);
                }
            }
            // Slots are taken from their pieces, and one is later released.
            let mut next = self.clone();
            let slot = next.state.release();
            if slot.is_some() || next.state != self.state {
                next.returning.extend(slot);
                all.push(next);
            }
            if let Some(&number) = self.returning.last() {
                let mut next = self.clone();
                next.returning.pop();
                for at in number * stride..(number + 1) * stride {
                    (next.memory[at], next.given[at]) = (None, false);
                }
                next.state.gave_back(number);
                all.push(next);
            }
        }

        /// The same in blocks, in slots with a byte that is not used.
        fn in_blocks(mut self, block: usize, slots: usize) -> Self {
            let stride = self.state.slot + 1;
            self.state = self.state.in_blocks(block, stride);
            (self.memory, self.given) = (vec![None; stride * slots], vec![false; stride * slots]);
            self
        }

        fn is_over(&self) -> bool {
            let outputs = &self.state.outputs;
            let is_done = |output: &Output| !output.is_alive || output.sent == self.length;
            self.state.ended && outputs.iter().all(is_done)
        }
    }

    /// Tries all orders of events, and returns how many states there are.
    fn explore(first: Model) -> usize {
        let mut seen = HashSet::from([first.clone()]);
        let mut todo = vec![first];
        let mut next = Vec::new();
        while let Some(model) = todo.pop() {
            assert!(model.state.held() <= model.state.capacity);
            model.successors(&mut next);
            let loses = |other: &Model| {
                let alive = |model: &Model| {
                    let outputs = model.state.outputs.iter();
                    outputs.filter(|output| output.is_alive).count()
                };
                alive(other) < alive(&model)
            };
            // Losing an output does not count as progress.
            let goes_on = next.iter().any(|other| !loses(other));
            assert!(goes_on || model.is_over(), "nobody can go on");
            for model in next.drain(..) {
                if seen.insert(model.clone()) {
                    todo.push(model);
                }
            }
        }
        seen.len()
    }

    #[test]
    fn every_order_of_events_sends_each_byte_once_and_ends() {
        for slots in 1..=3 {
            for (start, resume) in [(0, 6), (1, 6), (4, 6), (6, 6), (0, 0), (0, 3), (5, 2)] {
                let states = explore(Model::new(2, slots, 1, start, resume, 6));
                assert!(states > 50, "{states}");
            }
        }
    }

    #[test]
    fn every_order_of_events_is_right_with_two_outputs_that_may_fail() {
        for (start, resume) in [(0, 4), (3, 4), (4, 0)] {
            let states = explore(Model::new(2, 2, 2, start, resume, 4));
            assert!(states > 1000, "{states}");
        }
    }

    #[test]
    fn every_order_of_events_is_right_in_blocks() {
        for (start, resume) in [(0, 8), (1, 8), (8, 8), (0, 0), (5, 2)] {
            for length in [7, 8] {
                let model = Model::new(4, 2, 1, start, resume, length).in_blocks(2, 2);
                assert!(explore(model) > 100);
            }
        }
        explore(Model::new(2, 2, 2, 3, 4, 5).in_blocks(2, 2));
    }

    #[test]
    fn only_the_last_block_is_short() {
        let mut state = State::new(6, 2, 1).in_blocks(3, 8);
        let fill = |state: &mut State, n| {
            for _ in 0..n {
                state.room(1, &()).unwrap();
                state.fill(1);
            }
        };
        fill(&mut state, 2);
        assert_eq!(state.next(0, 99, &()), Next::Wait);
        fill(&mut state, 6);
        for (expected, sent) in [(0..3, 3), (3..6, 1), (4..6, 2)] {
            assert_eq!(state.next(0, 99, &()), Next::Send(expected));
            state.send(0, sent, false);
        }
        assert_eq!(state.next(0, 99, &()), Next::Wait, "two bytes are no block");
        state.end();
        assert_eq!(state.next(0, 99, &()), Next::Send(8..10));
    }

    #[test]
    fn an_output_waits_until_there_are_enough_bytes_and_then_sends_all() {
        let mut state = State::new(4, 4, 1);
        let gate = Thresholds {
            start: 8,
            resume: 16,
        };
        for _ in 0..7 {
            state.room(1, &gate).unwrap();
            state.fill(1);
            assert_eq!(state.next(0, 99, &gate), Next::Wait);
        }
        state.room(1, &gate).unwrap();
        state.fill(1);
        assert_eq!(state.next(0, 99, &gate), Next::Send(0..4));
        state.send(0, 4, false);
        assert_eq!(state.next(0, 99, &gate), Next::Send(4..8));
        state.send(0, 4, false);
        assert_eq!(state.next(0, 99, &gate), Next::Wait);
        state.room(1, &gate).unwrap();
        state.fill(1);
        assert_eq!(state.next(0, 99, &gate), Next::Wait, "it was empty again");
        state.end();
        assert!(matches!(state.next(0, 99, &gate), Next::Send(_)));
    }

    #[test]
    fn a_full_buffer_is_not_refilled_above_the_refill_threshold() {
        let mut state = State::new(4, 4, 1);
        let gate = Thresholds {
            start: 0,
            resume: 8,
        };
        while let Some(room) = state.room(4, &gate) {
            state.fill(room.len());
        }
        assert_eq!(state.held(), 16);
        for _ in 0..2 {
            assert_eq!(state.room(4, &gate), None);
            state.send(0, 4, false);
            state.release();
        }
        assert_eq!(state.held(), 8);
        assert!(state.room(4, &gate).is_some());
    }

    #[test]
    fn a_slot_that_was_sent_is_filled_from_its_start_unless_a_pipe_was_given_some_of_it() {
        let mut state = State::new(4, 4, 1);
        for given in [false, true] {
            assert_eq!(state.room(2, &()), Some(0..2));
            state.fill(2);
            state.send(0, 2, given);
        }
        assert_eq!(state.room(2, &()), Some(2..4));
    }

    #[test]
    fn slots_that_no_pipe_was_given_are_filled_again_and_few_are_kept() {
        let mut state = State::new(4, 10, 1);
        while let Some(room) = state.room(4, &()) {
            state.fill(room.len());
        }
        let mut released = Vec::new();
        for piece in 0..10 {
            state.send(0, 4, piece == 0);
            while let Some(slot) = state.release() {
                released.push((piece, slot));
            }
        }
        // From the sixth piece on, less than half of the slots are in use.
        let expected = [(0, 0), (5, 1), (6, 2), (7, 3), (8, 4), (9, 5)];
        assert_eq!(released, expected);
        assert_eq!(
            state.room(4, &()),
            Some(36..40),
            "the one that was kept last"
        );
    }
}
