//! Tests that the pages of figures agree with the runs that they quote: each line of a table on such a page is what
//! `bench` prints for a run whose JSON is beside it, and each figure in the text is in one of these tables.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fullbore_results::report::Report;
use fullbore_results::report::table::Table;
use fullbore_results::run::Run;

/// The pages, each with the folder of its runs.
const PAGES: [(&str, &str); 2] = [("results.md", "results"), ("worth.md", "worth")];

/// The width of the tables on these pages.
const WIDTH: u16 = 100;

#[test]
fn pages_of_figures_quote_the_runs_beside_them() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (page, runs) in PAGES {
        let text = fs::read_to_string(docs.join(page)).unwrap();
        let printed: String = files(&docs.join(runs))
            .iter()
            .map(|run| printed(run))
            .collect();
        let lines: BTreeSet<&str> = printed.lines().map(str::trim_end).collect();
        let figures = figures(&printed);
        let mut is_table = false;
        for line in text.lines() {
            if line.starts_with("```") {
                is_table = line == "```console";
            } else if is_table && !line.starts_with('$') {
                assert!(
                    lines.contains(line.trim_end()),
                    "{page}: no run has printed {line:?}"
                );
            } else if !is_table {
                for figure in self::figures(line) {
                    assert!(
                        figures.contains(figure),
                        "{page}: no run has {figure} of {line:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_readme_and_the_page_of_copy_quote_the_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results = files(&root.join("docs/results"));
    let printed: String = results.iter().map(|run| printed(run)).collect();
    let known = figures(&printed);
    let mut quoted = 0;
    for page in ["README.md", "docs/copy.md"] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let starts = ["| GiB/s", "| CPU s/GiB"];
        let is_quoting = |line: &&str| {
            line.contains("results.md#") || starts.iter().any(|start| line.starts_with(start))
        };
        for line in text.lines().filter(is_quoting) {
            for figure in figures(line) {
                assert!(
                    known.contains(figure),
                    "{page}: no run has {figure} of {line:?}"
                );
                quoted += 1;
            }
        }
    }
    assert!(quoted > 5, "{quoted}");
}

#[test]
fn what_counts_as_a_figure() {
    let text = "It was 1.04 times as fast, saved 9% (from 12 to 8.) on Linux 6.18.44.";
    assert_eq!(
        figures(text).into_iter().collect::<Vec<_>>(),
        ["1.04", "6.18.44", "9%"]
    );
}

/// Returns the files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns what `bench` prints for a run, with each choice of columns.
fn printed(path: &Path) -> String {
    let run = Run::read(File::open(path).unwrap()).unwrap();
    let mut text = Vec::new();
    for choice in 0..4 {
        let table = Table {
            width: Some(WIDTH),
            color: false,
            cost: choice & 1 != 0,
            limit: choice & 2 != 0,
        };
        table.write(&run, &mut text).unwrap();
    }
    String::from_utf8(text).unwrap()
}

/// Returns the numbers in a text that have a point or are percentages.
fn figures(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '%')
        .map(|word| word.trim_matches('.'))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .filter(|word| word.contains('.') || word.ends_with('%'))
        .collect()
}
