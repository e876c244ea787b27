//! The group `pipelines`: command lines that people type, run by bash and by `fullbore run`.
//!
//! Both are tables, and the experiments are their cross product: a new pipeline or another way to run
//! one is a new row. A line is run as it stands here, in a directory that has the files it names
//! (`inputs.rs`), and timed from its start to its end (`measure.rs`).

mod inputs;
mod measure;

use anyhow::Result;

use super::catalogue::Experiment;
use super::movers::version;
use super::work::{Bench, Measurement, Work};
use crate::results::run::{MoverReport, Outcome, Settings, Unit};
use inputs::Input;
pub use inputs::{Inputs, Kept};
pub use measure::Once;

/// The group's name.
pub const GROUP: &str = "pipelines";

/// A line as a person would type it.
#[derive(Debug, PartialEq)]
pub struct Pipeline {
    /// How the names of its experiments begin.
    name: &'static str,
    /// The line.
    line: &'static str,
    /// What it shows, for people.
    shows: &'static str,
    /// What it reads.
    input: Input,
    /// 10^6 bytes of input that bash's pipeline takes in a second, on a machine of 2025: from it
    /// follows the size of the input. It is not measured first, so that every machine is given the
    /// same bytes.
    mb_per_s: f64,
    /// The programs that it needs.
    programs: &'static [&'static str],
}

/// The pipelines, in the order they are shown.
#[rustfmt::skip]
const PIPELINES: &[Pipeline] = &[
    Pipeline {
        name: "cat_wc", line: "cat big | wc -l",
        shows: "two programs that do little: what is left is the pipe",
        input: Input::Lines("big"), mb_per_s: 1000.0, programs: &["cat", "wc"],
    },
    Pipeline {
        name: "cat_cat_cat_wc", line: "cat big | cat | cat | wc -l",
        shows: "three pipes, and more programs than many machines have CPUs to spare",
        input: Input::Lines("big"), mb_per_s: 1000.0, programs: &["cat", "wc"],
    },
    Pipeline {
        name: "head_wc", line: "head -c 8G /dev/zero | wc -l",
        shows: "a writer that makes its bytes: 8 KiB at a time",
        input: Input::Nothing, mb_per_s: 1600.0, programs: &["head", "wc"],
    },
    Pipeline {
        name: "tar_cat_sha1sum", line: "tar c tree | cat | sha1sum",
        shows: "many small files, and a checksum that takes its time",
        input: Input::Tree, mb_per_s: 400.0, programs: &["tar", "cat", "sha1sum"],
    },
    Pipeline {
        name: "tar_zstd", line: "tar c tree | zstd -T0",
        shows: "a backup: a compressor that uses several CPUs, into a file",
        input: Input::Tree, mb_per_s: 170.0, programs: &["tar", "zstd"],
    },
    Pipeline {
        name: "zcat_grep", line: "zcat log.gz | grep ' 404 ' | wc -l",
        shows: "an old log, searched: the decompressor is the slow one",
        input: Input::Compressed("log.gz"), mb_per_s: 240.0, programs: &["zcat", "gzip", "grep", "wc"],
    },
    Pipeline {
        name: "cat_grep", line: "cat log | grep ' 404 ' | wc -l",
        shows: "a log, searched",
        input: Input::Lines("log"), mb_per_s: 650.0, programs: &["cat", "grep", "wc"],
    },
    Pipeline {
        name: "cat_awk", line: "cat log | awk '{ bytes += $10 } END { print bytes }'",
        shows: "a column of a log, added up",
        input: Input::Lines("log"), mb_per_s: 250.0, programs: &["cat", "awk"],
    },
    Pipeline {
        name: "cut_sort_uniq", line: "cut -d' ' -f1 log | sort | uniq -c | sort -rn",
        shows: "who asks most: a sort, which writes nothing before it has read all",
        input: Input::Lines("log"), mb_per_s: 150.0, programs: &["cut", "sort", "uniq"],
    },
    Pipeline {
        name: "words", line: "tr -cs A-Za-z '\\n' < text | tr A-Z a-z | sort | uniq -c | sort -rn",
        shows: "McIlroy's words by frequency: five programs",
        input: Input::Words("text"), mb_per_s: 10.0, programs: &["tr", "sort", "uniq"],
    },
];

/// A way to run a line.
#[derive(Debug, PartialEq)]
struct Way {
    /// How the names of its experiments end.
    name: &'static str,
    /// What it is called.
    title: &'static str,
    /// The program, and its options before the line.
    words: &'static [&'static str],
}

