//! Defines the groups whose experiments are a writer and a reader on one pipe. A new experiment is a new
//! row.
//!
//! Both ends are options of `fullbore write` and `fullbore read`, so that an experiment can be repeated
//! and varied in a shell.

use crate::endpoint::{Pair, Place};
use crate::experiment::{Experiment, Group};

/// Returns the group of the article's techniques, and faster ones.
pub fn ladder() -> Group {
    Group {
        name: "ladder",
        shows: "a writer and a reader on one pipe, by technique",
        experiments: LADDER,
        parts: &[],
    }
}

/// Returns the group of the ways to write of the library's `Producer`.
pub fn produce() -> Group {
    Group {
        name: "produce",
        shows: "each method of the library's Producer, with readers that read or discard the data",
        experiments: PRODUCE,
        parts: &[],
    }
}

macro_rules! experiments {
    ($group:literal is_checked $checked:literal: $($name:literal, $published:expr, $shows:literal, $writer:literal => $reader:literal $(on $place:ident)?;)*) => {
        &[$(Experiment::bandwidth($group, $name, $published, $shows, &Pair {
            writer: $writer,
            reader: $reader,
            is_checked: $checked,
            cell: None,
            place: experiments!(@place $($place)?),
        })),*]
    };
    (@place) => { Place::TwoCpus };
    (@place $place:ident) => { Place::$place };
}

/// The article's ladder, and further experiments above it.
///
/// Published figures: the article 'How fast are Linux pipes anyway?' (2022), on a Skylake laptop
/// with Linux 5.17.
#[rustfmt::skip]
const LADDER: &[Experiment] = experiments! { "ladder" is_checked false:
    "write_read", Some(3.7), "write(2) and read(2), the usual way",
        "" => "";
    "write_read_one_cpu", None, "as write_read, with both ends on one CPU: nothing in parallel, and no wake-up of another CPU",
        "" => "" on OneCpu;
    "write_read_huge", None, "as write_read, with buffers on huge pages",
        "--huge-page --check-huge-page" => "--huge-page --check-huge-page";
    "vmsplice_read", Some(12.7), "vmsplice(2) instead of write(2): one copy fewer",
        "--write-with-vmsplice" => "";
    "vmsplice_read_huge", None, "as vmsplice_read, with buffers on huge pages",
        "--write-with-vmsplice --huge-page --check-huge-page" => "--huge-page --check-huge-page";
    "vmsplice_splice", Some(32.8), "vmsplice(2), and splice(2) to /dev/null instead of read(2): no copy at all",
        "--write-with-vmsplice" => "--read-with-splice";
    "vmsplice_splice_untouched", Some(25.0), "as vmsplice_splice, with pages that were not touched before",
        "--write-with-vmsplice --dont-touch-pages" => "--read-with-splice";
    "vmsplice_splice_same_buffer", None, "as vmsplice_splice, with two halves of one contiguous buffer",
        "--write-with-vmsplice --same-buffer" => "--read-with-splice";
    "vmsplice_splice_huge", Some(51.0), "as vmsplice_splice, with buffers on huge pages, which are faster to look up",
        "--write-with-vmsplice --huge-page --check-huge-page" => "--read-with-splice";
    "busy_loop_huge", Some(62.5), "as vmsplice_splice_huge, in a busy loop instead of sleeping: the article's last step",
        "--write-with-vmsplice --huge-page --check-huge-page --busy-loop" => "--read-with-splice --busy-loop";
    "large_slots", None, "as busy_loop_huge, 1 MiB at a time",
        "--write-with-vmsplice --huge-page --check-huge-page --busy-loop --buf-size 2M" => "--read-with-splice --busy-loop --buf-size 2M";
    "adaptive", None, "as busy_loop_huge, but spinning for a limited time before sleeping",
        "--write-with-vmsplice --huge-page --check-huge-page --wait adaptive" => "--read-with-splice --wait adaptive";
    "roomy_pipe", None, "as write_read, with a pipe of 1 MiB",
        "--pipe-size 1M" => "";
    "double_buffer", None, "new data in every buffer, and every word read: the article's two buffers",
        "--write-with-vmsplice --huge-page --check-huge-page --data words" => "--huge-page --check-huge-page --sum";
    "deep_ring", None, "as double_buffer, with a ring of chunks, a pipe of 1 MiB and blocking calls",
        "--memory 2M --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words" => "--huge-page --check-huge-page --sum";
};

