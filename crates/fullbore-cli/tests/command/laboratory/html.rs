//! Tests of `fullbore bench --html`: it writes one page that is well-formed, needs no other files,
//! and contains the data of the run or comparison, whatever the names in it are.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::OnceLock;

use crate::common::*;
use fullbore_results::run::Run;
use fullbore_results::statistics::Spread;
use roxmltree::{Document, Node, ParsingOptions};

const SHORT: &str = "--rounds 1 --seconds 0.01 --seed 1";

/// A name that contains markup.
const HOSTILE: &str =
    "<script>alert(1)</script>&amp;\"'><img src=http://x onerror=y>\u{202e}\u{1b}[31m\u{0}\u{ffff}";

/// Reads the page at `path`.
fn page(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Parses the page, which is also well-formed XML.
#[track_caller]
fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}\n{page}"))
}

/// Returns the elements with that name.
fn all<'a>(document: &'a Document, name: &str) -> Vec<Node<'a, 'a>> {
    let elements = document.descendants().filter(|node| node.is_element());
    elements
        .filter(|node| node.tag_name().name() == name)
        .collect()
}

/// Returns all text within an element.
fn text(node: &Node) -> String {
    node.descendants()
        .filter(|node| node.is_text())
        .filter_map(|node| node.text())
        .collect()
}

/// Asserts that the page refers to nothing outside of it, has a policy that would prevent that, and
/// is accessible to screen readers.
#[track_caller]
fn assert_whole(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    let document = parsed(page);
    for node in document.descendants().filter(|node| node.is_element()) {
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on") && name != "style", "{name}={value}");
            if ["href", "src", "action", "data", "srcset", "poster"].contains(&name) {
                assert!(name == "href" && value.starts_with('#'), "{name}={value}");
            }
        }
    }
    for element in [
        "link", "img", "iframe", "object", "embed", "use", "image", "base", "form",
    ] {
        assert!(all(&document, element).is_empty(), "{element}");
    }
    let [style, script] = [&all(&document, "style")[..], &all(&document, "script")[..]]
        .map(|found| text(found.first().expect("one, and no other")));
    for words in ["url(", "@import", "://"] {
        assert!(!style.contains(words) && !script.contains(words), "{words}");
    }
    assert_eq!(all(&document, "style").len(), 1);
    assert_eq!(all(&document, "script").len(), 1);
    let metas = all(&document, "meta");
    let policy = metas
        .iter()
        .find(|meta| meta.attribute("http-equiv") == Some("Content-Security-Policy"))
        .and_then(|meta| meta.attribute("content"))
        .expect("a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"));
    assert!(!policy.contains("unsafe"), "{policy}");

    assert_eq!(all(&document, "h1").len(), 1);
    assert_eq!(all(&document, "main").len(), 1);
    for table in all(&document, "table") {
        let caption = table
            .descendants()
            .find(|node| node.has_tag_name("caption"));
        assert!(!text(&caption.expect("a caption")).trim().is_empty());
        let headings = table.descendants().filter(|node| node.has_tag_name("th"));
        assert!(
            headings
                .into_iter()
                .all(|th| th.attribute("scope").is_some())
        );
    }
    // Charts are tables whose figures are text: the shapes beside them are for the eye only.
    for svg in all(&document, "svg") {
        let is_hidden = |node: Node| node.attribute("aria-hidden") == Some("true");
        assert!(svg.ancestors().any(is_hidden));
    }
}

/// Returns a short run of every kind of group, as JSON and as the page that was written with it.
fn base() -> &'static (Run, String) {
    static BASE: OnceLock<(Run, String)> = OnceLock::new();
    BASE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.html");
        let words = format!(
            "bench --json {SHORT} write_read vmsplice_read pipe_byte_block fifo_byte_block pipe_pipe_pv \
             lookup_base_touched chunk_4K_pipe_4K chunk_64K_pipe_4K chunk_64K_pipe_64K --html {}",
            path.display()
        );
        // Without PATH, pv is not found.
        let output = finish(start(fullbore(&words).env("PATH", "")));
        (bench_json(&output), page(&path))
    })
}

