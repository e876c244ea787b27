//! Holds all verbs to the habits that CONTRIBUTING.md lists, by clap's definitions of their options.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

/// Verbs whose options are those of another program: pv, mbuffer, tee.
const OF_OTHERS: [&str; 3] = ["meter", "buffer", "tee"];

fn page(name: &str) -> String {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(name)).unwrap()
}

/// Returns the verbs that the help lists, in its order.
fn verbs() -> Vec<Command> {
    let mut parser = super::parser();
    parser.build();
    let all = parser.get_subcommands();
    let shown = all.filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    shown.cloned().collect()
}

/// Returns what is between backquotes.
fn quoted(text: &str) -> Vec<String> {
    // In a table, a bar is escaped.
    let text = text.replace("\\|", "|");
    text.split('`').skip(1).step_by(2).map(Into::into).collect()
}

/// Returns the rows of the table of CONTRIBUTING.md whose first column has this title, as the quoted words of the
/// first column and of the second.
fn habits(title: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let page = page("CONTRIBUTING.md");
    let table = page.lines().skip_while(|line| !line.starts_with(title));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<_> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split(" | ").collect();
            (quoted(cells[0]), quoted(cells[1]))
        })
        .collect();
    assert!(!rows.is_empty(), "no table begins with {title}");
    rows
}

fn options(verb: &Command) -> impl Iterator<Item = &Arg> {
    verb.get_arguments().filter(|arg| !arg.is_hide_set())
}

fn value_name(arg: &Arg) -> &str {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or("", |name| name.as_str())
}

/// Returns what the parser says about an option or an argument with this value; an empty text if it takes the value.
fn said(verb: &Command, arg: &Arg, value: &str) -> String {
    let word = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}={value}"),
        (None, Some(short)) => format!("-{short}{value}"),
        (None, None) => value.to_owned(),
    };
    let line = ["fullbore", verb.get_name(), &word];
    let answer = super::parser().try_get_matches_from(line);
    answer.map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn a_letter_means_one_thing_in_all_verbs() {
    let letters = habits("| letter |");
    for verb in verbs() {
        if OF_OTHERS.contains(&verb.get_name()) {
            continue;
        }
        for option in options(&verb) {
            let Some(letter) = option.get_short() else {
                continue;
            };
            let long = format!("--{}", option.get_long().unwrap_or_default());
            let row = letters
                .iter()
                .find(|row| row.0.contains(&format!("-{letter}")));
            let is_listed = row.is_some_and(|(_, longs)| longs.contains(&long));
            assert!(is_listed, "{}: -{letter} is {long}", verb.get_name());
        }
    }
}

/// Names of values that are no quantities and no processes, and in the last line the ones that pv and mbuffer count in.
#[rustfmt::skip]
const NO_QUANTITIES: &[&str] = &[
    "A,B", "ALGORITHM", "BYTES", "CODES", "COMMAND", "FD", "STAGE=CODES", "DIR", "EXPERIMENT", "HOST:PORT", "HOW", "LINE", "MODE", "NAME", "SHELL", "STYLE",
    "VERB", "WAY", "WHAT", "WHERE[:FORMAT]", "WORD", "[ADDRESS:]PORT", "[HOST:]PORT", "FORMAT", "PID[:FD]|NAME",
    "SIZE|@FILE", "SIZE|%", "0-6", "NUMBER", "PERCENT", "COLUMNS", "ROWS", "MICROSECONDS",
];

#[test]
fn a_value_is_spelled_in_one_way() {
    let values = habits("| value |");
    let known = |name: &str| {
        values
            .iter()
            .find(|row| row.0.iter().any(|one| one == name))
    };
    // What the one parser of a value says about 'x'.
    let errors = [
        ("SIZE", "invalid size 'x'"),
        ("SECONDS", "invalid time 'x'"),
        ("PID", "invalid PID 'x'"),
        ("N", "expected a whole number"),
        ("COLUMNS", "expected a whole number"),
        ("ROWS", "expected a whole number"),
        ("MICROSECONDS", "expected a whole number"),
    ];
    let mut probed = 0;
    for verb in verbs() {
        for option in options(&verb).filter(|one| one.get_action().takes_values()) {
            if option
                .get_num_args()
                .is_some_and(|count| !count.takes_values())
            {
                continue;
            }
            let name = value_name(option);
            let place = format!("{} {option}", verb.get_name());
            if let Some((_, error)) = errors.iter().find(|(value, _)| *value == name) {
                let answer = said(&verb, option, "x");
                assert!(answer.contains(error), "{place}: {answer}");
                probed += 1;
            }
            let Some((_, longs)) = known(name) else {
                assert!(NO_QUANTITIES.contains(&name), "{place}: {name}");
                continue;
            };
            let is_of_others = OF_OTHERS.contains(&verb.get_name());
            let long = format!("--{}", option.get_long().unwrap_or_default());
            let is_listed = longs.is_empty() || option.is_positional() || longs.contains(&long);
            assert!(is_of_others || is_listed, "{place} takes {name}");
        }
    }
    assert!(probed > 30, "{probed}");
}

