//! What the workers did, and what was slow: the reader, the workers or the writer.

use std::time::{Duration, Instant};

use fullbore_host::size::{amount, format as size};
use fullbore_host::text::{Percent, counted, table_lines};
use serde::Serialize;

use super::worker::Worker;

/// The report on a stage in several processes.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub command: String,
    pub jobs: usize,
    pub block_bytes: usize,
    pub memory_bytes: usize,
    /// The most memory that was in use.
    pub memory_peak_bytes: usize,
    pub seconds: f64,
    pub blocks: u64,
    pub failed_blocks: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// CPU seconds of this process, which splits and joins.
    pub own_cpu_seconds: f64,
    pub waited: Waited,
    /// How long blocks whose output was complete waited for their turn.
    pub turn_wait_mean_seconds: f64,
    pub turn_wait_max_seconds: f64,
    pub slow: SlowPart,
    pub workers: Vec<Slot>,
    #[serde(skip)]
    pub turns: u32,
    #[serde(skip)]
    pub turn_sum: Duration,
}

/// What this process waited for, in seconds.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct Waited {
    pub input: f64,
    pub workers: f64,
    pub output: f64,
}

impl Waited {
    /// Counts so many seconds as waiting for the output. The other thread has counted them since `before` as waiting for
    /// something else.
    pub fn was_for_output(&mut self, before: Self, seconds: f64) {
        self.output += seconds;
        let workers = seconds.min(self.workers - before.workers);
        self.workers -= workers;
        self.input -= (seconds - workers).min(self.input - before.input);
    }
}

/// What was slow.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowPart {
    Input,
    #[default]
    Workers,
    Output,
}

/// What the processes with one number did, one after the other.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Slot {
    pub blocks: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub seconds: f64,
    pub cpu_seconds: f64,
}

impl Report {
    /// Returns what the processes with this number did.
    pub fn slot(&mut self, number: usize) -> &mut Slot {
        if self.workers.len() <= number {
            self.workers.resize(number + 1, Slot::default());
        }
        &mut self.workers[number]
    }

    /// Notes what a worker did whose output has been written.
    pub fn note(&mut self, worker: &Worker) {
        let ended = worker.ended.unwrap_or_else(Instant::now);
        self.turns += 1;
        self.turn_sum += ended.elapsed();
        let seconds = ended.elapsed().as_secs_f64();
        self.turn_wait_max_seconds = self.turn_wait_max_seconds.max(seconds);
        self.bytes_written += worker.wrote;
        let slot = self.slot(worker.slot);
        slot.blocks += 1;
        slot.bytes_read += worker.block.bytes;
        slot.bytes_written += worker.wrote;
        slot.seconds += (ended - worker.began).as_secs_f64();
    }

    /// Adds what follows from the sums.
    pub fn conclude(&mut self) {
        self.turn_wait_mean_seconds = self.turn_sum.as_secs_f64() / f64::from(self.turns.max(1));
        let Waited {
            input,
            workers,
            output,
        } = self.waited;
        self.slow = match (input >= workers, input.max(workers) >= output) {
            (_, false) => SlowPart::Output,
            (true, true) => SlowPart::Input,
            (false, true) => SlowPart::Workers,
        };
    }

    /// Returns the report for people.
    pub fn lines(&self) -> Vec<String> {
        let header = ["process", "blocks", "read", "wrote", "ran", "CPU"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for (number, slot) in self.workers.iter().enumerate() {
            rows.push(vec![
                (number + 1).to_string(),
                slot.blocks.to_string(),
                amount(slot.bytes_read as f64),
                amount(slot.bytes_written as f64),
                self.share(slot.seconds),
                self.share(slot.cpu_seconds),
            ]);
        }
        let mut lines = table_lines(&rows, |_| true);
        lines.push(format!(
            "{} of at least {}, in at most {} of {} of memory; complete outputs waited {:.3} s for their turn, at most {:.3} s",
            counted(self.blocks as usize, "block", "blocks"),
            size(self.block_bytes as u64),
            amount(self.memory_peak_bytes as f64),
            size(self.memory_bytes as u64),
            self.turn_wait_mean_seconds,
            self.turn_wait_max_seconds,
        ));
        let (what, time) = match self.slow {
            SlowPart::Input => ("the input", self.waited.input),
            SlowPart::Workers => ("the command", self.waited.workers),
            SlowPart::Output => ("the reader of the output", self.waited.output),
        };
        lines.push(format!(
            "slow: {what}: 'fullbore parallel' waited for it {} of the time, and used {} of a CPU itself",
            self.share(time),
            self.share(self.own_cpu_seconds),
        ));
        lines
    }

    fn share(&self, seconds: f64) -> String {
        Percent(seconds / self.seconds.max(1e-9)).to_string()
    }
}
