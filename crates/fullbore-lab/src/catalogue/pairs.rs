//! Defines the groups whose experiments are a writer and a reader on one pipe. A new experiment is a new
//! row.
//!
//! Both ends are options of `fullbore write` and `fullbore read`, so that an experiment can be repeated
//! and varied in a shell.

use crate::endpoint::{Pair, pair};
use crate::experiment::{Experiment, Group};
use fullbore_host::size;
use fullbore_results::run::Cell;

/// Returns the group of the article's techniques, and faster ones.
pub fn ladder() -> Group {
    let row =
        |(name, published, shows, peer, pair): (&str, _, &str, &'static str, Pair)| Experiment {
            published,
            ..Pair {
                peer: (!peer.is_empty()).then_some(peer),
                ..pair
            }
            .experiment(name, shows)
        };
    let shows = "a writer and a reader on one pipe, by technique";
    Group::new("ladder", shows, &[], LADDER.map(row))
}

/// Returns the group of the ways to write of the library's `Producer`.
pub fn produce() -> Group {
    let row = |(name, shows, pair): (&str, &str, Pair)| {
        let is_checked = true;
        Pair { is_checked, ..pair }.experiment(name, shows)
    };
    let shows = "each method of the library's Producer, with readers that read or discard the data";
    Group::new("produce", shows, &[], PRODUCE.map(row))
}

/// The article's ladder, and further experiments above it.
///
/// Published figures: the article 'How fast are Linux pipes anyway?' (2022), on a Skylake laptop
/// with Linux 5.17.
#[rustfmt::skip]
const LADDER: [(&str, Option<f64>, &str, &str, Pair); 15] = [
    ("write_read", Some(3.7), "write(2) and read(2), the usual way",
        "--writer write --reader read --chunk 262144", pair("", "")),
    ("write_read_one_cpu", None, "as write_read, with both ends on one CPU: nothing in parallel, and no wake-up of another CPU",
        "", Pair { on_one_cpu: true, ..pair("", "") }),
    ("write_read_huge", None, "as write_read, with buffers on huge pages",
        "--writer write --reader read --chunk 262144 --huge-page", pair("--huge-page --check-huge-page", "--huge-page --check-huge-page")),
    ("vmsplice_read", Some(12.7), "vmsplice(2) instead of write(2): one copy fewer",
        "--writer vmsplice --reader read --chunk 262144", pair("--write-with-vmsplice", "")),
    ("vmsplice_read_huge", None, "as vmsplice_read, with buffers on huge pages",
        "--writer vmsplice --reader read --chunk 262144 --huge-page", pair("--write-with-vmsplice --huge-page --check-huge-page", "--huge-page --check-huge-page")),
    ("vmsplice_splice", Some(32.8), "vmsplice(2), and splice(2) to /dev/null instead of read(2): no copy at all",
        "--writer vmsplice --reader splice --chunk 262144", pair("--write-with-vmsplice", "--read-with-splice")),
    ("vmsplice_splice_untouched", Some(25.0), "as vmsplice_splice, with pages that were not touched before",
        "--writer vmsplice --reader splice --chunk 262144 --dont-touch-pages", pair("--write-with-vmsplice --dont-touch-pages", "--read-with-splice")),
    ("vmsplice_splice_same_buffer", None, "as vmsplice_splice, with two halves of one contiguous buffer",
        "--writer vmsplice --reader splice --chunk 262144 --same-buffer", pair("--write-with-vmsplice --same-buffer", "--read-with-splice")),
    ("vmsplice_splice_huge", Some(51.0), "as vmsplice_splice, with buffers on huge pages, which are faster to look up",
        "--writer vmsplice --reader splice --chunk 262144 --huge-page", pair("--write-with-vmsplice --huge-page --check-huge-page", "--read-with-splice")),
    ("busy_loop_huge", Some(62.5), "as vmsplice_splice_huge, in a busy loop instead of sleeping: the article's last step",
        "--writer vmsplice --reader splice --chunk 262144 --huge-page --busy-loop", pair("--write-with-vmsplice --huge-page --check-huge-page --busy-loop", "--read-with-splice --busy-loop")),
    ("large_slots", None, "as busy_loop_huge, 1 MiB at a time",
        "--writer vmsplice --reader splice --chunk 2097152 --huge-page --busy-loop", pair("--write-with-vmsplice --huge-page --check-huge-page --busy-loop --buf-size 2M", "--read-with-splice --busy-loop --buf-size 2M")),
    ("adaptive", None, "as busy_loop_huge, but spinning for a limited time before sleeping",
        "", pair("--write-with-vmsplice --huge-page --check-huge-page --wait adaptive", "--read-with-splice --wait adaptive")),
    ("roomy_pipe", None, "as write_read, with a pipe of 1 MiB",
        "--writer write --reader read --chunk 262144 --pipe-size 1048576", pair("--pipe-size 1M", "")),
    ("double_buffer", None, "new data in every buffer, and every word read: the article's two buffers",
        "--writer vmsplice --reader sum --chunk 262144 --huge-page --words", pair("--write-with-vmsplice --huge-page --check-huge-page --data words", "--huge-page --check-huge-page --sum")),
    ("deep_ring", None, "as double_buffer, with a ring of chunks, a pipe of 1 MiB and blocking calls",
        "", pair("--memory 2M --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words", "--huge-page --check-huge-page --sum")),
];

