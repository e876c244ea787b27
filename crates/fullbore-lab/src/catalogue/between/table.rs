//! Lists the pipelines between whose programs a program is put, and these programs, as tables.

use crate::catalogue::movers::{Mover, peer as x};
use crate::catalogue::pipelines::table::{Input, Pipeline, WAYS, Way};

/// What stands for the program in a line.
const PLACE: &str = "X";

/// A line, in the pipes that a way of running it makes.
#[derive(Debug)]
pub struct Between {
    /// The line with its place for a program, and what it reads.
    pub pipeline: Pipeline,
    /// The name of its table, if the line does not say it all.
    pub table: Option<&'static str>,
    /// How it is run.
    pub way: &'static Way,
    /// The programs that are put there, or none where the words are empty; ratios are relative to the first one.
    pub middles: &'static [Mover],
}

impl Between {
    /// Returns the line for an input of `bytes` with this program, or without one.
    pub fn line(&self, middle: &Mover, bytes: u64) -> String {
        let line = self.pipeline.line_for(bytes);
        let line = line.split(", where ").next().unwrap_or(&line);
        match middle.words {
            "" => line.replace(" | X |", " |"),
            words => line.replacen(PLACE, words, 1),
        }
    }
}

const CAT: Mover = x("cat", "cat");
const NOTHING: Mover = x("nothing", "");
const UUTILS: Mover = x("uutils", "coreutils cat");
const PV: Mover = x("pv", "pv -q");
const MBUFFER: Mover = x("mbuffer", "mbuffer -q -m 64M");
const DD: Mover = x("dd", "dd bs=128K status=none");
const COPY: Mover = x("copy", "fullbore copy");
const REFERENCE: Mover = x("reference", "fullbore copy --by-reference");
const PLAIN: Mover = x("plain", "FULLBORE_PLAIN=1 fullbore copy");
const TEE: Mover = x("own_tee", "fullbore tee");
const METER: Mover = x("meter", "fullbore meter -q");
const BUFFER: Mover = x("buffer", "fullbore buffer -q -m 64M");

/// Every program and every way. The names `cat-new`, `pv-new` and `mbuffer-new` are for newer versions than those of
/// the distribution.
const ALL: &[Mover] = &[
    CAT,
    NOTHING,
    x("cat_new", "cat-new"),
    UUTILS,
    PV,
    x("pv_new", "pv-new -q"),
    MBUFFER,
    x("mbuffer_new", "mbuffer-new -q -m 64M"),
    DD,
    x("tee", "tee"),
    COPY,
    REFERENCE,
    PLAIN,
    TEE,
    x("own_tee_plain", "FULLBORE_PLAIN=1 fullbore tee"),
    METER,
    x("meter_reference", "fullbore meter -q --by-reference"),
    x("meter_plain", "FULLBORE_PLAIN=1 fullbore meter -q"),
    BUFFER,
    x("buffer_plain", "FULLBORE_PLAIN=1 fullbore buffer -q -m 64M"),
];

/// The programs that people put in most pipelines.
const USUAL: &[Mover] = &[CAT, NOTHING, MBUFFER, DD, COPY, METER, BUFFER];

/// Programs that copy from or into something that is no pipe.
const COPIERS: &[Mover] = &[CAT, UUTILS, PV, MBUFFER, COPY, REFERENCE, METER, BUFFER];

/// Those that people connect to sockets.
const WITH_SOCKETS: &[Mover] = &[CAT, MBUFFER, COPY, REFERENCE, METER, BUFFER];

const SCRIPTS: &[(&str, &str)] = &[
    ("ends.py", include_str!("ends.py")),
    ("filter.py", include_str!("filter.py")),
];

/// The usual rate in 10^6 bytes per second, as [`Pipeline::mb_per_s`].
const FAST: f64 = 1000.0;

/// The rate of readers and writers that take their time.
const SLOW: f64 = 250.0;

pub(super) const fn between(
    name: &'static str,
    line: &'static str,
    shows: &'static str,
    input: Input,
    mb_per_s: f64,
    programs: &'static [&'static str],
    middles: &'static [Mover],
) -> Between {
    let pipeline = Pipeline {
        name,
        line,
        shows,
        input,
        mb_per_s,
        programs,
        scripts: SCRIPTS,
    };
    Between {
        pipeline,
        table: None,
        way: &WAYS[0],
        middles,
    }
}