/// A directory with runs in it.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, run: &Run) -> &Self {
        let run = serde_json::to_vec(run).unwrap();
        fs::write(self.0.path().join(name), run).unwrap();
        self
    }

    /// Runs `fullbore bench` in the directory.
    fn bench(&self, words: &str) -> Output {
        let mut command = fullbore(&format!("bench {words}"));
        finish(start(command.current_dir(&self.0)))
    }

    /// Returns the page that `words` write to `a.html`.
    fn compared(&self, words: &str) -> String {
        let output = self.bench(&format!("--html a.html --compare {words}"));
        assert_quiet_success(&output);
        page(&self.0.path().join("a.html"))
    }
}

/// Returns the run with these rounds for all figures.
fn with_rounds(run: &Run, rounds: &[f64]) -> Run {
    let mut run = run.clone();
    run.apart.taken = 0;
    run.other_work = None;
    for experiment in &mut run.experiments {
        experiment.figure = Spread::of(rounds);
        (experiment.skipped, experiment.failed) = (None, None);
        experiment.notes.clear();
        experiment.also.clear();
    }
    run
}

#[test]
fn a_page_is_whole_and_has_every_experiment() {
    let (run, page) = base();
    assert_whole(page);
    let document = parsed(page);
    let names: Vec<String> = all(&document, "bdi").iter().map(text).collect();
    let words = text(&document.root_element());
    for experiment in &run.experiments {
        let name = experiment.name.as_str();
        assert!(names.iter().any(|shown| shown == name), "{name}");
        let why = experiment.skipped.iter().chain(&experiment.failed);
        for text in why.chain(&experiment.notes) {
            assert!(words.contains(text), "{name}: {text}");
        }
    }
    let kernel = run.machine.kernel.as_deref().unwrap();
    assert!(words.contains(kernel));
    assert!(words.contains("median of") || words.contains("one round of"));
    for kind in [
        "GiB/s: more is better",
        "µs: less is better, on a logarithmic axis",
        "heat map in GiB/s",
    ] {
        assert!(words.contains(kind), "{kind}");
    }
    // Facts about the machine are folded.
    let folded = all(&document, "details");
    assert!(folded.iter().any(|node| text(node).contains(kernel)));
    // One round is not enough.
    let warning = document
        .descendants()
        .find(|node| node.attribute("class") == Some("warning"));
    assert!(text(&warning.expect("a warning")).contains("one round"));
}

#[test]
fn wide_tables_say_that_they_scroll() {
    let document = parsed(&base().1);
    for table in all(&document, "table") {
        let class = table.attribute("class").unwrap_or_default();
        let columns = table.descendants().filter(|node| node.has_tag_name("th"));
        let columns = columns.filter(|node| node.attribute("scope") == Some("col"));
        if class.starts_with("sortable") && columns.count() > 3 {
            let region = table.parent().unwrap();
            let before = region.prev_sibling_element().unwrap();
            assert!(text(&before).contains("scrolls sideways"));
        }
    }
}

#[test]
fn figures_sort_by_their_values() {
    let (run, page) = base();
    let document = parsed(page);
    let median = median(experiment(run, "write_read"));
    let row = all(&document, "tr")
        .into_iter()
        .find(|row| {
            let is_sorted = row
                .descendants()
                .any(|cell| cell.attribute("data-key").is_some());
            is_sorted && text(row).trim().starts_with("write_read")
        })
        .unwrap();
    let keys: Vec<f64> = row
        .descendants()
        .filter_map(|cell| cell.attribute("data-key")?.parse().ok())
        .collect();
    assert!(keys.contains(&median), "{keys:?}");
}

