//! Defines the group `sweep`: throughput over the size of a call and the size of the pipe, written by write(2)
//! and read by read(2). Each pair of sizes is an ordinary experiment, with options of `fullbore write` and
//! `fullbore read` that can be repeated in a shell. Reports show the group as a grid.

use crate::endpoint::{Pair, pair};
use crate::experiment::{Experiment, Group};
use fullbore_host::size;
use fullbore_results::run::Cell;

/// Bytes per call, for writing and reading.
const CHUNKS: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Capacities of the pipe.
const PIPE_SIZES: [usize; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Returns the group, ordered by chunk.
pub fn group() -> Group {
    let cells = CHUNKS.iter().flat_map(|&chunk| {
        let cell = move |pipe_size| experiment(Cell { chunk, pipe_size });
        PIPE_SIZES.map(cell)
    });
    let shows = "throughput by bytes per call and pipe capacity";
    Group::new("sweep", shows, &[], cells)
}

fn experiment(cell: Cell) -> Experiment {
    let (chunk, pipe_size) = (short(cell.chunk), short(cell.pipe_size));
    let name = format!("chunk_{chunk}_pipe_{pipe_size}");
    let shows = format!("{chunk} a call, through a pipe of {pipe_size}");
    let writer = format!("--buf-size {chunk} --pipe-size {pipe_size} --wait block");
    let reader = format!("--buf-size {chunk} --wait block");
    let peer = format!(
        "--writer write --reader read --chunk {} --pipe-size {}",
        cell.chunk, cell.pipe_size
    );
    let pair = Pair {
        cell: Some(cell),
        peer: Some(peer.leak()),
        ..pair(writer.leak(), reader.leak())
    };
    pair.experiment(name, shows)
}

/// Formats a size as it is typed: `64K`.
fn short(bytes: usize) -> String {
    size::typed(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_results::run::Settings;

    #[test]
    fn the_program_in_c_is_compared() {
        let settings = Settings::new(1, 0.1, 0.0);
        let first = &group().experiments[0];
        assert_eq!(first.name, "chunk_4K_pipe_4K");
        assert_eq!(
            first.work.peer(&settings).unwrap(),
            "pipe --writer write --reader read --chunk 4096 --pipe-size 4096"
        );
    }
}