/// The same line in pipes of 1 MiB, which `fullbore run` makes.
const fn roomy(name: &'static str, table: &'static str, row: Between) -> Between {
    Between {
        pipeline: Pipeline {
            name,
            ..row.pipeline
        },
        table: Some(table),
        way: &WAYS[1],
        ..row
    }
}

const BIG: Input = Input::Lines("big");

#[rustfmt::skip]
const CAT_CAT: Between = between("between_cat_cat", "cat big | X | cat > /dev/null", "a writer and a reader that do little work", BIG, FAST, &["cat"], ALL);
#[rustfmt::skip]
const CAT_WC: Between = between("between_cat_wc", "cat big | X | wc -l", "a reader that looks at every byte", BIG, FAST, &["cat", "wc"], USUAL);

/// The lines, in the order of display.
#[rustfmt::skip]
pub const LINES: &[Between] = &[
    CAT_CAT,
    roomy("between_cat_cat_roomy", "cat big | X | cat > /dev/null, in pipes of 1 MiB", CAT_CAT),
    CAT_WC,
    roomy("between_cat_wc_roomy", "cat big | X | wc -l, in pipes of 1 MiB", CAT_WC),
    between("between_cat_grep", "cat big | X | grep -c ' 404 '", "a log, searched", BIG, SLOW, &["cat", "grep"], USUAL),
    between("between_cat_sha1sum", "cat big | X | sha1sum", "a checksum, which takes its time", BIG, SLOW, &["cat", "sha1sum"], USUAL),
    between("between_cat_gzip", "cat big | X | gzip -1n", "a compressor, which is slow", BIG, SLOW / 4.0, &["cat", "gzip"], USUAL),
    between("between_head_cat", "head -c 8G /dev/zero | X | cat > /dev/null", "a writer that writes 8 KiB at a time", Input::Nothing, FAST, &["head", "cat"], USUAL),
    between("between_zstd_wc", "zstd -dc big.zst | X | wc -l", "a decompressor", Input::Compressed("big.zst"), FAST, &["zstd", "wc"], USUAL),
    between("between_tar_cat", "tar c tree | X | cat > /dev/null", "many small files", Input::Tree, SLOW, &["tar", "cat"], USUAL),
    between("between_python_wc", "python3 ends.py write big | X | wc -l", "a writer in Python", BIG, SLOW, &["python3", "wc"], USUAL),
    between("between_cat_python", "cat big | X | python3 ends.py read", "a reader in Python", BIG, SLOW, &["cat", "python3"], USUAL),
    between("between_file_cat", "X < big | cat > /dev/null", "a file as the source", BIG, FAST, &["cat"], COPIERS),
    between("between_file_wc", "X < big | wc -l", "a file as the source of a reader that looks at every byte", BIG, FAST, &["wc"], COPIERS),
    between("between_cat_file", "cat big | X > out; cksum < out; rm out", "a file as the sink", BIG, SLOW, &["cat", "cksum", "rm"], COPIERS),
    between("between_unix_wc", "python3 ends.py from unix big X | wc -l", "a Unix socket as the source", BIG, SLOW, &["python3", "wc"], WITH_SOCKETS),
    between("between_tcp_wc", "python3 ends.py from tcp big X | wc -l", "a TCP connection as the source", BIG, SLOW, &["python3", "wc"], WITH_SOCKETS),
    between("between_cat_unix", "cat big | python3 ends.py into unix X", "a Unix socket as the sink", BIG, SLOW, &["python3", "cat"], WITH_SOCKETS),
    between("between_cat_tcp", "cat big | python3 ends.py into tcp X", "a TCP connection as the sink", BIG, SLOW, &["python3", "cat"], WITH_SOCKETS),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_one_place_for_a_program() {
        for line in LINES {
            let places = line.pipeline.line.matches(PLACE).count();
            assert_eq!(places, 1, "{}", line.pipeline.line);
            for middle in line.middles {
                let typed = line.line(middle, 1 << 20);
                assert!(!typed.contains(PLACE), "{typed}");
                assert!(typed.contains(middle.words), "{typed}");
            }
            assert_eq!(line.middles[0].name, CAT.name, "ratios need a base");
        }
    }

    #[test]
    fn the_program_that_is_needed_is_the_first_word_that_sets_no_variable() {
        assert_eq!(PV.program(), Some("pv"));
        assert_eq!(UUTILS.program(), Some("coreutils"));
        assert_eq!(PLAIN.program(), None);
        assert_eq!(NOTHING.program(), None);
    }
}
