//! Tests of `fullbore bench --compare`: comparing runs, and files that are not runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Output;
use std::sync::OnceLock;

use crate::common::*;
use fullbore_results::compare::{COMPARISON_SCHEMA, Change, Comparison};
use fullbore_results::run::{Run, Unit};
use fullbore_results::statistics::Spread;

/// Returns a short run, which is made once.
fn base() -> &'static Run {
    static BASE: OnceLock<Run> = OnceLock::new();
    BASE.get_or_init(|| {
        let output = run(
            "bench --json --rounds 1 --seconds 0.01 --seed 1 write_read vmsplice_read roomy_pipe",
        );
        assert_code(&output, 0);
        bench_json(&output)
    })
}

/// Returns that run as if it had measured these rounds, each multiplied by the number of the
/// experiment in the list.
fn with_rounds(rounds: &[f64]) -> Run {
    let mut run = base().clone();
    run.apart.taken = 0;
    run.other_work = None;
    for (index, experiment) in (1..).zip(&mut run.experiments) {
        let rounds: Vec<f64> = rounds
            .iter()
            .map(|round| round * f64::from(index))
            .collect();
        experiment.figure = Some(Spread {
            median: 0.0,
            min: 0.0,
            max: 0.0,
            rounds,
        });
        experiment.skipped = None;
        experiment.notes.clear();
    }
    run
}

/// Returns the JSON of a run.
fn text(run: &Run) -> String {
    serde_json::to_string(run).unwrap()
}

const ROUNDS: [f64; 6] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0];

fn doubled() -> Vec<f64> {
    ROUNDS.iter().map(|round| round * 2.0).collect()
}

/// A directory with files in it.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    /// Runs `fullbore bench` in the directory.
    fn bench(&self, words: &str) -> Output {
        let mut command = fullbore(&format!("bench {words}"));
        finish(start(command.current_dir(&self.0)))
    }

    fn compared(&self, words: &str) -> Comparison {
        comparison(&self.bench(&format!("--json --compare {words}")))
    }
}

/// Writes a run to `a.json`, and one that is twice as fast to `b.json`.
fn a_and_b() -> Files {
    let files = Files::new();
    files
        .write("a.json", text(&with_rounds(&ROUNDS)))
        .write("b.json", text(&with_rounds(&doubled())));
    files
}

/// Reads the comparison that a process has printed as JSON.
#[track_caller]
fn comparison(output: &Output) -> Comparison {
    assert_code(output, 0);
    serde_json::from_str(stdout(output)).unwrap()
}

fn names(compared: &Comparison) -> Vec<&str> {
    compared.rows.iter().map(|row| row.name.as_str()).collect()
}

/// Returns the verdicts on the run at `index` among the runs that are compared to the first.
fn verdicts(compared: &Comparison, index: usize) -> Vec<Change> {
    let rows = compared.rows.iter();
    rows.map(|row| row.to_first[index].verdict).collect()
}

#[test]
fn two_runs_of_this_machine_are_set_side_by_side() {
    let files = Files::new();
    for file in ["a.json", "b.json"] {
        let output = run("bench --json --rounds 1 --seconds 0.01 write_read roomy_pipe");
        assert_code(&output, 0);
        let taken = bench_json(&output);
        assert_eq!(taken.taken_at.len(), 20);
        files.write(file, &output.stdout);
    }
    let output = files.bench("--compare a.json b.json");
    assert_quiet_success(&output);
    for text in [
        "A  a.json: taken 20",
        "B  b.json: taken 20",
        "ladder",
        "GiB/s",
        "write_read",
        "roomy_pipe",
        "too few rounds",
        "Each run needs at least 5 rounds",
    ] {
        assert!(stdout(&output).contains(text), "{text}: {}", said(&output));
    }
    assert!(!stdout(&output).contains('\u{1b}'));
    let compared = files.compared("a.json b.json");
    assert_eq!(compared.comparison_schema, COMPARISON_SCHEMA);
    assert!(compared.rows[0].to_first[0].ratio.unwrap() > 0.0);
    assert_eq!(verdicts(&compared, 0), [Change::TooFewRounds; 2]);
}

#[test]
fn a_run_with_every_round_doubled_is_faster_in_everything() {
    let files = a_and_b();
    let compared = files.compared("a.json b.json a.json");
    assert_eq!(
        names(&compared),
        ["write_read", "vmsplice_read", "roomy_pipe"]
    );
    assert_eq!(verdicts(&compared, 0), [Change::Faster; 3]);
    assert_eq!(verdicts(&compared, 1), [Change::WithinNoise; 3]);
    for row in &compared.rows {
        assert_eq!(row.to_first[0].ratio, Some(2.0));
        assert_eq!(row.to_first[0].run, "B");
        assert_eq!(row.runs[1].rounds, 6);
        // This is 2 of the C(12, 6) ways to divide twelve rounds.
        let p = row.to_first[0].p.unwrap();
        assert!((p - 2.0 / 924.0).abs() < 1e-12, "{p}");
    }
    assert_eq!(
        verdicts(&files.compared("b.json a.json"), 0),
        [Change::Slower; 3]
    );
    // A verdict does not change the exit code.
    assert_quiet_success(&files.bench("--compare b.json a.json"));
}