#[test]
fn names_and_notes_of_any_kind_stay_text() {
    let mut hostile = with_rounds(&base().0, &[1.0, 1.1, 0.9, 1.0, 1.05]);
    hostile.machine.cpu_model = Some(HOSTILE.into());
    hostile.machine.kernel = Some(HOSTILE.into());
    for (index, experiment) in hostile.experiments.iter_mut().enumerate() {
        experiment.name = format!("{HOSTILE}{index}");
        experiment.group = HOSTILE.into();
        experiment.table = Some(HOSTILE.into());
        experiment.notes = vec![HOSTILE.into()];
        if index == 1 {
            experiment.figure = None;
            experiment.failed = Some(HOSTILE.into());
        }
    }
    let files = Files::new();
    files.write("a.json", &hostile).write("b.json", &hostile);
    let page = files.compared("a.json b.json");
    assert_whole(&page);
    let document = parsed(&page);
    assert!(all(&document, "img").is_empty());
    assert!(text(&document.root_element()).contains("<script>alert(1)</script>&amp;\"'>"));
    assert!(!page.contains(['\u{202e}', '\u{1b}', '\u{0}', '\u{ffff}']));
}

#[test]
fn a_comparison_is_a_page_with_ratios_and_verdicts() {
    let run = &base().0;
    let slow = with_rounds(run, &[1.0, 1.01, 0.99, 1.02, 0.98, 1.0]);
    let mut fast = with_rounds(run, &[2.0, 2.02, 1.98, 2.04, 1.96, 2.0]);
    fast.machine.kernel = Some("9.9.9".into());
    let gone = &mut fast.experiments[1];
    gone.figure = None;
    gone.skipped = Some("no such pages".into());
    let files = Files::new();
    files.write("slow.json", &slow).write("fast.json", &fast);
    let page = files.compared("slow.json fast.json");
    assert_whole(&page);
    let document = parsed(&page);
    let words = text(&document.root_element());
    for shown in [
        "fast.json beside slow.json",
        "2.00×",
        "▲ faster",
        "▼ slower",
        "– not comparable",
        "skipped in B: no such pages",
        "9.9.9",
        "rank-sum",
    ] {
        assert!(words.contains(shown), "{shown}");
    }
    for experiment in &run.experiments {
        assert!(words.contains(&experiment.name));
    }
    // There are three runs, and one without experiments.
    let mut none = slow.clone();
    none.experiments.clear();
    files.write("none.json", &none);
    assert_whole(&files.compared("slow.json fast.json none.json"));
    assert_whole(&files.compared("none.json none.json"));
}

#[test]
fn it_goes_with_the_other_files() {
    let files = Files::new();
    let words = format!("{SHORT} write_read --json --svg a.svg --html a.html");
    let output = files.bench(&words);
    assert_code(&output, 0);
    assert_eq!(bench_json(&output).experiments.len(), 1);
    for name in ["a.svg", "a.html"] {
        assert!(
            page(&files.0.path().join(name)).contains("write_read"),
            "{name}"
        );
    }
}

#[test]
fn a_page_that_cannot_be_written_costs_nobody_the_table() {
    let slow = with_rounds(&base().0, &[1.0, 1.01, 0.99, 1.02, 0.98]);
    let files = Files::new();
    files.write("a.json", &slow);
    fs::write(files.0.path().join("kept"), "kept").unwrap();
    let run = format!("{SHORT} write_read --html");
    let compare = "--compare a.json a.json --html";
    for (words, path, is_measured) in [
        // The error is found before anything is measured.
        (run.as_str(), "/no/such/directory/file", false),
        (&run, "/dev/full", true),
        (compare, "/no/such/directory/file", true),
        (compare, "/dev/full", true),
    ] {
        let output = files.bench(&format!("{words} {path}"));
        assert_code(&output, 1);
        assert!(
            one_line(stderr(&output)).contains(path),
            "{}",
            said(&output)
        );
        let has_table = stdout(&output).contains("write_read");
        assert_eq!(has_table, is_measured, "{}", said(&output));
    }
    // No new file is left.
    assert_eq!(fs::read_dir(&files.0).unwrap().count(), 2);
}
