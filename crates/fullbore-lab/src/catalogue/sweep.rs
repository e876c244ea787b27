//! Defines the group `sweep`: throughput over the size of a call and the size of the pipe, for one way
//! to write, one way to read and one way to wait.
//!
//! Both axes are data: lists of sizes from the command line. Each pair of sizes is an ordinary
//! experiment, with options of `fullbore write` and `fullbore read` that can be repeated in a shell.
//! Reports show the group as a grid.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::endpoint::{Checked, Pair, Place, WaitName};
use crate::experiment::{Experiment, Group};
use crate::measurement::{Measured, Stop};
use crate::work::{Bench, Work};
use fullbore_host::size;
use fullbore_results::run::{Cell, Outcome, Settings, Unit};

/// The group's name.
pub const GROUP: &str = "sweep";

/// Returns the group for these axes.
pub fn group(axes: &Axes) -> Group {
    Group {
        name: GROUP,
        shows: "throughput by bytes per call and pipe capacity",
        experiments: axes.experiments(),
        parts: &[],
    }
}

/// What is swept, as the command line gives it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of the group 'sweep'")]
pub struct Axes {
    /// Write method [default: copy]
    #[arg(long, value_enum, value_name = "WAY")]
    sweep_writer: Option<Writer>,

    /// Read method [default: read]
    #[arg(long, value_enum, value_name = "HOW")]
    sweep_reader: Option<Reader>,

    /// How both ends wait while the pipe is full or empty [default: block]
    #[arg(long, value_enum, value_name = "HOW")]
    sweep_wait: Option<WaitName>,

    /// Bytes per call, for writing and reading [default: 4K,16K,64K,256K,1M]
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = chunk)]
    chunks: Option<Vec<usize>>,

    /// Capacities of the pipe [default: 4K,64K,256K,1M]
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size::parse_capacity)]
    pipe_sizes: Option<Vec<usize>>,
}

/// The ways to write: those of the library that accept new data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Writer {
    /// write(2)
    Copy,
    /// vmsplice(2) of pages that are never written to again
    Fresh,
    /// vmsplice(2) of a ring of pages that are reused after they were read
    Recycle,
}

/// The ways to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Reader {
    /// read(2), without examining the data
    Read,
    /// read(2), and sum all words
    Sum,
    /// splice(2) to /dev/null
    Splice,
}

/// Returns the name that is typed on the command line.
fn word(name: impl ValueEnum) -> String {
    name.to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// The largest size of one call: write(2) itself moves no more than 2 GiB less a page.
const CHUNK_AT_MOST: usize = 1 << 30;

fn chunk(text: &str) -> Result<usize, String> {
    match size::parse_in_memory(text)? {
        0 => Err("invalid size 0: a call must move at least one byte".into()),
        bytes if bytes > CHUNK_AT_MOST => {
            Err(format!("invalid size '{text}': a call can move at most 1G"))
        }
        bytes => Ok(bytes),
    }
}

/// Formats a size as it is typed: `64K`.
fn short(bytes: usize) -> String {
    size::typed(bytes as u64)
}

/// Returns the sizes in ascending order without duplicates, or the default sizes if none are given.
fn axis(given: Option<&Vec<usize>>, otherwise: &[usize]) -> Vec<usize> {
    let mut sizes = given.map_or(otherwise, Vec::as_slice).to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl Axes {
    /// Returns the first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        [
            (self.sweep_writer.is_some(), "--sweep-writer"),
            (self.sweep_reader.is_some(), "--sweep-reader"),
            (self.sweep_wait.is_some(), "--sweep-wait"),
            (self.chunks.is_some(), "--chunks"),
            (self.pipe_sizes.is_some(), "--pipe-sizes"),
        ]
        .into_iter()
        .find_map(|(given, option)| given.then_some(option))
    }

    /// Creates an experiment for each pair of a chunk and a pipe size, ordered by chunk. The
    /// experiments and their names are leaked, because the catalogue is made once and lives as long as
    /// the process.
    fn experiments(&self) -> &'static [Experiment] {
        let (writer, reader, wait) = (
            self.sweep_writer.unwrap_or(Writer::Copy),
            self.sweep_reader.unwrap_or(Reader::Read),
            self.sweep_wait.unwrap_or(WaitName::Block),
        );
        let table = format!("{} → {}, {}", word(writer), word(reader), word(wait)).leak();
        let chunks = axis(
            self.chunks.as_ref(),
            &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
        );
        let pipe_sizes = axis(
            self.pipe_sizes.as_ref(),
            &[4 << 10, 64 << 10, 256 << 10, 1 << 20],
        );
        let mut experiments = Vec::new();
        for &chunk in &chunks {
            for &pipe_size in &pipe_sizes {
                let cell = Cell { chunk, pipe_size };
                let work = Sweep {
                    pair: pair(writer, reader, wait, cell),
                    table,
                };
                let (chunk, pipe_size) = (short(chunk), short(pipe_size));
                experiments.push(Experiment {
                    group: GROUP,
                    name: format!("chunk_{chunk}_pipe_{pipe_size}").leak(),
                    shows: format!("{chunk} a call, through a pipe of {pipe_size}").leak(),
                    unit: Unit::GibPerS,
                    published: None,
                    work: Box::leak(Box::new(work)),
                });
            }
        }
        experiments.leak()
    }
}