/// Each way to produce compared with write(2), with a reader that sums every word and with one that
/// splices to /dev/null.
#[rustfmt::skip]
const PRODUCE: [(&str, &str, Pair); 19] = [
    ("write_default_sum", "write(2) into a default pipe, every word read and added up",
        pair("--way copy --chunk 512K --huge-page --data words", "--chunk 512K --huge-page --sum")),
    ("write_roomy_sum", "as write_default_sum, into a pipe of 1 MiB",
        pair("--way copy --chunk 512K --pipe-size 1M --huge-page --data words", "--chunk 512K --huge-page --sum")),
    ("double_buffer_sum", "the article's double buffering, every word read and added up",
        pair("--write-with-vmsplice --huge-page --check-huge-page --data words", "--chunk 512K --huge-page --sum")),
    ("fresh_sum", "fresh pages: correct for every reader",
        pair("--way fresh --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words", "--chunk 512K --huge-page --sum")),
    ("socket_sum", "through a socket of the writer: correct for every reader, without vmsplice(2)",
        pair("--way socket --chunk 512K --pipe-size 1M --huge-page --data words", "--chunk 512K --huge-page --sum")),
    ("recycle_sum", "recycled pages: correct only for a reader that copies",
        pair("--way recycle --pipe-size 1M --huge-page --check-huge-page --data words", "--chunk 512K --huge-page --sum")),
    ("recycle_sum_busy", "as recycle_sum, in a busy loop instead of sleeping",
        pair("--way recycle --pipe-size 1M --huge-page --check-huge-page --data words --busy-loop", "--chunk 512K --huge-page --sum --busy-loop")),
    ("ring_sum", "memory that both ends share, met through the pipe: filled and read in place",
        pair("--way ring --chunk 512K --huge-page --data words", "--way ring --chunk 256K --sum")),
    ("ring_sum_busy", "as ring_sum, in a busy loop instead of sleeping",
        pair("--way ring --chunk 512K --huge-page --data words --busy-loop", "--way ring --chunk 256K --sum --busy-loop")),
    ("write_default_splice", "write(2) into a default pipe, spliced to /dev/null",
        pair("--way copy --chunk 512K --huge-page --data words", "--read-with-splice --chunk 1M")),
    ("write_roomy_splice", "as write_default_splice, into a pipe of 1 MiB",
        pair("--way copy --chunk 512K --pipe-size 1M --huge-page --data words", "--read-with-splice --chunk 1M")),
    ("fresh_splice", "fresh pages, spliced to /dev/null",
        pair("--way fresh --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words", "--read-with-splice --chunk 1M")),
    ("socket_splice", "through a socket, spliced to /dev/null",
        pair("--way socket --chunk 512K --pipe-size 1M --huge-page --data words", "--read-with-splice --chunk 1M")),
    ("recycle_splice", "recycled pages, spliced to /dev/null",
        pair("--way recycle --pipe-size 1M --huge-page --check-huge-page --data words", "--read-with-splice --chunk 1M")),
    ("lines_std_sum", "lines of 80 bytes through std's BufWriter, into a default pipe",
        pair("--lines 80 --data words", "--chunk 512K --huge-page --sum")),
    ("lines_fresh_sum", "lines of 80 bytes through Producer's io::Write",
        pair("--way fresh --chunk 512K --pipe-size 1M --lines 80 --huge-page --check-huge-page --data words", "--chunk 512K --huge-page --sum")),
    ("repeat_read", "a pattern of 2 bytes again and again, into read(2)",
        pair("--way repeat --pipe-size 1M", "--chunk 1M --huge-page")),
    ("repeat_splice", "a pattern of 2 bytes again and again, spliced to /dev/null",
        pair("--way repeat --pipe-size 1M", "--read-with-splice --chunk 16M")),
    ("repeat_splice_busy", "as repeat_splice, in a busy loop instead of sleeping",
        pair("--way repeat --pipe-size 1M --busy-loop", "--read-with-splice --chunk 16M --busy-loop")),
];

/// Bytes per call, for writing and reading.
const CHUNKS: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Capacities of the pipe.
const PIPE_SIZES: [usize; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Returns the group of throughput over the size of a call and the size of the pipe, written by write(2) and read by
/// read(2), ordered by chunk. Reports show it as a grid.
pub fn sweep() -> Group {
    let cells = CHUNKS.iter().flat_map(|&chunk| {
        let cell = move |pipe_size| of_cell(Cell { chunk, pipe_size });
        PIPE_SIZES.map(cell)
    });
    let shows = "throughput by bytes per call and pipe capacity";
    Group::new("sweep", shows, &[], cells)
}

fn of_cell(cell: Cell) -> Experiment {
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
        let first = &sweep().experiments[0];
        assert_eq!(first.name, "chunk_4K_pipe_4K");
        assert_eq!(
            first.work.peer(&settings).unwrap(),
            "pipe --writer write --reader read --chunk 4096 --pipe-size 4096"
        );
    }
}
