//! What holds for all bytes: a function for each parser of what comes from outside. Those of the command are included as
//! files, because a command is no library.
//!
//! Each panics if its property does not hold. libFuzzer calls them (`fuzz_targets/`), and so do tests of
//! `fullbore-cli`, with the files of `corpus/` and with changed ones.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};

use fullbore_host::{machine, number, process_name, seconds, size, text};
use fullbore_results::compare;
use fullbore_results::run::Run;
use fullbore_results::summary::{Reports, Summary};
use fullbore_seal::{Sealer, Unsealer};

#[path = "../crates/fullbore-linux/src/cgroup.rs"]
mod cgroup;
#[path = "../crates/fullbore-cli/src/run/command_line.rs"]
mod command_line_file;
#[path = "../crates/fullbore-cli/src/names/getopt.rs"]
mod getopt;
#[path = "../crates/fullbore-cli/src/names/mbuffer_words.rs"]
mod mbuffer_words;
#[path = "../crates/fullbore-observe/src/sampling/process_files.rs"]
mod process_files;
#[path = "../crates/fullbore-cli/src/top/metrics/request.rs"]
mod request_file;
#[path = "../crates/fullbore-cli/src/run/scan.rs"]
mod scan;
#[path = "../crates/fullbore-diagnose/src/explain/symbols.rs"]
mod symbols;
#[path = "../crates/fullbore-cli/src/names/tables.rs"]
mod tables;

use command_line_file::{CommandLine, cut};
use getopt::{Spec, Value};
use mbuffer_words::Read as Words;
use procfs::FromRead;
use procfs::process::Stat;
use scan::Dialect;

/// Unseals the bytes; and seals them, damages what was sealed, and unseals that.
pub fn unsealer(bytes: &[u8]) {
    let unsealed = |sealed: &[u8]| {
        let mut content = Vec::new();
        let read = Unsealer::new(sealed).read_to_end(&mut content);
        (content, read.is_ok())
    };
    let (content, is_whole) = unsealed(bytes);
    assert!(content.len() <= bytes.len());
    if is_whole {
        assert_eq!(unsealed(&sealed(&content)), (content, true));
    }
    let mut damaged = sealed(bytes);
    assert_eq!(unsealed(&damaged), (bytes.to_vec(), true));
    let place = bytes
        .iter()
        .fold(7, |sum: usize, &byte| sum * 31 % 65_521 + usize::from(byte));
    let place = place % damaged.len();
    let (content, is_whole) = unsealed(&damaged[..place]);
    assert!(!is_whole && bytes.starts_with(&content), "cut at {place}");
    damaged[place] ^= 1 << (place % 8);
    let (content, is_whole) = unsealed(&damaged);
    assert!(
        !is_whole && bytes.starts_with(&content),
        "changed at {place}"
    );
}

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealer = Sealer::new(Vec::new()).expect("memory can be written to");
    sealer.write_all(bytes).expect("memory can be written to");
    sealer.finish().expect("memory can be written to")
}

/// Cuts a line at its pipes. A shell accepts the line if and only if it accepts what is cut out of it, which is no pipeline
/// itself, and stands in the line, in this order.
pub fn command_line(bytes: &[u8]) {
    let line = OsStr::from_bytes(bytes);
    for (dialect, shell) in [(Dialect::Posix, "sh"), (Dialect::Bash, "bash")] {
        let CommandLine::Pipeline { stages, .. } = cut(line, dialect) else {
            continue;
        };
        assert!(stages.len() > 1);
        let mut rest = bytes;
        for stage in &stages {
            let shown = stage.shown.as_bytes();
            assert!(!shown.is_empty(), "{line:?} has an empty stage");
            let at = rest.windows(shown.len()).position(|part| part == shown);
            let at = at.unwrap_or_else(|| panic!("{shown:?} is not in {line:?}"));
            rest = &rest[at + shown.len()..];
        }
        // Shells differ about bytes that are no text, and a word of an argument has no NUL.
        if bytes.contains(&0) || bytes.len() > 4096 || !bytes.is_ascii() {
            continue;
        }
        let texts = stages.iter().flat_map(|stage| {
            let program = stage.program.iter().map(|(_, text)| text);
            program.chain([&stage.text])
        });
        let refused = texts.clone().find(|text| !accepts(shell, text));
        match accepts(shell, line) {
            true => assert!(
                refused.is_none(),
                "{shell}: {line:?} was cut to {refused:?}"
            ),
            // Every shell may have `|&` here.
            false if bytes.windows(2).any(|two| two == b"|&") => {}
            false => assert!(
                refused.is_some(),
                "{shell}: {line:?} is an error of which no stage knows"
            ),
        }
        for text in texts {
            assert!(
                !matches!(cut(text, dialect), CommandLine::Pipeline { .. }),
                "{text:?}"
            );
        }
    }
}