/// Returns the endpoints of a cell. Copies are written from one buffer, as in the first experiment of
/// the ladder; references are to huge pages that are filled with new words, as in the group `produce`.
/// With a reader that sums, the data is words, whose sum can be checked.
fn pair(writer: Writer, reader: Reader, wait: WaitName, cell: Cell) -> Pair {
    let (chunk, pipe_size) = (short(cell.chunk), short(cell.pipe_size));
    let wait = word(wait);
    let write = match (writer, reader) {
        (Writer::Copy, Reader::Sum) => format!("--buf-size {chunk} --data words"),
        (Writer::Copy, _) => format!("--buf-size {chunk}"),
        (Writer::Fresh | Writer::Recycle, _) => format!(
            "--way {} --chunk {chunk} --data words --huge-page --check-huge-page",
            word(writer)
        ),
    };
    let read = match reader {
        Reader::Read => "",
        Reader::Sum => " --sum",
        Reader::Splice => " --read-with-splice",
    };
    Pair {
        writer: format!("{write} --pipe-size {pipe_size} --wait {wait}").leak(),
        reader: format!("--buf-size {chunk} --wait {wait}{read}").leak(),
        checked: Checked::No,
        cell: Some(cell),
        place: Place::TwoCpus,
    }
}

/// One cell of the grid.
#[derive(Debug)]
struct Sweep {
    pair: Pair,
    /// A description of what is swept.
    table: &'static str,
}

impl Work for Sweep {
    fn measure(&self, bench: &mut Bench<'_>) -> Result<Measured> {
        let measured = self.pair.measure(bench)?;
        self.check_capacity(&measured)?;
        Ok(measured)
    }

    fn table(&self) -> Option<&'static str> {
        Some(self.table)
    }

    fn describe(&self, outcome: &mut Outcome, settings: &Settings) {
        self.pair.describe(outcome, settings);
    }

    fn fixed_pipe_size(&self) -> Option<&'static str> {
        self.pair.fixed_pipe_size()
    }

    fn peer(&self, settings: &Settings) -> Option<String> {
        self.pair.peer(settings)
    }

    fn endpoints(&self) -> Option<(&'static str, &'static str)> {
        self.pair.endpoints()
    }
}

