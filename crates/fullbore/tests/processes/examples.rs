//! The examples, run as programs.

// For its unit tests, which `cargo test` does not run in examples.
#[allow(dead_code)]
#[path = "../../examples/fizzbuzz.rs"]
mod fizzbuzz;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the directory of the programs: `cargo test` builds them beside the tests.
fn programs() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().unwrap().parent().unwrap();
    target.join("examples")
}

fn example(name: &str) -> Command {
    Command::new(programs().join(name))
}

/// Returns whether the examples exist: `cargo test --test processes` alone does not build them.
fn are_built() -> bool {
    let built = programs().join("fizzbuzz").exists();
    if !built {
        fullbore_tests::skipped("the examples are not built; `cargo build --examples` does that");
    }
    built
}

/// Returns the output of an example.
fn printed(name: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = example(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || {
        // An example that does not read closes its end.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    assert!(output.status.success(), "{name} {arguments:?}");
    output.stdout
}

/// Returns the first `len` bytes of an example that never ends by itself; afterwards it has to exit successfully.
fn start_of(name: &str, arguments: &[&str], len: usize) -> Vec<u8> {
    let mut child = example(name)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut bytes = vec![0; len];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut bytes).unwrap();
    drop(stdout);
    assert!(child.wait().unwrap().success(), "{name} {arguments:?}");
    bytes
}

#[test]
fn yes_repeats_any_text_of_any_length() {
    if !are_built() {
        return;
    }
    let long = "all work and no play ".repeat(4000);
    for text in ["", "y", "two words", &long] {
        let line = format!("{text}\n");
        let arguments: &[&str] = if text.is_empty() { &[""] } else { &[text] };
        let bytes = start_of("yes", arguments, 3_000_001);
        let right: Vec<u8> = line.bytes().cycle().take(bytes.len()).collect();
        assert!(bytes == right, "{} bytes", line.len());
    }
    assert_eq!(start_of("yes", &[], 4), b"y\ny\n");
    assert_eq!(start_of("yes", &["a", "b"], 8), b"a b\na b\n");
}

#[test]
fn fizzbuzz_plays_to_the_last_number_and_stops() {
    if !are_built() {
        return;
    }
    let mut right = Vec::new();
    for n in 1..=1_000_007u64 {
        match (n % 3, n % 5) {
            (0, 0) => right.extend(b"FizzBuzz\n"),
            (0, _) => right.extend(b"Fizz\n"),
            (_, 0) => right.extend(b"Buzz\n"),
            _ => right.extend(format!("{n}\n").bytes()),
        }
    }
    assert!(printed("fizzbuzz", &["1000007"], b"") == right);
    assert!(printed("fizzbuzz", &["--recycle", "1000007"], b"") == right);
    assert!(start_of("fizzbuzz", &[], right.len()) == right);
}

#[test]
fn pattern_finds_its_own_bytes_right_and_others_wrong() {
    if !are_built() {
        return;
    }
    for count in ["0", "1", "7", "65537", "3000001"] {
        let bytes = printed("pattern", &[count], b"");
        let said = printed("pattern", &["--check"], &bytes);
        assert_eq!(said, format!("{count} bytes, all right\n").into_bytes());
        assert!(printed("pattern", &["--recycle", count], b"") == bytes);
    }
    let mut bytes = printed("pattern", &["100000"], b"");
    bytes[77_777] ^= 1;
    let mut child = example("pattern")
        .arg("--check")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It stops at the wrong byte, and need not read further.
    let _ = child.stdin.take().unwrap().write_all(&bytes);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("77777"));
}

#[test]
fn wc_counts_lines_and_bytes() {
    if !are_built() {
        return;
    }
    assert_eq!(printed("wc", &[], b""), b"0 0\n");
    assert_eq!(printed("wc", &[], b"no newline"), b"0 10\n");
    let text = "line\n".repeat(1_000_000);
    assert_eq!(printed("wc", &[], text.as_bytes()), b"1000000 5000000\n");
}

/// A separate memory cgroup with a limit, which is removed when this is dropped.
struct SmallCgroup(PathBuf);

impl SmallCgroup {
    /// Returns `None` if this user may not create one, or if the hierarchy is not cgroup v1.
    fn new(limit: u64) -> Option<Self> {
        let cgroups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = cgroups
            .lines()
            .find_map(|line| line.split_once(":memory:"))?
            .1;
        let path = PathBuf::from(format!(
            "/sys/fs/cgroup/memory{}/fullbore-test-{}",
            own.trim_end_matches('/'),
            std::process::id()
        ));
        std::fs::create_dir(&path).ok()?;
        let made = Self(path);
        std::fs::write(made.0.join("memory.limit_in_bytes"), limit.to_string()).ok()?;
        Some(made)
    }
}

impl Drop for SmallCgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn producer_and_consumer_live_in_a_cgroup_of_4_mib() {
    if !are_built() {
        return;
    }
    let Some(cgroup) = SmallCgroup::new(4 << 20) else {
        fullbore_tests::skipped("no memory cgroup can be made here");
        return;
    };
    let status = Command::new("sh")
        .arg("-c")
        .arg("echo $$ >\"$1/cgroup.procs\" && \"$2/pattern\" 30000000 | \"$2/pattern\" --check")
        .args(["sh".as_ref(), cgroup.0.as_os_str(), programs().as_os_str()])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    assert_eq!(status.stdout, b"30000000 bytes, all right\n");
}