#[test]
fn with_json_the_table_goes_to_stderr() {
    let output = a_and_b().bench("--compare a.json b.json --json");
    comparison(&output);
    assert!(stderr(&output).contains("2.00×  faster"));
}

#[test]
fn names_stand_before_the_option_or_behind_two_dashes() {
    let files = a_and_b();
    // Any option after the files also ends the list of files.
    for words in [
        "vmsplice_* write_read --compare a.json b.json --json",
        "--compare a.json b.json --json vmsplice_* write_read",
        "--json --compare a.json b.json -- vmsplice_* write_read",
        "--json --compare a.json --compare b.json -- ladder/v* write_read",
    ] {
        let output = files.bench(words);
        assert_eq!(
            names(&comparison(&output)),
            ["write_read", "vmsplice_read"],
            "{words}"
        );
    }
    let output = files.bench("--compare a.json b.json -- deep_ring");
    assert_code(&output, 2);
    assert!(one_line(stderr(&output)).contains("'deep_ring'"));
}

#[test]
fn experiments_that_this_version_does_not_have_are_compared_all_the_same() {
    let files = Files::new();
    let renamed = |rounds: &[f64]| {
        text(&with_rounds(rounds))
            .replace("roomy_pipe", "of_another_version")
            .replace("\"ladder\"", "\"of_another_version_too\"")
    };
    files
        .write("a.json", renamed(&ROUNDS))
        .write("b.json", renamed(&doubled()));
    let output = files.bench("of_another_version --compare a.json b.json");
    assert_quiet_success(&output);
    assert!(
        stdout(&output).contains("2.00×  faster"),
        "{}",
        said(&output)
    );
}

