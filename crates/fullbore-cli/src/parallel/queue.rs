//! The workers, in the order of their blocks, and whose turn it is to write.

use std::collections::VecDeque;

use rustix::process::Pid;

use super::memory::Memory;
use super::worker::Worker;

/// The workers whose outputs have not been written.
#[derive(Default)]
pub struct Queue {
    pub workers: VecDeque<Worker>,
    unordered: bool,
    /// The block that is being written, if the order is free.
    turn: Option<u64>,
}

impl Queue {
    pub fn new(unordered: bool) -> Self {
        Self {
            unordered,
            ..Self::default()
        }
    }

    /// Returns the place of the worker whose output goes straight to the reader. In free order it is the first one that
    /// has ended, or the first of all if memory is short. A process that has ended before its block is complete waits for
    /// the others, whose outputs may have the memory that reading its block takes.
    pub fn turn(&mut self, memory: &Memory) -> Option<usize> {
        if !self.unordered {
            return (!self.workers.is_empty()).then_some(0);
        }
        let of = |number| self.workers.iter().position(|w| w.block.number == number);
        let is_alone = self.workers.len() == 1;
        let is_done = |worker: &Worker| match worker.block.is_open {
            true => is_alone && worker.status.is_some(),
            false => worker.has_ended(),
        };
        let at = (self.turn.and_then(of))
            .or_else(|| self.workers.iter().position(is_done))
            .or_else(|| (memory.is_short && !self.workers.is_empty()).then_some(0))?;
        self.turn = Some(self.workers[at].block.number);
        Some(at)
    }

    /// Returns how many have not ended.
    pub fn running(&self) -> usize {
        self.workers
            .iter()
            .filter(|worker| !worker.has_ended())
            .count()
    }

    /// Returns the first number that no running worker has.
    pub fn free_slot(&self) -> usize {
        let is_taken = |slot: &usize| {
            self.workers
                .iter()
                .any(|w| w.slot == *slot && !w.has_ended())
        };
        (0..).find(|slot| !is_taken(slot)).unwrap_or(0)
    }

    /// Returns the running worker with this process.
    pub fn of(&mut self, pid: Pid) -> Option<&mut Worker> {
        self.workers
            .iter_mut()
            .find(|worker| worker.pid == pid && worker.status.is_none())
    }
}