/// Whether the shell can parse a line; it runs nothing. Without such a shell, no line can be parsed.
fn accepts(shell: &str, line: &OsStr) -> bool {
    let mut command = Command::new(shell);
    // A line may begin as an option does.
    command.args(["-n", "-c", "--"]).arg(line).env_clear();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Reads words, one a line, as the options of cat, tee, pv and mbuffer. Written out one by one, what was read is read as
/// the same.
pub fn getopt(bytes: &[u8]) {
    let words = bytes
        .split(|&byte| byte == b'\n')
        .map(|word| OsString::from_vec(word.into()));
    let words: Vec<OsString> = words.collect();
    for specs in [&tables::cat()[..], &tables::tee(), &pv()] {
        let Ok(parsed) = getopt::parse(specs, &words) else {
            continue;
        };
        if !parsed.options.iter().any(|(id, _)| matches!(id, 'h' | 'V')) {
            let again = getopt::parse(specs, &written_out(&parsed, specs));
            assert_eq!(again, Ok(parsed));
        }
    }
    if let Ok(Words::Words(words, mistakes)) = mbuffer_words::read(&words, |text| !text.is_empty())
    {
        assert!(words.iter().all(|word| word.as_bytes().starts_with(b"-")));
        assert!(mistakes.iter().all(|mistake| !mistake.is_empty()));
    }
}

/// The options of pv, which a test of the command compares with those that it has.
fn pv() -> Vec<Spec<'static>> {
    let spec = |line: &'static str| {
        let mut words = line.split(' ');
        let letter = words.next()?.chars().next()?;
        let (long, has_value) = (words.next()?, words.next()? == "true");
        let spec = getopt::flag(letter, long, "");
        Some(match has_value {
            true => Spec {
                value: Value::Required("WORD"),
                ..spec
            },
            false => spec,
        })
    };
    let lines = include_str!("pv_options").lines();
    lines
        .map(|line| spec(line).expect("an option of pv"))
        .collect()
}

