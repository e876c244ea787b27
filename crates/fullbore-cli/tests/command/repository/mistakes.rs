//! The first mistakes that people make: each is one line, which says what to type instead.

use std::fs::File;

use crate::common::{finish, fullbore, one_line, run, said, start, stderr};

/// A command line, its exit code, and what the line on stderr contains.
#[rustfmt::skip]
const MISTAKES: &[(&str, i32, &str)] = &[
    // Names that are nearly right.
    ("cpy", 2, "did you mean 'copy'?"),
    ("docter", 2, "did you mean 'doctor'?"),
    ("tun", 2, "did you mean 'tune'?"),
    ("explan true", 2, "did you mean 'explain'?"),
    ("copy --apend", 2, "did you mean '--append'?"),
    ("copy --hash sha265", 2, "did you mean 'sha256'?"),
    ("run --pipesize 1M true", 2, "did you mean '--pipe-size'?"),
    ("help cpy", 2, "did you mean 'copy'?"),
    // Negative numbers.
    ("copy -n -5", 2, "invalid size '-5'"),
    ("copy --bytes -5", 2, "invalid size '-5'"),
    ("top --json -n -5", 2, "expected a whole number, at least 1"),
    ("meter -i -1", 2, "invalid time '-1'"),
    ("tune --pipe-size -1 1", 2, "invalid size '-1'"),
    ("run --pipe-size 4G true", 2, "a pipe can have at most 2G"),
    // Ranges.
    ("buffer -b 3", 2, "expected a whole number, at least 5"),
    ("bench --rounds 0", 2, "expected a whole number from 1 to 10000"),
    ("explain --rounds 0 write_read", 2, "expected a whole number from 1 to 1000"),
    ("meter --height 1", 2, "expected a whole number from 2 to 65535"),
    // Processes.
    ("top --pipeline x", 2, "invalid PID 'x': expected the number of a process"),
    ("tune --pipeline 0", 2, "invalid PID '0': expected the number of a process"),
    ("meter --query cat", 2, "invalid PID 'cat': expected the number of a process"),
    ("top --once 0", 2, "invalid PID '0': expected the number of a process"),
    ("tune 0", 2, "invalid PID '0': expected the number of a process"),
    ("meter --watch 0", 2, "invalid PID '0': expected the number of a process"),
    ("top --once no-such-name", 1, "no process with a pipe, and no FIFO, is named 'no-such-name'"),
    ("tune no-such-name", 1, "no process named 'no-such-name' has a pipe"),
    ("meter --watch no-such-name", 1, "no process is named 'no-such-name'"),
    // Where stdout is data, JSON needs a file.
    ("run --json true", 2, "--json needs a file, because stdout belongs to the pipeline: --json=FILE"),
    ("buffer --json", 2, "--json needs a file, because stdout belongs to the bytes: --json=FILE"),
    ("write --json", 2, "--json needs a file, because stdout belongs to the reader: --json=FILE"),
    ("explain --json -- true", 2, "--json needs a file, because stdout belongs to the command: --json=FILE"),
    // Programs that are not there.
    ("explain -- no-such-program", 127, "no-such-program: not found"),
    ("explain -- /", 126, "/: "),
    ("run -- no-such-program", 127, "no-such-program: not found"),
    // Files that are not there.
    ("copy no-such-file", 1, "No such file or directory"),
    ("meter -q no-such-file", 1, "No such file or directory"),
    ("buffer -q -i no-such-file", 1, "No such file or directory"),
    // Files that cannot be written.
    ("bench --svg /no/such/place write_read", 1, "/no/such/place"),
    ("bench --json=/no/such/place write_read", 1, "/no/such/place"),
    ("explain --output /no/such/place write_read", 1, "/no/such/place"),
    ("run --json=/no/such/place true", 125, "/no/such/place"),
    ("run -o /no/such/place true", 125, "/no/such"),
    ("parallel --json=/no/such/place true", 1, "/no/such/place"),
    ("copy -o /no/such/place", 1, "/no/such/place"),
    ("meter -q -o /no/such/place", 1, "/no/such/place"),
    ("meter -q -P /no/such/place", 1, "/no/such/place"),
    ("meter -q -U /no/such/place", 1, "/no/such/place"),
    ("tee /no/such/place", 1, "/no/such/place"),
    ("buffer -q -o /no/such/place", 1, "/no/such/place"),
    ("buffer -q -T /no/such/place", 1, "/no/such/place"),
    ("buffer -l /no/such/place", 1, "/no/such/place"),
    ("buffer -q --json=/no/such/place", 1, "/no/such/place"),
    ("doctor --json=/no/such/place", 1, "/no/such/place"),
    ("generate man --dir /dev/null/place", 1, "/dev/null/place"),
    ("bench --compare no-such-file no-such-file", 2, "no-such-file"),
    ("bench --html /no/such/place write_read", 1, "/no/such/place"),
];

#[test]
fn a_mistake_is_one_line_that_says_what_to_type_instead() {
    for (line, code, text) in MISTAKES {
        let output = run(line);
        assert_eq!(
            output.status.code(),
            Some(*code),
            "{line}: {}",
            said(&output)
        );
        let error = one_line(stderr(&output));
        // docs/exit-codes.md: an error names the verb.
        let verb = line.split(' ').next().unwrap_or_default();
        let is_verb = !["cpy", "docter", "tun", "explan", "help"].contains(&verb);
        assert!(
            !is_verb || error.starts_with(&format!("fullbore {verb}: ")),
            "{line}: {error}"
        );
        assert!(error.contains(text), "{line}: {error}");
        for never in [
            "os error",
            "18446744073709551615",
            "unexpected argument '-5'",
        ] {
            assert!(!error.contains(never), "{line}: {error}");
        }
    }
}

#[test]
fn a_file_on_stdout_of_write_is_not_filled_without_being_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    for (line, code, bytes) in [("write", 2, 0), ("write --bytes-to-pipe 64K", 0, 64 << 10)] {
        let file = File::create(&path).unwrap();
        let output = finish(start(fullbore(line).stdout(file)));
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert_eq!(stderr(&output).contains("--bytes-to-pipe"), code == 2);
        assert_eq!(path.metadata().unwrap().len(), bytes);
    }
}