#[test]
fn what_differs_is_listed_side_by_side() {
    let files = a_and_b();
    let mut other = with_rounds(&doubled());
    other.machine.kernel = Some("9.9.9".into());
    other.settings.rounds = 6;
    other.apart.taken = 2;
    other.experiments[0].figure = None;
    other.experiments[0].skipped = Some("no such call".into());
    other.experiments[1].unit = Unit::Microseconds;
    files.write("b.json", text(&other));
    let output = files.bench("--compare a.json b.json");
    assert_quiet_success(&output);
    let text = stdout(&output);
    for part in [
        "differences between the runs",
        "Linux 9.9.9",
        "warning: in B, 2 measurements were kept although the CPUs were farther",
        "not comparable",
        "write_read: skipped in B: no such call",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_run_is_read_from_stdin() {
    let files = a_and_b();
    let mut command = fullbore("bench --json --compare a.json -");
    command
        .current_dir(&files.0)
        .stdin(fs::File::open(files.path("b.json")).unwrap());
    let output = finish(start(&mut command));
    assert_eq!(verdicts(&comparison(&output), 0), [Change::Faster; 3]);
    let output = files.bench("--compare - -");
    assert_code(&output, 2);
    assert!(one_line(stderr(&output)).contains("only once"));
}

#[test]
fn options_that_say_how_to_measure_are_refused() {
    let files = a_and_b();
    for option in [
        "--rounds 2",
        "--seconds 1",
        "--quick",
        "--cpus 0,1",
        "--pipe-size 1M",
        "--seed 1",
        "--list",
        "--svg chart.svg",
    ] {
        let output = files.bench(&format!("{option} --compare a.json b.json"));
        assert_code(&output, 2);
        assert!(output.stdout.is_empty());
        let name = option.split(' ').next().unwrap();
        assert!(
            one_line(stderr(&output)).contains(name),
            "{}",
            said(&output)
        );
    }
    assert!(!files.path("chart.svg").exists());
}

/// Asserts that a comparison with `file` is refused in one line that names the file.
#[track_caller]
fn assert_refused(files: &Files, file: &str, reason: &str) {
    let output = files.bench(&format!("--compare a.json {file}"));
    assert_code(&output, 2);
    assert!(output.stdout.is_empty(), "{}", said(&output));
    let line = one_line(stderr(&output));
    assert!(line.contains(file) && line.contains(reason), "{line}");
    assert!(!line.trim_end().chars().any(char::is_control), "{line:?}");
}

#[test]
fn files_that_are_no_runs_are_refused() {
    let files = a_and_b();
    let run = text(&with_rounds(&ROUNDS));
    let compared = files.compared("a.json b.json");
    let compared = serde_json::to_string(&compared).unwrap();
    for (name, text, reason) in [
        ("empty", "", "not the output"),
        ("text", "GiB/s\n", "not the output"),
        ("cut", &run[..run.len() / 2], "not the output"),
        ("two", &format!("{run}{run}"), "not the output"),
        ("other", r#"{"name": "criterion"}"#, "not the output"),
        ("list", "[1, 2]", "not the output"),
        (
            "pipeline",
            include_str!("../../../../../fuzz/corpus/json/run"),
            "'fullbore bench -- LINE' compares ways",
        ),
        (
            "old",
            &run.replace("\"schema\":2", "\"schema\":1"),
            "schema 1, and this version reads only schema 2",
        ),
        ("compared", &compared, "not the output"),
        ("infinite", &run.replace("1.01", "1e999"), "out of range"),
        (
            "escape",
            &run.replace("\"GiB/s\"", r#""\u001b[31m\u0007""#),
            "unknown variant",
        ),
    ] {
        assert_ne!(text, run, "{name}");
        files.write(name, text);
        assert_refused(&files, name, reason);
    }
    assert_refused(&files, "missing", "No such file");
    assert_refused(&files, ".", "directory");
    fs::File::create(files.path("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    assert_refused(&files, "huge", "larger than 256 MiB");
    symlink("loop", files.path("loop")).unwrap();
    assert_refused(&files, "loop", "symbolic links");
    if !is_root() {
        use std::os::unix::fs::PermissionsExt;
        files.write("secret", &run);
        fs::set_permissions(files.path("secret"), fs::Permissions::from_mode(0o0)).unwrap();
        assert_refused(&files, "secret", "denied");
    }
    for (words, reason) in [
        ("--compare a.json", "at least two files"),
        ("--compare", "--compare"),
        ("--compare a.json --", "at least two files"),
        (&format!("--compare{}", " a.json".repeat(27)), "at most 26"),
        ("--compare a.json b.json -- [", "["),
    ] {
        let output = files.bench(words);
        assert_code(&output, 2);
        assert!(
            one_line(stderr(&output)).contains(reason),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn the_same_file_twice_is_within_noise() {
    let compared = a_and_b().compared("a.json a.json");
    assert_eq!(verdicts(&compared, 0), [Change::WithinNoise; 3]);
    assert_eq!(compared.warnings, [""; 0]);
}

#[test]
fn what_a_file_says_does_not_reach_the_terminal_raw() {
    let files = a_and_b();
    let odd = text(&with_rounds(&doubled()))
        .replace("roomy_pipe", r"\u001b[2Jroomy\u0007\u009b\r\npipe")
        .replace("\"ladder\"", r#""\u001b]0;title\u0007""#);
    let name = "\u{1b}[31mred\u{7}.json";
    files.write(name, odd);
    let mut command = fullbore("bench --compare a.json");
    let output = finish(start(command.arg(name).current_dir(&files.0)));
    assert_quiet_success(&output);
    assert!(!stdout(&output).chars().any(|c| c.is_control() && c != '\n'));
    files.write(name, "{");
    let output = finish(start(
        command
            .current_dir(&files.0)
            .stdout(std::process::Stdio::piped()),
    ));
    assert_code(&output, 2);
    let line = one_line(stderr(&output)).trim_end();
    assert!(!line.chars().any(char::is_control), "{line:?}");
}

#[test]
fn thousands_of_rounds_are_compared() {
    let files = Files::new();
    let many = |times: f64| -> Vec<f64> {
        (0..10_000)
            .map(|n| f64::from(n % 100 + 1000) * times)
            .collect()
    };
    files
        .write("a.json", text(&with_rounds(&many(1.0))))
        .write("b.json", text(&with_rounds(&many(1.03))))
        .write("none.json", text(&with_rounds(&[])));
    let compared = files.compared("a.json b.json none.json");
    assert_eq!(verdicts(&compared, 0), [Change::Faster; 3]);
    // One figure has no rounds, and one has a median of zero.
    assert_eq!(verdicts(&compared, 1), [Change::NotComparable; 3]);
}

#[test]
fn a_closed_stdout_ends_it_quietly() {
    let files = a_and_b();
    for words in ["--compare a.json b.json", "--json --compare a.json b.json"] {
        let mut command = fullbore(&format!("bench {words}"));
        command.current_dir(&files.0).stdout(nobody_reads());
        assert_code(&finish(start(&mut command)), 0);
    }
    let mut command = fullbore("bench --compare a.json b.json");
    command.current_dir(&files.0).stdout(full());
    assert_code(&finish(start(&mut command)), 1);
}
