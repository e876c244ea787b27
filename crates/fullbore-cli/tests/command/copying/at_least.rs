//! `--at-least`: an output that gets fewer bytes is as it was, a stream has no seal, and the exit code is 1.

use std::fs;

use tempfile::TempDir;

use crate::common::{assert_code, assert_quiet_success, one_line, pipefail, said, stderr};

/// Each verb, which gets its input on stdin and writes to `out`.
const VERBS: [&str; 7] = [
    "copy -o out",
    "copy --atomic -o out",
    "meter -q -o out",
    "meter -q -l -o out",
    "tee out",
    "buffer -q -f -m 1M -o out",
    "run -o out 'cat | cat'",
];

fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("out"), "old\n").unwrap();
    place
}

/// Returns the number of files in a directory.
fn files(place: &TempDir) -> usize {
    fs::read_dir(place.path()).unwrap().count()
}

#[test]
fn fewer_bytes_replace_nothing() {
    for verb in VERBS {
        for (came, wanted) in [(0, "1"), (1, "2"), (99_999, "100000"), (5000, "1M")] {
            let place = place();
            let line = format!(
                "head -c {came} /dev/zero | $FB {} --at-least {wanted} {}",
                verb.split_once(' ').unwrap().0,
                verb.split_once(' ').unwrap().1
            );
            let output = pipefail(&place, &format!("{line} > /dev/null"));
            assert_code(&output, 1);
            let text = one_line(stderr(&output));
            let unit = if came == 1 { "byte" } else { "bytes" };
            assert!(
                text.contains(&format!("{came} {unit} came")),
                "{line}: {text}"
            );
            assert!(text.contains("--at-least asks for"), "{line}: {text}");
            assert_eq!(
                fs::read(place.path().join("out")).unwrap(),
                b"old\n",
                "{line}"
            );
            assert_eq!(files(&place), 1, "{line}");
            // What was not there is not there after it.
            fs::remove_file(place.path().join("out")).unwrap();
            assert_code(&pipefail(&place, &format!("{line} > /dev/null")), 1);
            assert_eq!(files(&place), 0, "{line}");
        }
    }
}

#[test]
fn enough_bytes_replace_the_file() {
    for verb in VERBS {
        for (came, wanted) in [(0, "0"), (1, "1"), (100_000, "1"), (100_000, "100000")] {
            let place = place();
            let (verb, options) = verb.split_once(' ').unwrap();
            let line = format!(
                "head -c {came} /dev/zero | $FB {verb} --at-least {wanted} {options} > /dev/null"
            );
            assert_quiet_success(&pipefail(&place, &line));
            assert_eq!(
                fs::read(place.path().join("out")).unwrap(),
                vec![0; came],
                "{line}"
            );
        }
    }
}

#[test]
fn several_files_and_inputs_are_counted_together() {
    let place = place();
    assert_code(
        &pipefail(&place, "echo a | $FB tee --at-least 3 out b c > /dev/null"),
        1,
    );
    assert_code(
        &pipefail(
            &place,
            "echo a | $FB buffer -q -m 1M --at-least 3 -f -o out -o b",
        ),
        1,
    );
    assert_eq!(
        (files(&place), fs::read(place.path().join("out")).unwrap()),
        (1, b"old\n".to_vec())
    );
    assert_quiet_success(&pipefail(
        &place,
        "$FB copy --at-least 8 out out -o out2 && cmp out2 <(cat out out)",
    ));
    assert_code(
        &pipefail(&place, "$FB copy --at-least 9 out out -o out2"),
        1,
    );
    // A failure is told as itself.
    let output = pipefail(&place, "$FB copy --at-least 9 none out -o out");
    assert_code(&output, 1);
    assert!(
        one_line(stderr(&output)).contains("none"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_stream_with_fewer_bytes_is_not_sealed() {
    let place = place();
    let output = pipefail(&place, "echo a | $FB copy --seal --at-least 3 > sealed");
    assert_code(&output, 1);
    let output = pipefail(&place, "$FB copy --unseal --atomic -o out < sealed");
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("without its seal"),
        "{}",
        said(&output)
    );
    assert_quiet_success(&pipefail(
        &place,
        "echo a | $FB copy --seal --at-least 2 | $FB copy --unseal --at-least 2 -o b",
    ));
    assert_code(
        &pipefail(
            &place,
            "echo a | $FB copy --seal | $FB copy --unseal --at-least 3 -o out",
        ),
        1,
    );
    assert_eq!(fs::read(place.path().join("out")).unwrap(), b"old\n");
    for verb in ["copy", "tee", "meter -q", "buffer -q"] {
        assert_code(
            &pipefail(
                &place,
                &format!("echo a | $FB {verb} --at-least 3 > /dev/null"),
            ),
            1,
        );
    }
}

#[test]
fn what_cannot_be_kept_as_it_was_is_refused() {
    let place = place();
    for line in [
        "$FB copy --append --at-least 1 -o out",
        "$FB tee --append --at-least 1 out",
        "$FB buffer -q -m 1M --append -o out --at-least 1",
        "$FB meter -U - --at-least 1 -o out",
        "$FB run --at-least 1 'touch made | cat'",
        "$FB copy --at-least x -o out",
    ] {
        let output = pipefail(&place, line);
        assert_code(&output, 2);
        one_line(stderr(&output));
        assert_eq!(files(&place), 1, "{line}");
    }
    assert_code(
        &pipefail(&place, "$FB copy --at-least 1 out -o /dev/null"),
        1,
    );
}
