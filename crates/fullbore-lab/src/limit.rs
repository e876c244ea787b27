//! Measures what two CPUs can do at all: hand over blocks of shared memory that one writes and the other reads.
//! What passes bytes from one CPU to the other is hardly faster, unless it leaves some bytes unwritten or
//! unread.

use std::hint::{black_box, spin_loop};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use fullbore_host::distance::pinned_to;
use fullbore_host::machine::CpuPair;
use fullbore_linux::Pages;
use fullbore_ring::copy_past_caches;

use crate::endpoint::prepare;
use fullbore_bytes::pattern;

/// The sizes of a block. Which one is best depends on the caches.
const BLOCKS: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

/// How many blocks are under way.
const UNDER_WAY: usize = 8;

/// How long one block size is measured at a time. One sample takes less than a tenth of a second.
const TIME: Duration = Duration::from_millis(4);

/// The same before a run of less than a second.
const SHORT_TIME: Duration = Duration::from_millis(1);

/// How often all sizes are measured at most before a run, and after it.
const MOST_SAMPLES: u64 = 5;

/// Fills the second slice, with the bytes of the first, which is as long, or with words that it makes.
type Store = fn(&[u8], &mut [u8]);

/// How many tries pass between two moments at which a thread that waits offers its CPU to others.
const TRIES_BETWEEN_YIELDS: u32 = 1 << 8;

/// Adds samples of the limit, in GiB/s.
///
/// It measures before and after a run, each time once for each second that the run takes, so that a short run is not
/// spent on its limit: before a run of less than a second, it measures once, and after it not at all. Nothing is
/// added where the two CPUs are one, or where threads cannot be pinned to them.
pub fn take(samples: &mut Vec<f64>, cpus: &CpuPair, run: Duration) {
    let is_short = run < Duration::from_secs(1);
    if cpus.writer == cpus.reader || is_short && !samples.is_empty() {
        return;
    }
    let time = if is_short { SHORT_TIME } else { TIME };
    let Ok((mut blocks, from)) = memory() else {
        return;
    };
    // Which stores are fastest depends on how far the CPUs are apart.
    let stores: [Store; 3] = [
        |_, to| pattern::fill(to, 0),
        |from, to| to.copy_from_slice(from),
        copy_past_caches,
    ];
    for _ in 0..run.as_secs().clamp(1, MOST_SAMPLES) {
        let ways = stores
            .iter()
            .flat_map(|&store| BLOCKS.map(|block| (store, block)));
        let rates = ways.filter_map(|(store, block)| {
            let blocks = blocks.iter_mut().map(|pages| &mut pages[..block]);
            hand_over(cpus, blocks.collect(), &from, time, store)
        });
        samples.extend(rates.max_by(f64::total_cmp));
    }
}

/// Returns the memory of all measurements, which has been written to, on huge pages if there are any: blocks, and what
/// is copied into them.
fn memory() -> anyhow::Result<(Vec<Pages>, Pages)> {
    let largest = BLOCKS[BLOCKS.len() - 1];
    let blocks = (0..UNDER_WAY).map(|_| prepare::huge_pages(largest));
    Ok((
        blocks.collect::<Result<_, _>>()?,
        prepare::huge_pages(BLOCKS[0])?,
    ))
}

/// Hands blocks over from one CPU to the other, which give them back to be written again.
fn hand_over(
    cpus: &CpuPair,
    blocks: Vec<&mut [u8]>,
    from: &[u8],
    time: Duration,
    store: Store,
) -> Option<f64> {
    let (filled, to_read) = channel();
    let (empty, to_fill) = channel();
    thread::scope(|scope| {
        let reading = scope.spawn(|| pinned_to(cpus.reader, || read_all(blocks, to_read, empty)));
        scope.spawn(|| pinned_to(cpus.writer, || fill_all(time, store, from, to_fill, filled)));
        reading.join().ok()??
    })
}

/// Writes the blocks until the time is up. What is copied is in this CPU's cache.
fn fill_all<'m>(
    time: Duration,
    store: Store,
    from: &[u8],
    to_fill: Receiver<&'m mut [u8]>,
    filled: Sender<&'m mut [u8]>,
) {
    let mut began = None;
    while let Some(block) = next(&to_fill) {
        let began = *began.get_or_insert_with(Instant::now);
        for piece in block.chunks_mut(from.len()) {
            store(&from[..piece.len()], piece);
        }
        if filled.send(block).is_err() || began.elapsed() >= time {
            return;
        }
    }
}

/// Hands over the empty blocks, and reads every word of them until no more come. Returns the rate, which includes the
/// time in which the first block is written.
fn read_all<'m>(
    blocks: Vec<&'m mut [u8]>,
    to_read: Receiver<&'m mut [u8]>,
    empty: Sender<&'m mut [u8]>,
) -> Option<f64> {
    let mut bytes = 0;
    let began = Instant::now();
    for block in blocks {
        empty.send(block).ok()?;
    }
    while let Some(block) = next(&to_read) {
        black_box(pattern::sum(block, 0));
        bytes += block.len();
        // This fails if the writer has ended, which may have left blocks to read.
        let _ = empty.send(block);
    }
    let rate = bytes as f64 / (1u64 << 30) as f64 / began.elapsed().as_secs_f64();
    Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0)
}

/// Waits for the next block; `None` when the other side has ended.
fn next<'m>(blocks: &Receiver<&'m mut [u8]>) -> Option<&'m mut [u8]> {
    let mut tries = 0u32;
    loop {
        tries = tries.wrapping_add(1);
        match blocks.try_recv() {
            Ok(block) => return Some(block),
            // The other side may be waiting for this CPU's time, or for that of its own.
            Err(TryRecvError::Empty) if tries % TRIES_BETWEEN_YIELDS == 0 => {
                thread::yield_now();
            }
            Err(TryRecvError::Empty) => spin_loop(),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fullbore_host::machine::Topology;

    use super::*;

    #[test]
    fn two_cpus_have_a_limit_and_one_has_none() {
        let topology = Topology::read();
        let pair = CpuPair::choose(&topology);
        let limit = |pair: &CpuPair| {
            let mut samples = Vec::new();
            take(&mut samples, pair, Duration::ZERO);
            samples
        };
        let limit_of_pair = limit(&pair);
        assert_eq!(!limit_of_pair.is_empty(), pair.writer != pair.reader);
        assert!(limit_of_pair.iter().all(|limit| *limit > 0.0));
        let one = CpuPair::of(pair.writer, pair.writer, &topology).unwrap();
        assert!(limit(&one).is_empty());
    }
}