/// Each option as a word of its own, and the operands behind `--`.
fn written_out(parsed: &getopt::Parsed, specs: &[Spec<'_>]) -> Vec<OsString> {
    let mut written = Vec::new();
    for (id, value) in &parsed.options {
        let Some(Spec { letter, long, .. }) = specs.iter().find(|spec| spec.id == *id) else {
            panic!("there is no option {id}");
        };
        let mut word = match long.is_empty() {
            true => format!("-{}", letter.unwrap_or_default()),
            false => format!("--{long}"),
        }
        .into_bytes();
        if let Some(value) = value {
            word.push(b'=');
            word.extend(value.as_bytes());
        }
        written.push(OsString::from_vec(word));
    }
    written.push("--".into());
    written.extend(parsed.operands.iter().cloned());
    written
}

/// Answers a request. Only `/metrics` is the page, and an answer is as long as its header says.
pub fn request(bytes: &[u8]) {
    const PAGE: &str = "the page";
    for (is_full, is_local) in [(false, false), (true, false), (true, true)] {
        let page = || request_file::text(request_file::OK, PAGE);
        let Some(answer) = request_file::answered(bytes, is_full, is_local, page) else {
            assert!(!is_full);
            continue;
        };
        let answer = String::from_utf8(answer).expect("an answer is text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        assert!(head.starts_with("HTTP/1.1 "), "{head}");
        let length = head
            .split("Content-Length: ")
            .nth(1)
            .expect("it has a length");
        let length: usize = length
            .split("\r\n")
            .next()
            .unwrap_or_default()
            .parse()
            .expect("a number");
        assert!(body.is_empty() || body.len() == length, "{answer}");
        if head.starts_with("HTTP/1.1 200 ") {
            let is_asked = |path: &[u8]| bytes.windows(path.len()).any(|part| part == path);
            assert!(
                is_asked(b"/metrics") && (is_asked(b"GET") || is_asked(b"HEAD")),
                "{answer}"
            );
        }
    }
}

/// Reads back JSON that `bench --json` or `run --json` may have written. What is read can be written, read again, compared
/// and summed up.
pub fn json(bytes: &[u8]) {
    if let Ok(run) = Run::from_json(bytes) {
        let text = serde_json::to_vec(&run).expect("a run can be written");
        let again = Run::from_json(&text).expect("and read again");
        let of = |run: Run| compare::LoadedRun {
            file: "run".into(),
            run,
        };
        let runs = [of(run), of(again)];
        if let Ok(compared) = compare::compare(&runs, &[]) {
            serde_json::to_vec(&compared).expect("a comparison can be written");
        }
    }
    let mut reports = Reports::default();
    if reports.read(bytes).is_ok() && reports.read(bytes).is_ok() {
        let summary = Summary::of(&reports).expect("there are reports");
        assert!(!summary.to_string().is_empty());
    }
}

/// Reads what files of /proc and /sys, or options with numbers, may hold.
pub fn proc(bytes: &[u8]) {
    let words = String::from_utf8_lossy(bytes);
    let (_, arguments) = process_files::call(&words);
    assert!(arguments.len() <= 6);
    let (cgroups, mounts) = words.split_once("\n\n").unwrap_or((&words, &words));
    let directories = cgroup::directories_of(cgroups, mounts, "memory");
    let limit = cgroup::lowest_limit(&directories, |_| Some("4096\n".to_owned()));
    assert!(limit.is_none_or(|bytes| bytes == 4096));
    let kernel = symbols::Kernel::parse(&words);
    assert_eq!(kernel.name(u64::MAX).is_none(), kernel.is_hidden());
    // A process may have any name; the kernel writes a newline in it as `\n`.
    let name = words.replace('\n', "\\n");
    let stat = format!("7 ({name}) S 1{}", " 2".repeat(48));
    assert_eq!(
        Stat::from_read(stat.as_bytes())
            .map(|stat| (stat.pid, stat.comm))
            .ok(),
        Some((7, name))
    );
    if let Some(cpus) = machine::parse_cpu_list(&words) {
        let again = machine::parse_cpu_list(&machine::format_cpu_list(&cpus));
        assert_eq!(again, Some(cpus));
    }
    for key in ["CapEff", "model name", "Threads"] {
        assert!(machine::field(&words, key).is_none_or(|value| words.contains(value)));
    }
    assert!(machine::bracketed_word(&words).is_none_or(|word| words.contains(word)));
    if let Ok(bytes) = size::parse(&words) {
        assert_eq!(size::parse(&size::typed(bytes)), Ok(bytes));
    }
    let _ = (
        seconds::parse(&words, 0.0..=1e6),
        number::pid(&words),
        process_name::parse(&words),
    );
    let clean = text::clean(&words);
    assert!(!clean.contains(char::is_control));
    assert!(text::columns(&text::cut(&clean, 7)) <= 7, "{clean}");
}

/// A property.
pub type Property = fn(&[u8]);

/// All properties, with the names of their folders in `corpus/`.
pub const ALL: [(&str, Property); 6] = [
    ("unsealer", unsealer),
    ("command_line", command_line),
    ("getopt", getopt),
    ("request", request),
    ("json", json),
    ("proc", proc),
];

/// Returns parts of the files of a corpus, put together at random, with a few bytes changed.
pub fn changed(corpus: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.usize(1..4) {
        let part = &corpus[random.usize(..corpus.len())];
        let (from, to) = (random.usize(..=part.len()), random.usize(..=part.len()));
        let whole = random.bool();
        bytes.extend(if whole {
            part
        } else {
            &part[from.min(to)..from.max(to)]
        });
    }
    for _ in 0..random.usize(..4) {
        let at = random.usize(..=bytes.len());
        match random.u8(..3) {
            0 => bytes.insert(
                at,
                *random
                    .choice(b"'\"\\|&;(){}<>$`#!= \n\r-:,[]09a\0\xff")
                    .unwrap_or(&0),
            ),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            _ if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            _ => {}
        }
    }
    bytes
}