/// Each way to produce compared with write(2), with a reader that sums every word and with one that
/// splices to /dev/null.
#[rustfmt::skip]
const PRODUCE: &[Experiment] = experiments! { "produce" is_checked true:
    "write_default_sum", None, "write(2) into a default pipe, every word read and added up",
        "--way copy --chunk 512K --huge-page --data words" => "--chunk 512K --huge-page --sum";
    "write_roomy_sum", None, "as write_default_sum, into a pipe of 1 MiB",
        "--way copy --chunk 512K --pipe-size 1M --huge-page --data words" => "--chunk 512K --huge-page --sum";
    "double_buffer_sum", None, "the article's double buffering, every word read and added up",
        "--write-with-vmsplice --huge-page --check-huge-page --data words" => "--chunk 512K --huge-page --sum";
    "fresh_sum", None, "fresh pages: correct for every reader",
        "--way fresh --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words" => "--chunk 512K --huge-page --sum";
    "socket_sum", None, "through a socket of the writer: correct for every reader, without vmsplice(2)",
        "--way socket --chunk 512K --pipe-size 1M --huge-page --data words" => "--chunk 512K --huge-page --sum";
    "recycle_sum", None, "recycled pages: correct only for a reader that copies",
        "--way recycle --pipe-size 1M --huge-page --check-huge-page --data words" => "--chunk 512K --huge-page --sum";
    "recycle_sum_busy", None, "as recycle_sum, in a busy loop instead of sleeping",
        "--way recycle --pipe-size 1M --huge-page --check-huge-page --data words --busy-loop" => "--chunk 512K --huge-page --sum --busy-loop";
    "ring_sum", None, "memory that both ends share, met through the pipe: filled and read in place",
        "--way ring --chunk 512K --huge-page --data words" => "--way ring --chunk 256K --sum";
    "ring_sum_busy", None, "as ring_sum, in a busy loop instead of sleeping",
        "--way ring --chunk 512K --huge-page --data words --busy-loop" => "--way ring --chunk 256K --sum --busy-loop";
    "write_default_splice", None, "write(2) into a default pipe, spliced to /dev/null",
        "--way copy --chunk 512K --huge-page --data words" => "--read-with-splice --chunk 1M";
    "write_roomy_splice", None, "as write_default_splice, into a pipe of 1 MiB",
        "--way copy --chunk 512K --pipe-size 1M --huge-page --data words" => "--read-with-splice --chunk 1M";
    "fresh_splice", None, "fresh pages, spliced to /dev/null",
        "--way fresh --chunk 512K --pipe-size 1M --huge-page --check-huge-page --data words" => "--read-with-splice --chunk 1M";
    "socket_splice", None, "through a socket, spliced to /dev/null",
        "--way socket --chunk 512K --pipe-size 1M --huge-page --data words" => "--read-with-splice --chunk 1M";
    "recycle_splice", None, "recycled pages, spliced to /dev/null",
        "--way recycle --pipe-size 1M --huge-page --check-huge-page --data words" => "--read-with-splice --chunk 1M";
    "lines_std_sum", None, "lines of 80 bytes through std's BufWriter, into a default pipe",
        "--lines 80 --data words" => "--chunk 512K --huge-page --sum";
    "lines_fresh_sum", None, "lines of 80 bytes through Producer's io::Write",
        "--way fresh --chunk 512K --pipe-size 1M --lines 80 --huge-page --check-huge-page --data words" => "--chunk 512K --huge-page --sum";
    "repeat_read", None, "a pattern of 2 bytes again and again, into read(2)",
        "--way repeat --pipe-size 1M" => "--chunk 1M --huge-page";
    "repeat_splice", None, "a pattern of 2 bytes again and again, spliced to /dev/null",
        "--way repeat --pipe-size 1M" => "--read-with-splice --chunk 16M";
    "repeat_splice_busy", None, "as repeat_splice, in a busy loop instead of sleeping",
        "--way repeat --pipe-size 1M --busy-loop" => "--read-with-splice --chunk 16M --busy-loop";
};