impl Sweep {
    /// Gives up a cell whose pipe got another capacity, because a figure must be in the column of the
    /// capacity that the pipe really had: the kernel rounds a capacity up to a power of two of pages
    /// (`round_pipe_size`, fs/pipe.c).
    fn check_capacity(&self, taken: &Measured) -> Result<(), Stop> {
        let got = taken
            .writer
            .as_ref()
            .and_then(|writer| writer.pipe_capacity);
        let wanted = self.pair.cell.map(|cell| cell.pipe_size);
        match (got, wanted) {
            (Some(got), Some(wanted)) if got != wanted => Err(Stop::Skipped(format!(
                "the kernel rounded the capacity {1} to {0}: use --pipe-sizes {0}",
                short(got),
                short(wanted)
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use fullbore_results::run::EndpointReport;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        axes: Axes,
    }

    fn axes(words: &str) -> Axes {
        let words = std::iter::once("line").chain(words.split_whitespace());
        Arguments::try_parse_from(words).unwrap().axes
    }

    fn names(words: &str) -> Vec<&'static str> {
        axes(words).experiments().iter().map(|e| e.name).collect()
    }

    #[test]
    fn there_is_an_experiment_for_each_chunk_and_each_pipe() {
        assert_eq!(names("").len(), 5 * 4);
        assert_eq!(
            names("--chunks 1M,4K,4096 --pipe-sizes 64K,1000"),
            [
                "chunk_4K_pipe_1000",
                "chunk_4K_pipe_64K",
                "chunk_1M_pipe_1000",
                "chunk_1M_pipe_64K"
            ]
        );
    }

    #[test]
    fn endpoints_are_those_that_were_asked_for() {
        let endpoints = |words: &str| axes(words).experiments()[0].work.endpoints().unwrap();
        assert_eq!(
            endpoints(""),
            (
                "--buf-size 4K --pipe-size 4K --wait block",
                "--buf-size 4K --wait block"
            )
        );
        let words = "--sweep-writer recycle --sweep-reader sum --sweep-wait adaptive --chunks 64K";
        assert_eq!(
            endpoints(words),
            (
                "--way recycle --chunk 64K --data words --huge-page --check-huge-page \
                 --pipe-size 4K --wait adaptive",
                "--buf-size 64K --wait adaptive --sum"
            )
        );
    }

    #[test]
    fn the_program_in_c_is_compared_where_it_does_the_same() {
        let settings = Settings::new(1, 0.1, 0.0);
        let peer = |words: &str| axes(words).experiments()[0].work.peer(&settings);
        assert_eq!(
            peer("--sweep-reader splice --chunks 64K").unwrap(),
            "pipe --writer write --reader splice --chunk 65536 --pipe-size 4096"
        );
        assert_eq!(peer("--sweep-wait adaptive"), None);
        assert_eq!(peer("--sweep-writer fresh"), None);
    }

    #[test]
    fn sizes_of_nothing_and_unheard_of_ones_are_refused() {
        for words in [
            "--chunks 0",
            "--chunks 4K,0",
            "--chunks 2G",
            "--chunks=",
            "--pipe-sizes 0",
            "--pipe-sizes x",
            "--sweep-writer repeat",
            "--sweep-reader tee",
            "--sweep-wait never",
        ] {
            let words = std::iter::once("line").chain(words.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_err());
        }
    }

    #[test]
    fn which_option_was_given_first_is_known() {
        assert_eq!(axes("").given(), None);
        assert_eq!(
            axes("--pipe-sizes 4K --chunks 4K").given(),
            Some("--chunks")
        );
    }

    #[test]
    fn a_pipe_of_another_capacity_is_no_figure() {
        let cell = Cell {
            chunk: 4096,
            pipe_size: 5000,
        };
        let sweep = Sweep {
            pair: pair(Writer::Copy, Reader::Read, WaitName::Block, cell),
            table: "",
        };
        let taken = |capacity| Measured {
            writer: Some(EndpointReport {
                pipe_capacity: Some(capacity),
                ..EndpointReport::default()
            }),
            ..Measured::default()
        };
        match sweep.check_capacity(&taken(8192)) {
            Err(Stop::Skipped(reason)) => {
                assert!(reason.contains("8K") && reason.contains("5000"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        assert!(sweep.check_capacity(&taken(5000)).is_ok());
    }
}
