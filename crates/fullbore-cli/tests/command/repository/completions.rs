//! Tests of the scripts that make shells complete command lines, and of the answers that they get. `terminal/completions.rs`
//! tests the scripts of bash and zsh on a terminal.

use std::fs;
use std::process::Command;

use super::manual::{options_of, verbs};
use crate::common::*;

/// The words that can stand in place of the last of these, as fish gets them.
fn words(typed: &[&str]) -> Vec<String> {
    let mut complete = fullbore("-- fullbore");
    let output = finish(start(complete.args(typed).env("FULLBORE_COMPLETE", "fish")));
    assert_code(&output, 0);
    assert_eq!(stderr(&output), "");
    let words = stdout(&output).lines();
    let words = words.map(|line| line.split('\t').next().unwrap_or(line).to_owned());
    words.collect()
}

#[test]
fn verbs_and_all_options_of_their_help_are_completed() {
    let listed = words(&[""]);
    assert!(!listed.iter().any(|verb| verb == "part"), "{listed:?}");
    for verb in verbs() {
        assert!(listed.contains(&verb), "{verb}: {listed:?}");
        let completed: Vec<String> = ["-", "--"]
            .iter()
            .flat_map(|typed| words(&[&verb, typed]))
            .collect();
        for option in options_of(&verb) {
            assert!(
                completed.contains(&option),
                "{verb} {option}: {completed:?}"
            );
        }
    }
}

#[test]
fn experiments_and_groups_are_completed() {
    for verb in ["bench", "explain"] {
        let found = words(&[verb, "vmsplice_read"]);
        assert_eq!(found, ["vmsplice_read", "vmsplice_read_huge"], "{verb}");
    }
    assert_eq!(words(&["bench", "ladd"]), ["ladder"]);
    assert_eq!(words(&["explain", "ladd"]), [""; 0]);
}

#[test]
fn processes_are_completed_by_number_and_by_name() {
    let mut sleep = Command::new("sleep");
    let mut child = start(sleep.arg("1000"));
    let pid = child.id().to_string();
    for (typed, is_there) in [
        (vec!["top", "--pipeline", &pid], true),
        (vec!["tune", "--pipeline", &pid], true),
        (vec!["tune", &pid], true),
        (vec!["meter", "--watch", &pid], true),
        (vec!["top", &pid], true),
        (vec!["run", &pid], false),
    ] {
        let found = words(&typed);
        assert_eq!(found.contains(&pid), is_there, "{typed:?}: {found:?}");
    }
    for verb in ["top", "tune"] {
        let found = words(&[verb, "slee"]);
        assert!(
            found.iter().any(|name| name == "sleep"),
            "{verb}: {found:?}"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn nothing_is_an_error() {
    for typed in [
        &[""][..],
        &["nosuch", ""],
        &["copy", "--nosuch", ""],
        &["copy", "-Zo", ""],
        &["copy", "--bytes", ""],
        &["--", "--", "--"],
        &["run", "--", "a", "|", ""],
    ] {
        words(typed);
    }
}

#[test]
fn a_shell_that_is_not_known_is_an_invalid_command_line() {
    for line in [
        "generate",
        "generate complete-tcsh",
        "generate complete-bash zsh",
    ] {
        let output = run(line);
        assert_code(&output, 2);
        assert_eq!(stdout(&output), "", "{line}");
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn the_scripts_are_correct_in_the_eyes_of_their_shells() {
    for shell in ["bash", "zsh", "fish"] {
        if output_of(Command::new(shell).arg("--version")).is_err() {
            skipped(&format!("the script for {shell}: there is no {shell} here"));
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        fs::write(&file, stdout(&run(&format!("generate complete-{shell}")))).unwrap();
        let checked = output_of(Command::new(shell).arg("-n").arg(&file)).unwrap();
        assert!(checked.status.success(), "{}", said(&checked));
        assert_eq!(stderr(&checked), "");
    }
}

#[test]
fn fish_completes() {
    if output_of(Command::new("fish").arg("--version")).is_err() {
        skipped("completion in fish: there is no fish here");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(FULLBORE, directory.path().join("fullbore")).unwrap();
    let script = directory.path().join("fullbore.fish");
    fs::write(&script, stdout(&run("generate complete-fish"))).unwrap();
    fs::write(directory.path().join("a file"), "").unwrap();
    let mut path = directory.path().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    for (typed, expected) in [
        ("fullbore exp", "explain"),
        ("fullbore explain vmsplice_read_h", "vmsplice_read_huge"),
        ("fullbore copy --by-r", "--by-reference"),
        ("fullbore write --way=rec", "--way=recycle"),
        ("fullbore copy a", "a file"),
        ("fullbore copy --append --output a", "a file"),
    ] {
        let mut fish = Command::new("fish");
        let line = format!("source fullbore.fish; complete --do-complete '{typed}'");
        fish.args(["--no-config", "-c", &line])
            .current_dir(&directory)
            .env("HOME", directory.path())
            .env("PATH", &path);
        let output = output_of(&mut fish).unwrap();
        let is_there = stdout(&output)
            .lines()
            .any(|line| line.split('\t').next() == Some(expected));
        assert!(is_there, "{typed}: {}", said(&output));
    }
}
