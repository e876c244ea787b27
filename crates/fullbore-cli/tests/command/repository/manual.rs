//! Tests of `fullbore generate man`: every verb has a page with all of its options, and the exit codes that the
//! documentation has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::*;

/// The verbs that the help lists.
pub fn verbs() -> Vec<String> {
    let help = run("--help");
    let listed = stdout(&help).lines();
    let listed = listed
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1);
    let names = listed
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next());
    let verbs: Vec<String> = names
        .filter(|verb| *verb != "help")
        .map(str::to_owned)
        .collect();
    assert!(verbs.len() > 10, "{verbs:?}");
    verbs
}

/// A directory with all pages.
fn pages() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut man = fullbore("generate man --dir");
    man.arg(directory.path().join("man1"));
    assert_code(&finish(start(&mut man)), 0);
    directory
}

/// The text of a page, without the marks for fonts.
fn page(directory: &Path, name: &str) -> String {
    let path = directory.join("man1").join(format!("{name}.1"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    text.replace("\\-", "-")
        .replace("\\fB", "")
        .replace("\\fI", "")
        .replace("\\fR", "")
}

fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("\n.SH {heading}\n"))
        .unwrap_or_else(|| panic!("no section {heading}:\n{page}"));
    rest.split("\n.SH ").next().unwrap_or(rest)
}

/// The options that a line of a help or a page begins with: `-o, --output <FILE>`.
fn options(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', ',', '<', '[', '=', '.'])
        .take(3)
        .filter(|word| word.starts_with('-') && word.len() > 1)
}

/// The options of a verb's help. Lines of text are indented further.
pub fn options_of(verb: &str) -> Vec<String> {
    let help = run(&format!("{verb} --help"));
    let lines = stdout(&help).lines().filter_map(|line| {
        let short = line.strip_prefix("  ").filter(|rest| rest.starts_with('-'));
        short.or(line
            .strip_prefix("      ")
            .filter(|rest| rest.starts_with("--")))
    });
    let found: Vec<String> = lines.flat_map(options).map(str::to_owned).collect();
    assert!(
        found.iter().any(|option| option == "--help"),
        "{verb}: {found:?}"
    );
    found
}

/// The options of `meter`, `buffer`, `write` and `read` are those of pv, mbuffer and the article, so their pages leave most
/// of them to the help.
#[test]
fn every_option_of_a_help_is_in_the_page_of_its_verb() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let of_others = ["meter", "buffer", "write", "read"];
    for verb in verbs()
        .iter()
        .filter(|verb| !of_others.contains(&verb.as_str()))
    {
        let page = fs::read_to_string(docs.join(format!("{verb}.md"))).unwrap();
        let is_word = |c: char| c.is_alphanumeric() || c == '-';
        let words: BTreeSet<&str> = page.split(|c| !is_word(c)).collect();
        let all = options_of(verb);
        // A letter stands for the long name behind it.
        let is_there = |at: usize| {
            words.contains(all[at].as_str())
                || at > 0 && all[at - 1].len() == 2 && words.contains(all[at - 1].as_str())
                || all[at].len() == 2
        };
        let missing = (0..all.len()).filter(|&at| !is_there(at));
        let mut missing: Vec<&str> = missing.map(|at| all[at].as_str()).collect();
        missing.retain(|option| !["--help", "--version"].contains(option));
        assert!(missing.is_empty(), "docs/{verb}.md: {missing:?}");
    }
}

#[test]
fn a_page_begins_once() {
    let output = run("generate man copy");
    let text = stdout(&output);
    assert!(text.starts_with(".ie "), "{text}");
    assert_eq!(text.matches("\n.ie ").count(), 0, "{text}");
    assert_eq!(text.matches(".TH ").count(), 1, "{text}");
}

#[test]
fn every_verb_has_a_page_with_all_options_of_its_help() {
    let directory = pages();
    let main = page(directory.path(), "fullbore");
    for verb in verbs() {
        let name = format!("fullbore-{verb}");
        assert!(main.contains(&format!("{name}(1)")), "{name}:\n{main}");
        let page = page(directory.path(), &name);
        for option in options_of(&verb) {
            let is_there = page
                .lines()
                .any(|line| options(line).any(|known| known == option));
            assert!(is_there, "{option} is not in the page of {verb}:\n{page}");
        }
        for heading in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "EXAMPLES",
            "\"EXIT STATUS\"",
        ] {
            assert!(
                !section(&page, heading).trim().is_empty(),
                "{verb}: {heading}"
            );
        }
    }
}

/// The codes in the section EXIT STATUS of a page: `0 done; 1 …`, or `… Also: 2 for …; 125 if …`.
fn codes(page: &str) -> BTreeSet<u8> {
    let section = section(page, "\"EXIT STATUS\"").replace(" Also: ", "; ");
    let codes = section.split("; ");
    codes
        .filter_map(|item| item.split_whitespace().next()?.parse().ok())
        .collect()
}

