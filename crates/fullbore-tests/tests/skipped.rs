//! Prints how many checks the run of `cargo test` that starts this program has skipped, and why. With
//! `FULLBORE_TEST_EXPECTED_SKIPS=FILE`, it fails if the reason for one of them contains no line of that file.

use std::collections::BTreeMap;
use std::process::ExitCode;

fn main() -> ExitCode {
    // An option is a question about the tests, such as --list, or asks for some of them by name.
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let mut tests: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (test, reason) in fullbore_tests::take_skipped() {
        tests.entry(reason).or_default().push(test);
    }
    let expected = match std::env::var_os("FULLBORE_TEST_EXPECTED_SKIPS") {
        Some(path) => match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) => {
                eprintln!("read '{}': {error}", path.to_string_lossy());
                return ExitCode::FAILURE;
            }
        },
        None => None,
    };
    let is_expected = |reason: &str| {
        let Some(text) = &expected else { return true };
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .any(|line| reason.contains(line))
    };
    println!();
    let mut unexpected = 0;
    for (reason, tests) in &tests {
        let mark = if is_expected(reason) {
            ""
        } else {
            " (NOT EXPECTED)"
        };
        unexpected += usize::from(!mark.is_empty());
        println!("skipped{mark}: {reason}: {} in {}", tests.len(), tests[0]);
    }
    let count: usize = tests.values().map(Vec::len).sum();
    match unexpected {
        0 => println!("{count} checks skipped, for {} reasons", tests.len()),
        _ => println!(
            "{count} checks skipped, {unexpected} of {} reasons not expected",
            tests.len()
        ),
    }
    ExitCode::from(u8::from(unexpected > 0))
}