/// Returns whether a page names an option, by its long name or its letter: `--sync`, `--json=FILE`, `-p -t`.
fn names(page: &str, option: &Arg) -> bool {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|letter| format!("-{letter}"));
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    let mut words = page.split(is_end);
    words.any(|word| Some(word) == long.as_deref() || Some(word) == short.as_deref())
}

#[test]
fn every_option_of_a_help_stands_in_the_page_of_its_verb() {
    let mut missing = String::new();
    for verb in verbs() {
        let name = verb.get_name();
        let file = match name {
            "write" | "read" => "write-read",
            verb => verb,
        };
        let page = page(&format!("docs/{file}.md"));
        let named = options(&verb).filter(|arg| !arg.is_positional());
        let of_all = ["help", "version"];
        let of_verb = named.filter(|arg| !of_all.contains(&arg.get_id().as_str()));
        let absent = of_verb.filter(|option| !names(&page, option));
        let absent: Vec<String> = absent.map(ToString::to_string).collect();
        if !absent.is_empty() {
            missing += &format!("\ndocs/{file}.md, {name}: {}", absent.join(", "));
        }
    }
    assert!(
        missing.is_empty(),
        "options without a word in the page of their verb:{missing}"
    );
}

#[test]
fn processes_are_named_in_one_way() {
    let named = |verb: &str, id: &str| {
        let all = verbs();
        let verb = all.iter().find(|one| one.get_name() == verb).unwrap();
        let arg = verb.get_arguments().find(|arg| arg.get_id() == id).unwrap();
        for (value, is_taken) in [("4711", true), ("gzip", id != "pipeline"), ("0", false)] {
            let answer = said(verb, arg, value);
            assert_eq!(answer.is_empty(), is_taken, "{id} {value}: {answer}");
        }
    };
    for verb in ["top", "tune"] {
        named(verb, "process");
        named(verb, "pipeline");
    }
    named("meter", "watch");
}

#[test]
fn json_goes_to_stdout_or_to_the_file_after_an_equals_sign() {
    let mut found = Vec::new();
    for verb in verbs() {
        let Some(json) = options(&verb).find(|arg| arg.get_id() == "json") else {
            continue;
        };
        let count = json.get_num_args().unwrap();
        assert_eq!((count.min_values(), count.max_values()), (0, 1));
        assert!(json.is_require_equals_set(), "{}", verb.get_name());
        assert_eq!((value_name(json), json.get_short()), ("FILE", None));
        found.push(verb.get_name().to_owned());
    }
    let expected = [
        "buffer", "run", "parallel", "top", "tune", "doctor", "bench", "explain", "write", "read",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_option_for_one_group_of_experiments_stands_under_a_heading_of_its_own() {
    let all = verbs();
    let bench = all.iter().find(|verb| verb.get_name() == "bench").unwrap();
    let of_groups: Vec<&str> = options(bench)
        .filter(|option| {
            let heading = option.get_help_heading().unwrap_or_default();
            heading.starts_with("Options of the group")
        })
        .filter_map(Arg::get_long)
        .collect();
    for option in options(bench) {
        let long = option.get_long().unwrap_or_default();
        let about = option.get_help().unwrap().to_string();
        let is_of_group = about.contains("the group '");
        assert!(!is_of_group || of_groups.contains(&long), "--{long}");
    }
    for long in ["object", "count", "sndbuf"] {
        assert!(of_groups.contains(&long), "--{long}");
    }
}

#[test]
fn the_verbs_have_one_order_in_the_help_and_on_the_pages() {
    let verbs = verbs();
    let names: Vec<&str> = verbs.iter().map(Command::get_name).collect();
    let of_readme = page("README.md");
    let table = of_readme.lines().skip_while(|line| *line != "## The verbs");
    let rows = table.skip(3).take_while(|line| line.starts_with('|'));
    let first_cells = rows.filter_map(|row| row.split(" | ").next());
    let listed: Vec<String> = first_cells.flat_map(quoted).collect();
    assert_eq!(listed, names);
    let of_docs = page("docs/README.md");
    let table = of_docs.lines().skip_while(|line| *line != "## Verbs");
    let rows = table.skip(3).take_while(|line| line.starts_with('|'));
    let files = rows.filter_map(|row| row.strip_prefix("| [")?.split(".md]").next());
    let listed: Vec<&str> = files.flat_map(|file| file.split('-')).collect();
    let of_verbs: Vec<&str> = listed
        .into_iter()
        .filter(|name| names.contains(name))
        .collect();
    assert_eq!(of_verbs, names);
}