/// The rows of the tables of docs/exit-codes.md: verbs and codes. A row without a verb is about the verbs above.
fn documented() -> Vec<(Vec<String>, BTreeSet<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once("## What else").unwrap();
    let (table, of_run) = table.split_once("\n## `run`").unwrap();
    let numbers = |cell: &str| -> BTreeSet<u8> {
        cell.split(", ")
            .filter_map(|code| code.trim().parse().ok())
            .collect()
    };
    let cells = |line: &str| -> Option<(String, String)> {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    };
    let mut verbs = Vec::new();
    let mut rows = Vec::new();
    for (first, second) in table.lines().filter_map(cells) {
        if !first.is_empty() {
            verbs = first
                .split(", ")
                .map(|verb| verb.replace('`', ""))
                .collect();
        }
        rows.push((verbs.clone(), numbers(&second)));
    }
    for (first, _) in of_run.lines().filter_map(cells) {
        rows.push((vec!["run".to_owned()], numbers(&first)));
    }
    rows.retain(|(_, codes)| !codes.is_empty());
    assert!(rows.len() > 15, "{rows:?}");
    rows
}

#[test]
fn the_exit_codes_of_a_page_are_those_of_the_documentation() {
    let directory = pages();
    let rows = documented();
    for verb in verbs() {
        let page = page(directory.path(), &format!("fullbore-{verb}"));
        let of_verb = rows.iter().filter(|(verbs, _)| verbs.contains(&verb));
        let mut expected: BTreeSet<u8> = of_verb.flat_map(|(_, codes)| codes).copied().collect();
        match verb.as_str() {
            // That it is 0 if no stage failed is a sentence of the page.
            "run" => {
                assert!(section(&page, "\"EXIT STATUS\"").contains("or 0 if none failed"));
                expected.remove(&0);
                assert_eq!(codes(&page), expected, "{verb}");
            }
            // A verb leaves out those of the general codes that it never ends with.
            _ => {
                let found = codes(&page);
                assert!(
                    found.is_superset(&expected),
                    "{verb}: {found:?} {expected:?}"
                );
                expected.extend(0..=3);
                assert!(found.is_subset(&expected), "{verb}: {found:?} {expected:?}");
            }
        }
    }
}

#[test]
fn the_general_exit_codes_of_the_help_are_those_of_the_documentation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
    let text = fs::read_to_string(path).unwrap();
    let table = text.split("## What else").next().unwrap();
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let code: u8 = cells.next()?.parse().ok()?;
        Some((code, cells.next()?.trim_end_matches([' ', '|']).to_owned()))
    });
    let help = run("--help");
    let help: Vec<&str> = stdout(&help).split_whitespace().collect();
    let help = help.join(" ");
    let mut seen = 0;
    for (code, meaning) in rows {
        assert!(
            help.contains(&format!(" {code} {meaning}")),
            "{code} {meaning}: {help}"
        );
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn pages_are_shown_without_broken_words() {
    if output_of(Command::new("groff").arg("--version")).is_err() {
        skipped("pages as they are shown: there is no groff here");
        return;
    }
    let directory = pages();
    for verb in verbs() {
        let file = directory.path().join(format!("man1/fullbore-{verb}.1"));
        let mut groff = Command::new("groff");
        groff
            .args(["-man", "-Tutf8", "-rLL=80n", "-P-cbou"])
            .arg(&file);
        let output = output_of(&mut groff).unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        // A hyphen that is not in the name of an option keeps a search from finding it.
        assert!(
            !text.contains('\u{2010}'),
            "{verb}: a word is broken:\n{text}"
        );
    }
}

#[test]
fn pages_that_are_there_are_replaced() {
    let directory = pages();
    let file = directory.path().join("man1/fullbore-copy.1");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, "old").unwrap();
    let mut man = fullbore("generate man --dir");
    man.arg(directory.path().join("man1"));
    let output = finish(start(&mut man));
    assert_code(&output, 0);
    assert_eq!((stdout(&output), stderr(&output)), ("", ""));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn a_directory_that_cannot_be_made_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "kept").unwrap();
    for place in [file.clone(), file.join("man1")] {
        let mut man = fullbore("generate man --dir");
        let output = finish(start(man.arg(&place)));
        assert_code(&output, 1);
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.starts_with("fullbore generate: cannot create"),
            "{said}"
        );
        assert!(said.contains(place.to_str().unwrap()), "{said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn a_page_is_printed_where_stdout_is_no_terminal() {
    let output = run("generate man copy");
    assert_quiet_success(&output);
    let directory = pages();
    let file = directory.path().join("man1/fullbore-copy.1");
    assert_eq!(stdout(&output), fs::read_to_string(file).unwrap());
    for line in [
        "generate man nosuch",
        "generate man copy --dir x",
        "generate complete-zsh copy",
    ] {
        let output = run(line);
        assert_code(&output, 2);
        one_line(stderr(&output));
    }
}

#[test]
fn the_version_names_the_target_and_the_commit_if_there_is_one() {
    let output = run("--version");
    assert_code(&output, 0);
    let text = stdout(&output).trim();
    let (version, built) = text.split_once(" (").unwrap();
    assert_eq!(version, concat!("fullbore ", env!("CARGO_PKG_VERSION")));
    let built: Vec<&str> = built.strip_suffix(')').unwrap().split(", ").collect();
    let target = built.last().unwrap();
    assert!(target.starts_with(std::env::consts::ARCH), "{text}");
    assert!(target.contains("-linux-"), "{text}");
    if let [commit, _] = built[..] {
        let is_hex = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(commit.len() >= 12 && is_hex, "{text}");
    }
}