/// The ways to run a line. The first is what the others are compared with, by their time and by
/// what they print.
const WAYS: &[Way] = &[
    Way {
        name: "bash",
        title: "bash -c",
        words: &["bash", "-c"],
    },
    Way {
        name: "run",
        title: "fullbore run",
        words: &[FULLBORE, "run"],
    },
    Way {
        name: "report",
        title: "fullbore run --report",
        words: &[FULLBORE, "run", "--report"],
    },
];

/// This very program, also when its file has been replaced since.
const FULLBORE: &str = "/proc/self/exe";

/// Every pipeline in every way.
pub fn experiments() -> Vec<Experiment> {
    let in_every_way = |pipeline| WAYS.iter().map(move |way| experiment(pipeline, way));
    PIPELINES.iter().flat_map(in_every_way).collect()
}

fn experiment(pipeline: &'static Pipeline, way: &'static Way) -> Experiment {
    Experiment {
        group: GROUP,
        name: format!("{}_{}", pipeline.name, way.name).leak(),
        shows: format!("by {}: {}", way.title, pipeline.shows).leak(),
        unit: Unit::MbPerS,
        published: None,
        work: Box::leak(Box::new(Line { pipeline, way })),
    }
}

impl Pipeline {
    /// Bytes of its input, for a measurement of so many seconds.
    fn bytes(&self, seconds: f64) -> u64 {
        let bytes = (self.mb_per_s * 1e6 * seconds) as u64;
        // What starting programs takes is not to be all that is measured.
        let bytes = bytes.max(1 << 20);
        match self.input {
            // Whole units of its option, and no more than it says.
            Input::Nothing => (bytes >> 20 << 20).min(8 << 30),
            _ => bytes,
        }
    }

    /// The line, for so many bytes.
    fn line_for(&self, bytes: u64) -> String {
        match self.input {
            Input::Nothing if bytes < 8 << 30 => {
                self.line.replace("8G", &format!("{}M", bytes >> 20))
            }
            _ => self.line.to_owned(),
        }
    }
}

impl Way {
    /// Its command for a line, as it would be typed.
    fn typed(&self, line: &str) -> String {
        format!("{} '{}'", self.title, line.replace('\'', r"'\''"))
    }
}

/// One pipeline, run in one way.
#[derive(Debug)]
struct Line {
    pipeline: &'static Pipeline,
    way: &'static Way,
}

impl Work for Line {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measurement> {
        measure::measure(self.pipeline, self.way, bench)
    }

    fn table(&self) -> Option<&'static str> {
        Some(self.pipeline.line)
    }

    fn contestant(&self) -> Option<&'static str> {
        Some(self.way.title)
    }

    fn describe(&self, outcome: &mut Outcome, settings: &Settings) {
        let line = self
            .pipeline
            .line_for(self.pipeline.bytes(settings.seconds));
        if line != self.pipeline.line {
            let note = format!("run as '{line}': how much there is to do goes with --seconds");
            outcome.notes.push(note);
        }
        if settings.pipe_size.is_some() {
            let note = "its pipes are what is compared; --pipe-size left them alone";
            outcome.notes.push(note.into());
        }
        outcome.mover = Some(MoverReport {
            job: self.pipeline.line.into(),
            command: self.way.typed(&line),
            version: match self.way.words[0] {
                FULLBORE => None,
                program => version(program),
            },
            bytes: None,
            seconds: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_a_line_is_named_as_one_that_it_needs() {
        for pipeline in PIPELINES {
            for stage in pipeline.line.split(" | ") {
                let program = stage.split(' ').next().unwrap();
                assert!(pipeline.programs.contains(&program), "{program}");
            }
        }
    }

    #[test]
    fn every_line_reads_the_files_that_are_made_for_it() {
        for pipeline in PIPELINES {
            let named = pipeline.input.name().unwrap_or("8G");
            let words: Vec<&str> = pipeline.line.split([' ', '|']).collect();
            assert!(words.contains(&named), "{}", pipeline.line);
        }
    }

    #[test]
    fn a_line_of_a_count_says_how_much_is_left_of_it() {
        let head = PIPELINES.iter().find(|p| p.name == "head_wc").unwrap();
        assert_eq!(head.line_for(head.bytes(1e6)), head.line);
        let (bytes, line) = (head.bytes(0.5), head.line_for(head.bytes(0.5)));
        assert_eq!(line, format!("head -c {}M /dev/zero | wc -l", bytes >> 20));
        assert!(bytes < 8 << 30 && bytes.is_multiple_of(1 << 20));
    }

    #[test]
    fn a_line_is_shown_as_it_would_be_typed() {
        assert_eq!(WAYS[0].typed("a | b"), "bash -c 'a | b'");
        assert_eq!(
            WAYS[1].typed("cut -d' '"),
            r"fullbore run 'cut -d'\'' '\'''"
        );
    }
}
