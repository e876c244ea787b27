//! Lists the pipelines and the ways to run them, as tables.

/// The input of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A file of this name, with the lines of a web server's log.
    Lines(&'static str),
    /// The same lines, compressed by gzip, or by zstd if the name ends with `.zst`.
    Compressed(&'static str),
    /// A file of this name, with the words of a text.
    Words(&'static str),
    /// A directory named `tree`, with files of all sizes in it.
    Tree,
    /// No file; the line itself says how much data it makes.
    Nothing,
}

impl Input {
    /// Returns its name in the line.
    #[cfg(test)]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Input::Lines(name) | Input::Compressed(name) | Input::Words(name) => Some(name),
            Input::Tree => Some("tree"),
            Input::Nothing => None,
        }
    }
}

/// A command line as a user would type it.
#[derive(Debug, PartialEq)]
pub struct Pipeline {
    /// The prefix of its experiments' names.
    pub name: &'static str,
    /// The command line.
    pub line: &'static str,
    /// A description of what it shows.
    pub shows: &'static str,
    /// Its input.
    pub input: Input,
    /// The rate in 10^6 bytes of input per second at which bash's pipeline runs on a machine of
    /// 2025. It determines the size of the input. The rate is a constant and not measured first,
    /// so that every machine reads the same bytes.
    pub mb_per_s: f64,
    /// The programs that it requires.
    pub programs: &'static [&'static str],
    /// The scripts that the line names, and their text.
    pub scripts: &'static [(&'static str, &'static str)],
}

/// The pipelines, in the order of display.
#[rustfmt::skip]
pub const PIPELINES: &[Pipeline] = &[
    Pipeline {
        name: "cat_wc", line: "cat big | wc -l",
        shows: "two programs that do little work besides the pipe",
        input: Input::Lines("big"), mb_per_s: 1000.0, programs: &["cat", "wc"], scripts: &[],
    },
    Pipeline {
        name: "cat_cat_cat_wc", line: "cat big | cat | cat | wc -l",
        shows: "three pipes, and more programs than many machines have CPUs to spare",
        input: Input::Lines("big"), mb_per_s: 1000.0, programs: &["cat", "wc"], scripts: &[],
    },
    Pipeline {
        name: "head_wc", line: "head -c 8G /dev/zero | wc -l",
        shows: "a writer that generates its data, 8 KiB at a time",
        input: Input::Nothing, mb_per_s: 1600.0, programs: &["head", "wc"], scripts: &[],
    },
    Pipeline {
        name: "tar_cat_sha1sum", line: "tar c tree | cat | sha1sum",
        shows: "many small files, and a checksum that takes its time",
        input: Input::Tree, mb_per_s: 400.0, programs: &["tar", "cat", "sha1sum"], scripts: &[],
    },
    Pipeline {
        name: "tar_zstd", line: "tar c tree | zstd -T0",
        shows: "a backup: a compressor that uses several CPUs, into a file",
        input: Input::Tree, mb_per_s: 170.0, programs: &["tar", "zstd"], scripts: &[],
    },
    Pipeline {
        name: "zcat_grep", line: "zcat log.gz | grep ' 404 ' | wc -l",
        shows: "searching a compressed log; the decompressor is slow",
        input: Input::Compressed("log.gz"), mb_per_s: 240.0, programs: &["zcat", "gzip", "grep", "wc"], scripts: &[],
    },
    Pipeline {
        name: "cat_grep", line: "cat log | grep ' 404 ' | wc -l",
        shows: "a log, searched",
        input: Input::Lines("log"), mb_per_s: 650.0, programs: &["cat", "grep", "wc"], scripts: &[],
    },
    Pipeline {
        name: "cat_awk", line: "cat log | awk '{ bytes += $10 } END { print bytes }'",
        shows: "a column of a log, added up",
        input: Input::Lines("log"), mb_per_s: 250.0, programs: &["cat", "awk"], scripts: &[],
    },
    Pipeline {
        name: "cut_sort_uniq", line: "cut -d' ' -f1 log | sort | uniq -c | sort -rn",
        shows: "the most frequent clients; sort writes nothing before it has read everything",
        input: Input::Lines("log"), mb_per_s: 150.0, programs: &["cut", "sort", "uniq"], scripts: &[],
    },
    Pipeline {
        name: "words", line: "tr -cs A-Za-z '\\n' < text | tr A-Z a-z | sort | uniq -c | sort -rn",
        shows: "McIlroy's words by frequency: five programs",
        input: Input::Words("text"), mb_per_s: 10.0, programs: &["tr", "sort", "uniq"], scripts: &[],
    },
];

/// A way to run a line.
#[derive(Debug, PartialEq)]
pub struct Way {
    /// The suffix of its experiments' names.
    pub name: &'static str,
    /// Its description.
    pub title: &'static str,
    /// The program, if it is not this one.
    pub program: Option<&'static str>,
    /// Its options before the line.
    pub options: &'static [&'static str],
}

/// The ways to run a line. The others are compared with the first one, by their time and by their
/// output.
#[rustfmt::skip]
pub const WAYS: &[Way] = &[
    Way { name: "bash", title: "bash -c", program: Some(SHELL), options: &["-c"] },
    Way { name: "run", title: "fullbore run", program: None, options: &["run"] },
    Way { name: "report", title: "fullbore run --report", program: None, options: &["run", "--report"] },
    Way { name: "together", title: "fullbore run --place together", program: None, options: &["run", "--place", "together"] },
];

/// The shell that runs lines as a reference.
pub const SHELL: &str = "bash";

impl Pipeline {
    /// Returns the name of the directory with its files: pipelines that read the same share them.
    pub fn directory(&self) -> String {
        match self.input {
            Input::Nothing => "nothing".to_owned(),
            Input::Tree => format!("tree-{}", self.mb_per_s),
            Input::Lines(name) | Input::Compressed(name) | Input::Words(name) => {
                format!("{name}-{}", self.mb_per_s)
            }
        }
    }

    /// Returns the bytes of its input for a measurement of `seconds`.
    pub fn bytes(&self, seconds: f64) -> u64 {
        let bytes = (self.mb_per_s * 1e6 * seconds) as u64;
        // A minimum keeps the time for starting programs from dominating the measurement.
        let bytes = bytes.max(1 << 20);
        match self.input {
            // The number is a multiple of the unit in the line's option, and no more than the
            // line's own number.
            Input::Nothing => (bytes >> 20 << 20).min(8 << 30),
            _ => bytes,
        }
    }

    /// Returns the line for an input of `bytes`.
    pub fn line_for(&self, bytes: u64) -> String {
        match self.input {
            Input::Nothing if bytes < 8 << 30 => {
                self.line.replace("8G", &format!("{}M", bytes >> 20))
            }
            _ => self.line.to_owned(),
        }
    }
}

impl Way {
    /// Returns the command for a line, as it would be typed.
    pub fn typed(&self, line: &str) -> String {
        format!("{} '{}'", self.title, line.replace('\'', r"'\''"))
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
        assert!(bytes < 8 << 30 && bytes % (1 << 20) == 0);
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
